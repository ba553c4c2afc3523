"""A part of check `filters`: an answer holds messages of the topic, and for the group, that its poll asked for.

INV-ISOLATE: a delivery beside its receive, by the id of the operation, which is unique in one life of a recorder.
Deliveries whose receive nobody told of, and those of pull consumers, which tell no receives, are not judged.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, functions as F

from aiorocketmq_audit.findings import BROKEN, finding, nothing_found

CHECK, INVARIANT = "filters", "INV-ISOLATE"


def facts(events: DataFrame) -> DataFrame:
    """Answers whose poll is known: rows of FINDING, whose verdict is null where all is well."""
    seen = judged(events)
    fine = seen.where(~F.col("wrong")).select(nothing_found(CHECK, INVARIANT))
    return fine.unionByName(_wrong(seen, events))


def judged(events: DataFrame) -> DataFrame:
    """One row per answer whose poll is known; `wrong` are the findings."""
    is_asked = F.col("kind") == "receive"
    # Numbers only, so that the aggregation needs no sort; which events prove a finding is looked up for those alone.
    packed = _told(events).select(
        _request().alias("request"),
        F.when(is_asked, _place()).alias("asked"),
        F.when(~is_asked, _place()).alias("given"),
    )
    seen = packed.groupBy("request").agg(
        *(
            most(name).alias(f"{name}_{which}")
            for name in ("asked", "given")
            for which, most in (("least", F.min), ("most", F.max))
        )
    )
    # Two polls of one id say nothing.
    known = seen.where("asked_least = asked_most and given_least is not null")
    other = (F.col("given_least") != F.col("asked_most")) | (F.col("given_most") != F.col("asked_most"))
    return known.select("request", F.col("asked_most").alias("asked"), other.alias("wrong"))


def _told(events: DataFrame) -> DataFrame:
    return events.where(
        "topic is not null and group is not null and "
        "((kind = 'receive' and op_id is not null) or (kind = 'deliver' and batch is not null))"
    )


def _request() -> Column:
    operation = F.when(F.col("kind") == "receive", F.col("op_id")).otherwise(F.col("batch"))
    return F.xxhash64("recorder", "boot", operation)


def _place() -> Column:
    return F.xxhash64("topic", "group")


def _wrong(seen: DataFrame, events: DataFrame) -> DataFrame:
    """The poll, and the first message of its answer that it had not asked for."""
    few = seen.where("wrong").select("request", "asked")
    proof = _told(events).withColumn("request", _request()).join(few, "request")
    fact = F.struct("seq", F.col("t_wall_us").alias("at"), F.xxhash64("recorder").alias("recorder"))
    is_asked = F.col("kind") == "receive"
    told = proof.groupBy("request").agg(
        F.min(F.when(is_asked, fact)).alias("poll"),
        F.min(F.when(~is_asked & (_place() != F.col("asked")), fact)).alias("given"),
    )
    return told.select(
        finding(
            CHECK,
            F.lit(INVARIANT),
            F.lit(BROKEN),
            margin=F.lit(None),
            at=F.col("given.at"),
            first=(F.col("poll.recorder"), F.col("poll.seq")),
            second=(F.col("given.recorder"), F.col("given.seq")),
        )
    )
