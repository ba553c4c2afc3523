"""One batch of a followed recording: read, judge, write what is new, and carry on what may still matter.

`findings/batch=N` are the results of batch N; `following/carried/batch=N` is what it leaves to the next one: events, a
row of kind `reported` for each finding so far (its key as `offset`), and at last `state.json`, without which the batch
is not complete. A batch that is repeated after a crash replaces its own folders.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window, functions as F

from aiorocketmq_audit import evidence
from aiorocketmq_audit.audit import recording_of
from aiorocketmq_audit.engine import worked_out
from aiorocketmq_audit.errors import WrongUse
from aiorocketmq_audit.frames.settings import settings
from aiorocketmq_audit.judgement import EXEMPTED, judge
from aiorocketmq_audit.recording import files, gates, reading
from aiorocketmq_audit.recording.narrowing import EVERYTHING, Narrowing
from aiorocketmq_audit.recording.schema import RECORDING
from aiorocketmq_audit.spark.metrics import Running
from aiorocketmq_audit.spark.session import TINY
from aiorocketmq_audit.streaming.retention import kept
from aiorocketmq_audit.streaming.state import State, merged, name_of, watermark

BY_LATER = (
    *("INV-ORD", "INV-ORD-FIRST", "INV-ORD-HANDLE", "INV-PULL-ORD", "INV-OFFSET-ORD", "INV-COMMIT", "INV-ASSIGN"),
    *("INV-FAIR", "INV-ISOLATE", "INV-CONTENT", "INV-FAILED", "INV-ORIGIN"),
)
"""Invariants whose findings are recognized in later batches by the later of their two events, as the earlier one may be
forgotten; all others are by the earlier one, as the later one may be another then."""

BY_GROUP = ("INV-LOSS-MID", "INV-LOSS")
"""Invariants of which a message may break one for each of several groups."""

MOVING = (*BY_GROUP, "INV-DLQ", "INV-DLQ-LIVE", "INV-LATE", "INV-TX-CHECK", "INV-HANDLE", "INV-ASSIGN")
"""Invariants that events of long ago break by what happens, or does not happen, now."""

SLOW = ("INV-ATTEMPT", "INV-FAIR", "INV-ASSIGN")
"""Invariants with an exemption that is recorded when a poll is given up, or that look at slices of time."""

SLOW_US = 60_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """How long things are waited for and remembered, in microseconds of the recording's own time."""

    horizon_us: int = 600_000_000
    """Completed messages are remembered so long, and what did not happen is waited for."""
    longest_us: int = 6 * 3_600_000_000
    """Open messages are remembered so long."""
    lateness_us: int = 120_000_000
    """A recorder without news holds the others up by so much."""
    settle_us: int = 10_000_000
    """What happened is judged so much later, when the answers to its calls are there."""

    @property
    def kept_us(self) -> int:
        """How long all events are carried: longer than any finding is waited for."""
        return max(self.horizon_us, self.settle_us, SLOW_US)


