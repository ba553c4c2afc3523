"""The screen: what it chooses and counts gives, with the exact pass, just what the exact pass alone gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

import pyarrow.compute as pc
import pytest
from aiorocketmq_audit import gates, screen
from aiorocketmq_audit.errors import WorkerLost
from aiorocketmq_audit.generator import Shape, generate
from aiorocketmq_audit.generator.plants import KINDS
from aiorocketmq_audit.kernels import asking
from aiorocketmq_audit.recording import reading
from aiorocketmq_audit.recording.narrowing import Narrowing
from aiorocketmq_audit.run import Audit, audit
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

HISTORIES = 120
MAX_ATTEMPTS = 3

Row = dict[str, Any]


def random_history(new_history: Callable[..., Any], number: int) -> Any:
    """Messages that are handed out, settled and handed out again, mostly as they should be."""
    chance = random.Random(number)
    ordered = number % 2 == 0
    history = new_history(f"{number:04}", observer=chance.choice(("client", "broker")))
    history.config(ordered=ordered, max_attempts=MAX_ATTEMPTS, steps_ms="5000,20000")
    if number % 7 == 0:
        history.config(order_grain="queue")
    now = 0.0
    for first in range(0, chance.randint(1, 9), 2):
        batch = [f"{'x' if ordered else ''}/{first + more}" for more in range(chance.choice((1, 1, 2)))]
        faulty = chance.random() < 0.2
        open_ones = dict.fromkeys(batch, 1)
        while open_ones:
            given = {
                message: history.deliver(
                    message,
                    now,
                    call=now - chance.choice((0, 0, 0.5)) if now > 1 else None,
                    hold=10,
                    attempt=attempt + (chance.random() < 0.05),
                    batch=f"batch-{now}",
                    due_us=None if chance.random() < 0.9 else history.rows[0]["t_wall_us"] + round(now * 1e6),
                    client_id=chance.choice(("c1", "c2")),
                )
                for message, attempt in open_ones.items()
            }
            wait = 0.0
            for message, row in given.items():
                end = chance.choices(
                    ("ack", "change", "forward", "nothing", "bury", "twice"), (12, 5, 1, 2, 1, 1)
                )[0]
                phase = chance.choices(("ok", "info", "fail", "invoke"), (20, 1, 1, 1))[0]
                if end in ("ack", "twice"):
                    history.settle("ack", row, now + 1, call=now + 0.9, phase=phase)
                    if end == "twice":
                        history.settle("ack", row, now + 1.5)
                    del open_ones[message]
                elif end == "change":
                    history.settle("change", row, now + 1, seconds=5, reason=chance.choice(("retry", None)))
                    open_ones[message] += 1
                    wait = max(wait, 6)
                elif end == "nothing":
                    open_ones[message] += 1
                    wait = max(wait, 10)
                else:
                    if end == "forward":
                        history.settle("forward", row, now + 1, phase=phase)
                    else:
                        history.bury(row, now + 1)
                    del open_ones[message]
                if open_ones.get(message, 0) > MAX_ATTEMPTS + 1:
                    del open_ones[message]
            now += max(wait, 2) * (chance.choice((0.4, 3)) if faulty else 1)
        if chance.random() < 0.1:
            now -= 1
    if (
        number % 5 == 0
    ):  # what nothing above breaks: handed out after its ack, and first ones against their order
        done = history.deliver("late/20", now, hold=10)
        history.settle("ack", done, now + 1, call=now + 0.9)
        history.deliver("late/20", now + 20, hold=10, attempt=2)
        for at, offset in ((30, 31), (40, 30)):
            history.settle("ack", history.deliver(f"late/{offset}", now + at), now + at + 0.5)
    if chance.random() < 0.3:
        history.poll(max(0, now - 30), now + 40)
    if chance.random() < 0.1:
        history.note("reset", now, group="g", topic="t")
    return history.end()


def outcome(found: Audit) -> dict[str, Any]:
    numbers = {name: getattr(found.numbers, name) for name in found.numbers.__slots__ if name != "farthest"}
    return {
        "verdicts": {
            each.name: (each.verdict, each.tally, {k: dict(v) for k, v in each.by_invariant.items()})
            for each in found.checks
        },
        "numbers": numbers | {"suspects": None},
    }


def violations(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in spark.read.parquet(str(folder)).collect()), key=repr)


@pytest.mark.parametrize("way", ["numbers", "expressions"])
@pytest.mark.parametrize("chunk_bits", [1, 12])
def test_screen_and_exact_pass_together_find_what_the_exact_pass_finds_in_everything(
    new_history: Callable[..., Any],
    record: Callable[..., Path],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    chunk_bits: int,
    way: str,
) -> None:
    monkeypatch.setattr(screen, "CHUNK_BITS", chunk_bits)
    folder = record(*(random_history(new_history, number) for number in range(HISTORIES)))
    exact = audit([str(folder)], spark=spark, screen=False, violations=tmp_path / "exact")
    both = audit(
        [str(folder)], spark=spark, screen=None if way == "numbers" else True, violations=tmp_path / "both"
    )
    assert outcome(both) == outcome(exact)
    assert violations(spark, tmp_path / "both") == violations(spark, tmp_path / "exact")
    broken = {name for check in exact.checks for name, counts in check.by_invariant.items() if counts}
    assert broken >= {"INV-EXCL", "INV-ACKED", "INV-EARLY", "INV-ORD", "INV-ORD-FIRST", "INV-ATTEMPT"}


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording with a fault of every kind."""
    folder = tmp_path_factory.mktemp("narrowed") / "runs"
    plants = dict.fromkeys((name for name, kind in KINDS.items() if not kind.alone), 1)
    generate(folder, events=1_500, seed=11, shape=Shape(hot=0.2, rows_per_file=900), plants=plants)
    return folder


