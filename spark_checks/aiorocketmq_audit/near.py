"""From what numbers left open to findings: the few events that matter are put aside, and Spark looks at those alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import BooleanType, StructField, StructType

from aiorocketmq_audit import attempts, excuses, figures, loss, origin, reading, retry_timing
from aiorocketmq_audit.by_numbers import Known, figured
from aiorocketmq_audit.checks import Material
from aiorocketmq_audit.deliveries import deliveries
from aiorocketmq_audit.judging import counted
from aiorocketmq_audit.kernels import picking
from aiorocketmq_audit.kernels.events import Events
from aiorocketmq_audit.kernels.excusing import excused
from aiorocketmq_audit.kernels.leases import answers_of
from aiorocketmq_audit.kernels.tasks import Workers
from aiorocketmq_audit.narrowing import Narrowing
from aiorocketmq_audit.reading import LATE_MS
from aiorocketmq_audit.schema import RECORDING
from aiorocketmq_audit.spark.session import TINY

_MOST_EXCUSED = 300_000
"""Rows that this process looks at by itself."""

_PICKED = StructType(
    [*RECORDING, *(StructField(name, BooleanType()) for name in (picking.CHOSEN, picking.WHOLE))]
)


@dataclass(frozen=True, slots=True)
class Near:
    """Events that were put aside in a folder."""

    folder: str
    rows: int

    @property
    def size(self) -> int:
        """Bytes of their files."""
        return sum(path.stat().st_size for path in Path(self.folder).iterdir())

    def excused(self, known: Known) -> list[Row] | None:
        """Counts of findings, where all of them are excused; None where Spark has to look."""
        left = known.left
        is_more = left.needs_all or left.sides or known.answers.odd_letters
        if is_more or self.rows > _MOST_EXCUSED or any(row["locks_queue"] for row in known.seen.settings):
            return None
        return excused(picking.read(self.folder), known.seen.frame(known.gate), known.seen.survey)

    def read(self, spark: SparkSession) -> DataFrame:
        """Rows of a recording with `chosen` and `whole`, as `picking` has them."""
        if not self.rows:
            return reading.empty(spark, _PICKED)
        events = spark.read.schema(_PICKED).parquet(self.folder)
        return reading.worked_out(events) if self.size <= TINY else events


@contextmanager
def near(workers: Workers, known: Known) -> Iterator[Near]:
    """Put aside the events of all messages and message groups that a check must look into, and what may excuse them."""
    sought, seen = known.answers, known.seen
    polls_us = None
    if retry_timing.NAME in known.left.finds:
        # A late message is proven by a poll that was open for as long as the group's messages may be late.
        polls_us = min([row["late_us"] for row in seen.settings] + [LATE_MS * 1000])
    with TemporaryDirectory(prefix="aiorocketmq-audit-") as folder:
        lost = attempts.NAME in known.left.finds
        wanted = picking.Wanted(sought.sought, sought.lanes, polls_us=polls_us, lost_answers=lost)
        if any(row["locks_queue"] for row in seen.settings) and len(sought.sought):
            wanted = _with_companions(workers, known, wanted)
        yield Near(folder, picking.picked(workers, seen.tasks, wanted, folder))


def _with_companions(workers: Workers, known: Known, wanted: picking.Wanted) -> picking.Wanted:
    """Add what came in one answer with a chosen message: where queues are locked, it may be its excuse (E5)."""
    tasks = known.seen.tasks
    answers, messages = np.empty(0, np.uint64), wanted.messages
    for _ in range(2):
        # First the answers of the messages, then the messages of these answers.
        with TemporaryDirectory(prefix="aiorocketmq-audit-") as folder:
            picking.picked(workers, tasks, picking.Wanted(messages, answers=answers), folder)
            events = Events.of(picking.read(folder))
        given = events.some(events.one_of("kind", "deliver") & events.known("batch"))
        answers, messages = np.unique(answers_of(given)), np.unique(given.text("message_id"))
    return replace(wanted, messages=np.union1d(wanted.messages, messages))


def material(
    spark: SparkSession,
    known: Known,
    picked: Near,
    narrowing: Narrowing,
    everything: Callable[[], DataFrame],
    *,
    is_tiny: bool,
) -> Material:
    """What the checks look at; `everything` makes all events, for those that need them. Its deliveries and settings are
    persisted, for the caller to release, or worked out where all is tiny."""
    around = picked.read(spark)
    events = everything() if known.left.needs_all else around.select(*RECORDING.names)
    if is_tiny and known.left.needs_all:
        events = reading.worked_out(events)
    settings = narrowing.settings(reading.settings(around))
    settings = reading.worked_out(settings) if is_tiny else settings.coalesce(1).persist()
    gate = known.gate
    given = deliveries(
        around.where(picking.CHOSEN), settings, cut_at=gate.cut_at, clocks_agree=not gate.clocks
    )
    return Material(
        events,
        settings,
        reading.worked_out(given) if is_tiny else given.persist(),
        excuses.marks(around),
        excuses.away(around),
        origin.traces(events),
        loss.expected(events, settings),
        around,
    )


def completed(
    of: Material, known: Known, checks: Sequence[str]
) -> tuple[figures.Figures, list[str], frozenset[str]]:
    """Count what numbers have not counted: all figures, the checks that have anything to look into, and their SIDES."""
    wrong, numbers = known.left.sides, known.numbers
    if known.left.uncounted:
        more = counted(of, known.gate, checks, known.answers.counts)
        wrong |= {name for name, (_, odd) in more.items() if odd}
        numbers = figured(known.answers, more)
    names = [name for name in checks if numbers.suspects.get(name) or name in numbers.found_aside]
    return numbers, names, wrong
