"""One batch of a followed recording: read, number, judge, tell what is new, and carry on what may still matter."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window as SqlWindow, functions as F

from aiorocketmq_audit import by_numbers, findings, gates, judging
from aiorocketmq_audit.checks import Material
from aiorocketmq_audit.recording import reading
from aiorocketmq_audit.recording.narrowing import EVERYTHING, Narrowing
from aiorocketmq_audit.recording.schema import RECORDING
from aiorocketmq_audit.streaming import retention
from aiorocketmq_audit.streaming.here import Here, plain
from aiorocketmq_audit.streaming.listing import listing, series
from aiorocketmq_audit.streaming.progress import (
    SEPARATOR,
    Listing,
    Progress,
    Span,
    covers,
    merged,
    overlaps,
    watermark,
    with_span,
)
from aiorocketmq_audit.streaming.store import Store, keep, uri

if TYPE_CHECKING:
    from aiorocketmq_audit.kernels.tasks import Workers

logger = logging.getLogger(__name__)

WAITING = frozenset({"INV-LOSS-MID"})
"""Rules about what did not happen: told when the horizon has passed, as it may still happen."""

MOVING = WAITING | {"INV-LATE", "INV-LOSS", "INV-DLQ-LIVE"}
"""Rules whose second proof is the latest known one, and may be another in a later batch."""

SLOW = frozenset({"INV-ATTEMPT", "INV-FAIR", "INV-ASSIGN"})
"""Rules with an excuse that is written when a poll is given up, or that look at slices of time."""

SLOW_US = 60_000_000

SCREENED = 130_000
"""Rows from which on they are screened before they are judged, as `run.SCREENED` bytes are in a whole recording."""

COUNTED: Mapping[str, str] = {
    "deliveries": "kind = 'deliver'",
    "ordered deliveries": "kind = 'deliver' and message_group is not null",
    "redeliveries": "kind = 'deliver' and attempt > 1",
    "delayed deliveries": "kind = 'deliver' and due_us is not null",
    "dead letters": "kind = 'dlq.deliver'",
    "sends": "kind = 'send' and phase = 'ok'",
    "settled": "kind in ('ack', 'change', 'forward') and phase = 'ok'",
}
"""Rows that verdicts rest on."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long things are waited for and remembered, in seconds of the recording's own time."""

    horizon: float = 600.0
    """Messages that are done are remembered for so long: what comes back later is not noticed."""
    longest: float = 6 * 3600.0
    """Messages that are not done are remembered for so long."""
    lateness: float = 120.0
    """A recorder with nothing to read holds the others up by so much."""
    settle: float = 10.0
    """What happened is judged so much later, when the answers to its calls are there."""


@dataclass(frozen=True, slots=True)
class Told:
    """What one batch told."""

    batch: int
    watermark_us: int | None
    standing: Mapping[str, int]
    """New findings by check, without the excused ones."""


