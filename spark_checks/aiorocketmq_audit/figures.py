"""The few numbers and rows that a report shows: aggregated in Spark, so that nothing large reaches this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, Row, functions as F

from aiorocketmq_audit import (
    attempts,
    dead_letters,
    delay,
    double_delivery,
    filters,
    loss,
    origin,
    retry_timing,
)
from aiorocketmq_audit.frames.overview import LATENESS_S
from aiorocketmq_audit.sides import NOTHING, Aside

MOST_CELLS = 20_000
"""Rows of the cube that reach this process: groups by attempts by causes by buckets."""

MOST_EVENTS = 1_500
"""Events of single messages that are drawn."""

BUCKETS_S = LATENESS_S

MOST_ATTEMPTS = 99
"""Higher numbers are counted as this one."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a group's retry ladder: what was asked for after an attempt, and what was seen."""

    observer: str
    group: str
    attempt: int
    retries: int
    asked_s: float
    asked_most_s: float
    seen_least_s: float
    seen_s: float
    seen_most_s: float


@dataclass(frozen=True, slots=True)
class Arrived:
    """Delivered messages by what was known of their sends: how many were judged, and how many are findings."""

    confirmed: tuple[int, int] = (0, 0)
    recovered: tuple[int, int] = (0, 0)
    others: tuple[int, int] = (0, 0)

    @property
    def traced(self) -> int:
        """All that were judged."""
        return self.confirmed[0] + self.recovered[0] + self.others[0]

    @property
    def found(self) -> int:
        """All that are findings."""
        return self.confirmed[1] + self.recovered[1] + self.others[1]


