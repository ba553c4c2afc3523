"""One audit, from paths to verdicts: finds, reads, gates, checks, counts, and writes what was found."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession, functions as F

from aiorocketmq_audit import (
    figures,
    files,
    findings,
    gates,
    ordering,
    reading,
)
from aiorocketmq_audit.by_numbers import Known, known, say_why, workers_of
from aiorocketmq_audit.checks import CHECKS, Material
from aiorocketmq_audit.errors import WorkerLost, WrongUse
from aiorocketmq_audit.failures import explained
from aiorocketmq_audit.files import RecordingFiles
from aiorocketmq_audit.frames.overview import Overview, Slices, cells as overview_cells, overview, slices
from aiorocketmq_audit.judging import (
    findings_of,
    material_of,
    numbers_of,
    screened_material,
    with_suspects,
)
from aiorocketmq_audit.late import LateSession
from aiorocketmq_audit.narrowing import EVERYTHING, Narrowing
from aiorocketmq_audit.session import TINY
from aiorocketmq_audit.verdicts import CheckResult, Tally, Verdict, judge, overall

if TYPE_CHECKING:
    from aiorocketmq_audit.kernels.tasks import Workers

SCREENED = 4 << 20
"""Bytes above which Spark screens a recording before it judges it; below, one exact pass is quicker."""

SAMPLES = 50
"""Findings of each check that the summary shows; all of them are in `violations/`."""

DRAWN_MESSAGES = 40
"""Messages whose events the report tells."""


Samples = dict[str, tuple[dict[str, Any], ...]]
"""By check: findings with the evidence, worst first."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found."""

    recording: tuple[str, ...]
    verdict: Verdict
    gates: gates.Gates
    checks: tuple[CheckResult, ...]
    numbers: figures.Figures
    samples: Samples
    subjects: tuple[figures.Subject, ...]
    """Messages to draw: like the two that follow, looked for when findings are written."""
    events: tuple[dict[str, Any], ...]
    """What happened to the subjects."""
    overview: Overview = field(default_factory=Overview)
    """What a page shows of groups and times."""
    silent: tuple[str, ...] = ()
    """Checks that judged nothing."""
    spark: Any = None
    """What ran in Spark."""


def audit(
    paths: Sequence[str],
    *,
    checks: Sequence[str] = tuple(CHECKS),
    master: str | None = None,
    violations: Path | str | None = None,
    spark: SparkSession | None = None,
    screen: bool | None = None,
    narrowing: Narrowing = EVERYTHING,
    memory: str | None = None,
) -> Audit:
    """Judge the recording below `paths` and write the findings as Parquet to `violations`, if given.

    `master` chooses a cluster, `spark` brings a session; otherwise one is made for the recording's size, if it is
    needed: where files and workers are on this machine, everything is judged as columns of numbers, and Spark looks
    at what looks wrong. Elsewhere Spark judges everything exactly or, of recordings above SCREENED or of unknown size,
    what a screen has left. `screen` has Spark do it all, with that screen (True) or without, and with the same
    result. `narrowing` leaves out events and changes tolerances; `memory` is the heap of a local session,
    such as "4g".
    Raises WrongUse for what does not exist, NotARecording for what is none, NoJava where Spark cannot run,
    CannotWrite where there is no room or no leave for the findings.
    """
    unknown = [name for name in checks if name not in CHECKS]
    if unknown:
        raise WrongUse(f"there is no check {unknown[0]!r}: choose from {', '.join(CHECKS)}.")
    found = files.find(tuple(paths))
    out = None if violations is None else str(violations)
    with LateSession(found.size, master=master, memory=memory, given=spark) as session:
        asked = _Asked(session, found, tuple(paths), checks, out, narrowing)
        try:
            if screen is None:
                with workers_of(session, found) as workers:
                    told = _by_numbers(asked, workers) if workers is not None else None
                if told is not None:
                    return told
            is_large = found.size > SCREENED or not found.size
            return _by_expressions(asked, screened=is_large if screen is None else screen)
        except (PySparkException, Py4JError, OSError) as error:
            # Now, as Java is asked for the text of its errors, and it ends with the session.
            why = explained(error, out)
            if why is None:
                error.add_note(str(error))
                raise
            raise why from error


@dataclass(frozen=True, slots=True)
class _Asked:
    """What an audit was asked for."""

    session: LateSession
    found: RecordingFiles
    paths: tuple[str, ...]
    checks: Sequence[str]
    violations: str | None
    narrowing: Narrowing

    def audit(
        self,
        gate: gates.Gates,
        numbers: figures.Figures,
        counts: Sequence[Row],
        samples: Samples,
        page: _Page,
    ) -> Audit:
        """Verdicts, and all that they rest on."""
        results = tuple(_judge(name, counts, numbers, gate) for name in self.checks)
        verdict = overall(results, gate)
        return Audit(
            self.paths,
            verdict,
            gate,
            results,
            numbers,
            samples,
            page.subjects,
            page.events,
            page.overview,
            tuple(result.name for result in results if not result.tally.judged),
        )


