"""What Spark's checks look at, how their facts are counted, and which of them have anything to look into."""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import reduce

from pyspark.sql import DataFrame, Row

from aiorocketmq_audit import closeup, excuses, figures, findings, gates, loss, ordering, origin, sides
from aiorocketmq_audit.checks import CHECKS, Material
from aiorocketmq_audit.deliveries import deliveries as deliveries_of
from aiorocketmq_audit.recording import reading


def material_of(events: DataFrame, gate: gates.Gates, settings: DataFrame | None = None) -> Material:
    """What the checks look at, of events that occur once each; `settings` as the events say, if they are not given."""
    settings = reading.settings(events) if settings is None else settings
    deliveries = deliveries_of(events, settings, cut_at=gate.cut_at, clocks_agree=not gate.clocks)
    traces, stored = origin.traces(events), loss.expected(events, settings)
    marks, away = excuses.marks(events), excuses.away(events)
    return Material(events, settings, deliveries, marks, away, traces, stored, events)


def screened_material(
    events: DataFrame, gate: gates.Gates, settings: DataFrame, *, is_cut: bool = False
) -> tuple[Material, list[Row]]:
    """What the checks look at where a screen has chosen the deliveries, and the cube of all of them. `settings` are
    persisted.

    `is_cut` tells that calls may have answers which are not among the events."""
    near = closeup.closeup(events, settings, gate, has_open_calls=is_cut or gate.has_open_settling)
    traces, stored = origin.traces(events), loss.expected(events, settings)
    marks, away = excuses.marks(events), excuses.away(events)
    return Material(events, settings, near.deliveries, marks, away, traces, stored, events), near.cells


def numbers_of(
    material: Material, gate: gates.Gates, checks: Sequence[str], cells: list[Row] | None = None
) -> figures.Figures:
    """Count, in Spark, what the checks judge and what they must look into; `cells` are the cube, where it is known."""
    if cells is None:
        cells = figures.cube(material.deliveries, material.settings, ended_us=gate.ended_us or 0).collect()
    counts = counted(material, gate, checks)
    expected = counts.pop(loss.NAME, (0, 0))
    arrived = figures.Arrived(
        *(counts.pop(name, (0, 0)) for name in (origin.CONFIRMED, origin.RECOVERED, origin.NAME))
    )
    return figures.figures(cells, arrived, expected, sides.aside(counts))


def counted(
    material: Material, gate: gates.Gates, checks: Sequence[str], without: Container[str] = ()
) -> dict[str, tuple[int, int]]:
    """Count, in Spark, the facts of checks that are no deliveries; none of those that stand in `without`."""
    tallies = sides.tallies(_sources(material, gate), gate, checks, without=without)
    if origin.NAME in checks and origin.NAME not in without:
        tallies.append(origin.facts(material.traces))
    if loss.NAME in checks and loss.NAME not in without:
        tallies.append(loss.facts(material.stored))
    return findings.counted(tallies)


def with_suspects(checks: Sequence[str], material: Material, numbers: figures.Figures) -> list[str]:
    """The checks that have anything to look into: most recordings are clean, and looking for excuses costs seconds."""
    suspects = dict(numbers.suspects)
    if ordering.NAME in checks:
        suspects[ordering.NAME] = (
            ordering.suspects(material.deliveries).count() if numbers.ordered_first else 0
        )
    return [name for name in checks if suspects.get(name) or name in numbers.found_aside]


def findings_of(
    material: Material,
    gate: gates.Gates,
    checks: Sequence[str],
    *,
    sides_asked: Container[str] | None = None,
) -> DataFrame:
    """What these checks find, excused or not: rows of FINDING. `sides_asked` are the SIDES to ask; by default all of
    theirs."""
    parts = []
    for name in checks:
        check = CHECKS[name]
        if check.find is not None:
            unsure = gate.makes_unsure(depends_on_time=check.depends_on_time)
            parts.append(findings.softened(check.find(material), has_gaps=unsure))
    parts += sides.findings(_sources(material, gate), gate, checks, only=sides_asked)
    return excuses.doubted(reduce(DataFrame.unionByName, parts), material.away)


def _sources(material: Material, gate: gates.Gates) -> sides.Sources:
    return sides.Sources(
        material.events, material.settings, material.deliveries, material.marks, gate.ended_us or 0
    )
