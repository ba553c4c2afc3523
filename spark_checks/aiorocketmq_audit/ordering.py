"""Check `ordering`: an ordered group gets the messages of a message group in the order of their offsets, one
after the other.

INV-ORD: before a message is handed out, every earlier one of its message group that was handed out is settled
(acked, forwarded, dead-lettered, attempts exhausted), or comes with it in the same answer. INV-ORD-FIRST:
first deliveries have increasing offsets.

Clocks of two recorders may disagree by a little: what lies closer together than that is no proof.

Both are running maxima over the deliveries of a (lane, queue) in the order of time. For INV-ORD the maximum
is that of the ends of what was handed out before, taken where an answer begins, so that messages of one
answer do not accuse each other. A delivery's part in it ends with the next delivery of the same message,
which carries on from there. What two recorders told is compared with their clocks' tolerance, and so is the end of a
message of which several told.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, functions as F

from aiorocketmq_audit import excuses
from aiorocketmq_audit.findings import BROKEN, EXCUSED, finding

NAME = "ordering"

_NEVER = 1 << 62


def ordering(deliveries: DataFrame, marks: DataFrame) -> DataFrame:
    """First deliveries that came too soon or too late: rows of FINDING."""
    found = suspects(deliveries)

    def proof(name: str) -> Column:
        return F.when(F.col("late"), F.col(f"passed.{name}")).otherwise(F.col(f"open.{name}"))

    # For an excuse the interval runs from the earlier delivery to this one.
    spans = found.select(
        "scope",
        "who",
        F.lit(None).cast("bigint").alias("client"),
        F.lit(None).cast("bigint").alias("acked_hi"),
        F.col("hi").alias("n_hi"),
        F.col("recorder").alias("n_recorder"),
        F.col("seq").alias("n_seq"),
        proof("hi").alias("lo"),
        proof("recorder").alias("recorder"),
        proof("seq").alias("seq"),
        proof("cut").alias("cut"),
        proof("end").alias("end"),
        "late",
    )
    judged = excuses.with_excuse(spans, marks)
    ahead = F.when(F.col("late"), F.col("n_hi") - F.col("lo")).otherwise(F.col("end") - F.col("n_hi"))
    return judged.select(
        finding(
            NAME,
            F.when(F.col("late"), F.lit("INV-ORD-FIRST")).otherwise(F.lit("INV-ORD")),
            F.when(F.col("excuse").isNotNull(), F.lit(EXCUSED)).otherwise(F.lit(BROKEN)),
            # A message that was never settled has no end: no margin can be told.
            margin=F.when(F.col("late") | (F.col("end") < _NEVER), ahead),
            at=F.col("n_hi"),
            first=(F.col("recorder"), F.col("seq")),
            second=(F.col("n_recorder"), F.col("n_seq")),
            excuse=F.col("excuse"),
            cut=F.col("cut"),
        )
    )


def suspects(deliveries: DataFrame) -> DataFrame:
    """First deliveries that broke the order, unless there is an excuse; `late` tells which of the two rules."""
    ordered = deliveries.where("whole and ordered and grouped and offset is not null")
    seen = _beside_earlier(ordered)
    # With a higher number it is not the first one, though nobody told of those before.
    is_first = F.coalesce("attempt", F.lit(1)) == 1
    passed = (F.col("passed.offset") > F.col("offset")) & (
        F.col("passed.hi") <= F.col("hi") - _apart("passed")
    )
    late = F.coalesce(is_first & passed, F.lit(False))
    ended_apart = F.when(F.col("open.one_clock"), _apart("open")).otherwise(F.col("apart"))
    soon = F.coalesce(
        (F.col("open.end") > F.col("hi") + ended_apart)
        & (F.col("open.offset") < F.col("offset"))
        & (F.col("open.answer") != F.col("answer")),
        F.lit(False),
    )
    return seen.where((F.col("number") == 1) & (late | soon)).withColumn("late", late)


def _apart(other: str) -> Column:
    """How far the clocks of two recorders may be apart, which gate INV-CLOCK found agreeing."""
    return F.when(F.col(f"{other}.recorder") == F.col("recorder"), F.lit(0)).otherwise(F.col("apart"))


def _beside_earlier(ordered: DataFrame) -> DataFrame:
    """Put beside each delivery what was handed out before it: `open`, last to be settled, and `passed`,
    highest offset."""
    by_time = Window.partitionBy("lane", "place").orderBy("hi", "at_seq")
    before = by_time.rowsBetween(Window.unboundedPreceding, -1)
    so_far = by_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    end = F.least(F.coalesce("n_hi", F.lit(_NEVER)), F.coalesce("done_lo", F.lit(_NEVER)))
    facts = ("hi", "recorder", "seq", "cut", "answer", "one_clock")
    answer = F.coalesce("batch", F.xxhash64("recorder", "seq"))
    begun = ordered.withColumns({"end": end, "answer": answer}).withColumns(
        {
            "opened": F.max(F.struct("end", "offset", *facts)).over(before),
            "passed": F.max(F.when(F.col("number") == 1, F.struct("offset", *facts, "end"))).over(before),
            "begins": F.coalesce(F.lag("answer").over(by_time) != F.col("answer"), F.lit(True)),
        }
    )
    return begun.withColumn(
        "open", F.last(F.when(F.col("begins"), F.col("opened")), ignorenulls=True).over(so_far)
    )
