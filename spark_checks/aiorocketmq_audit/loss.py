"""Check `loss`: nothing that was stored is passed over.

INV-LOSS-MID: below the highest offset that a group was first handed out from a queue, and above the lowest,
every message that the group wants was handed out to it. Nothing is said of the rest of the queue: it may yet
come. Left out are messages whose receipt names another place than the queue they end in (delayed ones,
transactions, lite topics), groups that were reset, filter by SQL, or changed their filter, and what the
broker deleted because its time was over. A client cannot know what other consumers of its group got, so on
its account a gap is possible, not proven.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, functions as F

from aiorocketmq_audit.filters import is_unwanted
from aiorocketmq_audit.findings import BROKEN, POSSIBLE, counted, finding

NAME = "loss"

_ACCOUNT = ("run_id", "case_id", "observer")
_QUEUE = (*_ACCOUNT, "topic", "broker", "queue")


def loss(stored: DataFrame) -> DataFrame:
    """Messages that a group passed over: rows of FINDING. `stored` as `expected` makes it."""
    proof = F.struct("recorder", "seq")
    return stored.where(is_lost()).select(
        finding(
            NAME,
            F.lit("INV-LOSS-MID"),
            F.when(F.col("observer") == "broker", F.lit(BROKEN)).otherwise(F.lit(POSSIBLE)),
            margin=F.lit(None),
            at=F.col("at"),
            first=(proof["recorder"], proof["seq"]),
            second=(F.col("beyond.recorder"), F.col("beyond.seq")),
        )
    )


def is_lost() -> Column:
    """The message was never handed out to the group."""
    return F.col("came").isNull()


def expected(events: DataFrame, settings: DataFrame) -> DataFrame:
    """One row per stored message and group that should have got it; `came` is null where it did not."""
    given = events.where(
        (F.col("kind") == "deliver") & F.col("group").isNotNull() & (F.coalesce("role", F.lit("")) != "pull")
    )
    passed = _windows(given).join(_reset_groups(events), [*_ACCOUNT, "group"], "left_anti")
    passed = _not_attested(passed, settings)
    sent = events.where(
        "kind = 'send' and phase = 'ok' and offset is not null and queue is not null and message_id is not null"
    ).where("due_us is null and tx_id is null and lite_topic is null")
    stored = sent.select(
        *_QUEUE,
        "offset",
        "message_id",
        "tag",
        F.col("t_wall_us").alias("at"),
        F.xxhash64("recorder").alias("recorder"),
        "seq",
    ).join(_deleted(events), list(_QUEUE), "left")
    here = stored.where(F.coalesce(F.col("offset") >= F.col("left_from"), F.lit(True)))
    wanted = here.join(F.broadcast(passed), list(_QUEUE)).where(
        F.col("offset").between(F.col("lowest"), F.col("highest")) & ~is_unwanted("wanted")
    )
    came = given.select(*_ACCOUNT, "group", "message_id", F.lit(True).alias("came")).distinct()
    seen = wanted.join(came, [*_ACCOUNT, "group", "message_id"], "left")
    return seen.withColumn("cut", F.lit(None).cast("bigint"))


def count(stored: DataFrame) -> tuple[int, int]:
    """How many messages groups should have got, and how many of them did not come."""
    return counted(stored, judged=F.lit(True), found=is_lost())


def _windows(given: DataFrame) -> DataFrame:
    """From where to where each group has read each queue, and its one filter."""
    first = given.where((F.col("attempt") == 1) & F.col("offset").isNotNull())
    fact = F.struct("offset", F.xxhash64("recorder").alias("recorder"), "seq")
    read = first.groupBy(*_QUEUE, "group").agg(
        F.min("offset").alias("lowest"),
        F.max("offset").alias("highest"),
        F.max(fact).alias("beyond"),
        F.count_distinct(F.coalesce("filter", F.lit("?"))).alias("filters"),
        F.max("filter").alias("wanted"),
    )
    return read.where(F.col("wanted").startswith("TAG:") & (F.col("filters") == 1)).drop("filters")


def _reset_groups(events: DataFrame) -> DataFrame:
    return events.where(F.col("kind") == "reset").select(*_ACCOUNT, "group").distinct()


def _deleted(events: DataFrame) -> DataFrame:
    gone = events.where(F.col("kind") == "trim")
    return F.broadcast(gone.groupBy(*_QUEUE).agg(F.max("commit_offset").alias("left_from")))


def _not_attested(passed: DataFrame, settings: DataFrame) -> DataFrame:
    """Without what clients suspect where the broker's own account is there: it knows."""
    told = settings.where("told_by_broker").select("run_id", "case_id", "group").distinct()
    by_clients = passed.where("observer <> 'broker'").join(
        F.broadcast(told), ["run_id", "case_id", "group"], "left_anti"
    )
    return passed.where("observer = 'broker'").unionByName(by_clients)