class Batches:
    """Takes the batches of one query, one after the other."""

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        folders: Sequence[str],
        checks: Sequence[str],
        limits: Limits,
        screen: bool | None = None,
        *,
        workers: Workers | None = None,
        until_complete: bool = False,
    ) -> None:
        """`workers` judge batches as columns of numbers, if they can; `until_complete` tells that `close` follows when
        every recorder has ended."""
        self.told: list[Told] = []
        """What was told and not yet printed."""
        self.busy = threading.Lock()
        """Held while a batch is worked on."""
        self._is_stopping = False
        self._held: list[DataFrame] = []
        self.failure: Exception | None = None
        self.last_data = time.monotonic()
        self.progress = store.latest()
        self._spark = spark
        self._store = store
        self._folders = tuple(folders)
        self._checks = tuple(checks)
        self._limits = limits
        self._screen = screen
        self._workers = workers
        self._until_complete = until_complete

    def take(self, rows: DataFrame, batch: int) -> None:
        """Work on one batch; doing it again after a crash replaces what it had written."""
        with self.busy:
            if self._is_stopping:
                # The query waits for this call before it stops, and whoever stops it waits for no further batch.
                raise RuntimeError("following was stopped")
            try:
                self._take(rows, batch)
            except Exception as error:
                self.failure = error
                raise

    def stop(self) -> None:
        """Wait until the batch at hand is done, and begin no other one."""
        with self.busy:
            self._is_stopping = True

    def close(self) -> Progress:
        """Judge what is left, as of a recording that has ended. Written as the batch to come, which may replace it."""
        last = self.progress
        closed = dataclasses.replace(last, closed=last.is_whole, batch=last.batch + 1)
        ended, _ = self._judge(Here.of(self._store.files(last.batch)), closed, last.batch, at_end=True)
        self._release()
        self._finish(ended, last)
        return ended

    def _release(self) -> None:
        """Forget the findings of this batch, when everything that is made of them has been written."""
        while self._held:
            self._held.pop().unpersist()

    @property
    def is_complete(self) -> bool:
        """Every recorder has ended, and nothing waits to be read."""
        return _is_complete(self.progress, listing(self._folders))

    def gate(self, progress: Progress) -> gates.Gates:
        """What is known about the recording itself."""
        rows = [Row(**values) for values in progress.numbers.values()]
        return gates.from_numbers(rows, progress.rows, versions=("1",))

    def _take(self, rows: DataFrame, batch: int) -> None:
        # Listed first: what lies there now and is not in this batch holds the watermark back.
        now = listing(self._folders)
        before = self._store.progress(batch - 1)
        files = [plain(row.file) for row in rows.select("file").distinct().collect()]
        found = self._numbers(files, before) if files else []
        gates.check_contract(found)
        progress, fresh, is_odd = self._with_files(before, found)
        lateness_us = int(self._limits.lateness * 1e6)
        # A batch that completes the recording is judged when it is closed, which is next: once is enough.
        is_last = self._until_complete and _is_complete(progress, now)
        mark = before.watermark_us if is_last else watermark(progress, now, lateness_us=lateness_us)
        progress = dataclasses.replace(
            progress, folders=self._folders, batch=batch, watermark_us=mark, closed=False
        )
        here = Here.of([*self._store.files(before.batch), *fresh], is_odd=is_odd)
        progress = dataclasses.replace(progress, told_twice=self._told_twice(here, progress))
        told: DataFrame | None = None
        if mark is not None and not is_last:
            progress, told = self._judge(here, progress, batch - 1)
        else:
            self._store.write_findings(None, batch)
        progress = self._write_state(here, batch, progress, told)
        self._release()
        if found:
            self.last_data = time.monotonic()
        self._finish(progress, before)

    def _write_state(self, here: Here, batch: int, progress: Progress, told: DataFrame | None) -> Progress:
        """Leave to the next batch the events that it may need: the very files, as long as it may need all of them."""
        limits, mark = self._limits, progress.watermark_us
        oldest = min(values["from_us"] for values in progress.numbers.values()) if progress.numbers else 0
        forgotten = 0
        write: Callable[[Path], None] = partial(keep, here.paths)
        if not here.is_local or (mark is not None and oldest < mark - int(limits.horizon * 1e6)):
            write, forgotten = self._carried(here, mark)
        progress = dataclasses.replace(progress, forgotten=progress.forgotten + forgotten)
        self._store.write_state(batch, progress, write, told)
        return progress

    def _finish(self, progress: Progress, before: Progress) -> None:
        standing: Counter[str] = Counter()
        for key, n in progress.found.items():
            check, _, verdict, _ = key.split(SEPARATOR)
            if verdict != findings.EXCUSED:
                standing[check] += n - before.found.get(key, 0)
        self.progress = progress
        self.told.append(
            Told(progress.batch, progress.watermark_us, {k: n for k, n in standing.items() if n})
        )

    def _told_twice(self, here: Here, progress: Progress) -> dict[str, int]:
        """Calls that are still out look the same by their numbers, so there is often something to look at."""
        unequal = gates.unpaired([Row(**values) for values in progress.numbers.values()])
        known = Counter(progress.told_twice)
        if not unequal:
            return dict(known)
        if self._workers is not None and here.is_local:
            with by_numbers.failures_told():
                # Not at the top: a driver on a cluster need not have numpy.
                from aiorocketmq_audit.kernels.asking import dealt
                from aiorocketmq_audit.kernels.twice import told_twice

                return dict(known | Counter(told_twice(self._workers, dealt(here.paths), unequal)))
        return dict(known | Counter(gates.told_twice(self._events(here), unequal)))

    def _numbers(self, files: Sequence[str], before: Progress) -> list[Row]:
        here = Here.of(files)
        if self._workers is not None and here.is_local:
            with by_numbers.failures_told():
                # Not at the top: a driver on a cluster need not have numpy.
                from aiorocketmq_audit.streaming import arrived

                return arrived.numbers(self._workers, here.paths, before.watermark_us)
        counts = {name: F.count_if(F.expr(text)) for name, text in COUNTED.items()}
        mark = before.watermark_us
        counts["late_rows"] = (
            F.count_if(F.col("t_wall_us") < F.lit(mark)) if mark else F.count_if(F.lit(False))
        )
        return gates.numbers(self._read(files), F.col("_metadata.file_path").alias("file"), also=counts)

    def _with_files(self, before: Progress, found: Sequence[Row]) -> tuple[Progress, list[str], bool]:
        """Add up the numbers of new files; leave out files that are copies; tell whether single rows may be."""
        by_file: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in found:
            by_file[plain(row.file)].append(row.asDict())
        spans, files = dict(before.spans), Counter(before.files)
        writers = {name: set(writers) for name, writers in before.writers.items()}
        chosen: list[str] = []
        fresh: list[dict[str, Any]] = []
        scattered = self._scattered(found)
        is_odd, late = before.has_copies, 0
        for file, rows in sorted(by_file.items()):
            name = series(Path(file).name)
            files[name] += 1
            writers.setdefault(name, set()).update(row["recorder"] for row in rows)
            runs = [
                (row["recorder"], run)
                for row in rows
                for run in scattered.get(
                    (file, row["recorder"]), ((row["first"], row["last"], row["to_us"]),)
                )
            ]
            known = [covers(spans.get(recorder, ()), run[0], run[1]) for recorder, run in runs]
            if all(known):
                continue
            is_odd |= any(overlaps(spans.get(recorder, ()), run[0], run[1]) for recorder, run in runs)
            chosen.append(file)
            fresh += rows
            late += sum(row["late_rows"] for row in rows)
            for recorder, run_ in runs:
                spans[recorder] = with_span(spans.get(recorder, ()), run_)
        counted = Counter(before.counted)
        for row_ in fresh:
            counted.update({name: row_.pop(name) for name in COUNTED})
            del row_["file"], row_["late_rows"]
        progress = dataclasses.replace(
            before,
            numbers=merged(before.numbers, fresh),
            spans=spans,
            files=dict(files),
            writers={name: tuple(sorted(names)) for name, names in writers.items()},
            counted=dict(counted),
            late_rows=before.late_rows + late,
            has_copies=is_odd,
        )
        return progress, chosen, is_odd

    def _scattered(self, found: Sequence[Row]) -> dict[tuple[str, str], tuple[Span, ...]]:
        """The runs of rows in files whose rows have gaps between them or occur twice."""
        odd = sorted({plain(row.file) for row in found if row.n != row.last - row.first + 1})
        if not odd:
            return {}
        rows = self._read(odd)
        rows = rows.select(F.col("_metadata.file_path").alias("file"), "recorder", "seq", "t_wall_us")
        each = rows.groupBy("file", "recorder", "seq").agg(F.max("t_wall_us").alias("at"))
        by_number = SqlWindow.partitionBy("file", "recorder").orderBy("seq")
        run_ = (F.col("seq") - F.row_number().over(by_number)).alias("run")
        runs = each.select("file", "recorder", "seq", "at", run_).groupBy("file", "recorder", "run")
        spans: dict[tuple[str, str], list[Span]] = defaultdict(list)
        for row in runs.agg(
            F.min("seq").alias("a"), F.max("seq").alias("b"), F.max("at").alias("at")
        ).collect():
            spans[plain(row.file), row.recorder].append((row.a, row.b, row.at))
        return {key: tuple(sorted(value)) for key, value in spans.items()}

    def _read(self, files: Sequence[str]) -> DataFrame:
        return self._spark.read.schema(RECORDING).parquet(*files)

    def _events(self, here: Here) -> DataFrame:
        events = self._read(here.files) if here.files else reading.empty(self._spark, RECORDING)
        return reading.without_duplicates(events) if here.is_odd else events

    def _judge(
        self, here: Here, progress: Progress, last: int, *, at_end: bool = False
    ) -> tuple[Progress, DataFrame | None]:
        """Tell what was not told up to batch `last`; returns the counts, and the keys of all that was told."""
        gate, mark = self.gate(progress), progress.watermark_us or 0
        if not at_end:
            # Recorders that have not ended are still at work, and rows that are missing may be in the next file.
            gate = dataclasses.replace(gate, cut_at={}, has_gaps=bool(progress.lost), ended_us=mark)
        narrowing = EVERYTHING if at_end else Narrowing(to_us=mark)
        if self._workers is not None and self._screen is None and here.is_local:
            with by_numbers.failures_told():
                return self._judge_by_numbers(self._workers, here, gate, progress, last, narrowing)
        events = narrowing.events(self._events(here))
        settings, cells = reading.settings(events), None
        if self._is_screened(events):
            settings = settings.coalesce(1).persist()
            material, cells = judging.screened_material(events, gate, settings, is_cut=narrowing.is_cut)
        else:
            material = judging.material_of(events, gate, settings)
            material.deliveries.persist()
        try:
            numbers = judging.numbers_of(material, gate, self._checks, cells)
            names = judging.with_suspects(self._checks, material, numbers)
            found = judging.findings_of(material, gate, names) if names else None
            return self._told(found, material, progress, last, narrowing.to_us)
        finally:
            material.deliveries.unpersist()
            material.settings.unpersist()

    def _judge_by_numbers(
        self,
        workers: Workers,
        here: Here,
        gate: gates.Gates,
        progress: Progress,
        last: int,
        narrowing: Narrowing,
    ) -> tuple[Progress, DataFrame | None]:
        # Not at the top: a driver on a cluster need not have numpy.
        from aiorocketmq_audit.kernels.asking import surveyed
        from aiorocketmq_audit.near import completed, material, near

        seen = surveyed(workers, here.paths, narrowing)
        known = None if seen is None else by_numbers.answered(workers, seen, gate, self._checks)
        if known is None or known.left.is_nothing:
            return self._told(None, None, progress, last, narrowing.to_us)
        with near(workers, known) as picked:
            of = material(
                self._spark,
                known,
                picked,
                narrowing,
                lambda: narrowing.events(self._events(here)),
                is_tiny=False,
            )
            try:
                _, names, wrong = completed(of, known, self._checks)
                found = judging.findings_of(of, gate, names, sides_asked=wrong) if names else None
                return self._told(found, of, progress, last, narrowing.to_us)
            finally:
                of.deliveries.unpersist()
                of.settings.unpersist()

    def _is_screened(self, events: DataFrame) -> bool:
        return events.count() >= SCREENED if self._screen is None else self._screen

    def _told(
        self,
        found: DataFrame | None,
        material: Material | None,
        progress: Progress,
        last: int,
        until_us: int | None,
    ) -> tuple[Progress, DataFrame | None]:
        """Write what is ready of the findings and was not told before."""
        batch = last + 1
        if found is None or material is None:
            self._store.write_findings(None, batch)
            return progress, None
        keyed = _keyed(found, material.events)
        ready = keyed if until_us is None else keyed.where(self._is_ready(until_us))
        known = self._store.told(self._spark, last)
        new = ready.join(known, "key", "left_anti").dropDuplicates(["key"]).persist()
        self._held.append(new)
        counts = new.groupBy("check", "invariant", "verdict", "excuse").count().collect()
        sums = Counter(progress.found)
        for row in counts:
            sums[SEPARATOR.join((row.check, row.invariant, row.verdict, row.excuse or ""))] += row["count"]
        standing = any(row.verdict != findings.EXCUSED for row in counts)
        named = None
        if standing:
            named = findings.with_evidence(
                new.where(F.col("verdict") != findings.EXCUSED).drop("key"), material.events
            )
        self._store.write_findings(named, batch)
        told = known.unionByName(new.select("key")) if counts else None
        return dataclasses.replace(progress, found=dict(sums)), told

    def _is_ready(self, mark: int) -> Column:
        """What a finding rests on has been read, with everything that could excuse it."""
        horizon, settle = int(self._limits.horizon * 1e6), int(self._limits.settle * 1e6)
        wait = (
            F.when(F.col("invariant").isin(*WAITING), F.lit(horizon))
            .when(F.col("invariant").isin(*SLOW), F.lit(max(SLOW_US, settle)))
            .otherwise(F.lit(settle))
        )
        # Where nothing came, `at` is now; it should have come `margin` ago.
        since = F.when(F.col("second_seq").isNull(), F.col("at_us") - F.coalesce("margin_us", F.lit(0)))
        return F.coalesce(since, "at_us") + wait <= mark

    def _carried(self, here: Here, mark: int | None) -> tuple[Callable[[Path], None], int]:
        """What writes the events that later ones may need, and how many messages are dropped though not done."""
        if mark is None:
            return self._writer(self._events(here)), 0
        limits = self._limits
        window = retention.Window(mark - int(limits.horizon * 1e6), mark - int(limits.longest * 1e6))
        if self._workers is not None and self._screen is None and here.is_local:
            with by_numbers.failures_told():
                # Not at the top: a driver on a cluster need not have numpy.
                from aiorocketmq_audit.kernels.asking import dealt
                from aiorocketmq_audit.streaming.remaining import remaining

                chosen = remaining(self._workers, dealt(here.paths), window)
                return partial(chosen.write, self._workers), chosen.forgotten
        kept = retention.kept(self._events(here), window)
        return self._writer(kept.events), kept.forgotten

    @staticmethod
    def _writer(events: DataFrame) -> Callable[[Path], None]:
        return lambda folder: events.write.option("compression", "snappy").parquet(uri(folder))


