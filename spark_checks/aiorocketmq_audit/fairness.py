"""Check `fairness`: while somebody asks and something waits, every queue of a group goes on.

INV-FAIR: between two first deliveries from a queue to a group there are no 60 s through which a message waited
that came afterwards, and in which a poll of the group was asked and answered. Ordered groups are left out: what
waits there may have to. A client cannot see what others of its group got, so on its account it is possible only.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window, functions as F

from aiorocketmq_audit.findings import BROKEN, POSSIBLE, finding, time_and_number

NAME = "fairness"

STANDSTILL_US = 60_000_000

_GROUP = ("run_id", "case_id", "observer", "topic", "group")
_QUEUE = (*_GROUP, "broker", "queue")

BUCKET_US = STANDSTILL_US // 2
"""Deliveries are counted by slices of time: a standstill always spans the border of two that follow each other."""


def facts(events: DataFrame, settings: DataFrame) -> DataFrame:
    """Slices of time in which a queue went on: rows of FINDING, whose verdict is null where all is well."""
    groups = settings.where("ordered is not null and not ordered").select("run_id", "case_id", "group")
    given = events.where("kind = 'deliver' and attempt = 1 and store_us is not null and queue is not null")
    free = given.join(F.broadcast(groups), ["run_id", "case_id", "group"], "left_semi")
    slices = _slices(free)
    by_queue = Window.partitionBy("way").orderBy("slice")
    paired = slices.withColumns(
        {
            "before_recorder": F.lag("last_recorder").over(by_queue),
            "before_seq": F.lag("last_seq").over(by_queue),
            "since": F.greatest(F.lag("end").over(by_queue), F.col("ready")),
        }
    ).where("before_seq is not null")
    polled = _polled(paired, events)
    stood = F.when(
        F.col("polls") > 0,
        F.when(F.col("by_broker"), F.lit(BROKEN)).otherwise(F.lit(POSSIBLE)),
    )
    return polled.select(
        finding(
            NAME,
            F.lit("INV-FAIR"),
            stood,
            margin=F.col("begin") - F.col("since") - STANDSTILL_US,
            at=F.col("begin"),
            first=(F.col("before_recorder"), F.col("before_seq")),
            second=(F.col("first_recorder"), F.col("first_seq")),
        )
    )


def _slices(given: DataFrame) -> DataFrame:
    """One row per queue, group and slice of time, of numbers only."""
    ready = F.greatest("store_us", F.coalesce("due_us", F.lit(0)))
    packed = given.select(
        F.xxhash64(*_QUEUE).alias("way"),
        F.xxhash64(*_GROUP).alias("poll"),
        "queue",
        (F.col("observer") == "broker").alias("by_broker"),
        F.floor(F.col("t_wall_us") / BUCKET_US).alias("slice"),
        F.col("t_wall_us").alias("at"),
        time_and_number("t_wall_us").alias("order"),
        ready.alias("ready"),
        F.xxhash64("recorder").alias("recorder"),
        "seq",
    )
    return packed.groupBy("way", "poll", "queue", "by_broker", "slice").agg(
        F.min("at").alias("begin"),
        F.max("at").alias("end"),
        F.min("ready").alias("ready"),
        F.min_by("recorder", "order").alias("first_recorder"),
        F.min_by("seq", "order").alias("first_seq"),
        F.max_by("recorder", "order").alias("last_recorder"),
        F.max_by("seq", "order").alias("last_seq"),
    )


def _polled(paired: DataFrame, events: DataFrame) -> DataFrame:
    """Count the polls that were asked and answered within each standstill."""
    polls = events.where("kind = 'receive' and phase = 'ok' and invoked_us is not null").select(
        F.xxhash64(*_GROUP).alias("poll"),
        F.col("queue").alias("p_queue"),
        F.col("invoked_us").alias("p_from"),
        F.col("t_wall_us").alias("p_to"),
    )
    stood = paired.where(F.col("begin") - F.col("since") >= STANDSTILL_US)
    inside = (
        (F.col("p_queue").isNull() | (F.col("p_queue") == F.col("queue")))
        & (F.col("p_from") >= F.col("since"))
        & (F.col("p_to") < F.col("begin"))
    )
    asked = polls.join(F.broadcast(stood.select("poll", "way", "slice", "queue", "since", "begin")), "poll")
    counted = asked.where(inside).groupBy("way", "slice").agg(F.count("*").alias("polls"))
    return paired.join(F.broadcast(counted), ["way", "slice"], "left")
