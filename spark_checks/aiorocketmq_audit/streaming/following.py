"""Following a recording: the streaming query, its end, and the verdict so far."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from aiorocketmq_audit.errors import NotARecording, WrongUse
from aiorocketmq_audit.failures import reason
from aiorocketmq_audit.judgement import BROKEN, POSSIBLE
from aiorocketmq_audit.recording.schema import RECORDING
from aiorocketmq_audit.rules import CHECKS
from aiorocketmq_audit.spark.session import SMALL, session
from aiorocketmq_audit.streaming.batches import Batches, Limits, gate_of, latest
from aiorocketmq_audit.streaming.state import State
from aiorocketmq_audit.verdicts import Verdict

SCHEMA = 2
"""Version of `following.json`: fields are added within a version, never removed or renamed."""

LOOK = 0.2
"""Seconds between two looks whether to stop."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to follow."""

    until_complete: bool = False
    """End when every recorder has ended and all was read."""
    until_idle: float | None = None
    """End when nothing has come for so many seconds."""
    every: float = 5.0
    """Seconds between two looks for new files, while there is little to do."""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Followed:
    """How it ended."""

    verdict: Verdict
    reasons: tuple[str, ...]
    state: State


def follow(
    paths: Sequence[str],
    out: Path,
    *,
    checks: Sequence[str] = tuple(CHECKS),
    options: Options | None = None,
    master: str | None = None,
    spark: SparkSession | None = None,
    stop: threading.Event | None = None,
    report: Callable[[State, Mapping[str, int]], None] = lambda state, found: None,
) -> Followed:
    """Judge a recording while it grows, until `stop` is set or `options` say so; findings go to `out`/findings.

    Without `stop` SIGINT and SIGTERM end it, in the main thread. Continues where an earlier call with the same `out`
    ended, however that was. `report` is called with each batch's new findings by check, without exempted ones.
    Raises WrongUse for folders that do not fit and for Spark Connect, NotARecording for files that are none, NoJava
    without Java.
    """
    options, out = options or Options(), out.resolve()
    if unknown := [name for name in checks if name not in CHECKS]:
        raise WrongUse(f"there is no check {unknown[0]!r}: choose from {', '.join(CHECKS)}.")
    if (master or os.environ.get("SPARK_REMOTE", "")).startswith("sc://"):
        raise WrongUse("--follow needs a classic Spark session, not Spark Connect: give another --master.")
    folders = [_folder(path, out) for path in paths]
    known = latest(out)
    if known.batch >= 0 and known.folders != folders:
        raise WrongUse(f"{out} follows {', '.join(known.folders)}: give --out another folder, or follow the same ones.")
    out.mkdir(parents=True, exist_ok=True)
    chosen = session(master, size=SMALL + 1) if spark is None else nullcontext(spark)
    # PySpark has a handler of its own for Ctrl-C, from the start of its session on: ours comes after it.
    with chosen as running, nullcontext(stop) if stop else stopped_by_signals() as stopping:
        batches = Batches(running, out, folders, checks, options.limits, report)
        query = _start(running, batches, folders, out, options)
        try:
            at_end = _watch(query, batches, out, options, stopping)
        finally:
            batches.stop()
            query.stop()
        if at_end:
            batches.close()
        return _summarized(batches.state, out, at_end=at_end)


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set, while this lasts; a second signal acts as it always did."""
    event = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.getsignal(number) for number in numbers}

    def on_signal(number: int, _: object) -> None:
        event.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in numbers:
        signal.signal(number, on_signal)
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _folder(path: str, out: Path) -> str:
    if "://" in path and not path.startswith("file://"):
        return path
    folder = Path(path.removeprefix("file://")).resolve()
    if not folder.is_dir():
        raise WrongUse(f"{folder} is not a folder: give the folder that recorders write to.")
    if out.is_relative_to(folder):
        raise WrongUse(f"--out {out} lies inside of the recording: give a folder outside of {folder}.")
    return str(folder)


def _start(
    spark: SparkSession, batches: Batches, folders: Sequence[str], out: Path, options: Options
) -> StreamingQuery:
    reader = spark.readStream.schema(RECORDING).options(pathGlobFilter="*.parquet", recursiveFileLookup=True)
    streams = [reader.parquet(folder if "://" in folder else f"file://{folder}") for folder in folders]
    # Batches read the columns that they need of these files; rows of the query itself would have all columns.
    names = reduce(DataFrame.unionByName, streams).selectExpr("_metadata.file_path as file")
    writer = names.writeStream.foreachBatch(batches.take).queryName("aiorocketmq audit")
    writer = writer.option("checkpointLocation", f"file://{out}/following/checkpoint")
    return writer.trigger(processingTime=f"{max(1, round(options.every * 1000))} milliseconds").start()


def _watch(query: StreamingQuery, batches: Batches, out: Path, options: Options, stop: threading.Event) -> bool:
    """Wait for the end; true if the recording has ended, false if somebody asked to stop."""
    summarized = batches.state
    while not stop.wait(LOOK):
        if not query.isActive:
            error = query.exception()
            why = reason(error) if error is not None else "the query ended"
            raise batches.failure or NotARecording(f"Spark cannot follow these files ({why}).")
        if batches.busy.locked():
            continue
        if batches.state is not summarized:
            summarized = batches.state
            _summarized(summarized, out, at_end=False)
        if options.until_complete and batches.is_complete():
            return True
        if options.until_idle is not None and time.monotonic() - batches.last_data > options.until_idle:
            return True
    return False


def _verdict(state: State, *, at_end: bool) -> tuple[Verdict, tuple[str, ...]]:
    """Invalid as soon as something was broken; valid only of a whole recording that was followed to its end."""
    gate, found = gate_of(state), Counter[str]()
    for key, n in state.findings.items():
        found[key.split("\t")[2]] += n
    if found[BROKEN]:
        return Verdict.INVALID, (f"{found[BROKEN]} broken promise(s).",)
    deliveries = gate.kinds.get("deliver", 0)
    reasons = {
        "the recording was not followed to its end.": not at_end,
        **dict.fromkeys(gate.missing if at_end else (), True),
        **dict.fromkeys(gate.clocks, True),
        f"{found[POSSIBLE]} finding(s) are possible but not proven.": found[POSSIBLE],
        f"{state.late_rows} row(s) came when their time had been judged.": state.late_rows,
        f"{state.forgotten} message(s) were dropped before they had come to their end.": state.forgotten,
        "nothing to judge: the recording holds no deliveries.": not deliveries,
    }
    if any(reasons.values()):
        return Verdict.UNKNOWN, tuple(reason for reason, holds in reasons.items() if holds)
    return Verdict.VALID, (f"{deliveries} deliveries judged, none broken.",)


def _summarized(state: State, out: Path, *, at_end: bool) -> Followed:
    """Write `following.json`."""
    gate, (verdict, reasons) = gate_of(state), _verdict(state, at_end=at_end)
    fields = ("check", "invariant", "verdict", "exemption", "count")
    document = {
        "schema": SCHEMA,
        "verdict": verdict.value,
        "reasons": reasons,
        "batch": state.batch,
        "ended": at_end,
        "watermark_us": state.watermark_us,
        "events": gate.events,
        "recorders": {"seen": len(state.spans), "ended": len(state.ended)},
        "judged": {kind: n for kind, n in sorted(gate.kinds.items()) if n},
        "findings": [dict(zip(fields, (*key.split("\t"), n), strict=True)) for key, n in sorted(state.findings.items())],
        "late_rows": state.late_rows,
        "forgotten": state.forgotten,
    }
    (out / ".following.json").write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    os.replace(out / ".following.json", out / "following.json")
    return Followed(verdict, reasons, state)
