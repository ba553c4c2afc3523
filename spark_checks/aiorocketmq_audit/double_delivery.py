"""Check `double delivery`: while one consumer of a group holds a message, or after it was acked, nobody else gets it.

INV-EXCL: of two consecutive deliveries of a message to a group, the second is not before the hold of the
first has ended. INV-ACKED: an ack on a live lease is final. INV-DUP: every delivery after the first has a
cause; the ones without are the findings, the others are counted by `causes`. A hold that ended because the
client asked for a retry after some time belongs to the check `retry timing`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, functions as F

from aiorocketmq_audit import excuses
from aiorocketmq_audit.findings import BROKEN, EXCUSED, POSSIBLE, finding

NAME = "double delivery"


def double_delivery(deliveries: DataFrame, marks: DataFrame) -> DataFrame:
    """Second deliveries that nothing allowed: rows of FINDING. `deliveries` and `marks` as made by those modules."""
    suspects = deliveries.where(is_suspicious())
    judged = excuses.with_queue_lock(excuses.with_excuse(suspects, marks), deliveries)
    judged = judged.withColumn(
        "excuse", F.when(F.col("copies"), F.lit(excuses.RESENT)).otherwise(F.col("excuse"))
    )
    definite = (acked_in_time() | too_early("until_lo")) & ~other_way_round()
    # Where a change of unknown effect may have ended the hold, that is an excuse (E1), not a suspicion.
    judged = judged.where(definite | ~F.col("unsure"))
    verdict = (
        F.when(F.col("excuse").isNotNull(), F.lit(EXCUSED))
        .when(definite, F.lit(BROKEN))
        .otherwise(F.lit(POSSIBLE))
    )
    after_ack = F.coalesce(F.col("acked_hi") < F.col("n_hi"), F.lit(False)) & acked_in_time()
    return judged.select(
        finding(
            NAME,
            F.when(after_ack, F.lit("INV-ACKED")).otherwise(F.lit("INV-EXCL")),
            verdict,
            margin=F.when(after_ack, F.col("n_hi") - F.col("acked_hi")).otherwise(
                F.col("until_lo") - F.col("n_hi")
            ),
            at=F.col("n_hi"),
            first=(F.col("recorder"), F.col("seq")),
            second=(F.col("n_recorder"), F.col("n_seq")),
            excuse=F.col("excuse"),
            cut=F.col("cut"),
        )
    )


def is_suspicious() -> Column:
    """A second delivery that needs an excuse; told by the columns of `deliveries` alone, so that it can be
    counted first."""
    wrong = acked_in_time() | (looks_early() & ~F.col("asked"))
    return F.col("n_hi").isNotNull() & wrong & ~repeated()


def looks_early() -> Column:
    """The next delivery was, or may have been, before the end of the hold.

    What a client only suspects is settled by the broker's own account where there is one: it knows the instants.
    """
    return too_early("until_lo") | (too_early("until_hi") & ~F.col("attested"))


def acked_in_time() -> Column:
    """The delivery was acked with success while its lease was surely alive."""
    return F.coalesce(
        F.col("acked_hi").isNotNull()
        & (F.col("until_lo").isNull() | (F.col("acked_hi") <= F.col("until_lo"))),
        F.lit(False),
    )


def too_early(end: str) -> Column:
    """The next delivery was before `end` of the hold, tolerance counted."""
    return F.coalesce(F.col("n_hi") < F.col(end) - F.col("early"), F.lit(False))


def other_way_round() -> Column:
    """Both deliveries may have happened in the other order, with the hold of the later seen one over before."""
    return F.coalesce(F.col("n_lo") + F.col("n_hold") <= F.col("hi") + F.col("early"), F.lit(False))


def repeated() -> Column:
    """One receive request was answered twice (E6)."""
    return F.coalesce(F.col("again") == F.col("n_again"), F.lit(False))


def cause() -> Column:
    """Why a message came again (INV-DUP); null on a delivery that had no successor."""
    return (
        F.when(F.col("n_hi").isNull(), F.lit(None).cast("string"))
        .when(repeated(), F.lit("answer repeated"))
        .when(F.col("copies"), F.lit("sent twice"))
        .when(acked_in_time(), F.lit("none"))
        .when(too_early("until_lo") & ~other_way_round(), F.lit("none"))
        .when(F.col("asked"), F.lit("retry asked for"))
        .when(F.col("unsure"), F.lit("change of unknown effect"))
        .when(F.col("ack_unsure"), F.lit("ack of unknown effect"))
        .when(F.col("until_lo").isNull(), F.lit("hold not recorded"))
        .otherwise(F.lit("lease ended"))
    )
