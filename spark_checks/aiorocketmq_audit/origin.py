"""Check `origin`: what is handed out was sent, as it was sent, and was not refused.

INV-CONTENT: the body of every delivery is the body that was sent, and so are its properties. INV-FAILED: a
send that was refused is never delivered. INV-ORIGIN: on a broker's account, which knows all sends, nothing
comes from nowhere; a client cannot know that. One aggregation by message id, since ids are unique
(client-behaviour.md, message ids).
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, functions as F

from aiorocketmq_audit.findings import BROKEN, finding, place, tally

NAME = "origin"


_MESSAGE = ("run_id", "case_id", "observer", "message_id")
_PARTS = ("body", "props")


def origin(traced: DataFrame, events: DataFrame) -> DataFrame:
    """Messages that were delivered and should not be, or not so: rows of FINDING. `traced` as `traces` makes it."""
    name = F.when(is_changed(), "INV-CONTENT").when(is_refused(), "INV-FAILED").otherwise("INV-ORIGIN")
    wrong = traced.where(is_suspicious()).select("trace", name.alias("invariant"))
    here, is_send = place(), F.col("kind") == "send"
    proof = _traced(events).withColumn("trace", F.xxhash64(*_MESSAGE)).join(wrong, "trace")
    told = proof.groupBy("trace", "invariant").agg(
        F.min(F.when(is_send, here)).alias("sent"), F.min(F.when(~is_send, here)).alias("given")
    )
    return told.select(
        finding(
            NAME,
            F.col("invariant"),
            F.lit(BROKEN),
            margin=F.lit(None),
            at=F.col("given.at"),
            first=(F.coalesce("sent.recorder", "given.recorder"), F.coalesce("sent.seq", "given.seq")),
            second=(F.col("given.recorder"), F.col("given.seq")),
        )
    )


def traces(events: DataFrame) -> DataFrame:
    """One row per delivered message of an account: how it was sent, and how it came. Numbers only, so that the
    aggregation needs no sort."""
    phase, is_send = F.col("phase"), F.col("kind") == "send"
    account = F.xxhash64("run_id", "case_id", "observer")
    packed = _traced(events).select(
        F.xxhash64(*_MESSAGE).alias("trace"),
        account.alias("account"),
        (F.col("observer") == "broker").alias("by_broker"),
        is_send.alias("is_send"),
        (is_send & (phase == "invoke")).cast("int").alias("called"),
        (is_send & phase.isin("ok", "fail", "info")).cast("int").alias("answered"),
        (is_send & (phase == "fail")).cast("int").alias("refused"),
        (is_send & (phase == "ok")).cast("int").alias("confirmed"),
        *(
            F.when(whose & F.col(f"{part}_sha").isNotNull(), F.xxhash64(f"{part}_sha")).alias(f"{way}_{part}")
            for way, whose in (("sent", is_send), ("given", ~is_send))
            for part in _PARTS
        ),
        F.when(~is_send, F.col("t_wall_us")).alias("given_at"),
        "store_us",
    )
    seen = packed.groupBy("trace", "account", "by_broker").agg(
        F.count_if("is_send").alias("sends"),
        F.count_if(~F.col("is_send")).alias("times"),
        *(F.sum(name).alias(name) for name in ("called", "answered", "refused", "confirmed")),
        *(
            most(f"{way}_{part}").alias(f"{way}_{part}_{name}")
            for name, most in (("least", F.min), ("most", F.max))
            for way in ("sent", "given")
            for part in _PARTS
        ),
        F.min_by("store_us", "given_at").alias("given_store"),
    )
    began = events.where("kind = 'recorder.start'").groupBy(account.alias("account"))
    starts = began.agg(F.min("t_wall_us").alias("began"))
    return seen.where("times > 0").join(F.broadcast(starts), "account", "left")


def _traced(events: DataFrame) -> DataFrame:
    return events.where(F.col("kind").isin("send", "deliver") & F.col("message_id").isNotNull())


CONFIRMED, RECOVERED = "confirmed", "recovered"
"""Delivered messages whose send was answered OK, and those of which nobody knew whether they were stored until they
came (INV-CONSERVE)."""


def facts(traced: DataFrame) -> DataFrame:
    """Messages that have both ends in the recording or should have, and which of them are findings: for `counted`,
    where CONFIRMED and RECOVERED are counted apart."""
    judged = (F.col("sends") > 0) | F.col("by_broker")
    is_recovered = (F.col("sends") > 0) & ~is_refused()
    kind = F.when(F.col("confirmed") > 0, F.lit(CONFIRMED)).when(is_recovered, F.lit(RECOVERED))
    return tally(F.coalesce(kind, F.lit(NAME)), traced, judged=judged, found=is_suspicious())


def is_suspicious() -> Column:
    """The message breaks one of the three rules."""
    return is_changed() | is_refused() | is_from_nowhere()


def is_changed() -> Column:
    """It came with another body or other properties than it was sent with."""
    return reduce(Column.__or__, (_is_other(part) for part in _PARTS))


def _is_other(part: str) -> Column:
    """Sends of one id that differ say nothing, nor does an account that leaves the part out."""
    sent = F.col(f"sent_{part}_least")
    other = (F.col(f"given_{part}_least") != sent) | (F.col(f"given_{part}_most") != sent)
    return F.coalesce((sent == F.col(f"sent_{part}_most")) & other, F.lit(False))


def is_refused() -> Column:
    """All its sends were answered, and all answers were refusals."""
    return (
        (F.col("refused") > 0)
        & (F.col("answered") == F.col("refused"))
        & (F.col("called") <= F.col("answered"))
    )


def is_from_nowhere() -> Column:
    """The broker stored it after its account began, and tells of no send."""
    later = F.col("given_store") > F.col("began")
    return F.coalesce((F.col("sends") == 0) & F.col("by_broker") & later, F.lit(False))
