"""Check `retry timing`: a message comes again when it was asked to, not before, and not much later while
someone asks for it.

INV-EARLY: after a change of its lease that asked for a retry, a message is not handed out before that time.
INV-LATE: when a hold has ended and a poll of the group stays open from then until the bound, the message has
come by then. Without such a poll nothing is said: nobody asked. Ordered groups are left out of INV-LATE, as
others may have to go first; so is what comes by a poll that was out already when the hold ended, because servers
before 5.4 wake none for what comes again (live-broker-consumption.md V1).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, functions as F

from aiorocketmq_audit import excuses
from aiorocketmq_audit.double_delivery import acked_in_time, looks_early, other_way_round, repeated, too_early
from aiorocketmq_audit.findings import BROKEN, EXCUSED, POSSIBLE, finding

NAME = "retry timing"

PARKED_US = 30_000_000
"""No server lets a poll wait for as long as that."""
_SLICE_US = 20_000_000
"""Polls are looked up by the slices of time that they span: looking through all polls of a group for each late message
would take time in the square of a recording's length. Servers let no poll wait for longer, so mostly they are two."""
_MOST_SLICES = 10_000


def retry_timing(deliveries: DataFrame, polls: DataFrame, marks: DataFrame, *, ended: DataFrame) -> DataFrame:
    """Retries that came too early or too late: rows of FINDING. `ended` tells the last instant of each
    observer's account."""
    return _early(deliveries, marks).unionByName(_late(deliveries, polls, marks, ended))


def is_suspiciously_early() -> Column:
    """A retry that came, or may have come, before its time."""
    return F.col("asked") & F.col("n_hi").isNotNull() & looks_early() & ~acked_in_time() & ~repeated()


def is_suspiciously_late(ended: Column) -> Column:
    """A message that was free for longer than the bound and did not come, or had not when the recording `ended`."""
    bound = F.col("until_hi") + F.col("late")
    is_open = F.col("n_hi").isNull() & F.col("done_lo").isNull() & (F.col("attempt") < F.col("max_attempts"))
    waited = (F.col("n_hi") > bound) | (is_open & (ended > bound))
    judged = (
        ~F.coalesce("ordered", F.lit(False))
        & F.col("acked_hi").isNull()
        & ~F.col("unsure")
        & ~F.col("copies")
    )
    return F.coalesce(waited & judged, F.lit(False))


def polls(events: DataFrame) -> DataFrame:
    """Answered polls as intervals: what is a receive of a group for a topic, on one queue or on all; one row for each
    slice of time that one spans."""
    answered = events.where(
        (F.col("kind") == "receive") & (F.col("phase") == "ok") & F.col("invoked_us").isNotNull()
    )
    begun = _slice("invoked_us")
    return answered.select(
        F.xxhash64("run_id", "case_id", "observer", "topic", "group").alias("p_poll"),
        F.col("queue").alias("p_queue"),
        F.col("invoked_us").alias("p_from"),
        F.col("t_wall_us").alias("p_to"),
        F.explode(F.sequence(begun, F.least(_slice("t_wall_us"), begun + _MOST_SLICES))).alias("p_slice"),
    )


def _slice(at: str) -> Column:
    return F.floor(F.col(at) / _SLICE_US)


def _early(deliveries: DataFrame, marks: DataFrame) -> DataFrame:
    suspects = deliveries.where(is_suspiciously_early())
    judged = excuses.with_excuse(suspects, marks)
    judged = judged.withColumn(
        "excuse", F.when(F.col("copies"), F.lit(excuses.RESENT)).otherwise(F.col("excuse"))
    )
    definite = too_early("until_lo") & ~other_way_round()
    judged = judged.where(definite | ~F.col("unsure"))
    verdict = (
        F.when(F.col("excuse").isNotNull(), F.lit(EXCUSED))
        .when(definite, F.lit(BROKEN))
        .otherwise(F.lit(POSSIBLE))
    )
    return judged.select(
        finding(
            NAME,
            F.lit("INV-EARLY"),
            verdict,
            margin=F.col("until_lo") - F.col("n_hi"),
            at=F.col("n_hi"),
            first=(F.col("recorder"), F.col("seq")),
            second=(F.col("n_recorder"), F.col("n_seq")),
            excuse=F.col("excuse"),
            cut=F.col("cut"),
        )
    )


def _late(deliveries: DataFrame, polls: DataFrame, marks: DataFrame, ended: DataFrame) -> DataFrame:
    bound = F.col("until_hi") + F.col("late")
    suspects = deliveries.join(F.broadcast(ended), "account").where(is_suspiciously_late(F.col("ended_us")))
    covered = suspects.join(
        polls,
        (F.col("poll") == F.col("p_poll"))
        & (_slice("until_hi") == F.col("p_slice"))
        & (F.col("p_queue").isNull() | (F.col("p_queue") == F.col("queue")))
        & (F.col("p_from") <= F.col("until_hi"))
        & (F.col("p_to") >= bound),
        "left_semi",
    )
    parked = (F.col("n_polled") < PARKED_US) & (F.col("n_hi") - F.col("n_polled") <= F.col("until_hi"))
    covered = covered.where(~F.coalesce(parked, F.lit(False)))
    at = F.coalesce("n_hi", "ended_us")
    judged = excuses.with_excuse(covered.withColumn("n_hi", at), marks, only=excuses.RESTARTED)
    return judged.select(
        finding(
            NAME,
            F.lit("INV-LATE"),
            F.when(F.col("excuse").isNotNull(), F.lit(EXCUSED)).otherwise(F.lit(BROKEN)),
            margin=F.col("n_hi") - F.col("until_hi"),
            at=F.col("n_hi"),
            first=(F.col("recorder"), F.col("seq")),
            second=(F.col("n_recorder"), F.col("n_seq")),
            excuse=F.col("excuse"),
            cut=F.col("cut"),
        )
    )
