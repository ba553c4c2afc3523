"""Encodes the events of deliveries as numbers, which the frame `deliveries` shuffles and sorts."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, functions as F

from aiorocketmq_audit.frames.frame import ACCOUNT, SCOPE, Recording
from aiorocketmq_audit.frames.tags import is_unwanted
from aiorocketmq_audit.recording.schema import BY_QUEUE

DELIVER, ACK, CHANGE, FORWARD, DEAD = range(1, 6)
INVOKED, OK, FAILED, UNKNOWN = range(1, 5)
RETRY, EXTEND, NO_LADDER, TAKEN_BACK, SUSPEND = range(1, 6)
KINDS = {"deliver": DELIVER, "ack": ACK, "change": CHANGE, "forward": FORWARD, "dlq.deliver": DEAD}
PHASES = {"invoke": INVOKED, "ok": OK, "fail": FAILED, "info": UNKNOWN}
REASONS = {"retry": RETRY, "extend": EXTEND, "undelivered": TAKEN_BACK, "suspend": SUSPEND}

CLOCK_SLACK_US = 50_000
"""Tolerance for times stamped by a server whose clock passed the gate INV-CLOCK."""


def packed(recording: Recording) -> DataFrame:
    """Return the events of deliveries, encoded as numbers."""
    events = recording.events
    relevant = events.where(F.col("kind").isin(*KINDS))
    if not recording.has_open_calls:
        # An answer contains the time of its call.
        relevant = relevant.where("phase is null or phase <> 'invoke'")
    relevant = relevant.where(F.col("group").isNotNull() & F.col("message_id").isNotNull())
    # Consumers that own whole queues have no leases, and may read again: see the frames of queues. Deliveries to push
    # consumers have attempts, those to pull consumers have none.
    relevant = relevant.where(F.coalesce("role", F.lit("")) != "pull")
    order = recording.settings.select("run_id", "case_id", "group", "ordered", "broadcast")
    joined = relevant.join(F.broadcast(order), ["run_id", "case_id", "group"], "left")
    joined = joined.where(~F.coalesce("broadcast", F.lit(False)))
    is_deliver = F.col("kind") == "deliver"
    called = there = F.coalesce("invoked_us", "t_wall_us")
    if recording.clocks_agree:
        # Retries are stored as new copies.
        first_stored = F.least("store_us", "born_us")
        there = F.when(first_stored.isNull(), called).otherwise(F.least(first_stored, "t_wall_us"))
        # Not by `server_deliver_us`: a server stamps a message when it reads it, and may write the answer much later.
        stored = F.coalesce(F.col("store_us") - CLOCK_SLACK_US, called)
        called = F.when(is_deliver, F.least(F.greatest(called, stored), "t_wall_us")).otherwise(called)
    # Ordered groups redeliver a message from its own offset, which distinguishes copies of one id.
    # Other groups redeliver it from a retry topic, with another offset: there the id must suffice.
    copy = F.xxhash64("message_id", "broker", "queue", "offset")
    recorder = F.xxhash64("recorder")
    return joined.select(
        F.xxhash64(*ACCOUNT, "topic", "group", F.coalesce("message_group", "message_id")).alias("lane"),
        F.when(F.coalesce("ordered", F.lit(False)), copy)
        .otherwise(F.xxhash64("message_id"))
        .alias("message"),
        F.when(is_deliver, F.col("t_wall_us")).otherwise(called).alias("at"),
        F.when(is_deliver, F.col("seq")).otherwise(F.coalesce("invoked_seq", "seq")).alias("at_seq"),
        called.alias("lo"),
        F.col("t_wall_us").alias("hi"),
        _code("kind", KINDS).alias("kind"),
        _code("phase", PHASES).alias("phase"),
        _reason().alias("reason"),
        (F.col("invisible_ms") * 1000).alias("lease_us"),
        recorder.alias("teller"),
        F.when(F.col("delivery").isNotNull(), F.xxhash64("delivery")).alias("handle"),
        F.when(
            is_deliver,
            F.struct(
                recorder.alias("recorder"),
                F.col("seq"),
                F.xxhash64(*SCOPE).alias("scope"),
                F.xxhash64(*SCOPE, "group").alias("gid"),
                F.xxhash64(*ACCOUNT).alias("account"),
                F.xxhash64(*SCOPE, "client_id").alias("client"),
                F.xxhash64(*ACCOUNT, "topic", "group").alias("poll"),
                F.xxhash64("broker", "queue").alias("place"),
                F.col("queue"),
                F.col("offset"),
                F.col("attempt"),
                F.when(F.col("batch").isNotNull(), F.xxhash64("recorder", "batch")).alias("batch"),
                F.when(F.col("receive_attempt") != "", F.xxhash64("receive_attempt")).alias("again"),
                F.col("due_us"),
                (F.col("observer") == "broker").alias("by_broker"),
                # Messages read from whole queues are in the order of the queue, whatever their message groups.
                (F.col("message_group").isNotNull() & ~F.coalesce(F.expr(BY_QUEUE), F.lit(False))).alias(
                    "grouped"
                ),
                F.coalesce(is_unwanted(), F.lit(False)).alias("unwanted"),
                F.coalesce(F.col("filter").startswith("TAG:"), F.lit(False)).alias("by_tag"),
                there.alias("there"),
                (F.col("t_wall_us") - F.coalesce("invoked_us", "t_wall_us")).alias("polled_us"),
            ),
        ).alias("facts"),
    )


def _code(name: str, codes: dict[str, int]) -> Column:
    column = F.lit(None).cast("int")
    for text, code in codes.items():
        column = F.when(F.col(name) == text, F.lit(code)).otherwise(column)
    return column


def _reason() -> Column:
    """Return why a lease was changed; simple consumers do not use the group's retry steps."""
    is_simple = F.col("reason").isNull() & (F.col("role") == "simple")
    return F.when(is_simple, F.lit(NO_LADDER)).otherwise(_code("reason", REASONS))
