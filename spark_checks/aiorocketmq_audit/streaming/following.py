"""Follows a recording: the streaming query, its end, and the verdict so far."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from aiorocketmq_audit.errors import UsageError
from aiorocketmq_audit.failures import explained, unreadable
from aiorocketmq_audit.judgement import BROKEN, POSSIBLE
from aiorocketmq_audit.recording.reading import literal
from aiorocketmq_audit.rules import CHECKS
from aiorocketmq_audit.spark.session import SMALL, session
from aiorocketmq_audit.streaming.batches import Batches, Limits, gate_of, read_state, replace_text
from aiorocketmq_audit.streaming.state import State
from aiorocketmq_audit.verdicts import Verdict

SCHEMA = 2
"""Version of `following.json`: fields are added within a version, never removed or renamed."""


@dataclass(frozen=True, slots=True)
class Options:
    """When and how long to follow."""

    until_complete: bool = False
    """End when every recorder is complete and was read."""
    until_idle: float | None = None
    """End after so many seconds without new files."""
    every: float = 5.0
    """Seconds until the next search for new files, after one without any."""
    limits: Limits = field(default_factory=Limits)


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
) -> dict[str, Any]:
    """Judge a recording while it grows, until `stop` is set or `options` require the end; writes to `out`/findings.

    Without `stop`, SIGINT and SIGTERM end it after the current batch. Resumes where an earlier call with the same `out`
    ended, also after a crash. `report` is called with each batch's new findings by check, without exempted ones.
    Returns the content of `out`/following.json. Raises UsageError for unsuitable folders and for Spark Connect,
    InvalidRecordingError for invalid files, JavaNotFoundError without Java, and SparkUnavailableError if Spark does
    not start.
    """
    options, out = options or Options(), out.resolve()
    if unknown := [name for name in checks if name not in CHECKS]:
        raise UsageError(f"there is no check {unknown[0]!r}: choose from {', '.join(CHECKS)}.")
    if is_remote() or (master or "").startswith("sc://"):
        raise UsageError("--follow needs a classic Spark session, not Spark Connect: give another --master.")
    folders, before = [_folder(path, out) for path in paths], read_state(out)
    if before.batch >= 0 and before.folders != folders:
        raise UsageError(
            f"{out} follows {', '.join(before.folders)}: give --out another folder, or follow the same."
        )
    if out.is_dir() and any(out.iterdir()) and not (out / "following").is_dir():
        raise UsageError(
            f"--out {out} is not empty, and not the folder of a followed recording: give another one."
        )
    chosen = session(master, size=SMALL + 1) if spark is None else nullcontext(spark)
    # PySpark installs a handler for Ctrl-C when its session starts: ours must be installed after it.
    with chosen as running, nullcontext(stop) if stop else stopped_by_signals() as stopping:
        state = replace(before, folders=folders)
        batches = Batches(running, out, checks, options.limits, state, report, options.until_complete)
        try:
            if at_end := _run(batches, options, stopping):
                batches.close()
        except (PySparkException, Py4JError, OSError) as error:
            # Inside the session: the texts of Java's errors are fetched from the JVM, which ends with it.
            raise explained(error, str(out)) or error from None
        return _summarized(batches, at_end=at_end)


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGINT and SIGTERM set within the block; a second signal has its usual effect."""
    event = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def on_signal(number: int, _: object) -> None:
        event.set()
        signal.signal(number, before[signal.Signals(number)])

    try:
        for number in before:
            signal.signal(number, on_signal)
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _folder(path: str, out: Path) -> str:
    if "://" in path and not path.startswith("file://"):
        return path
    folder = Path(path.removeprefix("file://")).resolve()
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: give the folder that recorders write to.")
    if out.is_relative_to(folder):
        raise UsageError(f"--out {out} lies inside of the recording: give a folder outside of {folder}.")
    return str(folder)


