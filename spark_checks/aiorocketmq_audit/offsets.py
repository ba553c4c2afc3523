"""Check `offsets`: a place in a queue holds one message, and serial sends of a producer take increasing places.

INV-OFFSET: receipts and first attempts name one message for each (queue, offset). Retries are left out: they
come from other queues. So may what a client gets after a poll of its group that was cancelled or lost its answer: what
that poll had taken comes again as a first attempt, and Apache's servers tell the place in the retry topic then.
INV-OFFSET-ORD: when a send was answered before the next one to the same queue by the same producer began, that one's
offset is higher.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, functions as F

from aiorocketmq_audit import excuses
from aiorocketmq_audit.findings import BROKEN, EXCUSED, finding, nothing_found, place

NAME = "offsets"

_ACCOUNT = ("run_id", "case_id", "observer")
_READER = (*_ACCOUNT, "group")
_QUEUE = (*_ACCOUNT, "topic", "broker", "queue")

RECEIPT = (
    "kind = 'send' and phase = 'ok' and offset is not null and queue is not null and message_id is not null"
    " and due_us is null and tx_id is null and lite_topic is null"
)
"""Sends whose receipt names the place in which the message is read; those of half, delayed and lite messages do not."""

FIRST = "kind = 'deliver' and attempt = 1 and offset is not null and message_id is not null and lite_topic is null"


def facts(events: DataFrame, marks: DataFrame) -> DataFrame:
    """Places, and sends one after the other: rows of FINDING, whose verdict is null where all is well."""
    return places(events, marks).unionByName(serial(events, marks))


def judged(events: DataFrame) -> DataFrame:
    """The same facts; `wrong` are the findings."""
    return _spots(_placed(events)).select("wrong").unionByName(_sends(events).select("wrong"))


def places(events: DataFrame, marks: DataFrame) -> DataFrame:
    """INV-OFFSET: one row per place. Numbers only are aggregated; the proof of what is wrong is looked up."""
    placed, who = _placed(events), F.xxhash64("message_id")
    spots = _spots(placed)
    fact = F.struct(F.col("t_wall_us").alias("at"), *_proof())
    proof = placed.join(spots.where("wrong").select("spot"), "spot")
    scope = F.max(F.xxhash64("run_id", "case_id")).alias("scope")
    # The first row of each message: the second of these is the first that contradicts.
    firsts = proof.groupBy("spot", who.alias("named")).agg(F.min(fact).alias("first"), scope)
    told = firsts.groupBy("spot").agg(
        F.sort_array(F.collect_list("first")).alias("told"), F.max("scope").alias("scope")
    )
    a, b = F.col("told")[0], F.col("told")[1]
    broken = _judged(told.withColumn("wrong", F.lit(True)), marks, "INV-OFFSET", a, b)
    return spots.where(~F.col("wrong")).select(nothing_found(NAME, "INV-OFFSET")).unionByName(broken)


def _placed(events: DataFrame) -> DataFrame:
    """Receipts and first attempts, with the `spot` that each names."""
    return (
        events.where(f"({RECEIPT}) or ({FIRST})")
        .withColumns({"spot": F.xxhash64(*_QUEUE, "offset"), "reader": F.xxhash64(*_READER)})
        .join(F.broadcast(_first_lost_answer(events)), "reader", "left")
        .where("kind = 'send' or lost_at is null or t_wall_us < lost_at")
    )


def _spots(placed: DataFrame) -> DataFrame:
    seen = placed.select("spot", F.xxhash64("message_id").alias("message")).groupBy("spot")
    return seen.agg((F.min("message") != F.max("message")).alias("wrong"))


def serial(events: DataFrame, marks: DataFrame) -> DataFrame:
    """INV-OFFSET-ORD: one row per send but the first of each producer to each queue."""
    sends = _sends(events)
    fact = F.struct(F.col("b_at").alias("at"), "recorder", F.col("b_seq").alias("seq"))
    broken = sends.where("wrong").withColumns({"a": fact, "b": F.struct("at", "recorder", "seq")})
    found = _judged(broken, marks, "INV-OFFSET-ORD", F.col("a"), F.col("b"))
    return sends.where(~F.col("wrong")).select(nothing_found(NAME, "INV-OFFSET-ORD")).unionByName(found)


def _sends(events: DataFrame) -> DataFrame:
    """Sends beside the one before, by the same producer to the same queue."""
    sent = events.where(RECEIPT).select(
        F.xxhash64(*_QUEUE, "recorder", "client_id").alias("way"),
        F.xxhash64("run_id", "case_id").alias("scope"),
        F.xxhash64("recorder").alias("recorder"),
        "offset",
        F.col("t_wall_us").alias("at"),
        "seq",
        F.coalesce("invoked_us", "t_wall_us").alias("called"),
        F.coalesce("invoked_seq", "seq").alias("called_seq"),
    )
    own = Window.partitionBy("way").orderBy("at", "seq")
    names = ("offset", "at", "seq")
    seen = sent.withColumns({f"b_{name}": F.lag(name).over(own) for name in names}).where("b_seq is not null")
    one_after_the_other = (F.col("b_at") < F.col("called")) | (
        (F.col("b_at") == F.col("called")) & (F.col("b_seq") < F.col("called_seq"))
    )
    wrong = one_after_the_other & (F.col("offset") <= F.col("b_offset"))
    return seen.withColumn("wrong", F.coalesce(wrong, F.lit(False)))


def _first_lost_answer(events: DataFrame) -> DataFrame:
    """For each group's client account: when the first poll began of whose answer nothing is known; few rows."""
    lost = events.where("kind = 'receive' and phase = 'info' and observer = 'client'")
    began = F.coalesce("invoked_us", "t_wall_us")
    return lost.groupBy(F.xxhash64(*_READER).alias("reader")).agg(F.min(began).alias("lost_at"))


def _proof() -> tuple[Column, Column]:
    here = place()
    return here["recorder"].alias("recorder"), here["seq"].alias("seq")


def _judged(seen: DataFrame, marks: DataFrame, name: str, first: Column, second: Column) -> DataFrame:
    """A server that crashed before it had written everything gives places away again: E4."""
    spans = seen.select(
        "wrong",
        "scope",
        F.lit(None).cast("bigint").alias("who"),
        F.lit(None).cast("bigint").alias("client"),
        F.lit(None).cast("bigint").alias("acked_hi"),
        first["at"].alias("lo"),
        first["recorder"].alias("recorder"),
        first["seq"].alias("seq"),
        second["at"].alias("n_hi"),
        second["recorder"].alias("n_recorder"),
        second["seq"].alias("n_seq"),
    )
    judged = excuses.with_excuse(spans, marks)
    excuse = F.when(F.col("wrong"), F.col("excuse"))
    return judged.select(
        finding(
            NAME,
            F.lit(name),
            F.when(F.col("wrong"), F.when(excuse.isNotNull(), F.lit(EXCUSED)).otherwise(F.lit(BROKEN))),
            margin=F.lit(None),
            at=F.col("n_hi"),
            first=(F.col("recorder"), F.col("seq")),
            second=(F.col("n_recorder"), F.col("n_seq")),
            excuse=excuse,
        )
    )
