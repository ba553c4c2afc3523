"""What the rules find in all pages and scenes of planted faults, in random histories, and in scenes that were changed
at random, all of them as one recording: what pages and scenes say, and what the reference model finds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from aiorocketmq_audit.engine import materialized
from aiorocketmq_audit.frames.settings import settings
from aiorocketmq_audit.generator import Shape
from aiorocketmq_audit.generator.faults import KINDS, rows_of
from aiorocketmq_audit.generator.faults.scenario import Row
from aiorocketmq_audit.judgement import EXEMPTED
from aiorocketmq_audit.recording.narrowing import Narrowing
from pyspark.sql import SparkSession

from spark_checks.tests.bench import START, counting, read, scene, wanted
from spark_checks.tests.histories import PAGES, History, rows_of as page
from spark_checks.tests.judging import Finding, found, found_plainly

pytestmark = pytest.mark.spark

HISTORIES = 300
CHANGES = 3
"""Variants of each scene, in addition to the scene itself."""

MAX_ATTEMPTS = 4

SKEW_MS = 60_000
"""Rows that were moved in time disagree with their server's clock: here that makes nothing unsure, as the plain
readings know no such doubt."""


def random_history(number: int) -> History:
    """A few messages delivered, settled and redelivered by a broker that keeps no promise."""
    chance = random.Random(number)
    ordered = chance.random() < 0.5
    history = History(f"{number:04}")
    history.config(ordered=ordered, max_attempts=MAX_ATTEMPTS)
    messages = [("x/" if ordered else "/") + str(offset) for offset in range(chance.randint(1, 4))]
    attempts = dict.fromkeys(messages, 0)
    deliveries: list[int] = []
    now = 0.0
    for step in range(chance.randint(2, 12)):
        now += chance.choice((1, 2, 4, 7))
        call = now - chance.choice((0, 0, 0, 3))
        if not deliveries or chance.random() < 0.5:
            batch = [m for m in messages if chance.random() < 0.5] or messages[:1]
            if chance.random() < 0.2:
                chance.shuffle(batch)
            for message in batch:
                attempts[message] += 1
                deliveries.append(
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
            delivered = chance.choice(deliveries[-4:])
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


def scenes() -> Iterator[Row]:
    """Each planted fault as it is and changed, as a case of its own."""
    for number, name in enumerate(KINDS):
        yield from scene(name, number)
        played, _ = rows_of(name, number=number, start_us=START + 10_000_000, shape=Shape())
        for change in range(1, CHANGES + 1):
            changed_rows = changed(played, random.Random(number * 100 + change))
            case = f"{name}-{change}"
            yield from (
                row | {"case_id": case, "recorder": case} for row in scene(name, number, rows=changed_rows)
            )


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """All of them, as cases of one recording."""
    result: list[Row] = [row for name in PAGES for row in page(name)]
    result += [row for seed in range(HISTORIES) for row in random_history(seed).rows]
    return [*result, *scenes()]


@pytest.fixture(scope="module")
def by_spark(rows: list[Row], spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> set[Finding]:
    recording, gate = read(spark, tmp_path_factory.mktemp("all"), rows, Narrowing(skew_ms=SKEW_MS))
    # A row that is there twice may be a call or an answer, which is reported; nothing else is wrong with the recording.
    assert not gate.has_gaps
    assert all(" twice: its operations are in doubt." in sentence for sentence in gate.missing)
    assert not gate.clocks
    return found(replace(recording, settings=materialized(settings(recording.events))), gate)


def test_pages_and_scenes_are_judged_as_they_say(rows: list[Row], by_spark: set[Finding]) -> None:
    cases = {row["recorder"]: str(row["case_id"]) for row in rows}
    counts = counting((cases[each.recorder], each.invariant, each.verdict) for each in by_spark)
    mine = {each for each in counts if each[0] in PAGES or each[0] in KINDS}
    # Not by one comparison: pytest would cut it short.
    missed, invented = sorted(wanted() - mine), sorted(mine - wanted())
    assert (missed[:20], invented[:20]) == ([], [])


def test_spark_and_plain_python_agree(rows: list[Row], by_spark: set[Finding]) -> None:
    expected = found_plainly(rows)
    assert {(each.check, each.invariant) for each in expected} >= {
        (kind.check, kind.invariant) for kind in KINDS.values() if kind.check
    }
    mine = {each for each in by_spark if each.verdict != EXEMPTED}
    missed, invented = sorted(expected - mine), sorted(mine - expected)
    assert (missed[:20], invented[:20]) == ([], [])
