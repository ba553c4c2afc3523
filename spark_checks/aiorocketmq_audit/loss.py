"""Check `loss`: nothing that was stored is passed over.

INV-LOSS-MID: below the highest offset that a group was first handed out from a queue, and above the lowest,
every message that the group wants was handed out to it. An ordered group leaves a message group alone while one of
its messages is held: of such groups this is said of each message group by itself, and so is that no message group
begins behind a message that was stored when the group read the queue already (INV-ORD-GAP). Nothing is said of the
rest of the queue: it may yet come. Left out are messages whose receipt names another place than the queue they end in
(delayed ones, transactions, lite topics), groups that were reset, filter by SQL, or changed their filter, and
what the broker deleted because its time was over. A client cannot know what other consumers of its group got, so on
its account a gap is possible, not proven.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, functions as F

from aiorocketmq_audit.filters import is_unwanted
from aiorocketmq_audit.findings import BROKEN, POSSIBLE, finding, tally

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
    passed = _windows(_with_lane(given, settings)).join(
        _reset_groups(events), [*_ACCOUNT, "group"], "left_anti"
    )
    passed = not_attested(passed, settings)
    sent = events.where(
        "kind = 'send' and phase = 'ok' and offset is not null and queue is not null and message_id is not null"
    ).where("due_us is null and tx_id is null and lite_topic is null")
    stored = sent.select(
        *_QUEUE,
        "offset",
        "message_id",
        F.coalesce("message_group", F.lit("")).alias("of"),
        "tag",
        F.col("t_wall_us").alias("at"),
        F.xxhash64("recorder").alias("recorder"),
        "seq",
    ).join(_deleted(events), list(_QUEUE), "left")
    here = stored.where(F.coalesce(F.col("offset") >= F.col("left_from"), F.lit(True)))
    # What an ordered group reads of a message group begins with the first one that it can have seen.
    is_head = F.col("lane").isNotNull() & (F.col("offset") < F.col("lowest")) & (F.col("at") > F.col("began"))
    is_behind = F.col("offset").between(F.col("lowest"), F.col("highest"))
    wanted = here.join(F.broadcast(passed), list(_QUEUE)).where(
        (is_behind | F.coalesce(is_head, F.lit(False)))
        & ~is_unwanted("wanted")
        & (F.col("lane").isNull() | (F.col("lane") == F.col("of")))
    )
    # Numbers of one width are exchanged and compared, not texts.
    key = F.xxhash64(*_ACCOUNT, "group", "message_id").alias("wish")
    came = given.groupBy(key).agg(F.lit(True).alias("came"))
    return wanted.withColumn("wish", key).join(came, "wish", "left")


def facts(stored: DataFrame) -> DataFrame:
    """Messages that groups should have got, and which of them did not come: for `counted`."""
    return tally(NAME, stored, judged=F.lit(True), found=is_lost())


def _with_lane(given: DataFrame, settings: DataFrame) -> DataFrame:
    """Add `lane`: what an ordered group reads one after the other; others, with null, read whole queues so."""
    known = given.join(
        F.broadcast(settings.select("run_id", "case_id", "group", "ordered")),
        ["run_id", "case_id", "group"],
        "left",
    )
    lane = F.when(F.coalesce("ordered", F.lit(True)), F.coalesce("message_group", F.lit("")))
    return known.withColumn("lane", lane)


def _windows(given: DataFrame) -> DataFrame:
    """From where to where each group has read each queue, or each message group of it, and its one filter.

    Numbers only are aggregated, first by what was asked for, so that no row need be sorted.
    """
    first = given.where((F.col("attempt") == 1) & F.col("offset").isNotNull())
    asked = F.coalesce("filter", F.lit("?")).alias("wanted")
    read = first.groupBy(*_QUEUE, "group", "lane", asked).agg(
        F.min("offset").alias("lowest"),
        F.max("offset").alias("highest"),
        F.max_by(F.xxhash64("recorder"), "offset").alias("recorder"),
        F.max_by("seq", "offset").alias("seq"),
        F.min("t_wall_us").alias("first_at"),
    )
    way, queue = Window.partitionBy(*_QUEUE, "group", "lane"), Window.partitionBy(*_QUEUE, "group")
    # Under another filter the begin of a message group may have been passed over rightly.
    one_filter = F.min("wanted").over(queue) == F.max("wanted").over(queue)
    alone = read.withColumns(
        {
            "filters": F.count("*").over(way),
            "began": F.when(one_filter, F.min("first_at").over(queue)),
        }
    ).where("filters = 1")
    beyond = F.struct(F.col("highest").alias("offset"), "recorder", "seq").alias("beyond")
    known = alone.where(F.col("wanted").startswith("TAG:"))
    return known.select(*_QUEUE, "group", "lane", "wanted", "lowest", "highest", "began", beyond)


def _reset_groups(events: DataFrame) -> DataFrame:
    return events.where(F.col("kind") == "reset").select(*_ACCOUNT, "group").distinct()


def _deleted(events: DataFrame) -> DataFrame:
    gone = events.where(F.col("kind") == "trim")
    return F.broadcast(gone.groupBy(*_QUEUE).agg(F.max("commit_offset").alias("left_from")))


def not_attested(passed: DataFrame, settings: DataFrame) -> DataFrame:
    """Without what clients suspect where the broker's own account is there: it knows."""
    told = settings.where("told_by_broker").select("run_id", "case_id", "group", F.lit(True).alias("told"))
    # One join, and no union of two halves: what was passed is worked out once.
    beside = passed.join(F.broadcast(told), ["run_id", "case_id", "group"], "left")
    return beside.where("observer = 'broker' or told is null").drop("told")
