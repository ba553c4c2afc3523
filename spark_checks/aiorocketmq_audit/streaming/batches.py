"""One batch of a followed recording: read, judge, write new findings, and carry events that later batches need.

`findings/batch=N` are the results of batch N; `following/carried/batch=N` is its output for the next one: events, and a
row of kind `reported` for each finding so far (its key as `offset`). `following/states/N.json` completes the batch. A
batch that is repeated after a crash replaces its own folders.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window, functions as F

from aiorocketmq_audit import evidence
from aiorocketmq_audit.audit import recording_of
from aiorocketmq_audit.engine import materialized
from aiorocketmq_audit.errors import UsageError
from aiorocketmq_audit.frames.settings import settings
from aiorocketmq_audit.judgement import EXEMPTED, judge
from aiorocketmq_audit.recording import files, gates, reading
from aiorocketmq_audit.recording.narrowing import EVERYTHING, Narrowing
from aiorocketmq_audit.recording.schema import RECORDING
from aiorocketmq_audit.spark.metrics import Running
from aiorocketmq_audit.spark.session import TINY, planned_for
from aiorocketmq_audit.streaming.retention import kept
from aiorocketmq_audit.streaming.state import State, name_of, watermark, with_runs

MOVING = """invariant in ('INV-LOSS-MID', 'INV-LOSS', 'INV-DLQ', 'INV-DLQ-LIVE', 'INV-LATE', 'INV-ASSIGN', 'INV-HANDLE',
    'INV-TX-CHECK')"""
"""Findings about old events that depend on the present."""

SLOW, SLOW_US = "invariant in ('INV-ATTEMPT', 'INV-FAIR', 'INV-ASSIGN')", 60_000_000
"""Findings that wait longer: they use time slices, or an exemption that is recorded only when a poll times out; and for
how long they wait."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Retention and waiting times, in microseconds of the recording's own time."""

    horizon_us: int = 600_000_000
    """How long completed messages are retained, and events that did not happen are awaited."""
    longest_us: int = 21_600_000_000
    """How long open messages are retained."""
    lateness_us: int = 120_000_000
    """How long a recorder without new rows is awaited."""
    settle_us: int = 10_000_000
    """How long answers to calls are awaited."""

    @property
    def kept_us(self) -> int:
        """How long all events are carried: longer than any finding waits."""
        return max(self.horizon_us, self.settle_us, SLOW_US)


