"""What allows a broker to break a promise: resets, clients that left, restarts, and locks of whole queues (E2 to E5).

Excuses are looked up for suspicious deliveries only, which are few; each use is counted in the summary.
E1 (the lease was changed) is part of the model in `deliveries`; E6 (one answer repeated) and E7 (an answer was
lost) are part of the check that meets them.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

RESET, OWNER_GONE, RESTARTED, QUEUE_LOCKED = "E2 reset", "E3 owner gone", "E4 restart", "E5 queue locked"
ASSIGNED = "E3 assigned anew"
RESENT, ANSWER_LOST = "resent by its producer", "E7 answer lost"

FLUSH_US = 6_000_000
"""A restarted server may have forgotten acks of this many last microseconds (live-broker-consumption.md 12)."""

MOST_MARKS = 10_000

RESETS, GONE, RESTARTS = ("reset", "seek"), ("client.stop", "client.crash"), ("restart", "crash")
"""Kinds of events, and of faults."""
_CLIENTS = (*GONE, "assign")
MARKING = (*RESETS, "fault", *_CLIENTS)
"""Kinds of events that may be marks."""


def marks(events: DataFrame) -> DataFrame:
    """One row holding an array of (excuse, scope, key, at, by, number); a null key concerns everyone."""
    fault = F.col("fault").getItem("kind")
    excuse = (
        F.when(F.col("kind").isin(*RESETS), F.lit(RESET))
        .when(F.col("kind").isin(*GONE), F.lit(OWNER_GONE))
        .when((F.col("kind") == "assign") & (F.col("role") == "pull"), F.lit(ASSIGNED))
        .when((F.col("kind") == "fault") & fault.isin(*RESTARTS), F.lit(RESTARTED))
    )
    key = (
        F.when(F.col("kind").isin(*RESETS), F.xxhash64("group"))
        .when(F.col("kind").isin(*_CLIENTS), F.xxhash64("client_id"))
        .otherwise(F.lit(None).cast("bigint"))
    )
    marked = events.where(F.col("kind").isin(*MARKING)).select(
        excuse.alias("excuse"),
        F.xxhash64("run_id", "case_id").alias("scope"),
        key.alias("key"),
        F.col("t_wall_us").alias("at"),
        F.xxhash64("recorder").alias("by"),
        F.col("seq").alias("number"),
    )
    few = marked.where("excuse is not null").limit(MOST_MARKS)
    all_ = F.collect_list(F.struct("excuse", "scope", "key", "at", "by", "number"))
    # In order, so that of several excuses the same one is told every time.
    return few.agg(F.sort_array(all_).alias("marks"))


def with_excuse(suspects: DataFrame, marks: DataFrame, *, moves: bool = False) -> DataFrame:
    """Add `excuse`: the first mark between a delivery (`lo`) and the one that looks wrong (`n_hi`), or null.

    With a manual clock much happens at one instant; there the recorder's own numbers tell what came first.
    `moves` lets assignments of queues excuse too, for consumers that own them.
    """
    others = "true" if moves else f"m.excuse <> '{ASSIGNED}'"
    found = F.expr(
        f"""get(filter(marks, m -> m.scope = scope and {others}
                   and (m.at > lo or (m.at = lo and m.by = recorder and m.number > seq))
                   and (m.at < n_hi or (m.at = n_hi and m.by = n_recorder and m.number < n_seq))
                   and (m.key is null or m.key = who or m.key = client)
                   and (m.excuse <> '{RESTARTED}' or acked_hi is null or acked_hi > m.at - {FLUSH_US})
            ), 0).excuse"""
    )
    return suspects.crossJoin(F.broadcast(marks)).withColumn("excuse", found).drop("marks")


def with_queue_lock(suspects: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Fill `excuse` where a whole queue was locked and an earlier message of the same answer was not yet acked."""
    locked = suspects.where("excuse is null and locks_queue and batch is not null")
    wanted = locked.select(
        F.col("batch").alias("w_batch"),
        F.col("offset").alias("w_offset"),
        F.col("n_hi").alias("w_until"),
        F.col("recorder").alias("w_recorder"),
        F.col("seq").alias("w_seq"),
    )
    unsettled = (
        deliveries.where("locks_queue")
        .select("batch", "offset", "acked_hi")
        .join(
            F.broadcast(wanted),
            (F.col("batch") == F.col("w_batch"))
            & (F.col("offset") < F.col("w_offset"))
            & (F.col("acked_hi").isNull() | (F.col("acked_hi") > F.col("w_until"))),
        )
        .select(
            F.col("w_recorder").alias("recorder"),
            F.col("w_seq").alias("seq"),
            F.lit(True).alias("behind_gap"),
        )
        .distinct()
    )
    known = suspects.join(F.broadcast(unsettled), ["recorder", "seq"], "left")
    excuse = F.when(F.col("behind_gap"), F.lit(QUEUE_LOCKED)).otherwise(F.col("excuse"))
    return known.withColumn("excuse", excuse).drop("behind_gap")