def narrowed(folder: Path, groups: tuple[str, ...], begin: float | None, end: float | None) -> Narrowing:
    """To groups, and to a part of the recording's time."""
    span = pc.min_max(parquet.read_table(folder, columns=["t_wall_us"]).column(0)).as_py()
    least, most = span["min"], span["max"]
    from_us, to_us = (None if part is None else least + int(part * (most - least)) for part in (begin, end))
    return Narrowing(groups, from_us, to_us)


@pytest.mark.parametrize(
    ("groups", "begin", "end", "screened"),
    [
        (("group-0", "ordered-1"), 0.3, None, False),
        ((), None, 0.6, True),
        (("nobody",), None, None, False),
    ],
)
def test_what_is_left_out_numbers_and_expressions_leave_out_alike(
    wrong: Path,
    spark: SparkSession,
    groups: tuple[str, ...],
    begin: float | None,
    end: float | None,
    screened: bool,
) -> None:
    narrowing = narrowed(wrong, groups, begin, end)
    told = audit([str(wrong)], spark=spark, narrowing=narrowing)
    expected = audit([str(wrong)], spark=spark, narrowing=narrowing, screen=screened)
    assert (outcome(told), told.gates) == (outcome(expected), expected.gates)


def test_where_workers_fail_expressions_screen_alone(
    clean: Iterable[Any],
    record: Callable[..., Path],
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = record(*(history.end() for history in clean))
    expected = audit([str(folder)], spark=spark)
    assert not caplog.records

    def fail(*_: object) -> NoReturn:
        raise WorkerLost("a worker of the audit ended")

    monkeypatch.setattr(asking.Cut, "__call__", fail)
    assert outcome(audit([str(folder)], spark=spark)) == outcome(expected)
    assert "Spark alone judges the recording" in caplog.text


def plan_of(frame: DataFrame) -> str:
    return frame._jdf.queryExecution().executedPlan().toString()  # type: ignore[no-any-return]


def test_the_screen_exchanges_and_sorts_events_once_and_reads_no_bodies(
    clean: Iterable[Any], record: Callable[..., Path], spark: SparkSession
) -> None:
    folder = record(*(history.end() for history in clean))
    from aiorocketmq_audit.recording.schema import RECORDING

    events = spark.read.schema(RECORDING).parquet(str(folder))
    settings = reading.settings(events).persist()
    gate = gates.examine(events)
    seen = screen.screened(
        events, settings, clocks_agree=True, ended_us=gate.ended_us or 0, has_open_calls=False
    )
    plan = plan_of(seen)
    settings.unpersist()
    assert plan.count("REPARTITION_BY") == 1, plan  # with one partition it is no hash partitioning
    assert plan.count("Sort [part") == 1, plan
    read = plan.partition("ReadSchema: ")[2].partition(">")[0]
    assert "seq" in read
    for name in ("body_sha", "props_sha", "tag:", "cfg"):
        assert name == "tag:" or name not in read, read
