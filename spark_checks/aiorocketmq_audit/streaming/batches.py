"""One batch of a followed recording: read, judge, write what is new, and carry on what may still matter.

`findings/batch=N` are the results of batch N; `following/carried/batch=N` is what it leaves to the next one: events,
and a row of kind `reported` for each finding so far (its key as `offset`). `following/states/N.json` completes it. A
batch that is repeated after a crash replaces its own folders.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path

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
    *(
        "INV-ORD",
        "INV-ORD-FIRST",
        "INV-ORD-HANDLE",
        "INV-PULL-ORD",
        "INV-OFFSET-ORD",
        "INV-COMMIT",
        "INV-ASSIGN",
    ),
    *("INV-FAIR", "INV-ISOLATE", "INV-CONTENT", "INV-FAILED", "INV-ORIGIN"),
)
"""Invariants whose findings are recognized in later batches by the later of their two events, as the earlier one may be
forgotten; all others are by the earlier one, as the later one may be another then."""

MOVING = (
    *(
        "INV-LOSS-MID",
        "INV-LOSS",
        "INV-DLQ",
        "INV-DLQ-LIVE",
        "INV-LATE",
        "INV-TX-CHECK",
        "INV-HANDLE",
        "INV-ASSIGN",
    ),
)
"""Invariants that events of long ago break by what happens, or does not happen, now."""

SLOW = ("INV-ATTEMPT", "INV-FAIR", "INV-ASSIGN")
"""Invariants with an exemption that is recorded when a poll is given up, or that look at slices of time."""

SLOW_US = 60_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """For how many microseconds of the recording's own time things are remembered, or waited for."""

    horizon_us: int = 600_000_000
    """Completed messages are remembered, and what did not happen is waited for."""
    longest_us: int = 21_600_000_000
    """Open messages are remembered."""
    lateness_us: int = 120_000_000
    """A recorder without news is waited for."""
    settle_us: int = 10_000_000
    """The answers to calls are waited for."""

    @property
    def kept_us(self) -> int:
        """For how long all events are carried: longer than any finding is waited for."""
        return max(self.horizon_us, self.settle_us, SLOW_US)


