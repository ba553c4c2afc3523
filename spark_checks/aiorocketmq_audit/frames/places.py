"""Where events stand: their time, their recorder by hash, and their number."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, functions as F

from aiorocketmq_audit.frames.frame import ACCOUNT, SCOPE


def place() -> Column:
    """`struct(at, recorder, seq)` of an event. Sorts by time."""
    return F.struct(
        F.col("t_wall_us").alias("at"), F.xxhash64("recorder").alias("recorder"), F.col("seq").alias("seq")
    )


_FIELDS = ("at", "recorder", "seq")


def earliest(
    name: str, when: Column | None = None, *, of: str = "place", latest: bool = False
) -> list[Column]:
    """Aggregates that tell which of a group's rows, `when` that holds, has the earliest (or latest) place in its column
    `of`; `placed` makes one column of them. Numbers of one width each, as an aggregate of structs would have every row
    sorted."""
    least, least_by = (F.max, F.max_by) if latest else (F.min, F.min_by)
    # Time, and of equal times the number, in one number to sort by; both fit until the year 2255.
    order = F.col(f"{of}.at") * 1024 + F.col(f"{of}.seq").bitwiseAND(F.lit(1023))
    order = order if when is None else F.when(when, order)
    return [
        (F.shiftright(least(order), 10) if field == "at" else least_by(f"{of}.{field}", order)).alias(
            f"{name}_{field}"
        )
        for field in _FIELDS
    ]


def placed(rows: DataFrame, *names: str) -> DataFrame:
    """One column of each group of columns that `earliest` made; null where no row was in question."""
    structs = {
        name: F.when(
            F.col(f"{name}_seq").isNotNull(),
            F.struct(*(F.col(f"{name}_{field}").alias(field) for field in _FIELDS)),
        )
        for name in names
    }
    return rows.withColumns(structs).drop(*(f"{name}_{field}" for name in names for field in _FIELDS))


def scope() -> Column:
    """Run and case of an event."""
    return F.xxhash64(*SCOPE).alias("scope")


def by_broker() -> Column:
    """Whether the broker itself recorded the event."""
    return (F.col("observer") == "broker").alias("by_broker")


def called() -> Column:
    """When the call began, or the event itself where it was no call."""
    return F.coalesce("invoked_us", "t_wall_us")


def drains(events: DataFrame) -> DataFrame:
    """The last drain of each group and topic that was drained."""
    done = events.where("kind = 'drain.ok' and topic is not null and group is not null")
    # What was sent while a client's polls were out may have come too late for their answers.
    from_call = done.withColumn("t_wall_us", called())
    return from_call.groupBy(*ACCOUNT, "topic", "group").agg(F.max(place()).alias("drained"))


def not_attested(groups: DataFrame, settings: DataFrame) -> DataFrame:
    """Without what clients suspect where the broker's own account is there: it knows."""
    attested = settings.where("declared_by_broker").select(*SCOPE, "group", F.lit(True).alias("told"))
    beside = groups.join(F.broadcast(attested), [*SCOPE, "group"], "left")
    return beside.where("observer = 'broker' or told is null").drop("told")


def reset_groups(events: DataFrame) -> DataFrame:
    """Groups that were reset, of which nothing can be said to be missing."""
    return F.broadcast(events.where("kind = 'reset'").select(*ACCOUNT, "group").distinct())


def trimmed(events: DataFrame) -> DataFrame:
    """From where on each queue is left, where the broker deleted what was too old."""
    gone = events.where("kind = 'trim'").groupBy(*ACCOUNT, "topic", "broker", "queue")
    return F.broadcast(gone.agg(F.max("commit_offset").alias("left_from")))
