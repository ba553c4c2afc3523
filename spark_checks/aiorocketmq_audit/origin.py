"""Check `origin`: what is handed out was sent, as it was sent, and was not refused.

INV-CONTENT: the body of every delivery is the body that was sent. INV-FAILED: a send that was refused is never
delivered. INV-ORIGIN: on a broker's account, which knows all sends, nothing comes from nowhere; a client
cannot know that. One aggregation by message id, since ids are unique (client-behaviour.md, message ids).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, functions as F

from aiorocketmq_audit.findings import BROKEN, counted, finding

NAME = "origin"


def origin(traced: DataFrame) -> DataFrame:
    """Messages that were delivered and should not be, or not so: rows of FINDING. `traced` as `traces` makes it."""
    name = F.when(is_changed(), "INV-CONTENT").when(is_refused(), "INV-FAILED").otherwise("INV-ORIGIN")
    return traced.where(is_suspicious()).select(
        finding(
            NAME,
            name,
            F.lit(BROKEN),
            margin=F.lit(None),
            at=F.col("given.at"),
            first=(F.coalesce("sent.recorder", "given.recorder"), F.coalesce("sent.seq", "given.seq")),
            second=(F.col("given.recorder"), F.col("given.seq")),
        )
    )


def traces(events: DataFrame) -> DataFrame:
    """One row per delivered message of an account: how it was sent, and how it came."""
    account = ("run_id", "case_id", "observer")
    rows = events.where(F.col("kind").isin("send", "deliver") & F.col("message_id").isNotNull())
    is_send, phase = F.col("kind") == "send", F.col("phase")
    body = F.xxhash64("body_sha")
    fact = F.struct(
        F.col("t_wall_us").alias("at"), F.xxhash64("recorder").alias("recorder"), "seq", "store_us"
    )
    seen = rows.groupBy(*account, "message_id").agg(
        F.count_if(is_send).alias("sends"),
        F.count_if(is_send & (phase == "invoke")).alias("called"),
        F.count_if(is_send & phase.isin("ok", "fail", "info")).alias("answered"),
        F.count_if(is_send & (phase == "fail")).alias("refused"),
        F.min(F.when(is_send, body)).alias("sent_least"),
        F.max(F.when(is_send, body)).alias("sent_most"),
        F.min(F.when(~is_send, body)).alias("given_least"),
        F.max(F.when(~is_send, body)).alias("given_most"),
        F.min(F.when(is_send, fact)).alias("sent"),
        F.min(F.when(~is_send, fact)).alias("given"),
    )
    began = events.where("kind = 'recorder.start'").groupBy(*account).agg(F.min("t_wall_us").alias("began"))
    known = seen.where(F.col("given").isNotNull()).join(F.broadcast(began), list(account), "left")
    return known.withColumn("cut", F.lit(None).cast("bigint"))


def count(traced: DataFrame) -> tuple[int, int]:
    """How many messages have both ends in the recording or should have, and how many of them are findings."""
    judged = (F.col("sends") > 0) | (F.col("observer") == "broker")
    return counted(traced, judged=judged, found=is_suspicious())


def is_suspicious() -> Column:
    """The message breaks one of the three rules."""
    return is_changed() | is_refused() | is_from_nowhere()


def is_changed() -> Column:
    """It came with another body than it was sent with; sends of one id with different bodies say nothing."""
    one_body = F.col("sent_least") == F.col("sent_most")
    other = (F.col("given_least") != F.col("sent_least")) | (F.col("given_most") != F.col("sent_least"))
    return F.coalesce(one_body & other, F.lit(False))


def is_refused() -> Column:
    """All its sends were answered, and all answers were refusals."""
    return (
        (F.col("refused") > 0)
        & (F.col("answered") == F.col("refused"))
        & (F.col("called") <= F.col("answered"))
    )


def is_from_nowhere() -> Column:
    """The broker stored it after its account began, and tells of no send."""
    later = F.col("given.store_us") > F.col("began")
    return F.coalesce((F.col("sends") == 0) & (F.col("observer") == "broker") & later, F.lit(False))