@dataclass(slots=True)
class Batches:
    """Takes the batches of one recording, one after the other."""

    spark: SparkSession
    out: Path
    checks: Sequence[str]
    limits: Limits
    state: State
    report: Callable[[State, Mapping[str, int]], None]
    """Called with the new findings of a batch by check, without exempted ones."""

    def take(self, paths: Sequence[str], batch: int) -> None:
        """Work on these files; repeated after a crash, replace what the first attempt has written."""
        names, before = self._names(), read_state(self.out, batch - 1)
        read = sorted({*before.names, *map(name_of, paths)})
        carried = self._carried(before)
        state = replace(before, folders=self.state.folders, batch=self._cleared(batch), names=read)
        state, new = self._arrived(state, carried, *self._read(paths))
        events = carried.unionByName(new)
        flaws = gates.repeated_operations(events, [Row(**row) for row in state.counts])
        mark = watermark(state, names, self.limits.lateness_us)
        state = replace(state, flaws=sorted({*state.flaws, *flaws}), watermark_us=mark)
        if mark > before.watermark_us:
            state, reported = self._judged(events, state, at_end=False)
            events = events.unionByName(reported, allowMissingColumns=True)
        self.state = self._carry(events, state)

    def close(self) -> None:
        """Judge what is left, as of a recording that has ended. Written as the batch to come, which may replace it."""
        state = replace(self.state, batch=self._cleared(self.state.batch + 1))
        self.state, _ = self._judged(self._carried(self.state), state, at_end=True)

    def is_complete(self) -> bool:
        """Every recorder has ended, and there is no file of another one."""
        whole = self.state.spans and self.state.ended == self.state.spans.keys()
        return bool(whole) and self._names() <= set(self.state.names)

    def _names(self) -> set[str]:
        """`name_of` the files in folders of this machine, finished or not."""
        folders = (Path(folder) for folder in self.state.folders if "://" not in folder)
        found = (file.name for folder in folders for file in folder.rglob("*.parquet*"))
        return {name_of(name) for name in found if not name.startswith(("_", "."))}

    def _cleared(self, batch: int) -> int:
        """Remove what an earlier attempt has written."""
        for folder in ("following/carried", "findings"):
            shutil.rmtree(self.out / folder / f"batch={batch}", ignore_errors=True)
        return batch

    def _read(self, paths: Sequence[str]) -> tuple[DataFrame, tuple[str, ...]]:
        found = files.find(tuple(paths))
        events, lacking = reading.read(self.spark, found)
        # Many small questions follow: reading the files again for each would take longer than answering it.
        return worked_out(events.coalesce(1)) if found.size <= TINY else events, lacking

    def _carried(self, state: State) -> DataFrame:
        if state.batch < 0:
            return reading.empty(self.spark, RECORDING)
        return self._read([f"{self.out}/following/carried/batch={state.batch}"])[0]

    def _arrived(
        self, state: State, carried: DataFrame, new: DataFrame, lacking: Sequence[str] = ()
    ) -> tuple[State, DataFrame]:
        """Add up the numbers of new rows; leave out those that were read before."""
        flaws = (
            [f"some files lack the column(s) {', '.join(lacking)}, so that nothing is certain."]
            if lacking
            else []
        )
        place = F.dense_rank().over(Window.partitionBy("recorder").orderBy("seq"))
        runs = new.select("recorder", "t_wall_us", "seq", (F.col("seq") - place).alias("run"))
        counted = (
            "min(seq)",
            "max(seq)",
            "max(t_wall_us)",
            "count(*)",
            f"count_if(t_wall_us < {state.watermark_us})",
        )
        spans, n, late = dict(state.spans), 0, 0
        for name, _, *span, rows, rows_late in (
            runs.groupBy("recorder", "run").agg(*map(F.expr, counted)).collect()
        ):
            spans[name] = merged([*spans.get(name, ()), span])
            n, late = n + rows, late + rows_late
        after = replace(state, spans=spans, late_rows=state.late_rows + late)
        is_copied = sum(after.rows.values()) < sum(state.rows.values()) + n
        if is_copied:
            flaws += gates.distinct_rows(carried.unionByName(new), sorted(spans))[1]
        flaws = sorted({*state.flaws, *flaws})
        if is_copied:
            known = [
                (F.col("recorder") == name) & F.col("seq").between(first, last)
                for name, of in state.spans.items()
                for first, last, _ in of
            ]
            new = new.where(~reduce(or_, known, F.lit(False))).dropDuplicates(["recorder", "seq"])
            return self._arrived(replace(state, flaws=flaws), carried, new)
        counts = gates.merged_counts([*(Row(**row) for row in state.counts), *gates.counts(new)])
        return replace(after, flaws=flaws, counts=[row.asDict() for row in counts]), new

    def _judged(self, events: DataFrame, state: State, *, at_end: bool) -> tuple[State, DataFrame]:
        """Write the findings that are ready and were not reported before; count them, and return their keys as rows."""
        gate, narrowing, passed_us, mark = gate_of(state), EVERYTHING, None, state.watermark_us
        if not at_end:
            # Recorders that have not ended are at work, and rows that are missing may be in the next file.
            gate = replace(gate, cut_at={}, has_gaps=state.has_gaps, ended_us=mark)
            narrowing, passed_us = Narrowing(to_us=mark), mark - self.limits.horizon_us
            events = events.where(f"kind <> 'drain.ok' or t_wall_us <= {passed_us}")
        recording = replace(recording_of(events, gate, narrowing), passed_us=passed_us)
        found = judge(recording, gate, self.checks, Running(self.spark).stage).findings
        if found is None:
            return state, events.where("false")
        event = F.when(F.col("invariant").isin(*BY_LATER), F.col("second")).otherwise(F.col("first"))
        key = F.xxhash64("check", "invariant", "gid", event["recorder"], event["seq"])
        ready = found.where(self._is_ready(state, at_end=at_end)).withColumn("key", key)
        reported = events.where("kind = 'reported'").select(F.col("offset").alias("key"))
        new = worked_out(ready.join(reported, "key", "left_anti"))
        counts = new.groupBy("check", "invariant", "verdict", "exemption").count().collect()
        standing = Counter({row.check: 0 for row in counts})
        sums = Counter(state.findings)
        for check, invariant, verdict, exemption, n in counts:
            sums["\t".join((check, invariant, verdict, exemption or ""))] += n
            standing[check] += 0 if verdict == EXEMPTED else n
        if +standing:
            named = evidence.with_names(new, recording.events).coalesce(1)
            named.write.parquet(f"file://{self.out}/findings/batch={state.batch}")
        state = replace(state, findings=dict(sums))
        self.report(state, +standing)
        return state, new.select(F.lit("reported").alias("kind"), F.col("key").alias("offset"))

    def _is_ready(self, state: State, *, at_end: bool) -> Column:
        """What a finding rests on was read, with all that may exempt it; and it was not ready long ago already: of what
        is older than all that is carried too little is left to judge it."""
        at, invariant, limits = F.col("second.at"), F.col("invariant"), self.limits
        wait = (
            F.when(invariant == "INV-LATE", F.lit(limits.horizon_us) - F.col("margin_us"))
            .when(invariant.isin(*SLOW), F.lit(max(SLOW_US, limits.settle_us)))
            .otherwise(F.lit(limits.settle_us))
        )
        return (invariant.isin(*MOVING) | (at >= state.kept_us)) & (
            F.lit(at_end) | (at + wait <= state.watermark_us)
        )

    def _carry(self, events: DataFrame, state: State) -> State:
        """Leave to the next batch what it may need, and complete this one."""
        kept_us, oldest = (
            state.watermark_us - self.limits.kept_us,
            min(row["from_us"] for row in state.counts),
        )
        if kept_us > max(state.kept_us, oldest):
            any_us = state.watermark_us - self.limits.longest_us
            events, forgotten = kept(events, settings(events), kept_us, any_us)
            state = replace(state, kept_us=kept_us, forgotten=state.forgotten + forgotten)
        folder = self.out / "following"
        events.write.parquet(f"file://{folder}/carried/batch={state.batch}")
        replace_text(folder / "states" / f"{state.batch}.json", state.to_json())
        # The state before stays, from which this batch can be repeated.
        for old in (folder / "states").glob("*.json"):
            if int(old.stem) < state.batch - 1:
                shutil.rmtree(folder / "carried" / f"batch={old.stem}", ignore_errors=True)
                old.unlink()
        return state


def read_state(out: Path, batch: int | None = None) -> State:
    """Return what `batch` left, or the last one that was completed; raise WrongUse if that is gone."""
    states = out / "following" / "states"
    if batch is None:
        batch = max((int(each.stem) for each in states.glob("*.json")), default=-1)
    try:
        return State() if batch < 0 else State(**json.loads((states / f"{batch}.json").read_text("utf-8")))
    except FileNotFoundError as error:
        raise WrongUse(
            f"{out} has no state of batch {batch}: give --out a new folder, and begin again."
        ) from error


def replace_text(file: Path, text: str) -> None:
    """Write a file in one step, and its folder if need be."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name}")
    beside.write_text(text, "utf-8")
    os.replace(beside, file)


def gate_of(state: State) -> gates.Gates:
    """What is known about the recording itself."""
    return gates.judged([Row(**row) for row in state.counts], state.rows, flaws=state.flaws)