@dataclass(frozen=True, slots=True)
class _Page:
    """What only a page shows."""

    subjects: tuple[figures.Subject, ...] = ()
    events: tuple[dict[str, Any], ...] = ()
    overview: Overview = field(default_factory=Overview)


def _by_numbers(asked: _Asked, workers: Workers) -> Audit | None:
    """Have everything judged as columns of numbers, and by Spark only what looks wrong. None where that does not
    work."""
    told = known(workers, asked.session, asked.found, asked.narrowing, asked.checks)
    if told is None:
        return None
    # Not at the top: a driver on a cluster need not have numpy.
    from aiorocketmq_audit.kernels import drawing, times

    tasks = told.seen.tasks
    numbers, counts, samples = told.numbers, list[Row](), Samples()
    try:
        if told.left.is_nothing:
            _write_none(asked)
        else:
            numbers, counts, samples = _looked_into(asked, workers, told)
        page = _page(
            asked,
            told.gate,
            numbers,
            samples,
            subject_of=partial(drawing.subject_of, workers, tasks),
            events_of=partial(drawing.events_of, workers, tasks),
            cells_of=partial(times.cells, workers, tasks),
        )
    except WorkerLost as error:
        say_why(error)
        return None
    return asked.audit(told.gate, numbers, counts, samples, page)


def _looked_into(asked: _Asked, workers: Workers, told: Known) -> tuple[figures.Figures, list[Row], Samples]:
    """What numbers left open: all figures, counts of findings, and samples of those that stand."""
    # Not at the top: a driver on a cluster need not have numpy.
    from aiorocketmq_audit.near import completed, material, near

    session, found = asked.session, asked.found
    with near(workers, told) as picked:
        if (excused := picked.excused(told)) is not None:
            _write_none(asked)
            return told.numbers, excused, {}
        size = found.size if told.left.needs_all else picked.size
        spark = session.spark(size)
        of = material(
            spark,
            told,
            picked,
            asked.narrowing,
            lambda: asked.narrowing.events(reading.read(spark, found)),
            is_tiny=0 < size <= TINY,
        )
        try:
            numbers, names, wrong = completed(of, told, asked.checks)
            return numbers, *_find(asked, of, told.gate, names, sides_asked=wrong)
        finally:
            of.deliveries.unpersist()
            of.settings.unpersist()


def _by_expressions(asked: _Asked, *, screened: bool) -> Audit:
    """Have everything judged by Spark."""
    spark, found, narrowing, checks = asked.session.spark(), asked.found, asked.narrowing, asked.checks
    events = reading.read(spark, found)
    gate = gates.examine(
        events, unfinished=found.unfinished, lacking=found.lacking, skew_us=narrowing.skew_us
    )
    if gate.duplicated:
        events = reading.without_duplicates(events)
        # What was counted is counted again, once; what the copies gave away stays known.
        gate = replace(
            gates.examine(events, skew_us=narrowing.skew_us), duplicated=True, missing=gate.missing
        )
    gate = replace(gate, ended_us=narrowing.ended(gate.ended_us))
    is_tiny = 0 < found.size <= TINY
    events = narrowing.events(events)
    if is_tiny:
        events = reading.worked_out(events)
    settings = narrowing.settings(reading.settings(events))
    if is_tiny:
        settings = reading.worked_out(settings)
    cells = None
    if screened:
        settings = settings.coalesce(1).persist()
        material, cells = screened_material(events, gate, settings, is_cut=narrowing.is_cut)
    else:
        material = material_of(events, gate, settings)
        given = reading.worked_out(material.deliveries) if is_tiny else material.deliveries.persist()
        material = replace(material, deliveries=given)
    try:
        numbers = numbers_of(material, gate, checks, cells)
        counts, samples = _find(asked, material, gate, with_suspects(checks, material, numbers))
        page = _page(
            asked,
            gate,
            numbers,
            samples,
            subject_of=partial(figures.subject_of, events),
            events_of=partial(figures.events_of, events),
            cells_of=lambda cut: overview_cells(events, cut).collect(),
        )
    finally:
        material.deliveries.unpersist()
        material.settings.unpersist()
    return asked.audit(gate, numbers, counts, samples, page)


