"""Check `dead letters`: a message becomes a dead letter of a group once, not before its attempts are used up,
and is not handed out afterwards.

INV-DLQ, on a broker's account alone: a client that reads a dead-letter topic sees copies, not the moment at
which they were made.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, functions as F

from aiorocketmq_audit import excuses
from aiorocketmq_audit.findings import BROKEN, EXCUSED, finding

NAME = "dead letters"


def dead_letters(
    events: DataFrame, deliveries: DataFrame, settings: DataFrame, marks: DataFrame
) -> DataFrame:
    """Dead letters that should not be, and what came after them: rows of FINDING."""
    return _made_wrongly(events, settings).unionByName(_handed_out_afterwards(deliveries, marks))


def comes_after() -> Column:
    """The message had become a dead letter before the next delivery began."""
    return F.coalesce(F.col("dead_hi") < F.col("n_lo"), F.lit(False))


def _made_wrongly(events: DataFrame, settings: DataFrame) -> DataFrame:
    """Dead letters made twice, or before the last attempt although nobody forwarded the message."""
    scope = ("run_id", "case_id", "observer", "topic", "group", "message_id")
    seen = events.where(F.col("observer") == "broker").where(F.col("kind").isin("dlq.deliver", "forward"))
    place = F.struct("broker", "queue", "offset")
    is_dead = F.col("kind") == "dlq.deliver"
    fact = F.struct(
        F.col("t_wall_us").alias("at"), F.xxhash64("recorder").alias("recorder"), "seq", "attempt"
    )
    made = seen.groupBy(*scope).agg(
        F.count_if(is_dead).alias("letters"),
        F.count_if(~is_dead).alias("forwards"),
        F.count_distinct(F.when(is_dead, place)).alias("places"),
        F.min(F.when(is_dead, fact)).alias("first"),
        F.max(F.when(is_dead, fact)).alias("last"),
    )
    known = made.where("letters > 0").join(
        F.broadcast(settings.select("run_id", "case_id", "group", "max_attempts")),
        ["run_id", "case_id", "group"],
        "left",
    )
    twice = F.col("letters") > 1
    too_soon = (F.col("forwards") == 0) & F.coalesce(
        F.col("first.attempt") < F.col("max_attempts"), F.lit(False)
    )
    resent = twice & (F.col("places") > 1) & ~too_soon
    wrong = known.where(twice | too_soon)
    return wrong.select(
        finding(
            NAME,
            F.lit("INV-DLQ"),
            F.when(resent, F.lit(EXCUSED)).otherwise(F.lit(BROKEN)),
            margin=F.when(twice, F.col("last.at") - F.col("first.at")),
            at=F.col("last.at"),
            first=(F.col("first.recorder"), F.col("first.seq")),
            second=(F.col("last.recorder"), F.col("last.seq")),
            excuse=F.when(resent, F.lit(excuses.RESENT)),
        )
    )


def _handed_out_afterwards(deliveries: DataFrame, marks: DataFrame) -> DataFrame:
    judged = excuses.with_excuse(deliveries.where(comes_after()), marks)
    excuse = F.when(F.col("copies"), F.lit(excuses.RESENT)).otherwise(F.col("excuse"))
    return judged.select(
        finding(
            NAME,
            F.lit("INV-DLQ"),
            F.when(excuse.isNotNull(), F.lit(EXCUSED)).otherwise(F.lit(BROKEN)),
            margin=F.col("n_lo") - F.col("dead_hi"),
            at=F.col("n_hi"),
            first=(F.col("recorder"), F.col("seq")),
            second=(F.col("n_recorder"), F.col("n_seq")),
            excuse=excuse,
            cut=F.col("cut"),
        )
    )
