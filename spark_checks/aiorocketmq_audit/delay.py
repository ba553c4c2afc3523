"""Check `delay`: a message that was sent for a later time is not handed out before it.

INV-EARLY, for the time that its producer asked for. How much later it may come is a server's own business
(live-broker-session.md: at the next whole second), so nothing is said of late ones.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, functions as F

from aiorocketmq_audit.findings import BROKEN, finding

NAME = "delay"


def delay(deliveries: DataFrame) -> DataFrame:
    """Deliveries before their time: rows of FINDING."""
    itself = (F.col("recorder"), F.col("seq"))
    return deliveries.where(is_suspicious()).select(
        finding(
            NAME,
            F.lit("INV-EARLY"),
            F.lit(BROKEN),
            margin=F.col("due") - F.col("hi"),
            at=F.col("hi"),
            first=itself,
            second=itself,
            cut=F.col("cut"),
        )
    )


def is_suspicious() -> Column:
    """The delivery was seen before the message was due, tolerance counted."""
    return F.coalesce(F.col("hi") < F.col("due") - F.col("early"), F.lit(False))
