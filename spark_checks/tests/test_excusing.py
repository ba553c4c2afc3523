"""What numbers call excused is what Spark's checks call so; where a finding stands numbers say nothing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from aiorocketmq_audit import attempts, dead_letters, double_delivery, findings, gates, judging, retry_timing
from aiorocketmq_audit.by_numbers import known
from aiorocketmq_audit.checks import CHECKS
from aiorocketmq_audit.generator import Shape, generate
from aiorocketmq_audit.kernels.processes import processes
from aiorocketmq_audit.kernels.texts import hash_of
from aiorocketmq_audit.late import LateSession
from aiorocketmq_audit.near import near
from aiorocketmq_audit.recording import files, reading
from aiorocketmq_audit.recording.narrowing import EVERYTHING
from aiorocketmq_audit.recording.schema import RECORDING
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from spark_checks.tests.histories import as_written

pytestmark = pytest.mark.spark

HISTORIES = 250

JUDGED = (
    *("ordering", "delay", "filters", double_delivery.NAME),
    *("retry timing", attempts.NAME, dead_letters.NAME),
)

Counts = Counter[tuple[str, str, str]]

EXCUSES = {
    *("E2 reset", "E3 owner gone", "E4 restart", "E7 answer lost", "resent by its producer"),
}


def excused_history(new_history: Callable[..., Any], number: int) -> Any:
    """A message or two that come again too soon, or with an odd number, mostly with an excuse between."""
    chance = random.Random(number)
    history = new_history(f"{number:04}", observer=chance.choice(("client", "broker")))
    history.config(ordered=False, max_attempts=16, steps_ms="5000,20000")
    now = 1.0
    for message in range(chance.randint(1, 2)):
        attempt = 1
        for _ in range(chance.randint(1, 3)):
            given = history.deliver(
                f"/{message}",
                now,
                call=now - chance.choice((0, 0.4)),
                hold=10,
                attempt=attempt,
                client_id=chance.choice(("c1", "c2")),
                offset=message + chance.choice((0, 0, 0, 0, 50)),
                due_us=chance.choice((None,) * 30 + (2_000_000_000_000_000,)),
            )
            end = chance.choice(("ack", "change", "nothing", "bury", "unsure"))
            if end == "ack":
                history.settle("ack", given, now + 1, call=now + 0.9)
            elif end == "bury":
                history.bury(given, now + 1)
            elif end != "nothing":
                phase = "ok" if end == "change" else chance.choice(("info", "invoke", "fail"))
                history.settle("change", given, now + 1, seconds=8, reason="retry", phase=phase)
            mark = chance.choice(("reset", "crash", "stop", "restart", "lost", "none", "elsewhere"))
            if mark == "reset":
                history.note("reset", now + 2, group="g", topic="t")
            elif mark in ("crash", "stop"):
                history.note(f"client.{mark}", now + 2, client_id=chance.choice(("c1", "c2")))
            elif mark == "restart":
                history.note("fault", now + chance.choice((2, 9)), fault={"kind": "restart"})
            elif mark == "lost":
                history.poll(now + 1.5, now + 2, phase="info")
                attempt += 1
            elif mark == "elsewhere":
                history.note("reset", now + 2, group="other", topic="t")
            attempt += chance.choice((1, 1, 1, 1, 0))
            now += chance.choice((3, 3, 9.05, 12, 60))
    if chance.random() < 0.3:
        history.poll(max(0.0, now - 50), now + 1)
    return history.end()


def ordered_history(new_history: Callable[..., Any], number: int) -> Any:
    """A message group that two clients are handed, by clocks of their own, mostly in order, and mostly in time."""
    chance = random.Random(number)
    history = new_history(f"o{number:04}")
    history.config(ordered=True, max_attempts=16, steps_ms="5000")
    ahead = chance.choice((0, 0.03, 0.099, 0.101))
    clients = (("", "c1", 0.0), ("'", "c2", ahead))
    offsets = list(range(5))
    if chance.random() < 0.2:
        chance.shuffle(offsets)
    now = 1.0
    for offset in offsets:
        for attempt in (1, 2) if chance.random() < 0.3 else (1,):
            name, client, skew = chance.choice(clients)
            whose = {"recorder": history.rows[0]["recorder"] + name, "client_id": client}
            more = {"batch": f"b{offset // 2}"} if chance.random() < 0.3 else {}
            at = now + skew
            given = history.deliver(f"x/{offset}", at, hold=10, attempt=attempt, **whose, **more)
            now += chance.choice((0.001, 0.02, 0.2, 10, 10))
            if attempt == 2 or chance.random() < 0.8:
                history.settle("ack", given, now + skew + 0.001, call=now + skew, **whose)
            now += chance.choice((-0.0015, 0.001, 0.02, 0.2, 11))
            mark = chance.choice(("reset", "crash", "restart", "none", "none", "none"))
            if mark == "reset":
                history.note("reset", now, group="g", topic="t")
            elif mark == "crash":
                history.note("client.crash", now, client_id=client)
            elif mark == "restart":
                history.note("fault", now, fault={"kind": "restart"})
            now += chance.choice((0, 0.001))
    return history.end()


def written(folder: Path, *histories: Any) -> Path:
    """With all columns: clients' recorders write none of faults."""
    folder.mkdir()
    rows = [row for history in histories for row in as_written(history)]
    parquet.write_table(pa.Table.from_pylist(rows, to_arrow_schema(RECORDING)), folder / "all.parquet")
    return folder


