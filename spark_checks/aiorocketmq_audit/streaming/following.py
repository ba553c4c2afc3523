"""Following a recording: the streaming query, its end, and what it says of itself."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from types import FrameType
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.streaming.query import StreamingQuery

from aiorocketmq_audit import findings, gates
from aiorocketmq_audit.by_numbers import workers_beside
from aiorocketmq_audit.checks import CHECKS
from aiorocketmq_audit.errors import NotARecording, WrongUse
from aiorocketmq_audit.reading import reason
from aiorocketmq_audit.schema import RECORDING
from aiorocketmq_audit.spark.session import SMALL, session
from aiorocketmq_audit.streaming.batches import Batches, Limits, Told
from aiorocketmq_audit.streaming.progress import SEPARATOR, Progress
from aiorocketmq_audit.streaming.store import Store, uri
from aiorocketmq_audit.verdicts import Verdict

SCHEMA = 1
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
    bytes_per_batch: int = 128 << 20
    """Some four million events; more files than that wait for the next batch."""
    files_per_batch: int | None = None
    """At most so many files, whatever they hold."""
    screen: bool | None = None
    """Have everything screened first, as `run.audit` does; by default batches that are worth it."""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Followed:
    """How it ended."""

    verdict: Verdict
    progress: Progress
    reasons: tuple[str, ...]


def follow(
    paths: Sequence[str],
    out: Path,
    *,
    checks: Sequence[str] = tuple(CHECKS),
    options: Options | None = None,
    master: str | None = None,
    spark: SparkSession | None = None,
    stop: threading.Event | None = None,
    tell: Callable[[Told], None] = lambda told: None,
) -> Followed:
    """Judge a recording while it grows, until `stop` is set or `options` say so; findings go to `out`/violations.

    Without `stop` SIGINT and SIGTERM end it, where this is the main thread.

    Goes on where an earlier call with the same `out` ended, however that was. `tell` is called after each batch.
    Raises WrongUse for folders that do not fit, NotARecording for files that are none, NoJava without Java.
    """
    options = options or Options()
    unknown = [name for name in checks if name not in CHECKS]
    if unknown:
        raise WrongUse(f"there is no check {unknown[0]!r}: choose from {', '.join(CHECKS)}.")
    folders = _folders(paths, out)
    store = Store(out)
    known = store.latest()
    if known.batch >= 0 and known.folders != folders:
        raise WrongUse(
            f"{out} follows {', '.join(known.folders)}: give --out another folder, or follow the same ones."
        )
    chosen: AbstractContextManager[SparkSession] = (
        nullcontext(spark) if spark is not None else session(master, size=SMALL + 1)
    )
    # PySpark has a handler of its own for Ctrl-C, from the start of its session on: ours comes after it.
    with (
        chosen as running,
        workers_beside(running) as workers,
        nullcontext(stop) if stop else stopped_by_signals() as stopping,
    ):
        batches = Batches(
            running,
            store,
            folders,
            checks,
            options.limits,
            options.screen,
            workers=workers,
            until_complete=options.until_complete,
        )
        query = _start(running, folders, batches, store, options)
        try:
            done = _watch(query, batches, options, stopping, store, tell)
        finally:
            batches.stop()
            query.stop()
        progress = batches.close() if done else batches.progress
        _report(batches, store, tell)
        verdict, reasons = _verdict(batches, progress, at_end=done)
        store.write_summary(_document(progress, batches, at_end=done))
        return Followed(verdict, progress, reasons)


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set, while this lasts; a second signal acts as it always did."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def on_signal(number: int, frame: FrameType | None) -> None:
        event.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _folders(paths: Sequence[str], out: Path) -> tuple[str, ...]:
    folders = []
    for path in paths:
        if "://" in path and not path.startswith("file://"):
            folders.append(path)
            continue
        folder = Path(path.removeprefix("file://")).resolve()
        if not folder.is_dir():
            raise WrongUse(f"{folder} is not a folder: give the folder that recorders write to.")
        if out.resolve().is_relative_to(folder):
            raise WrongUse(f"--out {out} lies inside of the recording: give a folder outside of {folder}.")
        folders.append(str(folder))
    return tuple(folders)


def _start(
    spark: SparkSession, folders: Sequence[str], batches: Batches, store: Store, options: Options
) -> StreamingQuery:
    most: tuple[str, int] = ("maxBytesPerTrigger", options.bytes_per_batch)
    if options.files_per_batch is not None:
        most = ("maxFilesPerTrigger", options.files_per_batch)

    def stream(folder: str) -> DataFrame:
        reader = spark.readStream.schema(RECORDING).option("pathGlobFilter", "*.parquet")
        reader = reader.option("recursiveFileLookup", True).option(*most)
        place = folder if "://" in folder else uri(Path(folder))
        return reader.parquet(place).select(F.col("_metadata.file_path").alias("file"))

    rows = reduce(DataFrame.unionByName, [stream(folder) for folder in folders])
    writer = rows.writeStream.foreachBatch(batches.take).queryName("aiorocketmq audit")
    writer = writer.option("checkpointLocation", uri(store.checkpoint))
    return writer.trigger(processingTime=f"{max(1, round(options.every * 1000))} milliseconds").start()


def _watch(
    query: StreamingQuery,
    batches: Batches,
    options: Options,
    stop: threading.Event,
    store: Store,
    tell: Callable[[Told], None],
) -> bool:
    """Wait for the end; true when the recording has ended, false when somebody asked to stop."""
    while not stop.wait(LOOK):
        if not query.isActive:
            raise _cause(batches, query.exception())
        if batches.told:
            _report(batches, store, tell)
        if batches.busy.locked():
            continue
        if options.until_complete and batches.is_complete:
            return True
        if options.until_idle is not None and time.monotonic() - batches.last_data > options.until_idle:
            return True
    return False


def _cause(batches: Batches, error: Exception | None) -> Exception:
    if batches.failure is not None:
        return batches.failure
    why = reason(error) if error is not None else "the query ended"
    return NotARecording(f"Spark cannot follow these files ({why}).")


def _report(batches: Batches, store: Store, tell: Callable[[Told], None]) -> None:
    while batches.told:
        told = batches.told.pop(0)
        store.write_summary(_document(batches.progress, batches, at_end=False))
        tell(told)


def _verdict(batches: Batches, progress: Progress, *, at_end: bool) -> tuple[Verdict, tuple[str, ...]]:
    """Invalid as soon as something was broken; valid only of a whole recording that was followed to its end."""
    verdicts: dict[str, int] = {}
    for key, n in progress.found.items():
        verdict = key.split(SEPARATOR)[2]
        verdicts[verdict] = verdicts.get(verdict, 0) + n
    if verdicts.get(findings.BROKEN):
        return Verdict.INVALID, (f"{verdicts[findings.BROKEN]} broken promise(s).",)
    gate = batches.gate(progress)
    reasons = [] if at_end else ["the recording was not followed to its end."]
    reasons += [*gate.missing, *gate.clocks] if at_end else gate.clocks
    reasons += gates.twice_sentences(progress.told_twice)
    if verdicts.get(findings.POSSIBLE):
        reasons.append(f"{verdicts[findings.POSSIBLE]} finding(s) are possible but not proven.")
    if progress.late_rows:
        reasons.append(f"{progress.late_rows} row(s) came when their time had been judged.")
    if progress.forgotten:
        reasons.append(f"{progress.forgotten} message(s) were dropped before they had come to their end.")
    if not progress.counted.get("deliveries"):
        reasons.append("nothing to judge: the recording holds no deliveries.")
    if reasons:
        return Verdict.UNKNOWN, tuple(reasons)
    return Verdict.VALID, (f"{progress.counted['deliveries']} deliveries judged, none broken.",)


def _document(progress: Progress, batches: Batches, *, at_end: bool) -> dict[str, Any]:
    verdict, reasons = _verdict(batches, progress, at_end=at_end)
    found: dict[str, dict[str, Any]] = {}
    for key, n in sorted(progress.found.items()):
        check, invariant, kind, excuse = key.split(SEPARATOR)
        of = found.setdefault(check, {"broken": 0, "possible": 0, "excused": {}, "findings": {}})
        if kind == findings.EXCUSED:
            of["excused"][excuse] = of["excused"].get(excuse, 0) + n
        else:
            of[kind] += n
            of["findings"].setdefault(invariant, {})[kind] = n
    return {
        "schema": SCHEMA,
        "verdict": verdict.value,
        "reasons": list(reasons),
        "batch": progress.batch,
        "ended": at_end,
        "watermark_us": progress.watermark_us,
        "events": sum(progress.rows.values()),
        "recorders": {"seen": len(progress.spans), "ended": len(progress.ended)},
        "judged": dict(progress.counted),
        "checks": found,
        "late_rows": progress.late_rows,
        "forgotten": progress.forgotten,
    }
