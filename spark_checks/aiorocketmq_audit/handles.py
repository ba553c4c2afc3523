"""Check `handles`: a receipt handle stands for one delivery of one message.

INV-HANDLE: no two deliveries come with the same handle, unless one request was answered twice; and whoever
uses a handle settles the message that it came with.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from aiorocketmq_audit.findings import BROKEN, finding, nothing_found

NAME = "handles"


def facts(events: DataFrame) -> DataFrame:
    """Handles that were given out: rows of FINDING, whose verdict is null where all is well."""
    seen = judged(events)
    fine = seen.where(~F.col("wrong")).select(nothing_found(NAME, "INV-HANDLE"))
    return fine.unionByName(_wrong(seen, _used(events)))


def judged(events: DataFrame) -> DataFrame:
    """One row per handle that was given out; `wrong` are the findings."""
    deliver = F.col("kind") == "deliver"
    # Numbers only, so that the aggregation needs no sort; which events prove a finding is looked up for those alone.
    packed = _used(events).select(
        F.xxhash64("run_id", "case_id", "observer", "delivery").alias("handle"),
        F.xxhash64("message_id").alias("message"),
        F.when(deliver, F.xxhash64("receive_attempt", "batch_pos")).alias("request"),
        (deliver & F.coalesce(F.col("receive_attempt") == "", F.lit(True))).cast("int").alias("alone"),
        deliver.cast("int").alias("given"),
    )
    seen = packed.groupBy("handle").agg(
        F.sum("given").alias("given"),
        F.sum("alone").alias("alone"),
        F.min("message").alias("least"),
        F.max("message").alias("most"),
        F.min("request").alias("request_least"),
        F.max("request").alias("request_most"),
    )
    # A handle from before the recording is not known.
    known = seen.where("given > 0")
    again = (F.col("given") > 1) & ((F.col("alone") > 0) | (F.col("request_least") != F.col("request_most")))
    return known.withColumn("wrong", again | (F.col("least") != F.col("most")))


def _used(events: DataFrame) -> DataFrame:
    return events.where(
        "delivery is not null and message_id is not null and (kind = 'deliver' or "
        "(kind in ('ack', 'change', 'forward') and phase = 'ok'))"
    )


def _wrong(judged: DataFrame, used: DataFrame) -> DataFrame:
    few = judged.where("wrong").select("handle")
    proof = used.withColumn("handle", F.xxhash64("run_id", "case_id", "observer", "delivery")).join(
        few, "handle"
    )
    fact = F.struct(F.col("t_wall_us").alias("at"), F.xxhash64("recorder").alias("recorder"), "seq")
    told = proof.groupBy("handle").agg(F.min(fact).alias("a"), F.max(fact).alias("b"))
    return told.select(
        finding(
            NAME,
            F.lit("INV-HANDLE"),
            F.lit(BROKEN),
            margin=F.lit(None),
            at=F.col("b.at"),
            first=(F.col("a.recorder"), F.col("a.seq")),
            second=(F.col("b.recorder"), F.col("b.seq")),
        )
    )