NOBODY = Arrived()


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that the report draws, but for single messages."""

    deliveries: int
    first_deliveries: int
    redeliveries: int
    ordered_first: int
    with_hold: int
    numbered: int
    """Deliveries whose attempt is known."""
    scheduled: int
    """Deliveries of messages that were sent for a later time."""
    dead_letters: int
    """As the broker told them."""
    by_tag: int
    """Deliveries whose receive asked for tags."""
    traced: int
    """Delivered messages whose send is in the recording, or should be."""
    confirmed: int
    """Of these, those whose send was answered OK."""
    recovered: int
    """Of these, those whose send had an unknown outcome until they came."""
    expected: int
    """Stored messages that groups have passed, by group."""
    retries: int
    unknown_order: int
    """Deliveries with a message group to a group of which nobody said whether it is ordered."""
    causes: dict[str, int]
    attempts: dict[int, int]
    ladder: tuple[Step, ...]
    lateness: dict[str, tuple[int, ...]]
    """By what ended the hold ("retry asked for", "lease ended"): counts in the buckets, from before BUCKETS_S[0] on."""
    suspects: dict[str, int]
    """By check: deliveries that it must look at more closely; `ordering` is not counted here."""
    farthest: tuple[int, int] | None
    """Recorder (hash) and number of the last delivery of the message that was handed out most often."""
    judged_aside: Mapping[str, int] = field(default_factory=dict)
    """By check: facts that `sides` judged."""
    found_aside: frozenset[str] = frozenset()
    """Checks of which `sides` has findings."""


def cube(deliveries: DataFrame, settings: DataFrame, *, ended_us: int) -> DataFrame:
    """Deliveries by group, attempt, cause and lateness: one small row each. `ended_us` is the recording's
    last instant."""
    return named(cells(deliveries, ended_us), settings)


COUNTS = (
    "n",
    "first",
    "ordered_first",
    "with_hold",
    "unknown_order",
    "redelivered",
    "asked_us",
    "seen_us",
    "doubled",
    "mistimed",
    "misnumbered",
    "numbered",
    "hurried",
    "scheduled",
    "unwanted",
    "by_tag",
    "dead",
)
CELL = ("by_broker", "who", "cell_attempt", "cause", "bucket", "asked")


def cells(deliveries: DataFrame, ended_us: int, *more: str, also: Sequence[Column] = ()) -> DataFrame:
    """Counts by CELL, and by `more` columns of `deliveries`: fixed-width numbers, so that no sort is needed.
    `also` are further aggregates."""
    is_mistimed = retry_timing.is_suspiciously_early() | retry_timing.is_suspiciously_late(F.lit(ended_us))
    late = F.col("n_hi") - F.col("until_hi")
    why = double_delivery.cause()
    seen = F.when(F.col("asked"), F.col("n_hi") - F.col("asked_hi"))
    return deliveries.groupBy(
        "by_broker",
        "who",
        F.least(F.col("attempt"), F.lit(MOST_ATTEMPTS)).alias("cell_attempt"),
        why.alias("cause"),
        F.when(why.isin("retry asked for", "lease ended", "none"), _bucket(late)).alias("bucket"),
        "asked",
        *more,
    ).agg(
        F.count("*").alias("n"),
        F.count_if(F.col("number") == 1).alias("first"),
        F.count_if((F.col("number") == 1) & F.col("ordered") & F.col("grouped")).alias("ordered_first"),
        F.count_if(F.col("until_lo").isNotNull()).alias("with_hold"),
        F.count_if(F.col("ordered").isNull() & F.col("grouped")).alias("unknown_order"),
        F.count_if(F.col("n_hi").isNotNull()).alias("redelivered"),
        F.sum(F.when(F.col("n_hi").isNotNull(), F.col("wait"))).alias("asked_us"),
        F.max(F.when(F.col("n_hi").isNotNull(), F.col("wait"))).alias("asked_most"),
        F.sum(seen).alias("seen_us"),
        F.min(seen).alias("seen_least"),
        F.max(seen).alias("seen_most"),
        F.count_if(double_delivery.is_suspicious()).alias("doubled"),
        F.count_if(is_mistimed).alias("mistimed"),
        F.count_if(attempts.is_suspicious()).alias("misnumbered"),
        F.count_if(F.col("attempt").isNotNull()).alias("numbered"),
        F.count_if(delay.is_suspicious()).alias("hurried"),
        F.count_if(F.col("due").isNotNull()).alias("scheduled"),
        F.count_if("unwanted").alias("unwanted"),
        F.count_if("by_tag").alias("by_tag"),
        F.count_if(F.col("dead_hi").isNotNull() & F.col("by_broker")).alias("dead"),
        F.max("number").alias("far_number"),
        F.max_by("recorder", "number").alias("far_recorder"),
        F.max_by("seq", "number").alias("far_seq"),
        *also,
    )


def merged(parts: DataFrame) -> DataFrame:
    """The `cells` of several parts as those of the whole."""
    least, most = ("seen_least",), ("asked_most", "seen_most", "far_number")
    return parts.groupBy(*CELL).agg(
        *(F.sum(name).alias(name) for name in COUNTS),
        *(F.min(name).alias(name) for name in least),
        *(F.max(name).alias(name) for name in most),
        F.max_by("far_recorder", "far_number").alias("far_recorder"),
        F.max_by("far_seq", "far_number").alias("far_seq"),
    )


def named(counted: DataFrame, settings: DataFrame) -> DataFrame:
    """The cells with the names of their groups."""
    names = settings.select("group", F.xxhash64("group").alias("who")).distinct()
    return counted.limit(MOST_CELLS).join(F.broadcast(names), "who", "left")


def _bucket(late: Column) -> Column:
    index = F.lit(0)
    for number, border in enumerate(BUCKETS_S, start=1):
        index = F.when(late >= round(border * 1e6), F.lit(number)).otherwise(index)
    return F.when(late.isNotNull(), index)


def figures(
    rows: Iterable[Row],
    arrived: Arrived = NOBODY,
    expected: tuple[int, int] = (0, 0),
    aside: Aside = NOTHING,
) -> Figures:
    """Add up what `cube` brought; `arrived` and `expected` are the counts of `origin.facts` and `loss.facts`, `aside`
    those of `sides.tallies`."""
    cells = list(rows)
    causes: Counter[str] = Counter()
    by_attempt: Counter[int] = Counter()
    late = {name: [0] * (len(BUCKETS_S) + 1) for name in ("retry asked for", "lease ended")}
    for cell in cells:
        if cell.cause:
            causes[cell.cause] += cell.redelivered
        if cell.cell_attempt is not None:
            by_attempt[cell.cell_attempt] += cell.n
        if cell.bucket is not None:
            late["retry asked for" if cell.asked else "lease ended"][cell.bucket] += cell.redelivered
    farthest = max(cells, key=lambda cell: cell.far_number, default=None)
    return Figures(
        deliveries=sum(cell.n for cell in cells),
        first_deliveries=sum(cell["first"] for cell in cells),
        redeliveries=sum(cell.redelivered for cell in cells),
        ordered_first=sum(cell.ordered_first for cell in cells),
        with_hold=sum(cell.with_hold for cell in cells),
        numbered=sum(cell.numbered for cell in cells),
        scheduled=sum(cell.scheduled for cell in cells),
        dead_letters=sum(cell.dead for cell in cells),
        by_tag=sum(cell.by_tag for cell in cells),
        traced=arrived.traced,
        confirmed=arrived.confirmed[0],
        recovered=arrived.recovered[0],
        expected=expected[0],
        retries=sum(cell.redelivered for cell in cells if cell.asked),
        unknown_order=sum(cell.unknown_order for cell in cells),
        causes=dict(sorted(causes.items())),
        attempts=dict(sorted(by_attempt.items())),
        ladder=tuple(_ladder(cells)),
        lateness={name: tuple(counts) for name, counts in late.items()},
        suspects={
            double_delivery.NAME: sum(cell.doubled for cell in cells),
            retry_timing.NAME: sum(cell.mistimed for cell in cells),
            attempts.NAME: sum(cell.misnumbered for cell in cells),
            delay.NAME: sum(cell.hurried for cell in cells),
            dead_letters.NAME: sum(cell.dead for cell in cells),
            filters.NAME: sum(cell.unwanted for cell in cells),
            origin.NAME: arrived.found,
            loss.NAME: expected[1],
        },
        farthest=(farthest.far_recorder, farthest.far_seq) if farthest is not None else None,
        judged_aside=aside.judged,
        found_aside=aside.found,
    )


def _ladder(cells: Iterable[Row]) -> Iterable[Step]:
    steps: dict[tuple[str, str, int], list[Row]] = {}
    for cell in cells:
        if cell.asked and cell.redelivered and cell.cell_attempt:
            observer = "broker" if cell.by_broker else "client"
            steps.setdefault((observer, cell["group"] or "", cell.cell_attempt), []).append(cell)
    for (observer, group, attempt), rows in sorted(steps.items()):
        retries = sum(row.redelivered for row in rows)
        yield Step(
            observer=observer,
            group=group,
            attempt=attempt,
            retries=retries,
            asked_s=sum(row.asked_us for row in rows) / retries / 1e6,
            asked_most_s=max(row.asked_most for row in rows) / 1e6,
            seen_least_s=min(row.seen_least for row in rows) / 1e6,
            seen_s=sum(row.seen_us for row in rows) / retries / 1e6,
            seen_most_s=max(row.seen_most for row in rows) / 1e6,
        )


@dataclass(frozen=True, slots=True)
class Subject:
    """A message of one account that is worth drawing."""

    run_id: str
    case_id: str
    observer: str
    topic: str
    group: str
    message_id: str
    message_group: str | None


DRAWN = (
    "run_id",
    "case_id",
    "observer",
    "kind",
    "phase",
    "t_wall_us",
    "invoked_us",
    "seq",
    "recorder",
    "client_id",
    "topic",
    "group",
    "broker",
    "queue",
    "offset",
    "message_id",
    "message_group",
    "attempt",
    "invisible_ms",
    "reason",
    "result",
)

DRAWN_KINDS = (
    *("send", "deliver", "dlq.deliver", "handle.start", "handle.end"),
    *("ack", "change", "forward", "expire"),
)


def subject_of(events: DataFrame, place: tuple[int, int]) -> Subject | None:
    """The message of the event with this recorder (hash) and number."""
    recorder, seq = place
    found = events.where((F.xxhash64("recorder") == recorder) & (F.col("seq") == seq))
    row = found.select(*Subject.__slots__).first()
    return None if row is None else Subject(**row.asDict())


def events_of(events: DataFrame, subjects: Iterable[Subject]) -> list[dict[str, Any]]:
    """What happened to these messages, and the deliveries of their message groups, oldest first."""
    wanted = F.lit(False)
    for subject in subjects:
        account = F.lit(True)
        for name in ("run_id", "case_id", "observer", "topic"):
            account = account & (F.col(name) == getattr(subject, name))
        group = F.col("group").isNull() | (F.col("group") == subject.group)
        about = F.col("message_id") == subject.message_id
        if subject.message_group is not None:
            about = about | ((F.col("kind") == "deliver") & (F.col("message_group") == subject.message_group))
        wanted = wanted | (account & group & about)
    chosen = events.where(F.col("kind").isin(*DRAWN_KINDS) & wanted).select(*DRAWN)
    rows = chosen.orderBy("t_wall_us", "recorder", "seq").limit(MOST_EVENTS).collect()
    return [row.asDict() for row in rows]
