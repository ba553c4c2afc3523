"""Check `recall`: a delayed message that was taken back in time does not come.

INV-RECALL: a recall that was answered OK more than a second before the message was due means that nobody ever
gets it. Later ones may lose the race.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from aiorocketmq_audit.findings import BROKEN, finding, place

NAME = "recall"

RACE_US = 1_000_000

_MESSAGE = ("run_id", "case_id", "observer", "topic", "message_id")


def facts(events: DataFrame) -> DataFrame:
    """Messages taken back in time: rows of FINDING, whose verdict is null where all is well."""
    kind, here = F.col("kind"), place()
    recalled = events.where("kind = 'recall' and phase = 'ok' and message_id is not null")
    wanted = recalled.groupBy(*_MESSAGE).agg(F.min(here).alias("recalled"))
    ways = events.where(kind.isin("send", "deliver")).join(F.broadcast(wanted), list(_MESSAGE))
    seen = ways.groupBy(*_MESSAGE, "recalled").agg(
        F.max("due_us").alias("due"), F.min(F.when(kind == "deliver", here)).alias("given")
    )
    in_time = seen.where(F.col("recalled.at") < F.col("due") - RACE_US)
    return in_time.select(
        finding(
            NAME,
            F.lit("INV-RECALL"),
            F.when(F.col("given").isNotNull(), F.lit(BROKEN)),
            margin=F.col("due") - F.col("recalled.at"),
            at=F.coalesce("given.at", "recalled.at"),
            first=(F.col("recalled.recorder"), F.col("recalled.seq")),
            second=(F.col("given.recorder"), F.col("given.seq")),
        )
    )
