"""One audit, from paths to verdicts: finds, reads, gates, checks, counts, and writes what was found."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession, functions as F

from aiorocketmq_audit import excuses, figures, files, findings, gates, loss, ordering, origin, reading
from aiorocketmq_audit.checks import CHECKS, Material
from aiorocketmq_audit.deliveries import deliveries as deliveries_of
from aiorocketmq_audit.errors import WrongUse
from aiorocketmq_audit.files import RecordingFiles
from aiorocketmq_audit.session import session
from aiorocketmq_audit.verdicts import CheckResult, Tally, Verdict, judge, overall

logger = logging.getLogger(__name__)

SAMPLES = 50
"""Findings of each check that the summary shows; all of them are in `violations/`."""

DRAWN_MESSAGES = 6
"""Messages that the report draws."""


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


def audit(
    paths: Sequence[str],
    *,
    checks: Sequence[str] = tuple(CHECKS),
    master: str | None = None,
    violations: Path | str | None = None,
    spark: SparkSession | None = None,
) -> Audit:
    """Judge the recording below `paths` and write the findings as Parquet to `violations`, if given.

    `master` chooses a cluster, `spark` brings a session; otherwise one is made for the recording's size.
    Raises WrongUse for what does not exist, NotARecording for what is none, NoJava where Spark cannot run.
    """
    unknown = [name for name in checks if name not in CHECKS]
    if unknown:
        raise WrongUse(f"there is no check {unknown[0]!r}: choose from {', '.join(CHECKS)}.")
    found = files.find(tuple(paths))
    chosen: AbstractContextManager[SparkSession] = (
        nullcontext(spark) if spark is not None else session(master, size=found.size)
    )
    with chosen as running:
        return _audit(running, found, tuple(paths), checks, violations)


def _audit(
    spark: SparkSession,
    found: RecordingFiles,
    paths: tuple[str, ...],
    checks: Sequence[str],
    violations: Path | str | None,
) -> Audit:
    events = reading.read(spark, found)
    gate = gates.examine(events, unfinished=found.unfinished)
    if gate.duplicated:
        events = reading.without_duplicates(events)
    settings = reading.settings(events)
    deliveries = deliveries_of(events, settings, cut_at=gate.cut_at, clocks_agree=not gate.clocks)
    deliveries.persist()
    traces = origin.traces(events)
    stored = loss.expected(events, settings)
    material = Material(events, settings, deliveries, excuses.marks(events), traces, stored)
    try:
        cells = figures.cube(deliveries, settings, ended_us=gate.ended_us or 0).collect()
        traced = origin.count(traces) if origin.NAME in checks else (0, 0)
        expected = loss.count(stored) if loss.NAME in checks else (0, 0)
        numbers = figures.figures(cells, traced, expected)
        counts, samples = _find(material, gate, _with_suspects(checks, deliveries, numbers), violations)
        subjects = _subjects(events, samples, numbers)
        drawn = figures.events_of(events, subjects) if subjects else []
    finally:
        deliveries.unpersist()
    results = tuple(_judge(name, counts, numbers, gate) for name in checks)
    return Audit(paths, overall(results, gate), gate, results, numbers, samples, subjects, tuple(drawn))


def _with_suspects(checks: Sequence[str], deliveries: DataFrame, numbers: figures.Figures) -> list[str]:
    """The checks that have anything to look into: most recordings are clean, and looking for excuses costs seconds."""
    suspects = dict(numbers.suspects)
    if ordering.NAME in checks:
        suspects[ordering.NAME] = ordering.suspects(deliveries).count() if numbers.ordered_first else 0
    return [name for name in checks if suspects[name]]


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
    found = _findings(material, gate, checks)
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


def _findings(material: Material, gate: gates.Gates, checks: Sequence[str]) -> DataFrame:
    parts = []
    for name in checks:
        check = CHECKS[name]
        # Without clocks that agree, nothing about time is certain.
        unsure = gate.has_gaps or (bool(gate.clocks) and check.depends_on_time)
        parts.append(findings.softened(check.find(material), has_gaps=unsure))
    return reduce(DataFrame.unionByName, parts)


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
            max(check.judged(numbers), broken),
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