class Batches:
    """Takes the batches of one query, one after the other."""

    def __init__(
        self,
        spark: SparkSession,
        out: Path,
        folders: list[str],
        checks: Sequence[str],
        limits: Limits,
        report: Callable[[State, Mapping[str, int]], None] = lambda state, found: None,
    ) -> None:
        """`report` is called after each batch, with its new findings by check, without exempted ones."""
        self.busy = threading.Lock()
        """Held while a batch is worked on."""
        self.failure: Exception | None = None
        self.last_data = time.monotonic()
        self._is_stopping = False
        self._spark, self._out, self._checks, self._limits, self._report = spark, out, checks, limits, report
        self.state = replace(latest(out), folders=folders)

    def take(self, rows: DataFrame, batch: int) -> None:
        """Work on the files that `rows` name; repeated after a crash, replace what the first attempt has written."""
        with self.busy:
            if self._is_stopping:
                # The query waits for this call before it stops, and whoever stops it waits for no further batch.
                raise RuntimeError("following was stopped")
            try:
                self._take([_path(row.file) for row in rows.distinct().collect()], batch)
            except Exception as error:
                self.failure = error
                raise

    def stop(self) -> None:
        """Wait until the batch at hand is completed, and begin no other one."""
        with self.busy:
            self._is_stopping = True

    def close(self) -> None:
        """Judge what is left, as of a recording that has ended. Written as the batch to come, which may replace it."""
        state = replace(self.state, batch=self.state.batch + 1)
        self._clear(state.batch)
        self.state, _ = self._judged(self._carried(self.state.batch), self.state, state, at_end=True)

    def is_complete(self) -> bool:
        """Every recorder has ended, and there is no file of another one."""
        return self.state.is_whole and self.names() <= set(self.state.names)

    def names(self) -> set[str]:
        """The names of files below the folders of this machine, finished or not, as in `State.names`."""
        folders = (Path(folder) for folder in self.state.folders if "://" not in folder)
        found = (file.name for folder in folders for file in folder.rglob("*.parquet*"))
        return {name_of(name) for name in found if not name.startswith(("_", "."))}

    def _take(self, paths: Sequence[str], batch: int) -> None:
        names, before = self.names(), read_state(self._out, batch - 1)
        self._clear(batch)
        carried = self._carried(before.batch)
        read = sorted({*before.names, *(name_of(path) for path in paths)})
        state = replace(before, folders=self.state.folders, batch=batch, names=read)
        state, new = self._arrived(state, carried, *self._read(files.find(tuple(paths))))
        events = carried.unionByName(new)
        flaws = gates.repeated_operations(events, [Row(**row) for row in state.counts])
        mark = watermark(state, names, self._limits.lateness_us)
        state = replace(state, flaws=sorted({*state.flaws, *flaws}), watermark_us=mark)
        if mark > before.watermark_us:
            state, reported = self._judged(events, before, state)
            events = events.unionByName(reported, allowMissingColumns=True)
        self.state = self._carry(events, state)
        self.last_data = time.monotonic()

    def _read(self, found: files.RecordingFiles) -> tuple[DataFrame, tuple[str, ...]]:
        events, lacking = reading.read(self._spark, found)
        return worked_out(events.coalesce(1)) if found.size <= TINY else events, lacking

    def _carried(self, batch: int) -> DataFrame:
        if batch < 0:
            return reading.empty(self._spark, RECORDING)
        return self._read(files.find((str(_folder(self._out, batch) / "events"),)))[0]

    def _arrived(
        self, state: State, carried: DataFrame, new: DataFrame, lacking: Sequence[str] = ()
    ) -> tuple[State, DataFrame]:
        """Add up the numbers of new rows; leave out those that were read before."""
        place = F.dense_rank().over(Window.partitionBy("recorder").orderBy("seq"))
        runs = new.select("recorder", "seq", "t_wall_us", (F.col("seq") - place).alias("run"))
        whose = runs.groupBy("recorder", "run").agg(
            *(F.expr(f"{text}") for text in ("min(seq)", "max(seq)", "max(t_wall_us)", "count(*)")),
            F.count_if(F.col("t_wall_us") < state.watermark_us),
        )
        spans, late, n = dict(state.spans), 0, 0
        for name, _, *span, count, older in whose.collect():
            spans[name], late, n = merged([*spans.get(name, ()), span]), late + older, n + count
        after = replace(state, spans=spans, late_rows=state.late_rows + late)
        flaws = [f"some files lack the column(s) {', '.join(lacking)}, so that nothing is certain."] if lacking else []
        if sum(after.rows.values()) < sum(state.rows.values()) + n:
            flaws += gates.distinct_rows(carried.unionByName(new), sorted(spans))[1]
            known = [
                (F.col("recorder") == name) & F.col("seq").between(first, last)
                for name, of in state.spans.items()
                for first, last, _ in of
            ]
            new = new.where(~reduce(or_, known, F.lit(False))).dropDuplicates(["recorder", "seq"])
            return self._arrived(replace(state, flaws=sorted({*state.flaws, *flaws})), carried, new)
        counts = gates.merged_counts([*(Row(**row) for row in state.counts), *gates.counts(new)])
        flaws = sorted({*state.flaws, *flaws})
        return replace(after, counts=[row.asDict() for row in counts], flaws=flaws), new

    def _judged(
        self, events: DataFrame, before: State, state: State, *, at_end: bool = False
    ) -> tuple[State, DataFrame]:
        """Write the findings that are ready and were not reported before; count them, and return their keys as rows."""
        gate, narrowing, passed_us = gate_of(state), EVERYTHING, None
        if not at_end:
            # Recorders that have not ended are at work, and rows that are missing may be in the next file.
            mark, passed_us = state.watermark_us, state.watermark_us - self._limits.horizon_us
            gate = replace(gate, cut_at={}, has_gaps=state.has_gaps, ended_us=mark)
            narrowing = Narrowing(to_us=mark)
            events = events.where((F.col("kind") != "drain.ok") | (F.col("t_wall_us") <= passed_us))
        recording = replace(recording_of(events, gate, narrowing), passed_us=passed_us)
        found = judge(recording, gate, self._checks, Running(self._spark).stage).findings
        if found is None:
            return state, events.where("false")
        reported = events.where("kind = 'reported'").select(F.col("offset").alias("key"))
        ready = _keyed(found, events).where(self._is_ready(before, None if at_end else state.watermark_us))
        new = worked_out(ready.join(reported, "key", "left_anti"))
        counts = new.groupBy("check", "invariant", "verdict", "exemption").count().collect()
        if any(row.verdict != EXEMPTED for row in counts):
            named = evidence.with_names(new.drop("key"), recording.events)
            named.coalesce(1).write.parquet(f"file://{_findings(self._out, state.batch)}")
        sums, standing = Counter(state.findings), Counter[str]()
        for row in counts:
            sums["\t".join((row.check, row.invariant, row.verdict, row.exemption or ""))] += row["count"]
            standing[row.check] += row["count"] if row.verdict != EXEMPTED else 0
        state = replace(state, findings=dict(sums))
        self._report(state, +standing)
        return state, new.select(F.lit("reported").alias("kind"), F.col("key").alias("offset"))

    def _is_ready(self, before: State, mark: int | None) -> Column:
        """What a finding rests on was read, with all that may exempt it; and it was not ready long ago already: of what
        is older than all that is carried too little is left to judge it."""
        at, invariant, limits = F.col("second.at"), F.col("invariant"), self._limits
        is_recent = invariant.isin(*MOVING) | (at >= before.kept_us)
        wait = F.when(invariant == "INV-LATE", F.lit(limits.horizon_us) - F.col("margin_us"))
        wait = wait.when(invariant.isin(*SLOW), F.lit(max(SLOW_US, limits.settle_us)))
        is_due = F.lit(True) if mark is None else at + wait.otherwise(F.lit(limits.settle_us)) <= mark
        return is_recent & is_due

    def _carry(self, events: DataFrame, state: State) -> State:
        """Leave to the next batch what it may need."""
        kept_us = state.watermark_us - self._limits.kept_us
        if max(state.kept_us, min((row["from_us"] for row in state.counts), default=kept_us)) < kept_us:
            any_us = state.watermark_us - self._limits.longest_us
            events, forgotten = kept(events, settings(events), kept_us, any_us)
            state = replace(state, kept_us=kept_us, forgotten=state.forgotten + forgotten)
        place = _folder(self._out, state.batch)
        events.write.parquet(f"file://{place}/events")
        (place / ".state.json").write_text(state.to_json(), "utf-8")
        os.replace(place / ".state.json", place / "state.json")
        # Its predecessor stays, so that this batch can be repeated.
        for old in place.parent.glob("batch=*"):
            if int(old.name.removeprefix("batch=")) < state.batch - 1:
                shutil.rmtree(old, ignore_errors=True)
        return state

    def _clear(self, batch: int) -> None:
        """Remove what an earlier attempt has written."""
        shutil.rmtree(_folder(self._out, batch), ignore_errors=True)
        shutil.rmtree(_findings(self._out, batch), ignore_errors=True)


