"""What a drain proves: when a group has polled empty for long enough, nothing may be missing any more.

INV-LOSS (check `loss`): every message that was sent after the group had begun to poll, and was due before the
drain, is settled for the group: acked, forwarded or dead-lettered; if need be after a commit. Left out are
messages that were recalled or deleted in their time, groups that were reset, and those that do not ask for all
messages or for tags. A client's drain speaks of the time up to its polls' calls, and its account proves no loss:
another may have settled the message; what used up its attempts before its eyes is a dead letter that it need not
see; and where the broker's account of the group is there, it decides. INV-DLQ-LIVE (check `dead letters`): on a
broker's account, what used up its attempts in a normal group that was drained has become a dead letter.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from aiorocketmq_audit import dead_letters, loss
from aiorocketmq_audit.filters import is_unwanted
from aiorocketmq_audit.findings import BROKEN, POSSIBLE, finding, place, time_and_number

_ACCOUNT = ("run_id", "case_id", "observer")
_GROUP = (*_ACCOUNT, "topic", "group")


def lost(events: DataFrame, settings: DataFrame) -> DataFrame:
    """INV-LOSS: one row per message and drained group, as FINDING, whose verdict is null where all is well."""
    kind, phase = F.col("kind"), F.coalesce(F.col("phase"), F.lit(""))
    drained = _drains(events).join(F.broadcast(_readers(events)), list(_GROUP))
    drained = drained.join(_reset(events), [*_ACCOUNT, "group"], "left_anti")
    drained = loss.not_attested(drained, settings)
    wish = F.xxhash64(*_GROUP, "message_id").alias("wish")
    # Numbers only from here on, so that the aggregation needs no sort.
    sent = _sent(events).join(F.broadcast(drained), [*_ACCOUNT, "topic"])
    packed = sent.select(
        wish,
        "at",
        time_and_number("at").alias("order"),
        "recorder",
        "seq",
        "visible",
        "due",
        "here",
        "primed",
        is_unwanted("wanted").alias("unwanted"),
        F.col("drained.at").alias("drained_at"),
        F.col("drained.recorder").alias("drained_recorder"),
        F.col("drained.seq").alias("drained_seq"),
        (F.col("observer") == "broker").alias("by_broker"),
    )
    first = packed.groupBy(
        "wish", "primed", "drained_at", "drained_recorder", "drained_seq", "by_broker"
    ).agg(
        F.min("at").alias("at"),
        F.min_by("recorder", "order").alias("recorder"),
        F.min_by("seq", "order").alias("seq"),
        F.min("visible").alias("visible"),
        F.max("due").alias("due"),
        F.min("here").alias("here"),
        F.max("unwanted").alias("unwanted"),
    )
    wanted = first.where(
        (F.col("at") > F.col("primed"))
        & (F.greatest("visible", F.coalesce("due", F.lit(0))) < F.col("drained_at"))
        & F.col("visible").isNotNull()
        & F.col("here")
        & ~F.col("unwanted")
    )
    ended = (kind.isin("ack", "forward") & (phase != "fail")) | (kind == "dlq.deliver")
    read = (kind == "deliver") & (F.col("role") == "pull")
    settled = events.where((ended | read) & F.col("group").isNotNull() & F.col("message_id").isNotNull())
    over = settled.select(wish).unionByName(_given_up(events, settings).select(wish))
    done = over.groupBy("wish").agg(F.lit(True).alias("done"))
    judged = wanted.join(done, "wish", "left")
    return judged.select(
        finding(
            loss.NAME,
            F.lit("INV-LOSS"),
            F.when(
                F.col("done").isNull(),
                F.when(F.col("by_broker"), F.lit(BROKEN)).otherwise(F.lit(POSSIBLE)),
            ),
            margin=F.lit(None),
            at=F.col("drained_at"),
            first=(F.col("recorder"), F.col("seq")),
            second=(F.col("drained_recorder"), F.col("drained_seq")),
        )
    )


def not_buried(events: DataFrame, deliveries: DataFrame) -> DataFrame:
    """INV-DLQ-LIVE: one row per exhausted message of a drained group, as FINDING; the buried have no verdict."""
    drained = _drains(events).select(
        F.xxhash64(*_GROUP).alias("poll"), F.col("drained.at").alias("drained_at")
    )
    last = deliveries.where("by_broker and n_hi is null and attempt >= max_attempts and max_attempts > 0")
    free = last.where(~F.coalesce("ordered", F.lit(True)) & ~F.col("ack_unsure"))
    over = free.join(F.broadcast(drained), "poll").where(
        (F.col("drained_at") > F.col("until_hi"))
        & (F.col("dead_hi").isNotNull() | F.col("ended_lo").isNull())
    )
    itself = (F.col("recorder"), F.col("seq"))
    return over.select(
        finding(
            dead_letters.NAME,
            F.lit("INV-DLQ-LIVE"),
            F.when(F.col("dead_hi").isNull(), F.lit(BROKEN)),
            margin=F.col("drained_at") - F.col("until_hi"),
            at=F.col("drained_at"),
            first=itself,
            second=itself,
            cut=F.col("cut"),
        )
    )


def _drains(events: DataFrame) -> DataFrame:
    drains = events.where("kind = 'drain.ok' and topic is not null and group is not null")
    # What was sent while a client's polls were out may have come too late for their answers.
    asked = drains.withColumn("t_wall_us", F.coalesce("invoked_us", "t_wall_us"))
    return asked.groupBy(*_GROUP).agg(F.max(place()).alias("drained"))


def _given_up(events: DataFrame, settings: DataFrame) -> DataFrame:
    """Deliveries before the eyes of clients after which servers make a message a dead letter."""
    limits = settings.select("run_id", "case_id", "group", "max_attempts").where("max_attempts > 0")
    given = events.where("kind = 'deliver' and observer <> 'broker' and message_id is not null")
    known = given.join(F.broadcast(limits), ["run_id", "case_id", "group"])
    return known.where("attempt >= max_attempts")


def _readers(events: DataFrame) -> DataFrame:
    """When each group began to poll a topic, and its one filter."""
    asked = events.where("kind in ('receive', 'deliver') and group is not null and topic is not null")
    told = F.when(F.col("kind") == "deliver", F.coalesce("filter", F.lit("?")))
    # By filter first, so that only numbers are aggregated of all that: texts would have every row sorted.
    begun = F.min(F.coalesce("invoked_us", "t_wall_us")).alias("primed")
    by_filter = asked.groupBy(*_GROUP, told.alias("told")).agg(begun)
    seen = by_filter.groupBy(*_GROUP).agg(
        F.min("primed").alias("primed"), F.count("told").alias("filters"), F.max("told").alias("told")
    )
    # A group that was handed nothing at all has told no filter: it wants everything, as far as anybody knows.
    wanted = F.coalesce("told", F.lit("TAG:*"))
    known = seen.withColumn("wanted", wanted).where(
        F.col("wanted").startswith("TAG:") & (F.col("filters") <= 1)
    )
    return known.drop("filters", "told")


def _sent(events: DataFrame) -> DataFrame:
    """Sends of messages that a server surely has, with the time from which they can be read (null: not committed), and
    whether they are still where they were put."""
    sent = events.where("kind = 'send' and phase = 'ok' and message_id is not null").select(
        *_ACCOUNT,
        "topic",
        "message_id",
        "tag",
        "tx_id",
        "broker",
        "queue",
        "offset",
        "seq",
        F.col("due_us").alias("due"),
        F.col("t_wall_us").alias("at"),
        F.xxhash64("recorder").alias("recorder"),
    )
    recalled = events.where("kind = 'recall' and message_id is not null and coalesce(phase, '') <> 'fail'")
    message = [*_ACCOUNT, "topic", "message_id"]
    kept = sent.join(recalled.select(*message).distinct(), message, "left_anti")
    ended = events.where("kind = 'tx.end' and phase = 'ok' and tx_id is not null and resolution = 'commit'")
    committed = ended.groupBy(*_ACCOUNT, "topic", "tx_id").agg(F.min("t_wall_us").alias("committed"))
    known = kept.join(F.broadcast(committed), [*_ACCOUNT, "topic", "tx_id"], "left")
    gone = events.where("kind = 'trim'").groupBy(*_ACCOUNT, "topic", "broker", "queue")
    left = F.broadcast(gone.agg(F.max("commit_offset").alias("left_from")))
    return known.join(left, [*_ACCOUNT, "topic", "broker", "queue"], "left").withColumns(
        {
            "visible": F.when(F.col("tx_id").isNull(), F.col("at")).otherwise(F.col("committed")),
            "here": F.coalesce(F.col("offset") >= F.col("left_from"), F.lit(True)),
        }
    )


def _reset(events: DataFrame) -> DataFrame:
    return events.where("kind = 'reset'").select(*_ACCOUNT, "group").distinct()
