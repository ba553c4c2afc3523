"""One audit, from paths to verdicts: finds, reads, gates, checks, counts, and writes what was found."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession, functions as F

from aiorocketmq_audit import (
    closeup,
    excuses,
    figures,
    files,
    findings,
    gates,
    loss,
    ordering,
    origin,
    reading,
    sides,
)
from aiorocketmq_audit.checks import CHECKS, Material
from aiorocketmq_audit.deliveries import deliveries as deliveries_of
from aiorocketmq_audit.errors import WrongUse
from aiorocketmq_audit.failures import explained
from aiorocketmq_audit.files import RecordingFiles
from aiorocketmq_audit.narrowing import EVERYTHING, Narrowing
from aiorocketmq_audit.overview import NOTHING, Overview, overview
from aiorocketmq_audit.session import TINY, session
from aiorocketmq_audit.verdicts import CheckResult, Tally, Verdict, judge, overall

if TYPE_CHECKING:
    from aiorocketmq_audit.kernels.asking import Surveyed

logger = logging.getLogger(__name__)

SCREENED = 4 << 20
"""Bytes above which a recording is screened before it is judged; below, one exact pass is quicker."""

SAMPLES = 50
"""Findings of each check that the summary shows; all of them are in `violations/`."""

DRAWN_MESSAGES = 40
"""Messages whose events the report tells."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found."""

    recording: tuple[str, ...]
    verdict: Verdict
    gates: gates.Gates
    checks: tuple[CheckResult, ...]
    numbers: figures.Figures
    samples: Mapping[str, tuple[dict[str, Any], ...]]
    """By check: findings with the evidence, worst first."""
    subjects: tuple[figures.Subject, ...]
    events: tuple[dict[str, Any], ...]
    """What happened to the subjects."""
    overview: Overview = NOTHING
    """What a page shows of groups and times; counted when findings are written."""


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

    `master` chooses a cluster, `spark` brings a session; otherwise one is made for the recording's size.
    `screen` has everything screened first and only what is left judged exactly, with the same result; by default
    that is done for recordings above SCREENED, or of unknown size. `narrowing` leaves out events and changes
    tolerances; `memory` is the heap of a local session, such as "4g".
    Raises WrongUse for what does not exist, NotARecording for what is none, NoJava where Spark cannot run,
    CannotWrite where there is no room or no leave for the findings.
    """
    unknown = [name for name in checks if name not in CHECKS]
    if unknown:
        raise WrongUse(f"there is no check {unknown[0]!r}: choose from {', '.join(CHECKS)}.")
    found = files.find(tuple(paths))
    chosen: AbstractContextManager[SparkSession] = (
        nullcontext(spark) if spark is not None else session(master, size=found.size, memory=memory)
    )
    with chosen as running:
        try:
            return _audit(running, found, tuple(paths), checks, violations, screen, narrowing)
        except (PySparkException, Py4JError) as error:
            # Now, as Java is asked for the text of its errors, and it ends with the session.
            known = explained(error, None if violations is None else str(violations))
            if known is None:
                error.add_note(str(error))
                raise
            raise known from error


def _audit(
    spark: SparkSession,
    found: RecordingFiles,
    paths: tuple[str, ...],
    checks: Sequence[str],
    violations: Path | str | None,
    screen: bool | None,
    narrowing: Narrowing,
) -> Audit:
    events = reading.read(spark, found)
    is_large = found.size > SCREENED or not found.size
    screened = is_large if screen is None else screen
    said, looked = None, None
    if screened and narrowing.is_everything:
        said = _kept(reading.settings(events))
        looked = _surveyed(spark, found, said)
    gate = gates.examine(
        events,
        unfinished=found.unfinished,
        lacking=found.lacking,
        skew_us=narrowing.skew_us,
        rows=None if looked is None else looked.numbers,
    )
    if gate.duplicated:
        looked = None
        events = reading.without_duplicates(events)
        # What was counted is counted again, once; what the copies gave away stays known.
        gate = replace(
            gates.examine(events, skew_us=narrowing.skew_us), duplicated=True, missing=gate.missing
        )
    gate = replace(gate, ended_us=narrowing.ended(gate.ended_us))
    is_tiny = 0 < found.size <= TINY
    events = narrowing.events(events)
    if is_tiny:
        events = _worked_out(events)
    settings = narrowing.settings(reading.settings(events) if looked is None or said is None else said)
    if is_tiny:
        settings = _worked_out(settings)
    cells, told = None, dict[str, tuple[int, int]]()
    if not screened:
        material = material_of(events, gate, settings)
        deliveries = _worked_out(material.deliveries) if is_tiny else material.deliveries.persist()
        material = replace(material, deliveries=deliveries)
    else:
        settings = _kept(settings)
        answers = None if looked is None else looked.ask(spark, settings, gate, checks)
        if answers is None:
            material, cells = screened_material(events, gate, settings)
        else:
            told = answers.counts
            try:
                material, cells = screened_material(events, gate, settings, summary=answers.summary)
            finally:
                answers.release()
    try:
        numbers = numbers_of(material, gate, checks, cells, told)
        counts, samples = _find(material, gate, with_suspects(checks, material, numbers), violations)
        subjects = _subjects(events, samples, numbers)
        drawn = figures.events_of(events, subjects) if subjects else []
        seen = overview(events, gate, str(violations)) if violations is not None else NOTHING
    finally:
        material.deliveries.unpersist()
        material.settings.unpersist()
        if said is not None:
            said.unpersist()
    results = tuple(_judge(name, counts, numbers, gate) for name in checks)
    return Audit(paths, overall(results, gate), gate, results, numbers, samples, subjects, tuple(drawn), seen)


def _surveyed(spark: SparkSession, found: RecordingFiles, settings: DataFrame) -> Surveyed | None:
    try:
        from aiorocketmq_audit.kernels.asking import surveyed
    except ModuleNotFoundError:
        # A driver on a cluster need not have pyarrow and numpy.
        return None
    return surveyed(spark, found, settings)


def _kept(settings: DataFrame) -> DataFrame:
    """Settings that are read once, as they are asked for often."""
    return settings.coalesce(1).persist()


def _worked_out(frame: DataFrame) -> DataFrame:
    """The rows, worked out once in one part. Small recordings are asked dozens of small questions: planning each from
    the files on takes far longer than answering it."""
    return frame.coalesce(1).localCheckpoint()


def material_of(events: DataFrame, gate: gates.Gates, settings: DataFrame | None = None) -> Material:
    """What the checks look at, of events that occur once each; `settings` as the events say, if they are not given."""
    settings = reading.settings(events) if settings is None else settings
    deliveries = deliveries_of(events, settings, cut_at=gate.cut_at, clocks_agree=not gate.clocks)
    traces, stored = origin.traces(events), loss.expected(events, settings)
    return Material(events, settings, deliveries, excuses.marks(events), traces, stored)


def screened_material(
    events: DataFrame,
    gate: gates.Gates,
    settings: DataFrame,
    *,
    is_cut: bool = False,
    summary: DataFrame | None = None,
) -> tuple[Material, list[Row]]:
    """What the checks look at where a screen has chosen the deliveries, and the cube of all of them. `settings` are
    persisted.

    `is_cut` tells that calls may have answers which are not among the events; `summary` is what the screen saw,
    if it is known."""
    seen = summary
    if seen is None:
        has_open_calls = is_cut or gate.has_open_settling
        seen = closeup.summary(events, settings, gate, has_open_calls=has_open_calls)
    try:
        near = closeup.closeup(events, settings, gate, seen)
    finally:
        if summary is None:
            seen.unpersist()
    traces, stored = origin.traces(events), loss.expected(events, settings)
    return Material(events, settings, near.deliveries, excuses.marks(events), traces, stored), near.cells


def numbers_of(
    material: Material,
    gate: gates.Gates,
    checks: Sequence[str],
    cells: list[Row] | None = None,
    told: Mapping[str, tuple[int, int]] = MappingProxyType({}),
) -> figures.Figures:
    """Count, in Spark, what the checks judge and what they must look into; `cells` are the cube, where it is known,
    and `told` what has been counted already."""
    if cells is None:
        cells = figures.cube(material.deliveries, material.settings, ended_us=gate.ended_us or 0).collect()
    tallies = sides.tallies(_sources(material, gate), gate, checks, without=told)
    if origin.NAME in checks and origin.NAME not in told:
        tallies.append(origin.facts(material.traces))
    if loss.NAME in checks and loss.NAME not in told:
        tallies.append(loss.facts(material.stored))
    counts = findings.counted(tallies) | dict(told)
    expected = counts.pop(loss.NAME, (0, 0))
    arrived = figures.Arrived(
        *(counts.pop(name, (0, 0)) for name in (origin.CONFIRMED, origin.RECOVERED, origin.NAME))
    )
    return figures.figures(cells, arrived, expected, sides.aside(counts))


def with_suspects(checks: Sequence[str], material: Material, numbers: figures.Figures) -> list[str]:
    """The checks that have anything to look into: most recordings are clean, and looking for excuses costs seconds."""
    suspects = dict(numbers.suspects)
    if ordering.NAME in checks:
        suspects[ordering.NAME] = (
            ordering.suspects(material.deliveries).count() if numbers.ordered_first else 0
        )
    return [name for name in checks if suspects.get(name) or name in numbers.found_aside]


def _find(
    material: Material,
    gate: gates.Gates,
    checks: Sequence[str],
    violations: Path | str | None,
) -> tuple[list[Row], dict[str, tuple[dict[str, Any], ...]]]:
    """Run `checks`: counts of all findings, and samples of those that stand."""
    if not checks:
        if violations is not None:
            findings.write_none(material.events.sparkSession, str(violations))
        return [], {}
    found = findings_of(material, gate, checks)
    found.persist()
    try:
        counts = found.groupBy("check", "invariant", "verdict", "excuse").count().collect()
        standing = found.where(F.col("verdict") != findings.EXCUSED)
        if all(row.verdict == findings.EXCUSED for row in counts):
            if violations is not None:
                findings.write_none(material.events.sparkSession, str(violations))
            return counts, {}
        return counts, _evidence(standing, material.events, violations)
    finally:
        found.unpersist()


def findings_of(material: Material, gate: gates.Gates, checks: Sequence[str]) -> DataFrame:
    """What these checks find, excused or not: rows of FINDING."""
    parts = []
    for name in checks:
        check = CHECKS[name]
        if check.find is not None:
            unsure = gate.makes_unsure(depends_on_time=check.depends_on_time)
            parts.append(findings.softened(check.find(material), has_gaps=unsure))
    parts += sides.findings(_sources(material, gate), gate, checks)
    return reduce(DataFrame.unionByName, parts)


def _sources(material: Material, gate: gates.Gates) -> sides.Sources:
    return sides.Sources(
        material.events, material.settings, material.deliveries, material.marks, gate.ended_us or 0
    )


def _evidence(
    standing: DataFrame, events: DataFrame, violations: Path | str | None
) -> dict[str, tuple[dict[str, Any], ...]]:
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
        named.coalesce(1).write.mode("overwrite").parquet(str(violations))
    named.unpersist()
    return {name: tuple(rows) for name, rows in samples.items()}


def _subjects(
    events: DataFrame, samples: Mapping[str, tuple[dict[str, Any], ...]], numbers: figures.Figures
) -> tuple[figures.Subject, ...]:
    """Messages to draw: those of the first findings of each check, or the one with the longest way."""
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
    if not wanted and numbers.farthest is not None:
        farthest = figures.subject_of(events, numbers.farthest)
        if farthest is not None:
            wanted[farthest] = None
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
    broken = sum(each[findings.BROKEN] for each in by_invariant.values())
    doubts = []
    if name == ordering.NAME and numbers.unknown_order:
        doubts.append(
            f"nobody recorded whether the groups of {numbers.unknown_order} deliveries are ordered."
        )
    return judge(
        name,
        # A late message that never came is no redelivery, yet it was judged.
        Tally(
            max(check.judged(numbers) + numbers.judged_aside.get(name, 0), broken),
            broken,
            sum(e[findings.POSSIBLE] for e in by_invariant.values()),
            dict(excused),
        ),
        by_invariant,
        gate,
        subject=check.subject,
        depends_on_time=check.depends_on_time,
        redeliveries=numbers.redeliveries,
        doubts=doubts,
    )
