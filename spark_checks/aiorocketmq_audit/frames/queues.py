"""Frames of queues: `stored messages` (what groups should have been delivered), `places` and `sends in a row` (messages
by offset), `ownerships`, `deliveries to owners` and `written offsets` of consumers that read whole queues, and `slices`
of time in which a queue made progress.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window, functions as F

from aiorocketmq_audit.frames.frame import ACCOUNT, SCOPE, Frame, Recording
from aiorocketmq_audit.frames.places import (
    alike,
    by_broker,
    by_one_filter,
    called,
    earliest,
    not_attested,
    place,
    placed,
    reset_groups,
    scope,
    trimmed,
    without_suspended,
)
from aiorocketmq_audit.frames.tags import is_unwanted
from aiorocketmq_audit.recording.schema import GRAIN, READ
from aiorocketmq_audit.rules.fairness import STANDSTILL_US

_QUEUE = (*ACCOUNT, "topic", "broker", "queue")
_GROUP = (*ACCOUNT, "topic", "group")

RECEIPT = """kind = 'send' and phase = 'ok' and offset is not null and queue is not null and message_id is not null
    and due_us is null and tx_id is null and lite_topic is null"""
"""Sends with a receipt that names the offset at which the message is read; not half, delayed and lite messages."""

FIRST = "kind = 'deliver' and attempt = 1 and offset is not null and message_id is not null and lite_topic is null"


def stored(recording: Recording) -> DataFrame:
    """Return one row per stored message and group that it was due to; `came` is null if it was not delivered.

    Not included: messages with a receipt of another queue than the one they are read from, groups with a reset, an SQL
    filter or several filters, and expired messages that the broker deleted.
    """
    events = recording.events
    delivered = events.where("kind = 'deliver' and group is not null and coalesce(role, '') <> 'pull'")
    passing = (
        delivered
        if recording.passed_us is None
        else delivered.where(F.col("t_wall_us") <= recording.passed_us)
    )
    passed = _passed(passing, recording).join(reset_groups(events), [*ACCOUNT, "group"], "left_anti")
    passed = passed.join(by_one_filter(recording).drop("primed"), list(_GROUP))
    sent = events.where(RECEIPT).select(
        *_QUEUE,
        "offset",
        "message_id",
        F.coalesce("message_group", F.lit("")).alias("of"),
        "tag",
        place().alias("place"),
    )
    here = sent.join(trimmed(events), list(_QUEUE), "left").where("coalesce(offset >= left_from, true)")
    # In an ordered group, a message group begins with the first message that was stored after the group began to read.
    is_head = "coalesce(lane is not null and offset < lowest and place.at > began, false)"
    expected = here.join(F.broadcast(not_attested(passed, recording.settings)), list(_QUEUE)).where(
        f"(offset between lowest and highest or {is_head}) and (lane is null or lane = of)"
    )
    key = F.xxhash64(*ACCOUNT, "group", "message_id").alias("wish")
    expected_rows = expected.where(~is_unwanted("wanted")).select(
        key, scope(), by_broker(), "place", "beyond"
    )
    came = delivered.select(key, F.lit(True).alias("came"))
    # One shuffle for both sides, and no join; fixed-width numbers, so that no sort is needed.
    both = expected_rows.unionByName(came, allowMissingColumns=True)
    by_wish = both.groupBy("wish").agg(
        *(F.max(name).alias(name) for name in ("scope", "by_broker", "came")),
        *earliest("place"),
        *earliest("beyond", of="beyond", latest=True),
    )
    return placed(by_wish, "place", "beyond").where("place is not null")


def _passed(delivered: DataFrame, recording: Recording) -> DataFrame:
    """Return the range that each group has read of each queue, or of each message group."""
    order = F.broadcast(recording.settings.select(*SCOPE, "group", "ordered"))
    first_attempts = without_suspended(delivered.where("attempt = 1 and offset is not null"), recording).join(
        order, [*SCOPE, "group"], "left"
    )
    # The unit that is read in order: a message group in ordered groups, else (null) the whole queue.
    lane = F.when(F.coalesce("ordered", F.lit(True)), F.coalesce("message_group", F.lit("")))
    # Numbers only, so that no sort is needed.
    read = first_attempts.groupBy(*_QUEUE, "group", lane.alias("lane")).agg(
        F.min("offset").alias("lowest"),
        F.max("offset").alias("highest"),
        F.max_by("t_wall_us", "offset").alias("at"),
        F.max_by(F.xxhash64("recorder"), "offset").alias("recorder"),
        F.max_by("seq", "offset").alias("seq"),
        F.min("t_wall_us").alias("first_at"),
    )
    began = F.min("first_at").over(Window.partitionBy(*_QUEUE, "group"))
    ranges = read.withColumns({"began": began, "beyond": F.struct("at", "recorder", "seq")})
    return ranges.drop("at", "recorder", "seq", "first_at")


def places(recording: Recording) -> DataFrame:
    """Return one row per (queue, offset) of receipts and first attempts: its first event, and the first event with
    another message."""
    events = recording.events
    reader = F.xxhash64(*ACCOUNT, "group")
    # As observed by clients: when the group's first poll with an unknown outcome began. Messages of its answer
    # are redelivered as first attempts, for which Apache's servers report the offset in the retry topic.
    lost = events.where("kind = 'receive' and phase = 'info' and observer = 'client'")
    lost = lost.groupBy(reader.alias("reader")).agg(F.min(called()).alias("lost_at"))
    named = without_suspended(events.where(f"({RECEIPT}) or ({FIRST})"), recording)
    named = named.withColumn("reader", reader)
    named = named.join(F.broadcast(lost), "reader", "left").where(
        "kind = 'send' or lost_at is null or t_wall_us < lost_at"
    )
    packed = named.select(
        F.xxhash64(*_QUEUE, "offset").alias("spot"),
        scope(),
        F.xxhash64("message_id").alias("message"),
        place().alias("place"),
    )
    by_time = Window.partitionBy("spot").orderBy("place")
    first = packed.withColumn("holder", F.first("message").over(by_time))
    return first.groupBy("spot").agg(
        F.max("scope").alias("scope"),
        F.min("place").alias("first"),
        F.min(F.when(F.col("message") != F.col("holder"), F.col("place"))).alias("other"),
    )


def sends(recording: Recording) -> DataFrame:
    """Return sends, each with the one before by the same producer to the same queue."""
    sent = recording.events.where(RECEIPT).select(
        F.xxhash64(*_QUEUE, "recorder", "client_id").alias("way"),
        scope(),
        "offset",
        place().alias("place"),
        F.struct(called().alias("at"), F.coalesce("invoked_seq", "seq").alias("seq")).alias("called"),
    )
    own = Window.partitionBy("way").orderBy("place")
    return sent.withColumn("before", F.lag(F.struct("offset", "place")).over(own)).where("before is not null")


def assigned(events: DataFrame, *more: str) -> DataFrame:
    """Return one row per consumer, assignment and queue in it, for groups whose members share queues."""
    assignments = events.where(f"kind = 'assign' and topic is not null and {GRAIN} = 'queue'")
    flat = assignments.withColumn("owned", F.explode("queues"))
    return flat.select(
        *ACCOUNT,
        "group",
        "topic",
        F.col("owned.broker").alias("broker"),
        F.col("owned.queue").alias("queue"),
        "client_id",
        "epoch",
        "recorder",
        "t_wall_us",
        "seq",
        *more,
    )


def ownerships(recording: Recording) -> DataFrame:
    """Return the intervals in which a client owned a queue, over consecutive assignments that contain it; `worst` is
    the longest overlap with an earlier owner, and the begin of that one.

    An assignment holds for one topic until the next one of the topic; early recordings contain assignments of several
    topics without names, which end those of all topics."""
    life = (*ACCOUNT, "client_id", "recorder", "epoch")
    in_time = ("t_wall_us", "seq")
    lives = recording.events.where("kind in ('assign', 'client.stop', 'client.crash')")
    later = Window.partitionBy(*life).orderBy(*in_time).rowsBetween(1, Window.unboundedFollowing)
    ends_all = F.expr("if(kind <> 'assign' or topic is null, t_wall_us, null)")
    ends = F.first(ends_all, ignorenulls=True).over(later)
    following = F.lead("t_wall_us").over(Window.partitionBy(*life, "topic").orderBy(*in_time))
    leaves = F.coalesce(F.least(following, ends), F.lit(recording.ended_us))
    held = assigned(lives.withColumn("leaves_us", leaves), "leaves_us")
    whose = (*_QUEUE, "group")
    by_queue = Window.partitionBy(*whose, "client_id", "epoch").orderBy("t_wall_us", "seq")
    begins = F.coalesce(F.lag("leaves_us").over(by_queue) != F.col("t_wall_us"), F.lit(True))
    runs = held.withColumn("begins", begins.cast("int")).withColumn("run", F.sum("begins").over(by_queue))
    owned = runs.groupBy(*whose, "client_id", "epoch", "run").agg(
        F.min("t_wall_us").alias("from"), F.max("leaves_us").alias("to"), F.min(place()).alias("began")
    )
    other = owned.select(
        *whose,
        F.col("client_id").alias("o_client"),
        F.col("from").alias("o_from"),
        F.col("to").alias("o_to"),
        F.col("began").alias("o_began"),
    )
    earlier = (F.col("o_client") != F.col("client_id")) & (
        F.struct("o_from", "o_client") < F.struct("from", "client_id")
    )
    both = F.least("to", "o_to") - F.col("from")
    beside = owned.join(other, list(whose), "left").withColumn(
        "overlap", F.when(earlier, F.struct(both.alias("us"), "o_began"))
    )
    worst = beside.groupBy(*whose, "client_id", "from", "to", "began").agg(F.max("overlap").alias("worst"))
    return worst.withColumn("scope", scope())


def reads(recording: Recording) -> DataFrame:
    """Return deliveries to owners of whole queues, each with the one before from the same queue to the same owner."""
    delivered = recording.events.where(READ)
    by_owner = Window.partitionBy(*_QUEUE, "group", "client_id", "recorder").orderBy("seq")
    return delivered.select(
        scope(),
        F.xxhash64(*SCOPE, "group").alias("gid"),
        F.xxhash64(*SCOPE, "client_id").alias("client"),
        "offset",
        place().alias("place"),
        F.lag(F.struct("offset", place().alias("place"))).over(by_owner).alias("before"),
    )


def progress(recording: Recording) -> DataFrame:
    """Return committed offsets of a group in a queue, each with the commits and reads before it."""
    whose = (*_QUEUE, "group")
    rows_of_queues = recording.events.where(f"(kind = 'commit' and commit_offset is not null) or ({READ})")
    # Members of a broadcast group have offsets of their own.
    alone = recording.settings.where("broadcast").select(*SCOPE, "group")
    rows_of_queues = rows_of_queues.join(F.broadcast(alone), [*SCOPE, "group"], "left_anti")
    offsets = rows_of_queues.select(
        *whose,
        "kind",
        place().alias("place"),
        "offset",
        F.col("commit_offset").alias("committed"),
        (F.coalesce("filter", F.lit("TAG:*")) != "TAG:*").alias("by_filter"),
    )
    begun = assigned(recording.events).select(*whose, F.lit("assign").alias("kind"), place().alias("place"))
    rows = offsets.unionByName(begun, allowMissingColumns=True)
    own = Window.partitionBy(*whose).orderBy("place.at", "place.seq")
    before = own.rowsBetween(Window.unboundedPreceding, -1)
    kind = F.col("kind")
    compared = rows.withColumns(
        {
            "last": F.last(F.when(kind == "commit", F.struct("committed", "place")), ignorenulls=True).over(
                before
            ),
            "highest": F.max(F.when(kind == "deliver", F.struct("offset", "place"))).over(before),
            "read": F.last(
                F.when(kind == "deliver", F.struct("place.at", "place.seq")), ignorenulls=True
            ).over(before),
            "begun": F.last(
                F.when(kind == "assign", F.struct("place.at", "place.seq")), ignorenulls=True
            ).over(before),
            "filtered": F.coalesce(F.max("by_filter").over(before), F.lit(False)),
        }
    )
    return compared.where("kind = 'commit'").withColumns(
        {"scope": scope(), "gid": F.xxhash64(*SCOPE, "group")}
    )


def slices(recording: Recording) -> DataFrame:
    """Return time slices with first deliveries from a queue to a normal group, each with the one before; `polls` counts
    polls that began and were answered between the two, if the queue stalled for too long."""
    groups = recording.settings.where("ordered is not null and not ordered").select(*SCOPE, "group")
    first_deliveries = recording.events.where(
        """kind = 'deliver' and attempt = 1 and store_us is not null and queue is not null
        and lite_topic is null"""
    )
    free = first_deliveries.join(F.broadcast(groups), [*SCOPE, "group"], "left_semi")
    # Deliveries are grouped by time slices of half the limit: a stall always spans a boundary between two of them.
    packed = free.select(
        F.xxhash64(*_QUEUE, "group").alias("way"),
        F.xxhash64(*_GROUP).alias("poll"),
        scope(),
        "queue",
        by_broker(),
        F.floor(F.col("t_wall_us") / (STANDSTILL_US // 2)).alias("slice"),
        F.greatest("store_us", F.coalesce("due_us", F.lit(0))).alias("ready"),
        place().alias("place"),
    )
    by_slice = packed.groupBy("way", "poll", "scope", "queue", "by_broker", "slice").agg(
        *earliest("begin"), *earliest("end", latest=True), F.min("ready").alias("ready")
    )
    by_slice = placed(by_slice, "begin", "end")
    before = F.lag("end").over(Window.partitionBy("way").orderBy("slice"))
    paired = by_slice.withColumn("before", before).where("before is not null")
    paired = paired.withColumn("since", F.greatest("before.at", "ready"))
    polls = recording.events.where("kind = 'receive' and phase = 'ok' and invoked_us is not null").select(
        F.xxhash64(*_GROUP).alias("poll"),
        F.col("queue").alias("p_queue"),
        F.col("invoked_us").alias("p_from"),
        F.col("t_wall_us").alias("p_to"),
    )
    # A poll with another filter may have found nothing that it wanted.
    stalled = paired.where(f"begin.at - since >= {STANDSTILL_US}").join(alike(recording), "poll", "left_semi")
    polled = polls.join(
        F.broadcast(stalled.select("poll", "way", "slice", "queue", "since", "begin")), "poll"
    )
    inside = polled.where("(p_queue is null or p_queue = queue) and p_from > since and p_to < begin.at")
    counted = inside.groupBy("way", "slice").agg(F.count("*").alias("polls"))
    return paired.join(F.broadcast(counted), ["way", "slice"], "left")


STORED = Frame("stored messages", stored, ("deliver",))
PLACES = Frame("places", places, ("send", "deliver"))
SENDS = Frame("sends in a row", sends, ("send",))
OWNERSHIPS = Frame("ownerships", ownerships, ("assign",))
READS = Frame("deliveries to owners", reads, ("pull",))
PROGRESS = Frame("written offsets", progress, ("commit",))
SLICES = Frame("slices", slices, ("deliver",))