def by_spark(spark: SparkSession, folder: Path) -> Mapping[int, list[Any]]:
    """Findings about deliveries, by their recorder."""
    events, _ = reading.read(spark, files.find((str(folder),)))
    gate = gates.examine(events)
    assert not gate.clocks
    found = judging.findings_of(judging.material_of(events, gate), gate, JUDGED, sides_asked=())
    rows: dict[int, list[Any]] = {}
    for row in found.collect():
        rows.setdefault(row.first_recorder & ((1 << 64) - 1), []).append(row)
    return rows


def by_numbers(folder: Path, checks: Sequence[str] = JUDGED) -> Counts | None:
    found = files.find((str(folder),))
    with processes(0) as workers, LateSession(0) as session:
        told = known(workers, session, found, EVERYTHING, checks)
        assert told is not None
        with near(workers, told) as picked:
            rows = picked.excused(told)
    if rows is None:
        return None
    return Counter({(row.check, row.invariant, row.excuse): row["count"] for row in rows})


@pytest.mark.parametrize(
    "shape",
    [
        Shape(),
        Shape(ordered_groups=0, ordered_share=0.0),
        Shape(observers=("client",), skew_ms=25, ordered_share=1.0, message_groups=5),
    ],
    ids=["all kinds", "no order", "clocks apart"],
)
def test_honest_recordings_need_no_spark(shape: Shape, tmp_path: Path) -> None:
    generate(tmp_path / "runs", events=20_000, seed=21, shape=shape)
    assert by_numbers(tmp_path / "runs", tuple(CHECKS)) is not None


def test_what_numbers_excuse_is_what_the_checks_excuse(
    new_history: Callable[..., Any], tmp_path: Path, spark: SparkSession
) -> None:
    histories = [excused_history(new_history, number) for number in range(HISTORIES)]
    histories += [ordered_history(new_history, number) for number in range(HISTORIES)]
    expected = by_spark(spark, written(tmp_path / "all", *histories))
    seen: Counts = Counter()
    stood = 0
    for number, history in enumerate(histories):
        recorders = {hash_of(row["recorder"]) for row in history.rows}
        rows = [row for recorder in recorders for row in expected.get(recorder, [])]
        told = by_numbers(written(tmp_path / str(number), history))
        if any(row.verdict != findings.EXCUSED for row in rows):
            assert told is None, number
            stood += 1
        elif told is not None:
            assert told == Counter((row.check, row.invariant, row.excuse) for row in rows), number
            seen += told
        else:  # made wrongly, or late although the server was restarted: that is left to the checks
            left = {(row.check, row.invariant) for row in rows}
            assert left & {(dead_letters.NAME, "INV-DLQ"), (retry_timing.NAME, "INV-LATE")}, number
    assert stood > HISTORIES // 10
    assert {excuse for _, _, excuse in seen} == EXCUSES
    assert {invariant for _, invariant, _ in seen} == {
        *("INV-EXCL", "INV-ACKED", "INV-EARLY", "INV-ATTEMPT", "INV-DLQ", "INV-ORD", "INV-ORD-FIRST")
    }
