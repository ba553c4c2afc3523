"""Identity of events: time, recorder (hash) and sequence number."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, functions as F

from aiorocketmq_audit.frames.frame import ACCOUNT, SCOPE, Recording
from aiorocketmq_audit.recording.schema import SUSPENDED


def place() -> Column:
    """Return `struct(at, recorder, seq)` of an event, which sorts by time."""
    return F.struct(
        F.col("t_wall_us").alias("at"), F.xxhash64("recorder").alias("recorder"), F.col("seq").alias("seq")
    )


_FIELDS = ("at", "recorder", "seq")


def earliest(
    name: str, when: Column | None = None, *, of: str = "place", latest: bool = False
) -> list[Column]:
    """Return aggregates for the earliest (or latest) event in the column `of`, over the rows for which `when` holds;
    `placed` combines them into one column. Fixed-width numbers, since an aggregate of structs falls back to sorting."""
    least, least_by = (F.max, F.max_by) if latest else (F.min, F.min_by)
    # Time and, for equal times, the sequence number in one sort key; both fit until the year 2255.
    order = F.col(f"{of}.at") * 1024 + F.col(f"{of}.seq").bitwiseAND(F.lit(1023))
    order = order if when is None else F.when(when, order)
    return [
        (F.shiftright(least(order), 10) if field == "at" else least_by(f"{of}.{field}", order)).alias(
            f"{name}_{field}"
        )
        for field in _FIELDS
    ]


def placed(rows: DataFrame, *names: str) -> DataFrame:
    """Combine each group of columns from `earliest` into one struct; null if no row qualified."""
    structs = {
        name: F.when(
            F.col(f"{name}_seq").isNotNull(),
            F.struct(*(F.col(f"{name}_{field}").alias(field) for field in _FIELDS)),
        )
        for name in names
    }
    return rows.withColumns(structs).drop(*(f"{name}_{field}" for name in names for field in _FIELDS))


def scope() -> Column:
    """Return the hash of run and case of an event."""
    return F.xxhash64(*SCOPE).alias("scope")


def by_broker() -> Column:
    """Return whether the broker itself recorded the event."""
    return (F.col("observer") == "broker").alias("by_broker")


def called() -> Column:
    """Return when the call began, or the time of an event that is not a call."""
    return F.coalesce("invoked_us", "t_wall_us")


def drains(events: DataFrame) -> DataFrame:
    """Return the last drain of each group and topic."""
    done = events.where("kind = 'drain.ok' and topic is not null and group is not null")
    # Messages sent while a client's polls were open may have missed their answers.
    from_call = done.withColumn("t_wall_us", called())
    return from_call.groupBy(*ACCOUNT, "topic", "group").agg(F.max(place()).alias("drained"))


def not_attested(groups: DataFrame, settings: DataFrame) -> DataFrame:
    """Drop observations of clients for groups that the broker itself recorded, since it is authoritative."""
    attested = settings.where("declared_by_broker").select(*SCOPE, "group", F.lit(True).alias("told"))
    joined = groups.join(F.broadcast(attested), [*SCOPE, "group"], "left")
    return joined.where("observer = 'broker' or told is null").drop("told")


def reset_groups(events: DataFrame) -> DataFrame:
    """Return groups with a reset, for which no message counts as missing."""
    return F.broadcast(events.where("kind = 'reset'").select(*ACCOUNT, "group").distinct())


def polled(events: DataFrame) -> DataFrame:
    """Return when each group began to poll a topic, the number of filters in its polls, and one of them."""
    requests = events.where("kind in ('receive', 'deliver') and group is not null and topic is not null")
    # Old recordings tell the filter of a poll only in its deliveries.
    filter_text = F.when(F.col("kind") == "deliver", F.coalesce("filter", F.lit("?"))).otherwise(
        F.col("filter")
    )
    # By filter first, so that only numbers are aggregated over all rows: texts would fall back to a sort.
    by_filter = requests.groupBy(*ACCOUNT, "topic", "group", filter_text.alias("told")).agg(
        F.min(called()).alias("primed")
    )
    return by_filter.groupBy(*ACCOUNT, "topic", "group").agg(
        F.min("primed").alias("primed"),
        F.count("told").alias("filters"),
        # A group whose filter is unknown is taken to subscribe to everything.
        F.coalesce(F.max("told"), F.lit("TAG:*")).alias("wanted"),
    )


def by_one_filter(recording: Recording) -> DataFrame:
    """Return the groups whose polls of a topic all had one filter; what it selects is known only if it is by tag."""
    return F.broadcast(recording.polled.where("filters <= 1").drop("filters"))


def alike(recording: Recording) -> DataFrame:
    """Return the hashes (`poll`) of the groups and topics of `by_one_filter`."""
    return by_one_filter(recording).select(F.xxhash64(*ACCOUNT, "topic", "group").alias("poll"))


def without_suspended(delivered: DataFrame, recording: Recording) -> DataFrame:
    """Drop deliveries of messages that their group suspended before: they come again under the same attempt number,
    for which Apache's servers report the offset in the retry topic."""
    if not recording.kinds.get("suspend"):
        return delivered
    message = F.xxhash64(*ACCOUNT, "group", "message_id").alias("suspended")
    suspended = recording.events.where(SUSPENDED).groupBy(message)
    at = suspended.agg(F.min(called()).alias("suspended_at"))
    return (
        delivered.withColumn("suspended", message)
        .join(F.broadcast(at), "suspended", "left")
        .where("suspended_at is null or t_wall_us < suspended_at")
        .drop("suspended", "suspended_at")
    )


def trimmed(events: DataFrame) -> DataFrame:
    """Return the lowest offset left in each queue of which the broker deleted expired messages."""
    gone = events.where("kind = 'trim'").groupBy(*ACCOUNT, "topic", "broker", "queue")
    return F.broadcast(gone.agg(F.max("commit_offset").alias("left_from")))
