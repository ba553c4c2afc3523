"""What the page shows of each group, and of the time it covers: one aggregation, some hundred rows a group at most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Row, functions as F

from aiorocketmq_audit.recording.gates import Gates

LATENCY_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Borders of the latency histogram, in seconds from the moment a message could be had to its first delivery."""

BINS = 60
"""Slices of time in which dead letters are counted."""

MOST_ROWS = 20_000

Account = tuple[str, str]
"""Observer and group."""


@dataclass(frozen=True, slots=True)
class Group:
    """What one observer saw of one group."""

    observer: str
    group: str
    deliveries: int
    again: int
    dead_letters: int
    found: Mapping[str, Mapping[str, int]]
    """By rule: findings that are `broken` or `possible`."""


@dataclass(frozen=True, slots=True)
class Overview:
    """Groups, how long first deliveries took, and when messages became dead letters."""

    groups: tuple[Group, ...] = ()
    latency: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By observer: first deliveries in the buckets, from before LATENCY_S[0] on."""
    letters: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By observer: dead letters in the slices."""
    slice_s: float = 0.0


NOTHING = Overview()


@dataclass(frozen=True, slots=True)
class Slices:
    """How the time of a recording is cut for a page, in microseconds."""

    began: int
    us: int


def slices(gate: Gates) -> Slices:
    """BINS of them."""
    began = gate.started_us or 0
    return Slices(began, max(1, ((gate.ended_us or began) - began) // BINS + 1))


def overview(cells: Iterable[Row], cut: Slices, violations: DataFrame | None) -> Overview:
    """Put together what was counted, and the findings, if there are any."""
    cells = list(cells)
    found: dict[Account, dict[str, Counter[str]]] = {}
    if violations is not None:
        counts = violations.groupBy("observer", "group", "invariant", "verdict").count()
        for row in counts.limit(MOST_ROWS).collect():
            rules = found.setdefault((row.observer or "", row.group or ""), {})
            rules.setdefault(row.invariant, Counter())[row.verdict] += row["count"]
    return Overview(tuple(_groups(cells, found)), _latency(cells), _letters(cells), cut.us / 1e6)


def cells(events: DataFrame, cut: Slices) -> DataFrame:
    """Deliveries and dead letters by observer, group, latency and slice of time."""
    kind, at = F.col("kind"), F.col("t_wall_us")
    stored = F.coalesce("store_us", "born_us")
    # Nobody knows since when a message could be had whose store time nobody told.
    ready = F.when(stored.isNotNull(), F.greatest(stored, F.coalesce("due_us", F.lit(0))))
    is_first = (kind == "deliver") & (F.col("attempt") == 1)
    is_dead = kind == "dlq.deliver"
    rows = events.where(kind.isin("deliver", "dlq.deliver") & F.col("group").isNotNull())
    return (
        rows.groupBy(
            "observer",
            "group",
            F.when(is_first & ready.isNotNull(), _bucket(at - ready)).alias("bucket"),
            F.when(is_dead, F.floor((at - cut.began) / cut.us)).alias("slice"),
        )
        .agg(
            F.count_if(kind == "deliver").alias("deliveries"),
            F.count_if((kind == "deliver") & (F.col("attempt") > 1)).alias("again"),
            F.count_if(is_dead).alias("dead"),
        )
        .limit(MOST_ROWS)
    )


def _bucket(took: Column) -> Column:
    index = F.lit(0)
    for number, border in enumerate(LATENCY_S, start=1):
        index = F.when(took >= round(border * 1e6), F.lit(number)).otherwise(index)
    return index


def _groups(cells: Iterable[Row], found: Mapping[Account, Mapping[str, Counter[str]]]) -> Iterable[Group]:
    sums: dict[Account, Counter[str]] = {account: Counter() for account in found if account[1]}
    for cell in cells:
        total = sums.setdefault((cell.observer, cell["group"]), Counter())
        total.update(deliveries=cell.deliveries, again=cell.again, dead=cell.dead)
    for (observer, group), total in sorted(sums.items()):
        rules = {name: dict(counts) for name, counts in sorted(found.get((observer, group), {}).items())}
        yield Group(observer, group, total["deliveries"], total["again"], total["dead"], rules)


def _latency(cells: Iterable[Row]) -> dict[str, tuple[int, ...]]:
    counts: dict[str, list[int]] = {}
    for cell in cells:
        if cell.bucket is not None:
            counts.setdefault(cell.observer, [0] * (len(LATENCY_S) + 1))[cell.bucket] += cell.deliveries
    return {name: tuple(values) for name, values in sorted(counts.items())}


def _letters(cells: Iterable[Row]) -> dict[str, tuple[int, ...]]:
    counts: dict[str, list[int]] = {}
    for cell in cells:
        if cell.slice is not None:
            counts.setdefault(cell.observer, [0] * BINS)[min(max(cell.slice, 0), BINS - 1)] += cell.dead
    return {name: tuple(values) for name, values in sorted(counts.items())}
