"""Evidence of findings with names resolved: rows of `violations/`, samples of a summary, events of a page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row, Window, functions as F

from aiorocketmq_audit.judgement import BROKEN, EXEMPTED

SAMPLES = 50
"""Findings of each check that the summary shows; all of them are in `violations/`."""

FEW = 500_000
"""Up to this number, findings are broadcast."""

DRAWN_MESSAGES = 40
"""Messages drawn on the page."""

MOST_EVENTS = 1_500
"""Events drawn on the page, over all messages."""

NAMES = (
    *("run_id", "case_id", "observer", "topic", "group", "broker", "queue", "offset", "message_group"),
    *("message_id", "client_id", "attempt"),
)

DRAWN = (
    *(
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
    ),
    *(
        "topic",
        "group",
        "broker",
        "queue",
        "offset",
        "message_id",
        "message_group",
        "attempt",
        "invisible_ms",
    ),
    *("reason", "result"),
)

DRAWN_KINDS = (
    *("send", "deliver", "dlq.deliver", "handle.start", "handle.end"),
    *("ack", "change", "forward", "expire"),
)

Samples = dict[str, tuple[dict[str, Any], ...]]
"""By check: findings with the evidence, worst first."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A message to draw, as observed by one observer."""

    run_id: str
    case_id: str
    observer: str
    topic: str
    group: str
    message_id: str
    message_group: str | None


def with_names(findings: DataFrame, events: DataFrame) -> DataFrame:
    """Return findings that are not exempted, with the names of the two events that prove each: plain columns describe
    the later event, `other_…` the earlier one. One pass over the events, of which few rows are shuffled."""
    standing = findings.where(F.col("verdict") != EXEMPTED).drop("exemption")
    places = F.explode(
        F.array(*(F.struct(F.lit(role).alias("role"), f"{role}.*") for role in ("first", "second")))
    )
    event_keys = standing.select("id", places.alias("place")).select(
        "id", "place.role", "place.recorder", "place.seq"
    )
    facts = events.select(
        F.xxhash64("recorder").alias("key"),
        F.col("seq").alias("number"),
        F.struct("recorder", *NAMES).alias("fact"),
    )
    event_keys = event_keys.where("recorder is not null")
    # If findings are few, they are broadcast and events are not shuffled.
    event_keys = F.broadcast(event_keys) if findings.count() < FEW else event_keys
    matched = facts.join(event_keys, F.expr("key = recorder and number = seq"))
    facts_of = matched.groupBy("id").agg(
        *(
            F.max(F.when(F.col("role") == role, F.col("fact"))).alias(f"{role}_fact")
            for role in ("first", "second")
        )
    )
    joined = standing.join(facts_of, "id", "left")
    return joined.select(
        "check",
        "invariant",
        "verdict",
        *(F.coalesce(f"second_fact.{name}", f"first_fact.{name}").alias(name) for name in NAMES),
        (F.col("margin_us") / 1000).alias("margin_ms"),
        F.col("second.at").alias("at_us"),
        *(
            F.col(f"first_fact.{name}").alias(f"other_{name}")
            for name in ("message_id", "client_id", "attempt", "offset")
        ),
        F.col("first_fact.recorder").alias("first_recorder"),
        F.col("first.seq").alias("first_seq"),
        F.col("second_fact.recorder").alias("second_recorder"),
        F.col("second.seq").alias("second_seq"),
    )


def nothing(events: DataFrame) -> DataFrame:
    """Return an empty frame with the columns of `with_names`."""
    place = "struct<at: bigint, recorder: bigint, seq: bigint>"
    none = events.where("false").select(
        *(F.lit(None).cast("string").alias(name) for name in ("check", "invariant", "verdict", "exemption")),
        *(F.lit(None).cast("bigint").alias(name) for name in ("id", "margin_us")),
        *(F.lit(None).cast(place).alias(name) for name in ("first", "second")),
    )
    return with_names(none, events.where("false"))


def samples(named: DataFrame) -> Samples:
    """Return the worst findings of each check: proven ones first, then by margin."""
    is_possible = (F.col("verdict") != BROKEN).cast("int")
    worst = Window.partitionBy("check").orderBy(is_possible, F.col("margin_ms").desc_nulls_last(), "at_us")
    ranked = named.withColumn("rank", F.row_number().over(worst)).where(F.col("rank") <= SAMPLES)
    by_check: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in ranked.orderBy("check", "rank").drop("rank").collect():
        by_check[row.check].append(row.asDict())
    return {name: tuple(rows) for name, rows in by_check.items()}


def subjects(shown: Samples) -> tuple[Subject, ...]:
    """Return the messages to draw: those of the worst findings of each check."""
    chosen: dict[Subject, None] = {}
    names = Subject.__slots__
    for rank in range(SAMPLES):
        for rows in shown.values():
            if rank < len(rows):
                row = rows[rank]
                chosen.setdefault(Subject(**{name: row[name] for name in names}))
                if row["other_message_id"] not in (None, row["message_id"]):
                    other = {name: row[name] for name in names} | {"message_id": row["other_message_id"]}
                    chosen.setdefault(Subject(**other))
    return tuple(chosen)[:DRAWN_MESSAGES]


def subject_of(events: DataFrame, place: tuple[int, int]) -> Subject | None:
    """Return the message of the event with this recorder (hash) and sequence number."""
    recorder, seq = place
    event = events.where((F.xxhash64("recorder") == recorder) & (F.col("seq") == seq))
    row = event.select(*Subject.__slots__).first()
    return None if row is None else Subject(**row.asDict())


def events_of(events: DataFrame, drawn: Iterable[Subject]) -> tuple[dict[str, Any], ...]:
    """Return the events of these messages and the deliveries of their message groups, oldest first."""
    condition = F.lit(False)
    for subject in drawn:
        account = F.lit(True)
        for name in ("run_id", "case_id", "observer", "topic"):
            account = account & F.col(name).eqNullSafe(getattr(subject, name))
        group = F.col("group").isNull() | (F.col("group") == subject.group)
        about = F.col("message_id") == subject.message_id
        if subject.message_group is not None:
            about = about | ((F.col("kind") == "deliver") & (F.col("message_group") == subject.message_group))
        condition = condition | (account & group & about)
    chosen = events.where(F.col("kind").isin(*DRAWN_KINDS) & condition).select(*DRAWN)
    rows: list[Row] = chosen.orderBy("t_wall_us", "recorder", "seq").limit(MOST_EVENTS).collect()
    return tuple(row.asDict() for row in rows)
