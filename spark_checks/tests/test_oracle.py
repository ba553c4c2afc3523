"""Spark against the plain readings of the same promises: random histories, and scenes of planted faults that were
changed at random, all in one frame."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from aiorocketmq_audit import gates
from aiorocketmq_audit.checks import CHECKS
from aiorocketmq_audit.generator import Shape
from aiorocketmq_audit.generator.names import Names
from aiorocketmq_audit.generator.planting import numbered
from aiorocketmq_audit.generator.plants import KINDS, rows_of
from aiorocketmq_audit.generator.plants.scene import Row
from aiorocketmq_audit.judging import findings_of, material_of
from aiorocketmq_audit.oracle import judge
from aiorocketmq_audit.recording.schema import COLUMNS, RECORDING
from pyspark.sql import SparkSession, functions as F

pytestmark = pytest.mark.spark

HISTORIES = 300
CHANGES = 3
"""Of each scene, beside the scene as it is."""

MAX_ATTEMPTS = 4
START = 1_770_000_000_000_000

SKEW_US = 60_000_000
"""Rows that were moved in time disagree with their server's clock: here that makes nothing unsure, as the plain
readings know no such doubt."""

Finding = tuple[str, str, str, str, int]
"""Case, check, invariant, verdict, and the number of the row that proves it."""


def random_history(new_history: Callable[..., Any], number: int) -> Any:
    """A few messages handed out, settled and handed out again by a broker that keeps no promise."""
    chance = random.Random(number)
    ordered = chance.random() < 0.5
    history = new_history(f"{number:04}")
    history.config(ordered=ordered, max_attempts=MAX_ATTEMPTS)
    messages = [("x/" if ordered else "/") + str(offset) for offset in range(chance.randint(1, 4))]
    attempts = dict.fromkeys(messages, 0)
    given: list[int] = []
    now = 0.0
    for step in range(chance.randint(2, 12)):
        now += chance.choice((1, 2, 4, 7))
        call = now - chance.choice((0, 0, 0, 3))
        if not given or chance.random() < 0.5:
            batch = [m for m in messages if chance.random() < 0.5] or messages[:1]
            if chance.random() < 0.2:
                chance.shuffle(batch)
            for message in batch:
                attempts[message] += 1
                given.append(
                    history.deliver(
                        message,
                        now,
                        call=max(call, 0),
                        hold=chance.choice((2, 10, 30)),
                        attempt=attempts[message],
                        batch=f"batch-{step}",
                    )
                )
        else:
            delivered = chance.choice(given[-4:])
            kind = chance.choice(("ack", "ack", "change", "change", "forward"))
            phase = chance.choice(("ok", "ok", "ok", "ok", "fail", "info", "invoke"))
            call = max(call, (history.rows[delivered]["t_wall_us"] - history.rows[0]["t_wall_us"]) / 1e6)
            more: dict[str, Any] = {}
            if kind == "change":
                more = {
                    "seconds": chance.choice((0, 5, 20)),
                    "reason": chance.choice(("retry", "retry", "extend")),
                }
            history.settle(kind, delivered, now, call=call, phase=phase, **more)
        if chance.random() < 0.3:
            history.poll(max(0, now - chance.choice((0, 10, 20))), now + chance.choice((0, 20)))
        if chance.random() < 0.06:
            history.poll(now - 1, now, phase="fail", result=chance.choice((None, "away", "away")))
        if chance.random() < 0.03:
            state = chance.choice(({}, {"state": "start"}, {"state": "stop"}))
            history.note(
                "fault", now - 0.5, fault={"kind": chance.choice(("restart", "crash", "pause")), **state}
            )
    return history.end()


def changed(rows: list[Row], chance: random.Random) -> list[Row]:
    """One thing is otherwise: a row is gone, there twice, at another time, of another client, number or outcome."""
    place = chance.randrange(len(rows))
    row = dict(rows[place])
    what = chance.choice(("gone", "twice", "time", "time", "client", "attempt", "phase"))
    if what == "gone":
        return rows[:place] + rows[place + 1 :] or rows
    if what == "time":
        by = round(chance.choice((-20, -1, -0.15, -0.05, 0.05, 0.15, 1, 20)) * 1e6)
        row["t_wall_us"] = int(str(row["t_wall_us"])) + by
        if row.get("invoked_us") is not None:
            row["invoked_us"] = int(str(row["invoked_us"])) + by
    elif what == "client" and row.get("client_id"):
        row["client_id"] = "somebody else"
    elif what == "attempt" and row.get("attempt"):
        row["attempt"] = int(str(row["attempt"])) + chance.choice((-1, 1))
    elif what == "phase" and row.get("phase") in ("ok", "fail"):
        row["phase"] = chance.choice(("ok", "fail", "info"))
    return [*rows[:place], row, *rows[place + (0 if what == "twice" else 1) :]]


def scenes(shape: Shape) -> dict[str, list[Row]]:
    """Each planted fault as it is and changed, as a case of its own."""
    names = Names(shape, "run", is_broker=True)
    made = {}
    for number, (name, kind) in enumerate(KINDS.items()):
        for change in range(CHANGES + 1):
            played, _ = rows_of(name, number=number, start_us=START + 10_000_000, shape=shape)
            chance = random.Random(number * 100 + change)
            told = changed(played, chance) if change else played
            case = f"{name}-{change}"
            configs: list[Row] = [
                {"kind": "config", "t_wall_us": START, "group": group, "cfg": names.settings(place)}
                for place, group in enumerate(names.groups)
            ]
            constant: Row = {"run_id": "run", "case_id": case, "boot": "b", "observer": kind.observer}
            constant["recorder"] = case
            made[case] = numbered([*configs, *told], constant, (START, START + 20_000_000_000))
    return made


def found_by_spark(spark: SparkSession, rows: Iterable[Row]) -> set[Finding]:
    """All checks, with whatever excuses they accept; what is excused is left out."""
    events = spark.createDataFrame([tuple(row[name] for name in COLUMNS) for row in rows], RECORDING).cache()
    gate = gates.examine(events, skew_us=SKEW_US)
    # A row that is there twice may be a call or an answer, which is told; nothing else is wrong with the recording.
    assert not gate.has_gaps
    assert all(" twice: its operations are in doubt." in sentence for sentence in gate.missing)
    assert not gate.clocks
    material = material_of(events, gate)
    material.deliveries.persist()
    found = findings_of(material, gate, tuple(CHECKS)).where("verdict <> 'excused'")
    # A lost message is the earlier of the two that prove it.
    first = F.col("check").eqNullSafe("loss") | F.col("second_seq").isNull()
    proof = found.select(
        "check",
        "invariant",
        "verdict",
        F.when(first, F.col("first_seq")).otherwise(F.col("second_seq")).alias("seq"),
        F.coalesce("first_recorder", "second_recorder").alias("key"),
    )
    names = events.select(F.xxhash64("recorder").alias("key"), "case_id").distinct()
    told = proof.join(names, "key").select("case_id", "check", "invariant", "verdict", "seq").collect()
    return {(row.case_id, row.check, row.invariant, row.verdict, row.seq) for row in told}


def found_plainly(rows: Iterable[Row]) -> set[Finding]:
    by_case: dict[str, list[Row]] = {}
    for row in rows:
        by_case.setdefault(str(row["case_id"]), []).append(row)
    return {
        (case, found.check, found.invariant, found.verdict, found.row["seq"])
        for case, mine in by_case.items()
        for found in judge(mine)
    }


def test_spark_and_plain_python_agree(spark: SparkSession, new_history: Callable[..., Any]) -> None:
    rows: list[Row] = [row for seed in range(HISTORIES) for row in random_history(new_history, seed).rows]
    rows += [row for told in scenes(Shape()).values() for row in told]
    wanted = found_plainly(rows)
    assert {(check, name) for _, check, name, _, _ in wanted} >= {
        (kind.check, kind.invariant) for kind in KINDS.values() if kind.check
    }
    found = found_by_spark(spark, rows)
    # Not by one comparison: pytest would cut it short.
    missed, invented = sorted(wanted - found), sorted(found - wanted)
    assert (missed[:20], invented[:20]) == ([], [])
