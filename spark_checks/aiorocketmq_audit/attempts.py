"""Check `attempts`: the number of a delivery's attempt grows by one with each delivery, up to the group's limit.

INV-ATTEMPT: of two consecutive deliveries of a message to a group the second has the next number. It may be
the same where one request was answered twice, or where the broker took back what it could not write, and the same
or less in groups that lock whole queues (E5). It may be more where answers of polls were lost, by one for each (E7).
Where only a client saw it, somebody who was not recorded may have had the numbers between: that is possible, not
proven. INV-LIMIT: no attempt is above the maximum of a normal group (ordered groups are given up by their
consumers: R7.3).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, functions as F

from aiorocketmq_audit import excuses
from aiorocketmq_audit.double_delivery import repeated
from aiorocketmq_audit.findings import BROKEN, EXCUSED, POSSIBLE, finding

NAME = "attempts"


def attempts(deliveries: DataFrame, lost: DataFrame, marks: DataFrame) -> DataFrame:
    """Deliveries whose number is wrong: rows of FINDING. `lost` as `lost_answers` makes it."""
    return _growth(deliveries, lost, marks).unionByName(_limit(deliveries))


def is_suspicious() -> Column:
    """A delivery whose number, or that of the next one, needs an explanation."""
    return does_not_grow() | skips() | is_above_limit()


def does_not_grow() -> Column:
    """The next delivery has no higher number."""
    wrong = (F.col("n_attempt") <= F.col("attempt")) & ~repeated() & ~F.col("taken_back")
    return F.coalesce(wrong, F.lit(False))


def skips() -> Column:
    """Numbers are missing between this delivery and the next, and nobody else knows better."""
    return F.coalesce((F.col("n_attempt") > F.col("attempt") + 1) & ~F.col("attested"), F.lit(False))


def is_above_limit() -> Column:
    """The number is above the maximum of a normal group, or below 1."""
    above = (F.col("attempt") > F.col("max_attempts")) & (F.col("max_attempts") > 0) & ~F.col("ordered")
    return F.coalesce(above, F.lit(False)) | F.coalesce(F.col("attempt") < 1, F.lit(False))


def lost_answers(events: DataFrame) -> DataFrame:
    """Polls that ended without anybody knowing what they took, one row each."""
    lost = events.where((F.col("kind") == "receive") & (F.col("phase") == "info"))
    return lost.select(
        F.xxhash64("run_id", "case_id", "observer", "topic", "group").alias("l_poll"),
        F.coalesce("invoked_us", "t_wall_us").alias("l_from"),
    )


def _growth(deliveries: DataFrame, lost: DataFrame, marks: DataFrame) -> DataFrame:
    suspects = deliveries.where(does_not_grow() | skips())
    near = (F.col("poll") == F.col("l_poll")) & (F.col("l_from") <= F.col("n_hi"))
    counted = (
        suspects.join(lost, near, "left").groupBy(*suspects.columns).agg(F.count("l_from").alias("lost"))
    )
    judged = excuses.with_excuse(counted, marks)
    missing = F.col("n_attempt") - F.col("attempt") - 1
    answer_lost = skips() & (missing <= F.col("lost"))
    excuse = (
        F.when(F.col("copies"), F.lit(excuses.RESENT))
        .when(answer_lost, F.lit(excuses.ANSWER_LOST))
        # Of an answer with a new message all have its number (live-broker-consumption.md 11.17).
        .when(does_not_grow() & F.col("locks_queue"), F.lit(excuses.QUEUE_LOCKED))
        .otherwise(F.col("excuse"))
    )
    judged = judged.withColumn("excuse", excuse)
    verdict = (
        F.when(F.col("excuse").isNotNull(), F.lit(EXCUSED))
        .when(skips() & ~F.col("by_broker"), F.lit(POSSIBLE))
        .otherwise(F.lit(BROKEN))
    )
    return judged.select(
        finding(
            NAME,
            F.lit("INV-ATTEMPT"),
            verdict,
            margin=F.lit(None),
            at=F.col("n_hi"),
            first=(F.col("recorder"), F.col("seq")),
            second=(F.col("n_recorder"), F.col("n_seq")),
            excuse=F.col("excuse"),
            cut=F.col("cut"),
        )
    )


def _limit(deliveries: DataFrame) -> DataFrame:
    itself = (F.col("recorder"), F.col("seq"))
    return deliveries.where(is_above_limit()).select(
        finding(
            NAME,
            F.lit("INV-LIMIT"),
            F.lit(BROKEN),
            margin=F.lit(None),
            at=F.col("hi"),
            first=itself,
            second=itself,
            cut=F.col("cut"),
        )
    )