def _is_complete(progress: Progress, now: Listing) -> bool:
    return progress.is_whole and not now.open and not now.pending(progress)


def _keyed(found: DataFrame, events: DataFrame) -> DataFrame:
    """Give each finding the key by which it is known again."""
    is_moving = F.col("invariant").isin(*MOVING)
    # The second proof of a loss is the group's latest delivery or drain: what stays is the group.
    readers = events.where("kind in ('deliver', 'drain.ok')").select(
        F.xxhash64("recorder").alias("second_recorder"),
        F.col("seq").alias("second_seq"),
        F.xxhash64("group").alias("reader"),
    )
    moving = found.where(is_moving)
    named = readers.join(F.broadcast(moving), ["second_recorder", "second_seq"])
    alone = moving.where("second_seq is null").withColumn("reader", F.lit(None).cast("bigint"))
    staying = found.where(~is_moving).withColumn("reader", F.lit(None).cast("bigint"))
    every = alone.unionByName(staying).unionByName(named.select(*alone.columns))
    second = F.when(~is_moving, F.struct("second_recorder", "second_seq"))
    subject = F.when(F.col("invariant") != "INV-LATE", F.col("reader"))
    return every.withColumn(
        "key", F.xxhash64("check", "invariant", "first_recorder", "first_seq", second, subject)
    ).drop("reader")