def _page(
    asked: _Asked,
    gate: gates.Gates,
    numbers: figures.Figures,
    samples: Samples,
    *,
    subject_of: Callable[[tuple[int, int]], figures.Subject | None],
    events_of: Callable[[tuple[figures.Subject, ...]], list[dict[str, Any]]],
    cells_of: Callable[[Slices], Iterable[Row]],
) -> _Page:
    """What a page shows, if there will be one: messages of findings, or the one with the longest way."""
    if asked.violations is None:
        return _Page()
    subjects, cut = _subjects(samples), slices(gate.started_us, gate.ended_us)
    if not subjects and numbers.farthest is not None:
        one = subject_of(numbers.farthest)
        subjects = () if one is None else (one,)
    drawn = events_of(subjects) if subjects else []
    written = asked.session.spark().read.parquet(asked.violations) if samples else None
    return _Page(subjects, tuple(drawn), overview(cells_of(cut), written, cut))


def _find(
    asked: _Asked,
    material: Material,
    gate: gates.Gates,
    checks: Sequence[str],
    *,
    sides_asked: Container[str] | None = None,
) -> tuple[list[Row], Samples]:
    """Run `checks`, with `sides_asked` as for `findings_of`: counts of all findings, samples of those that stand."""
    if not checks:
        _write_none(asked)
        return [], {}
    found = findings_of(material, gate, checks, sides_asked=sides_asked)
    found.persist()
    try:
        counts = found.groupBy("check", "invariant", "verdict", "excuse").count().collect()
        standing = found.where(F.col("verdict") != findings.EXCUSED)
        if all(row.verdict == findings.EXCUSED for row in counts):
            _write_none(asked)
            return counts, {}
        return counts, _evidence(standing, material.events, asked.violations)
    finally:
        found.unpersist()


def _write_none(asked: _Asked) -> None:
    """Write that nothing was found, if anybody asked for it."""
    if asked.violations is None:
        return
    if "://" in asked.violations and not asked.violations.startswith("file://"):
        findings.write_none_by(asked.session.spark(), asked.violations)
    else:
        findings.write_none(asked.violations)


def _evidence(standing: DataFrame, events: DataFrame, violations: str | None) -> Samples:
    """Write all findings with their evidence, and bring some of each check here."""
    named = findings.with_evidence(standing, events).persist()
    ranked = F.row_number().over(findings.worst_first())
    shown = (
        named.withColumn("rank", ranked).where(F.col("rank") <= SAMPLES).orderBy("check", "rank").drop("rank")
    )
    samples: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in shown.collect():
        samples[row.check].append(row.asDict())
    if violations is not None:
        named.coalesce(1).write.mode("overwrite").parquet(violations)
    named.unpersist()
    return {name: tuple(rows) for name, rows in samples.items()}


def _subjects(samples: Samples) -> tuple[figures.Subject, ...]:
    """Messages to draw: those of the first findings of each check."""
    wanted: dict[figures.Subject, None] = {}
    names = figures.Subject.__slots__
    for place in range(DRAWN_MESSAGES):
        for rows in samples.values():
            if place < len(rows):
                row = rows[place]
                wanted.setdefault(figures.Subject(**{name: row[name] for name in names}))
                if row["other_message_id"] not in (None, row["message_id"]):
                    other = {name: row[name] for name in names} | {"message_id": row["other_message_id"]}
                    wanted.setdefault(figures.Subject(**other))
    return tuple(wanted)[:DRAWN_MESSAGES]


def _judge(name: str, counts: Sequence[Row], numbers: figures.Figures, gate: gates.Gates) -> CheckResult:
    mine = [row for row in counts if row.check == name]
    by_invariant: dict[str, Counter[str]] = defaultdict(Counter)
    excused: Counter[str] = Counter()
    for row in mine:
        if row.verdict == findings.EXCUSED:
            excused[row.excuse] += row["count"]
        else:
            by_invariant[row.invariant][row.verdict] += row["count"]
    check = CHECKS[name]
    broken, possible = (
        sum(each[verdict] for each in by_invariant.values())
        for verdict in (findings.BROKEN, findings.POSSIBLE)
    )
    doubts = []
    if name == ordering.NAME and numbers.unknown_order:
        doubts.append(
            f"nobody recorded whether the groups of {numbers.unknown_order} deliveries are ordered."
        )
    return judge(
        name,
        # A late message that never came is no redelivery, yet it was judged.
        Tally(
            max(
                check.judged(numbers) + numbers.judged_aside.get(name, 0),
                broken + possible + sum(excused.values()),
            ),
            broken,
            possible,
            dict(excused),
        ),
        by_invariant,
        gate,
        subject=check.subject,
        depends_on_time=check.depends_on_time,
        redeliveries=numbers.redeliveries,
        doubts=doubts,
    )