@dataclass(slots=True)
class Batches:
    """Processes the batches of one recording, one after the other."""

    spark: SparkSession
    out: Path
    checks: Sequence[str]
    limits: Limits
    state: State
    report: Callable[[State, Mapping[str, int]], None]
    """Called with the new findings of a batch by check, without exempted ones."""
    until_complete: bool = False
    """A batch with which all recorders have ended is judged as the last one at once, instead of a second time."""
    is_closed: bool = False
    """The last events were judged as those of a complete recording."""

    def take(self, paths: Sequence[str], batch: int) -> None:
        """Process these files; if the batch is repeated after a crash, replace the results of the first attempt."""
        names, before = self._names(), read_state(self.out, batch - 1)
        # Files that were deleted meanwhile are not among them.
        recording_files = files.find(tuple(paths)) if paths else files.RecordingFiles((), (), 0)
        read = sorted({*before.names, *map(name_of, paths)})
        state = replace(before, folders=self.state.folders, batch=self._cleared(batch), names=read)
        with self._carried(before, recording_files.size) as carried:
            state, new = self._arrived(state, carried, recording_files)
            events = carried.unionByName(new)
            flaws = {*state.flaws, *gates.repeated_operations(events, counts_of(state))}
            mark = watermark(state, names, self.limits.lateness_us)
            state = replace(state, flaws=sorted(flaws), watermark_us=mark)
            self.is_closed = self.until_complete and state.is_complete and names <= set(read)
            if self.is_closed or mark > before.watermark_us:
                state, reported = self._judged(events, state, at_end=self.is_closed)
                events = events.unionByName(reported, allowMissingColumns=True)
            self.state = self._carry(events, state)

    def close(self) -> None:
        """Judge the remaining events as of a complete recording. Written as the next batch, which may replace it."""
        if self.is_closed:
            return
        state = replace(self.state, batch=self._cleared(self.state.batch + 1))
        with self._carried(self.state) as carried:
            self.state, _ = self._judged(carried, state, at_end=True)

    def unread(self) -> set[str]:
        """Return recorders (`name_of`) without a row read so far: their files are unfinished, or new."""
        return self._names() - set(self.state.names)

    def _names(self) -> set[str]:
        """Return the recorders (`name_of`) of all files in local folders, finished or not."""
        folders = (Path(folder) for folder in self.state.folders if "://" not in folder)
        names = (file.name for folder in folders for file in folder.rglob("*.parquet*"))
        return {name_of(name) for name in names if not name.startswith(("_", "."))}

    def _cleared(self, batch: int) -> int:
        """Remove the results of an earlier attempt."""
        for folder in ("following/carried", "findings"):
            shutil.rmtree(self.out / folder / f"batch={batch}", ignore_errors=True)
        return batch

    @contextmanager
    def _carried(self, state: State, more: int = 0) -> Iterator[DataFrame]:
        """Yield the carried events of `state`, with a query plan for them and for `more` bytes."""
        if state.batch < 0:
            with planned_for(self.spark, more):
                yield reading.empty(self.spark, RECORDING)
            return
        recording_files = files.find((f"{self.out}/following/carried/batch={state.batch}",))
        with planned_for(self.spark, recording_files.size + more):
            yield self._rows(recording_files)[0]

    def _rows(self, recording_files: files.RecordingFiles) -> tuple[DataFrame, tuple[str, ...]]:
        events, lacking = reading.read(self.spark, recording_files)
        # Many small queries follow: reading the files for each would take longer than the query itself.
        return materialized(events.coalesce(1)) if 0 < recording_files.size <= TINY else events, lacking

    def _arrived(
        self, state: State, carried: DataFrame, recording_files: files.RecordingFiles
    ) -> tuple[State, DataFrame]:
        """Read new files and merge their row ranges; drop rows that were read before."""
        new, lacking = self._rows(recording_files)
        flaws = {*state.flaws, *gates.flaws_of_files(recording_files.unfinished, lacking)}
        rows = gates.counts(new)
        runs = _runs(new, rows, state)
        after = replace(state, spans=with_runs(state.spans, (run[:4] for run in runs)))
        if sum(after.rows.values()) < sum(state.rows.values()) + sum(row.n for row in rows):
            flaws.update(gates.distinct_rows(carried.unionByName(new), sorted(after.spans))[1])
            read_before = (
                (F.col("recorder") == name) & F.col("seq").between(first, last)
                for name, of in state.spans.items()
                for first, last, _ in of
            )
            new = new.where(~reduce(or_, read_before, F.lit(False))).dropDuplicates(["recorder", "seq"])
            rows = gates.counts(new)
            runs = _runs(new, rows, state)
        counted = [row.asDict() for row in gates.merged_counts([*counts_of(state), *rows])]
        late = state.late_rows + sum(run[4] for run in runs)
        return replace(after, flaws=sorted(flaws), counts=counted, late_rows=late), new

    def _judged(self, events: DataFrame, state: State, *, at_end: bool) -> tuple[State, DataFrame]:
        """Write findings that are ready and not reported before; count them, and return their keys as rows."""
        gate, narrowing, passed_us, mark = gate_of(state), EVERYTHING, None, state.watermark_us
        if not at_end:
            # Other recorders without an end are running, and missing rows may be in the next file.
            gate = replace(gate, cut_at=state.silent, has_gaps=state.has_gaps, ended_us=mark)
            narrowing, passed_us = Narrowing(to_us=mark), mark - self.limits.horizon_us
            events = events.where(f"kind <> 'drain.ok' or t_wall_us <= {passed_us}")
        recording = replace(recording_of(events, gate, narrowing), passed_us=passed_us)
        findings = judge(recording, gate, self.checks, Running(self.spark).stage).findings
        if findings is None:
            return state, events.where("false")
        event = identifying_event()
        key = F.xxhash64("check", "invariant", "gid", event["recorder"], event["seq"])
        ready = findings.where(self._is_ready(state, at_end=at_end)).withColumn("key", key)
        reported = events.where("kind = 'reported'").select(F.col("offset").alias("key"))
        new = materialized(ready.join(reported, "key", "left_anti"))
        standing, sums = Counter[str](), Counter(state.findings)
        for check, invariant, verdict, exemption, n in (
            new.groupBy("check", "invariant", "verdict", "exemption").count().collect()
        ):
            sums["\t".join((check, invariant, verdict, exemption or ""))] += n
            standing[check] += 0 if verdict == EXEMPTED else n
        if +standing:
            named = evidence.with_names(new, recording.events).coalesce(1)
            named.write.parquet(f"file://{self.out}/findings/batch={state.batch}")
        state = replace(state, findings=dict(sums))
        self.report(state, +standing)
        return state, new.select(F.lit("reported").alias("kind"), F.col("key").alias("offset"))

    def _is_ready(self, state: State, *, at_end: bool) -> Column:
        """Return whether all events of a finding and all that may exempt it were read, and it was not ready long ago:
        of events before the carried ones too few are left to judge it."""
        settle_us = self.limits.settle_us
        wait = f"""case when invariant = 'INV-LATE' then {self.limits.horizon_us} - margin_us
            when {SLOW} then {max(SLOW_US, settle_us)} else {settle_us} end"""
        is_due = "true" if at_end else f"second.at + {wait} <= {state.watermark_us}"
        return F.expr(f"{is_due} and ({MOVING} or second.at >= {state.kept_us})")

    def _carry(self, events: DataFrame, state: State) -> State:
        """Write the events that the next batch may need, and complete this one."""
        kept_us = state.watermark_us - self.limits.kept_us
        if kept_us > max(state.kept_us, min((row["from_us"] for row in state.counts), default=0)):
            any_us = state.watermark_us - self.limits.longest_us
            events, forgotten = kept(events, settings(events), kept_us, any_us)
            state = replace(state, kept_us=kept_us, forgotten=state.forgotten + forgotten)
        folder = self.out / "following"
        events.write.parquet(f"file://{folder}/carried/batch={state.batch}")
        replace_text(folder / "states" / f"{state.batch}.json", state.to_json())
        # The previous state is kept, so that this batch can be repeated.
        for old in (folder / "states").glob("*.json"):
            if int(old.stem) < state.batch - 1:
                shutil.rmtree(folder / "carried" / f"batch={old.stem}", ignore_errors=True)
                old.unlink()
        return state


