"""Which events are carried to the next batch: messages that are not done, and what later ones are compared with.

Done is a message that every group of its topic has settled, or passed in its queue, and of which nothing was heard for
the horizon. Kept beyond that are the lowest and the highest place of each group in each queue and message group,
because loss and order are judged against them, the latest commit of each queue, the lists of lite topics from each
client's latest whole one on, and whatever is rare: settings, clients, resets, faults.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window as SqlWindow, functions as F

from aiorocketmq_audit.recording.narrowing import told_away

MOST_BROADCAST = 2_000_000
"""Keys up to this number are sent to every worker; more of them are joined by a shuffle."""

_ACCOUNT = ("run_id", "case_id", "observer")
ENDS = ("ack", "forward", "dlq.deliver")
PASSING = ("receive", "commit", "clock.sample", "lite.sync")
"""Kinds of which there are many, and which no message holds."""

SINGLE = ("commit", "lite.sync")
"""Kinds of which some rows are chosen one by one."""


@dataclass(frozen=True, slots=True)
class Window:
    """What is old enough to be dropped, in microseconds since 1970."""

    done_before: int
    """Messages that are done are dropped when nothing was heard of them since then."""
    any_before: int
    """All messages are dropped when nothing was heard of them since then."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What is carried on."""

    events: DataFrame
    forgotten: int
    """Messages that were dropped although they were not done."""


def kept(events: DataFrame, window: Window) -> Kept:
    """Choose the rows that later ones may need. Two small jobs; rows are not shuffled unless very many are open."""
    keyed = events.withColumn("keep_key", _key())
    messages = _messages(keyed).persist()
    try:
        stays = (F.col("last") >= window.done_before) | (
            F.col("is_open") & (F.col("last") >= window.any_before)
        )
        chosen = messages.where(stays & (F.col("first") < window.done_before)).select("keep_key")
        singles = _latest_commits(keyed).unionByName(_standing_lists(keyed, window))
        keys = chosen.unionByName(_landmarks(keyed)).unionByName(singles).distinct().persist()
        dropped = messages.where("is_open").where(F.col("last") < window.any_before).count()
        number = keys.count()
        wanted = keys.withColumn("is_kept", F.lit(True))
        wanted = F.broadcast(wanted) if number <= MOST_BROADCAST else wanted
        rows = keyed.join(wanted, "keep_key", "left")
        is_lasting = ~F.col("kind").isin(*PASSING) & F.col("message_id").isNull()
        is_unanswered = ((F.col("kind") == "receive") & (F.col("phase") == "info")) | told_away()
        stays = (
            (F.col("t_wall_us") >= window.done_before)
            | F.col("is_kept").isNotNull()
            | is_lasting
            | (is_unanswered & (F.col("t_wall_us") >= window.any_before))
        )
        return Kept(_shortened(rows.where(stays), window).drop("keep_key", "is_kept"), dropped)
    finally:
        messages.unpersist()


def _key() -> Column:
    """The message that a row is about, in one account; a commit or a list of lite topics stands for itself."""
    return F.when(F.col("message_id").isNotNull(), F.xxhash64(*_ACCOUNT, "message_id")).when(
        F.col("kind").isin(*SINGLE), F.xxhash64("recorder", "seq")
    )


def _shortened(rows: DataFrame, window: Window) -> DataFrame:
    """Let each account begin where its sends are still known, so that nothing seems to come from nowhere."""
    began = F.greatest("t_wall_us", F.lit(window.done_before))
    begins = F.when(F.col("kind") == "recorder.start", began).otherwise(F.col("t_wall_us"))
    return rows.withColumn("t_wall_us", begins)


