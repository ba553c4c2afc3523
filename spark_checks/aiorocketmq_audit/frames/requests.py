"""Frames of requests: `answers` (polls with the messages of their answers), and `handles` (deliveries by handle)."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from aiorocketmq_audit.frames.frame import ACCOUNT, Frame, Recording
from aiorocketmq_audit.frames.places import earliest, place, placed, scope


def answers(recording: Recording) -> DataFrame:
    """Return one row per poll with its answer, by operation id, which is unique in one run of a recorder.

    Not included: deliveries without a recorded receive, among them all deliveries to pull consumers.
    """
    rows = recording.events.where(
        """topic is not null and group is not null and
        (kind = 'receive' and op_id is not null or kind = 'deliver' and batch is not null)"""
    )
    is_asked = F.col("kind") == "receive"
    operation = F.when(is_asked, F.col("op_id")).otherwise(F.col("batch"))
    packed = rows.select(
        F.xxhash64("recorder", "boot", operation).alias("request"),
        scope(),
        is_asked.alias("is_asked"),
        F.xxhash64("topic", "group").alias("where"),
        place().alias("place"),
    )
    where, is_asked = F.col("where"), F.col("is_asked")
    requested, delivered = F.when(is_asked, where), F.when(~is_asked, where)
    # By topic and group, and within them by sequence number.
    rank = delivered.bitwiseAND(F.lit(~0xFFF)) + F.col("place.seq").bitwiseAND(F.lit(0xFFF))
    by_request = packed.groupBy("request").agg(
        F.max("scope").alias("scope"),
        F.min(requested).alias("asked_least"),
        F.max(requested).alias("asked_most"),
        F.min(delivered).alias("given_least"),
        F.max(delivered).alias("given_most"),
        *earliest("poll", is_asked),
        *(
            most(f"place.{field}", rank).alias(f"{name}_{field}")
            for name, most in (("least", F.min_by), ("most", F.max_by))
            for field in ("at", "recorder", "seq")
        ),
    )
    answered = placed(by_request, "poll", "least", "most")
    # A message of the answer with another topic or group than the poll.
    stray = F.when(F.col("given_least") != F.col("asked_most"), F.col("least")).otherwise(F.col("most"))
    return answered.withColumn("stray", stray).drop("least", "most")


def handles(recording: Recording) -> DataFrame:
    """Return one row per observation and receipt handle: its deliveries, their requests and messages."""
    used = recording.events.where(
        """delivery is not null and message_id is not null and
        (kind = 'deliver' or kind in ('ack', 'change', 'forward') and phase = 'ok')"""
    )
    is_given = F.col("kind") == "deliver"
    packed = used.select(
        F.xxhash64(*ACCOUNT, "delivery").alias("handle"),
        scope(),
        F.xxhash64("message_id").alias("message"),
        is_given.alias("is_given"),
        F.when(is_given, F.xxhash64("receive_attempt", "batch_pos")).alias("request"),
        (is_given & (F.coalesce("receive_attempt", F.lit("")) == "")).alias("is_alone"),
        place().alias("place"),
    )
    by_handle = packed.groupBy("handle").agg(
        F.max("scope").alias("scope"),
        F.count_if("is_given").alias("given"),
        F.count_if("is_alone").alias("alone"),
        F.min("message").alias("least"),
        F.max("message").alias("most"),
        F.min("request").alias("request_least"),
        F.max("request").alias("request_most"),
        *earliest("first"),
        *earliest("last", latest=True),
    )
    return placed(by_handle, "first", "last")


ANSWERS = Frame("answers", answers, ("receive",))
HANDLES = Frame("handles", handles, ("deliver",))