def identifying_event() -> Column:
    """Return the event that identifies a finding in later batches: the later one, since the earlier one may be dropped,
    or the earlier one if the later one may differ then."""
    by_earlier = F.expr(f"{MOVING} and invariant <> 'INV-ASSIGN'")
    return F.when(by_earlier, F.col("first")).otherwise(F.col("second"))


def _runs(new: DataFrame, counts: Sequence[Row], state: State) -> list[tuple[str, int, int, int, int]]:
    """Return ranges of consecutive rows: recorder, first and last number, latest time, and the number of late rows. The
    `gates.counts` suffice for most recorders; for the others the rows are read."""
    runs, odd = [], []
    for name, own in gates.by_recorder(counts):
        first, last = min(row.first for row in own), max(row.last for row in own)
        if gates.is_gap_free(own, first) and min(row.from_us for row in own) >= state.watermark_us:
            runs.append((name, first, last, max(row.to_us for row in own), 0))
        else:
            odd.append(name)
    if not odd:
        return runs
    place = F.dense_rank().over(Window.partitionBy("recorder").orderBy("seq"))
    numbered = new.where(F.col("recorder").isin(odd)).select(
        "recorder", "t_wall_us", "seq", (F.col("seq") - place).alias("run")
    )
    counted = ("min(seq)", "max(seq)", "max(t_wall_us)", f"count_if(t_wall_us < {state.watermark_us})")
    rows = numbered.groupBy("recorder", "run").agg(*map(F.expr, counted)).drop("run").collect()
    return [*runs, *map(tuple, rows)]


def read_state(out: Path, batch: int | None = None) -> State:
    """Return the state after `batch`, by default the last completed one; raise UsageError if it is missing."""
    states = out / "following" / "states"
    if batch is None:
        batch = max((int(each.stem) for each in states.glob("*.json")), default=-1)
    try:
        return State() if batch < 0 else State(**json.loads((states / f"{batch}.json").read_text("utf-8")))
    except FileNotFoundError as error:
        raise UsageError(
            f"{out} has no state of batch {batch}: give --out a new folder, and begin again."
        ) from error


def replace_text(file: Path, text: str) -> None:
    """Write a file atomically, creating its folder if necessary."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name}")
    beside.write_text(text, "utf-8")
    os.replace(beside, file)


def counts_of(state: State) -> list[Row]:
    """Return `gates.counts` of all rows read."""
    return [Row(**row) for row in state.counts]


def gate_of(state: State) -> gates.Gates:
    """Return the gates for all rows read."""
    return gates.judged(counts_of(state), state.rows, flaws=state.flaws)