def _messages(keyed: DataFrame) -> DataFrame:
    """One row per message: when it was first and last heard of, and whether anybody may still get it."""
    kind, phase, at = F.col("kind"), F.col("phase"), F.col("t_wall_us")
    is_stored = (kind == "send") & phase.isin("ok", "info")
    is_end = kind.isin(*ENDS) & (phase.isNull() | (phase != "fail"))
    # Numbers only from here on, so that the aggregations need no sort.
    rows = keyed.where(F.col("message_id").isNotNull()).select(
        "keep_key",
        F.xxhash64("group").alias("reader"),
        at.alias("at"),
        F.greatest(at, F.coalesce("due_us", at)).alias("heard"),
        F.when(kind == "deliver", at).alias("given"),
        F.when(is_end, at).alias("ended"),
        F.when(is_stored, F.xxhash64(*_ACCOUNT, "topic")).alias("topic_key"),
        F.when(is_stored, F.xxhash64(*_ACCOUNT, "topic", "broker", "queue")).alias("queue_key"),
        F.when(is_stored, F.col("offset")).alias("offset"),
    )
    stored = (
        F.max("topic_key").alias("topic_key"),
        F.max_by("queue_key", "offset").alias("queue_key"),
        F.max("offset").alias("offset"),
    )
    by_group = rows.groupBy("keep_key", "reader").agg(
        F.min("at").alias("first"),
        F.max("heard").alias("last"),
        F.max("given").alias("given"),
        F.max("ended").alias("ended"),
        *stored,
    )
    is_held = F.col("given").isNotNull() & (F.coalesce("ended", F.lit(0)) < F.col("given"))
    whole = by_group.groupBy("keep_key").agg(
        F.min("first").alias("first"),
        F.max("last").alias("last"),
        F.max(is_held).alias("is_held"),
        F.count("given").alias("groups"),
        *stored,
    )
    readers, reached = _readers(keyed)
    known = whole.join(F.broadcast(readers), "topic_key", "left")
    known = known.join(F.broadcast(reached), "queue_key", "left")
    expected = F.coalesce("readers", F.lit(1))
    is_passed = F.coalesce(
        (F.col("reading") >= expected) & (F.col("offset") <= F.col("reached")), F.lit(False)
    )
    is_awaited = F.col("topic_key").isNotNull() & (F.col("groups") < expected) & ~is_passed
    return known.select(
        "keep_key",
        "first",
        "last",
        (F.coalesce("is_held", F.lit(False)) | is_awaited).alias("is_open"),
    )


def _readers(keyed: DataFrame) -> tuple[DataFrame, DataFrame]:
    """How many groups read each topic; and each queue, and how far the slowest of them has come there."""
    given = keyed.where((F.col("kind") == "deliver") & F.col("group").isNotNull())
    places = given.groupBy(
        F.xxhash64(*_ACCOUNT, "topic").alias("topic_key"),
        F.xxhash64(*_ACCOUNT, "topic", "broker", "queue").alias("queue_key"),
        "group",
    ).agg(F.max(F.when(F.col("attempt") == 1, F.col("offset"))).alias("highest"))
    readers = places.groupBy("topic_key").agg(F.count_distinct("group").alias("readers"))
    reached = places.groupBy("queue_key").agg(
        F.count("highest").alias("reading"), F.min("highest").alias("reached")
    )
    return readers, reached


def _landmarks(keyed: DataFrame) -> DataFrame:
    """Messages at the borders of what each group has read, by queue and filter, and by message group."""
    first = keyed.where((F.col("kind") == "deliver") & (F.col("attempt") == 1) & F.col("offset").isNotNull())
    packed = first.select(
        F.xxhash64(*_ACCOUNT, "topic", "group", "broker", "queue").alias("way"),
        F.xxhash64("filter").alias("asked"),
        F.when(F.col("message_group").isNotNull(), F.xxhash64("message_group")).alias("lane"),
        "offset",
        "keep_key",
    )
    lowest, highest = (of("keep_key", "offset") for of in (F.min_by, F.max_by))
    by_queue = packed.groupBy("way", "asked").agg(F.array(lowest, highest).alias("borders"))
    by_lane = packed.where("lane is not null").groupBy("way", "lane").agg(highest.alias("keep_key"))
    return by_queue.select(F.explode("borders").alias("keep_key")).unionByName(by_lane.select("keep_key"))


def _latest_commits(keyed: DataFrame) -> DataFrame:
    latest = keyed.where("kind = 'commit'").groupBy(*_ACCOUNT, "group", "topic", "broker", "queue")
    return latest.agg(F.max_by("keep_key", F.struct("t_wall_us", "seq")).alias("keep_key")).select("keep_key")


def _standing_lists(keyed: DataFrame, window: Window) -> DataFrame:
    """Lists of lite topics that a later whole list has not replaced, and those of which nobody knows."""
    lists = keyed.where("kind = 'lite.sync'")
    is_whole = F.col("cfg").getItem("all").isNotNull() & (F.coalesce("phase", F.lit("ok")) == "ok")
    is_old = F.col("t_wall_us") < window.done_before
    begin = F.when(is_whole & is_old, F.coalesce("invoked_seq", "seq"))
    of_client = SqlWindow.partitionBy("recorder", "boot", "client_id", "group", "topic")
    known = lists.withColumn("replaced_before", F.coalesce(F.max(begin).over(of_client), F.lit(0)))
    stays = (F.col("seq") >= F.col("replaced_before")) | F.col("phase").eqNullSafe("info")
    return known.where(stays).select("keep_key")