def _run(batches: Batches, options: Options, stop: threading.Event) -> bool:
    """Process batches until the end; return true if the recording is complete, false if a stop was requested."""
    # Only file names are streamed: batches read the columns that they need. A deleted file leaves a gap.
    reader = (
        batches.spark.readStream.format("binaryFile")
        .schema("path string, modificationTime timestamp, length bigint, content binary")
        .options(pathGlobFilter="*.parquet", recursiveFileLookup=True, ignoreMissingFiles=True)
    )
    folders = (folder if "://" in folder else f"file://{literal(folder)}" for folder in batches.state.folders)
    parts = (reader.load(folder).select("path") for folder in folders)
    names = reduce(DataFrame.unionByName, parts)
    failures: list[Exception] = []

    def take(rows: DataFrame, batch: int) -> None:
        try:
            batches.take([_path(row.path) for row in rows.collect()], batch)
        except Exception as error:
            failures.append(error)
            raise

    writer = names.writeStream.foreachBatch(take).option(
        "checkpointLocation", f"file://{batches.out}/following/checkpoint"
    )
    last_data = time.monotonic()
    while True:
        previous = batches.state
        # All present files in one batch. A separate query for each search costs some milliseconds.
        try:
            writer.trigger(availableNow=True).start().awaitTermination()
        except PySparkException as error:
            raise failures[0] if failures else unreadable(error) from error
        if batches.state is not previous:
            last_data = time.monotonic()
            _summarized(batches, at_end=False)
        if options.until_complete and batches.state.is_complete and not batches.unread():
            return True
        if options.until_idle is not None and time.monotonic() - last_data > options.until_idle:
            return True
        if stop.wait(options.every if batches.state is previous else 0):
            return False


def _path(file: str) -> str:
    return f"/{file.removeprefix('file:').lstrip('/')}" if file.startswith("file:") else file


def _summarized(batches: Batches, *, at_end: bool) -> dict[str, Any]:
    """Write `following.json`: invalid as soon as a promise was broken, valid only if followed to the end."""
    state, gate, counts = batches.state, gate_of(batches.state), Counter[str]()
    unread = len(batches.unread()) if at_end else 0
    for key, n in state.findings.items():
        counts[key.split("\t")[2]] += n
    deliveries = gate.kinds.get("deliver", 0)
    doubts = {
        "the recording was not followed to its end.": not at_end,
        f"{unread} recorder(s) have finished no file.": unread,
        **dict.fromkeys((*(gate.missing if at_end else ()), *gate.clocks), True),
        f"{counts[POSSIBLE]} finding(s) are possible but not proven.": counts[POSSIBLE],
        f"{state.late_rows} row(s) came when their time had been judged.": state.late_rows,
        f"{state.forgotten} message(s) were dropped before they had come to their end.": state.forgotten,
        "nothing to judge: the recording holds no deliveries.": not deliveries,
    }
    reasons = [sentence for sentence, holds in doubts.items() if holds]
    verdict = Verdict.UNKNOWN if reasons else Verdict.VALID
    if counts[BROKEN]:
        verdict, reasons = Verdict.INVALID, [f"{counts[BROKEN]} broken promise(s)."]
    fields = ("check", "invariant", "verdict", "exemption", "count")
    document = {
        "schema": SCHEMA,
        "verdict": verdict.value,
        "reasons": reasons or [f"{deliveries} deliveries judged, none broken."],
        "batch": state.batch,
        "ended": at_end,
        "watermark_us": state.watermark_us,
        "events": gate.events,
        "recorders": {"seen": len(state.spans), "ended": len(state.ended)},
        "judged": {kind: n for kind, n in sorted(gate.kinds.items()) if n},
        "findings": [
            dict(zip(fields, (*key.split("\t"), n), strict=True)) for key, n in sorted(state.findings.items())
        ],
        "late_rows": state.late_rows,
        "forgotten": state.forgotten,
    }
    replace_text(batches.out / "following.json", json.dumps(document, indent=2) + "\n")
    return document