def _folder(out: Path, batch: int) -> Path:
    return out / "following" / "carried" / f"batch={batch}"


def _findings(out: Path, batch: int) -> Path:
    return out / "findings" / f"batch={batch}"


def read_state(out: Path, batch: int) -> State:
    """Return what a batch left; raise WrongUse if that is gone."""
    try:
        return State(**json.loads((_folder(out, batch) / "state.json").read_text("utf-8"))) if batch >= 0 else State()
    except FileNotFoundError as error:
        raise WrongUse(f"{out} has no state of batch {batch}: give --out a new folder, and begin again.") from error


def latest(out: Path) -> State:
    """Return what the last completed batch left."""
    done = (int(each.parent.name.removeprefix("batch=")) for each in _folder(out, 0).parent.glob("batch=*/state.json"))
    return read_state(out, max(done, default=-1))


def gate_of(state: State) -> gates.Gates:
    """What is known about the recording itself."""
    return gates.judged([Row(**row) for row in state.counts], state.rows, flaws=state.flaws)


def _path(file: str) -> str:
    """Return the name of a file as it is, and not as Spark quotes it."""
    name = unquote(file)
    return f"/{name.removeprefix('file:').lstrip('/')}" if name.startswith("file:") else name


def _keyed(findings: DataFrame, events: DataFrame) -> DataFrame:
    """Give each finding the key by which it is recognized in later batches."""
    invariant, reader = F.col("invariant"), F.lit(None).cast("bigint")
    lost = findings.where(invariant.isin(*BY_GROUP)).select("id", "second.recorder", "second.seq")
    if not lost.isEmpty():
        # The later event is the group's latest delivery or drain: what stays is the group.
        readers = events.where("kind in ('deliver', 'drain.ok')").select(
            F.xxhash64("recorder").alias("recorder"), "seq", F.xxhash64("group").alias("reader")
        )
        groups = readers.join(F.broadcast(lost), ["recorder", "seq"]).select("id", "reader")
        findings, reader = findings.join(groups, "id", "left"), F.col("reader")
    event = F.when(invariant.isin(*BY_LATER), F.col("second")).otherwise(F.col("first"))
    return findings.withColumn("key", F.xxhash64("check", "invariant", event["recorder"], event["seq"], reader))
