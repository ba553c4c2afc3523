"""An audit as far as columns of numbers go: gates, counts, and what is left to look into, all without Spark."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from aiorocketmq_audit import dead_letters, figures, gates, loss, ordering, origin, sides
from aiorocketmq_audit.errors import WorkerLost
from aiorocketmq_audit.failures import reason
from aiorocketmq_audit.late import LateSession
from aiorocketmq_audit.recording import reading
from aiorocketmq_audit.recording.files import RecordingFiles
from aiorocketmq_audit.recording.narrowing import Narrowing

if TYPE_CHECKING:
    from aiorocketmq_audit.kernels.asking import Answers, Surveyed
    from aiorocketmq_audit.kernels.tasks import Workers

logger = logging.getLogger(__name__)

ALONE = 12 << 20
"""Bytes (some 400,000 events) up to which this process does it all: to start others would take as long."""

_LOCAL = re.compile(r"local(\[(?P<cores>\d+|\*)(\s*,\s*\d+)?\])?|local-cluster\[.+\]")
"""Masters by which workers are on this machine."""

Counts = Mapping[str, tuple[int, int]]
"""As `findings.counted` tells it."""


@dataclass(frozen=True, slots=True)
class Left:
    """What must be looked into."""

    finds: tuple[str, ...]
    """Checks that must look at deliveries, or at what was stored or sent."""
    sides: frozenset[str]
    """SIDES that have findings, or may have."""
    uncounted: frozenset[str]
    """SIDES that were not counted yet, and loss, if that was not."""

    @property
    def is_nothing(self) -> bool:
        """Everything is known already."""
        return not (self.finds or self.sides or self.uncounted)

    @property
    def needs_all(self) -> bool:
        """Some look at all events, not only at those around a few deliveries."""
        return bool(
            self.uncounted
            or self.sides - {sides.NOT_BURIED}
            or {origin.NAME, loss.NAME}.intersection(self.finds)
        )


@dataclass(frozen=True, slots=True)
class Known:
    """What numbers say of a recording."""

    seen: Surveyed
    gate: gates.Gates
    answers: Answers
    numbers: figures.Figures
    left: Left


def known(
    workers: Workers,
    session: LateSession,
    found: RecordingFiles,
    narrowing: Narrowing,
    checks: Sequence[str],
) -> Known | None:
    """Judge the recording itself, and all of its deliveries. None where rows occur twice, or where this does not work:
    then Spark can say why. Raises NotARecording as `gates.examine` does."""
    from aiorocketmq_audit.kernels.asking import dealt, recorded, surveyed
    from aiorocketmq_audit.kernels.twice import told_twice

    with failures_told():
        seen = surveyed(workers, found.readable, narrowing)
        if seen is None:
            return None
        tasks, numbers = seen.tasks, seen.numbers
        if not narrowing.is_everything:
            # Whether a recording is whole is judged of all of it.
            tasks = dealt(found.readable)
            numbers = recorded(workers, tasks)
        gate = gates.judged(
            numbers,
            lambda: reading.read(session.spark(), found)[0],
            partial(told_twice, workers, tasks),
            unfinished=found.unfinished,
            lacking=found.lacking,
            skew_us=narrowing.skew_us,
        )
        gate = replace(gate, ended_us=narrowing.ended(gate.ended_us))
        return None if gate.duplicated else answered(workers, seen, gate, checks)
    return None


@contextmanager
def failures_told() -> Iterator[None]:
    """Go on where files, workers or odd settings make numbers fail, and say so: then Spark has to do it all."""
    import pyarrow as pa

    try:
        yield
    except (PySparkException, pa.ArrowException, OSError, ValueError, WorkerLost) as error:
        say_why(error)


def say_why(error: Exception) -> None:
    """Why Spark alone goes on."""
    # What is wrong with files Spark will say itself.
    level = logging.WARNING if isinstance(error, (WorkerLost, PySparkException)) else logging.INFO
    logger.log(level, "Spark alone judges the recording, which takes longer: %s", reason(error))


def answered(workers: Workers, seen: Surveyed, gate: gates.Gates, checks: Sequence[str]) -> Known:
    """Judge all deliveries, and count for `checks`. Raises what `failures_told` tells."""
    answers = seen.ask(workers, gate, checks)
    numbers = figured(answers)
    uncounted = frozenset(sides.asked(gate, checks).keys() - answers.counts.keys())
    if loss.NAME in checks and seen.survey.windows is None:
        uncounted |= {loss.NAME}
    finds = tuple(name for name in checks if numbers.suspects.get(name))
    wrong = frozenset(name for name in sides.SIDES if answers.counts.get(name, (0, 0))[1])
    return Known(seen, gate, answers, numbers, Left(finds, wrong, uncounted))


def figured(answers: Answers, more: Counts = MappingProxyType({})) -> figures.Figures:
    """What answers come to, with `more` that was counted elsewhere; only what is suspicious is a suspect."""
    counts = {name: count for name, count in {**answers.counts, **more}.items() if count[0]}
    arrived = figures.Arrived(
        *(counts.get(name, (0, 0)) for name in (origin.CONFIRMED, origin.RECOVERED, origin.NAME))
    )
    aside = sides.aside({name: count for name, count in counts.items() if name in sides.SIDES})
    numbers = figures.figures(answers.cells, arrived, counts.get(loss.NAME, (0, 0)), aside)
    closer = {
        dead_letters.NAME: sum(cell.buried for cell in answers.cells) + answers.odd_letters,
        ordering.NAME: len(answers.lanes),
    }
    return replace(numbers, suspects={**numbers.suspects, **closer})


@contextmanager
def workers_of(session: LateSession, found: RecordingFiles) -> Iterator[Workers | None]:
    """Whoever can look at the recording here: processes of our own, or the workers of a local cluster. None where files
    or workers are elsewhere, or where this Python has no numpy."""
    master = session.master
    # What Spark would not start with shall not pass until Spark is needed.
    if not found.readable or not found.is_local or not _LOCAL.fullmatch(master):
        yield None
        return
    with _workers(master, session.spark, alone=found.size <= ALONE) as here:
        yield here


@contextmanager
def workers_beside(spark: SparkSession) -> Iterator[Workers | None]:
    """The same for a session that goes on: processes, if it works on this machine."""
    master = "" if is_remote() else str(spark.conf.get("spark.master", ""))
    if not master.startswith("local"):
        yield None
        return
    with _workers(master, lambda: spark, alone=_cores(master) == 1) as here:
        yield here


@contextmanager
def _workers(master: str, spark: Callable[[], SparkSession], *, alone: bool) -> Iterator[Workers | None]:
    try:
        from aiorocketmq_audit.kernels.by_spark import SparkWorkers
        from aiorocketmq_audit.kernels.processes import processes
    except ModuleNotFoundError:
        # A driver on a cluster need not have pyarrow and numpy.
        yield None
        return
    if master.startswith("local-cluster"):
        yield SparkWorkers(spark())
        return
    with processes(0 if alone else _cores(master)) as here:
        yield here


def _cores(master: str) -> int:
    told = _LOCAL.fullmatch(master)
    cores = told and told["cores"]
    return (os.cpu_count() or 1) if cores == "*" else int(cores or 1)
