"""Figures of the report by group and over time: one aggregation, one job."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pyspark.sql import DataFrame, Row, functions as F

LATENCY_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Bucket bounds of the latency histogram, in seconds from store or delivery time to the first delivery."""
SLICES_S = (1, 2, 5, 10, 15, 30, *(60 * n for n in (1, 2, 5, 10, 15, 30, 60, 120, 360, 720)))
"""Dead letters are counted in slices of one of these lengths, or of whole days."""
MOST_SLICES, MOST_ROWS = 60, 20_000
"""Most slices, and most rows (groups, buckets and slices) that are collected: those with the most deliveries."""
COUNTS = ("deliveries", "redeliveries", "dead_letters")


@dataclass(frozen=True, slots=True)
class Group:
    """Figures of one group as observed by one observer, and its findings by rule and verdict."""

    observer: str
    group: str
    found: Mapping[str, Mapping[str, int]]
    deliveries: int
    redeliveries: int
    dead_letters: int


@dataclass(frozen=True, slots=True)
class Overview:
    """Groups, and by observer: first deliveries by latency, dead letters by slices of `slice_s` seconds."""

    groups: tuple[Group, ...] = ()
    latency: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dead_letters: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    slice_s: float = 0.0


class Slices(NamedTuple):
    """Division of the recording's time into slices, in microseconds."""

    began: int
    us: int
    bins: int


def slices(started_us: int | None, ended_us: int | None) -> Slices:
    """Return at most MOST_SLICES slices from the first to the last instant."""
    began, day = started_us or 0, 86_400
    span = max(0, (ended_us or began) - began) / 1e6
    length = next((s for s in SLICES_S if span < s * MOST_SLICES), int(span // (day * MOST_SLICES) + 1) * day)
    return Slices(began, length * 1_000_000, int(span // length) + 1)


def cells(events: DataFrame, cut: Slices) -> DataFrame:
    """Return COUNTS by observer and group, by observer and latency, and by observer and slice of time."""
    names = ("observer", "group", "bucket", "slice")
    is_delivery, is_dead = F.col("kind") == "deliver", F.col("kind") == "dlq.deliver"
    # Without a store time the earliest possible delivery is unknown.
    stored = F.coalesce("store_us", "born_us")
    took = F.col("t_wall_us") - F.greatest(stored, F.coalesce("due_us", F.lit(0)))
    bucket = sum(((took >= round(border * 1e6)).cast("int") for border in LATENCY_S), F.lit(0))
    rows = events.where((is_delivery | is_dead) & F.col("group").isNotNull()).select(
        "*",
        F.when(is_delivery & (F.col("attempt") == 1) & stored.isNotNull(), bucket).alias("bucket"),
        F.when(is_dead, F.floor((F.col("t_wall_us") - cut.began) / cut.us)).alias("slice"),
    )
    counts = (is_delivery, is_delivery & (F.col("attempt") > 1), is_dead)
    counted = rows.groupBy(*names).agg(*map(F.count_if, counts)).toDF(*names, *COUNTS)
    by_set = counted.groupingSets([names[:2], names[::2], names[::3]], *names)
    sums = by_set.agg(*map(F.sum, COUNTS)).toDF(*names, *COUNTS)
    return sums.orderBy(F.isnotnull("group"), *map(F.desc, COUNTS)).limit(MOST_ROWS)


def overview(rows: Iterable[Row], violations: DataFrame | None, cut: Slices) -> Overview:
    """Combine the collected `cells` with the findings by group, if there are any."""
    rows, by_group = list(rows), defaultdict[tuple[str, str], dict[str, dict[str, int]]](dict)
    if violations is not None:
        by_rule = violations.groupBy("observer", "group", "invariant", "verdict").count().sort("invariant")
        for observer, group, rule, verdict, count in by_rule.where("group is not null").collect():
            by_group[observer, group].setdefault(rule, {})[verdict] = count
    sums = defaultdict(Counter[str], {group: Counter[str]() for group in by_group})
    for row in (row for row in rows if row["group"] is not None):
        sums[row.observer, row["group"]].update({name: row[name] for name in COUNTS})
    groups = [
        Group(*of, by_group[of], *(total[name] for name in COUNTS)) for of, total in sorted(sums.items())
    ]
    latency = _series(rows, "bucket", "deliveries", len(LATENCY_S) + 1)
    return Overview(tuple(groups), latency, _series(rows, "slice", "dead_letters", cut.bins), cut.us / 1e6)


def _series(rows: Iterable[Row], place: str, counted: str, size: int) -> dict[str, tuple[int, ...]]:
    series = defaultdict[str, list[int]](lambda: [0] * size)
    for row in (row for row in rows if row[place] is not None):
        series[row.observer][min(max(row[place], 0), size - 1)] += row[counted]
    return {name: tuple(bins) for name, bins in sorted(series.items())}
