"""Columns `open` and `passed` of the frame `deliveries`: what was delivered before an ordered delivery."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window, functions as F

from aiorocketmq_audit.rules.ordering import NEVER


def with_earlier(rows: DataFrame) -> DataFrame:
    """Add to each ordered delivery the earlier ones: `open`, the last to be settled, and `passed`, the highest offset.

    Both are running maxima over the deliveries of a (lane, queue) in the order of time. `open` is evaluated at the
    begin of an answer, so that messages of one answer do not violate the order of each other. A delivery counts until
    the next delivery of the same message, which replaces it.
    """
    by_time = Window.partitionBy("lane", "place").orderBy("hi", "at_seq")
    before = by_time.rowsBetween(Window.unboundedPreceding, -1)
    so_far = by_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    never = F.lit(NEVER)
    facts = ("hi", "recorder", "seq", "answer", "one_clock")
    is_judged = F.col("ordered") & F.col("grouped") & F.col("offset").isNotNull()
    begun = rows.withColumns(
        {
            "end": F.least(F.coalesce("next.hi", never), F.coalesce("done_lo", never)),
            "answer": F.coalesce("batch", F.xxhash64("recorder", "seq")),
        }
    ).withColumns(
        {
            "opened": F.max(F.when(is_judged, F.struct("end", "offset", *facts))).over(before),
            "passed": F.max(F.when(is_judged & (F.col("number") == 1), F.struct("offset", *facts))).over(
                before
            ),
            "begins": F.coalesce(F.lag("answer").over(by_time) != F.col("answer"), F.lit(True)),
        }
    )
    begins = F.when(F.col("begins"), F.col("opened"))
    return begun.withColumn("open", F.last(begins, ignorenulls=True).over(so_far)).drop(
        "end", "opened", "begins"
    )


def without_order(rows: DataFrame) -> DataFrame:
    """Add the same columns as nulls if no group is ordered, which avoids the second sort."""
    facts = "hi: bigint, recorder: bigint, seq: bigint, answer: bigint, one_clock: boolean"
    return rows.withColumns(
        {
            "answer": F.lit(None).cast("bigint"),
            "passed": F.lit(None).cast(f"struct<offset: bigint, {facts}>"),
            "open": F.lit(None).cast(f"struct<end: bigint, offset: bigint, {facts}>"),
        }
    )
