"""Exemptions, which permit a broker to break a promise: resets, clients that left, restarts, lost answers, locks of
whole queues, queues that moved to another member, and members of one group with different filters.

Exemptions are looked up for findings only, which are few, by keys of the group, the client, or the run and case.
A change of the lease (E1) is part of the frame `deliveries`; an answer that was repeated (E6) part of the rules.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame, Window, functions as F

from aiorocketmq_audit.frames.deliveries import deliveries
from aiorocketmq_audit.frames.frame import ACCOUNT, SCOPE, Recording
from aiorocketmq_audit.frames.places import alike, called, place
from aiorocketmq_audit.frames.queues import assigned
from aiorocketmq_audit.frames.settings import LATE_MS
from aiorocketmq_audit.recording.schema import BY_QUEUE, GRAIN
from aiorocketmq_audit.rules.queues import REBALANCE_US

RESET, OWNER_GONE, RESTARTED, QUEUE_LOCKED = "reset", "owner gone", "restart", "queue locked"
ASSIGNED, SENT_TWICE, ANSWER_LOST, MOVED = "assigned anew", "sent twice", "answer lost", "queue moved"
FILTERS_DIFFER = "filters differ"

FLUSH_US = 6_000_000
"""Acks of this many microseconds before a restart may be lost (live-broker-consumption.md 12)."""

LINGERS_US = 120_000_000
"""For so long after an outage a server may act on old state as well: former leases expire, and are processed late."""

AWAY_US = 1_000_000
"""Outages of a server are indexed by time slices of so many microseconds."""

MAY_BE_LOCKED = f"exemption is null and batch is not null and array_contains(exemptions, '{QUEUE_LOCKED}')"
"""Findings of groups that lock whole queues, for `queue_locked`."""

MAY_HAVE_MOVED = f"exemption is null and array_contains(exemptions, '{MOVED}')"
"""Findings of messages that were read from queues, for `queue_moved`."""

FORGOTTEN = (
    *("INV-EXCL", "INV-ACKED", "INV-EARLY", "INV-LATE", "INV-ATTEMPT", "INV-ORD", "INV-ORD-FIRST"),
    *("INV-ORD-HANDLE", "INV-TX-CHECK", "INV-OFFSET", "INV-OFFSET-ORD", "INV-COMMIT", "INV-PULL-ORD"),
    *("INV-LOCK", "INV-LOCK-WORK"),
)
"""Invariants that a server may break after a restart, because it lost what was not yet flushed."""

SLICE_US = 20_000_000
"""Polls are indexed by the time slices that they span: comparing each late message with all polls of its group would
take time quadratic in the recording's length. Servers bound a poll's wait by this length, so most polls span two."""
_MOST_SLICES = 10_000


def marks(events: DataFrame) -> DataFrame:
    """Return one row per exemption and scope: `of`, `key` (a hash of the group, of the client, or of run and case),
    the time (`at`) and the event, and its end (`until`). A fault with state `start` lasts until the same fault with
    state `stop`, or for LINGERS_US; all others are instantaneous."""
    kind, fault = F.col("kind"), F.col("fault").getItem("kind")
    by_fault = Window.partitionBy(*SCOPE, fault, F.col("fault").getItem("target"))
    following = F.lead(F.struct("fault", "t_wall_us")).over(by_fault.orderBy("t_wall_us", "recorder", "seq"))
    stopped = F.when(following["fault"]["state"] == "stop", following["t_wall_us"])
    lasts = F.coalesce(stopped, F.col("t_wall_us") + LINGERS_US)
    group, client = F.xxhash64(*SCOPE, "group"), F.xxhash64(*SCOPE, "client_id")
    exemption = (
        F.when(kind.isin("reset", "seek"), F.lit(RESET))
        .when(kind.isin("client.stop", "client.crash"), F.lit(OWNER_GONE))
        .when((kind == "assign") & (F.expr(GRAIN) != "message"), F.lit(ASSIGNED))
        .when((kind == "fault") & fault.isin("restart", "crash"), F.lit(RESTARTED))
    )
    key = (
        F.when(kind.isin("reset", "seek"), group).when(kind == "fault", F.xxhash64(*SCOPE)).otherwise(client)
    )
    exempting = events.where(kind.isin("reset", "seek", "fault", "client.stop", "client.crash", "assign"))
    return exempting.select(
        exemption.alias("of"),
        key.alias("key"),
        F.col("t_wall_us").alias("at"),
        F.xxhash64("recorder").alias("by"),
        F.col("seq").alias("number"),
        F.when(F.col("fault").getItem("state") == "start", lasts)
        .otherwise(F.col("t_wall_us"))
        .alias("until"),
    ).where("of is not null")


def exempted(findings: DataFrame, recording: Recording) -> DataFrame:
    """Set `exemption` on findings that an event permits. Each of `findings` has an `id`."""
    events = recording.events
    by_marks = _between(findings, marks(events))
    by_answers = _answer_lost(findings, events).select("id", F.lit(ANSWER_LOST).alias("lost"))
    by_filters = _filters_differ(findings, recording).select("id", F.lit(FILTERS_DIFFER).alias("differ"))
    joined = (
        findings.join(by_answers, "id", "left").join(by_marks, "id", "left").join(by_filters, "id", "left")
    )
    exemption = F.coalesce("exemption", "lost", "marked", "differ")
    return joined.withColumn("exemption", exemption).drop("lost", "marked", "differ")


def _between(findings: DataFrame, marked: DataFrame) -> DataFrame:
    """Return the `id` of findings and the exemption (`marked`) between their two events; of several, the first in the
    order of the rule.

    With a manual clock many events share one instant; the recorder's sequence numbers order them. After a restart a
    server may act on two states of what it stored before: a restart exempts whatever existed before it (`since`).
    """
    candidates = findings.where("exemption is null and size(exemptions) > 0").select(
        "id",
        "first",
        "second",
        "since",
        "acked",
        "exemptions",
        F.explode(F.array_compact(F.array("scope", "gid", "client"))).alias("key"),
    )
    joined = candidates.join(marked, "key").where(
        f"""array_contains(exemptions, of)
            and (at > first.at or (at = first.at and by = first.recorder and number > first.seq)
                 or (of = '{RESTARTED}' and until > since and until > second.at - {LINGERS_US}))
            and (at < second.at or (at = second.at and by = second.recorder and number < second.seq))
            and (of <> '{RESTARTED}' or acked is null or acked > at - {FLUSH_US})"""
    )
    rank = F.array_position("exemptions", F.col("of"))
    return joined.groupBy("id").agg(F.min_by("of", rank).alias("marked"))


def _answer_lost(findings: DataFrame, events: DataFrame) -> DataFrame:
    """Return findings for which lost answers may account for all missing attempt numbers (E7)."""
    lost = events.where("kind = 'receive' and phase = 'info'").select(
        F.xxhash64(*ACCOUNT, "topic", "group").alias("poll"), called().alias("asked_us")
    )
    is_candidate = f"exemption is null and array_contains(exemptions, '{ANSWER_LOST}')"
    candidates = findings.where(is_candidate).select("id", "poll", "missing", "second")
    joined = candidates.join(lost, "poll").where("asked_us <= second.at")
    return joined.groupBy("id", "missing").agg(F.count("*").alias("n")).where("missing <= n")


def _filters_differ(findings: DataFrame, recording: Recording) -> DataFrame:
    """Return findings of groups that polled a topic with several filters (E9): members with narrower ones pass over
    messages, which are settled by that without a trace."""
    several = recording.polled.where("filters > 1")
    differing = several.select(F.xxhash64(*SCOPE, "group").alias("gid")).distinct()
    candidates = findings.where(f"exemption is null and array_contains(exemptions, '{FILTERS_DIFFER}')")
    return candidates.join(F.broadcast(differing), "gid", "left_semi")


def queue_locked(findings: DataFrame, recording: Recording) -> DataFrame:
    """Set `exemption` if a whole queue was locked and an earlier message of the same answer was not acked (E5)."""
    events = recording.events
    candidates = findings.where(MAY_BE_LOCKED).select(
        "id", "batch", F.col("offset").alias("behind"), F.col("second.at").alias("again_at")
    )
    answer, message = F.xxhash64("recorder", "batch"), F.xxhash64(*ACCOUNT, "group", "message_id")
    of_answers = events.where("kind = 'deliver'").join(
        F.broadcast(candidates.select(F.col("batch").alias("answer")).distinct()),
        F.col("answer") == answer,
        "left_semi",
    )
    of_messages = events.join(
        F.broadcast(of_answers.select(message.alias("wanted")).distinct()),
        F.col("wanted") == message,
        "left_semi",
    )
    leases = deliveries(replace(recording, events=of_messages))
    held = leases.select("batch", "offset", "acked_hi").join(F.broadcast(candidates), "batch")
    held = held.where("offset < behind and (acked_hi is null or acked_hi > again_at)")
    locked = held.select("id", F.lit(QUEUE_LOCKED).alias("locked")).distinct()
    joined = findings.join(locked, "id", "left")
    return joined.withColumn("exemption", F.coalesce("exemption", "locked")).drop("locked")


def queue_moved(findings: DataFrame, recording: Recording) -> DataFrame:
    """Set `exemption` if a message was read from its queue again because the queue had moved (E8): the new owner reads
    what the former one had not committed, as first attempts.

    The queue must have been assigned after the message was read from it before, or at most REBALANCE_US earlier, while
    two members may own it. A retry is read from a retry topic, once for each earlier read of the message: for retries,
    any queue counts from which the message was read."""
    read = recording.events.where(f"kind = 'deliver' and {BY_QUEUE} and message_id is not null").select(
        F.xxhash64(*ACCOUNT, "group", "message_id").alias("message"),
        _queue(F.when(F.col("attempt") > 1, F.concat(F.lit("%RETRY%"), "group")).otherwise(F.col("topic"))),
        (F.col("attempt") > 1).alias("is_retry"),
        place().alias("place"),
    )
    candidates = findings.where(MAY_HAVE_MOVED).select("id", F.col("second").alias("place"))
    again = read.join(F.broadcast(candidates), "place")
    again = again.select(
        "id", "message", "is_retry", F.col("place").alias("again"), F.col("from").alias("own")
    )
    before = read.drop("is_retry").join(F.broadcast(again), "message")
    before = before.where("place < again and (is_retry or from = own)")
    since = before.groupBy("id", "from", "own", "again").agg(
        F.expr("if(from = own, max(place.at), min(place.at))").alias("since")
    )
    moved = since.join(_taken(recording.events), "from").where(
        f"taken_at > since - {REBALANCE_US} and taken_at <= again.at"
    )
    joined = findings.join(moved.select("id", F.lit(MOVED).alias("moved")).distinct(), "id", "left")
    return joined.withColumn("exemption", F.coalesce("exemption", "moved")).drop("moved")


def _taken(events: DataFrame) -> DataFrame:
    """Return the times at which members were assigned queues that they had not owned before."""
    own = Window.partitionBy(*ACCOUNT, "client_id", "recorder", "epoch", "topic").orderBy("t_wall_us", "seq")
    new = F.array_except("queues", F.coalesce(F.lag("queues").over(own), F.expr("array()")))
    assignments = events.where("kind = 'assign'").withColumn("queues", new)
    return assigned(assignments).select(_queue(F.col("topic")), F.col("t_wall_us").alias("taken_at"))


def _queue(topic: Column) -> Column:
    return F.xxhash64(*ACCOUNT, "group", topic, "broker", "queue").alias("from")


def with_open_polls(findings: DataFrame, recording: Recording) -> DataFrame:
    """Return late messages for which a poll of their group was open while they were late, until it was answered. For
    messages that were never redelivered, the end of the observation is used instead of the delivery."""
    events = recording.events
    ended = events.groupBy(F.xxhash64(*ACCOUNT).alias("account")).agg(F.max("t_wall_us").alias("ended_us"))
    answered = events.where("kind = 'receive' and phase = 'ok' and invoked_us is not null")
    begun = F.floor(F.col("invoked_us") / SLICE_US)
    over = F.floor(F.col("t_wall_us") / SLICE_US)
    polls = answered.select(
        F.xxhash64(*ACCOUNT, "topic", "group").alias("p_poll"),
        F.col("queue").alias("p_queue"),
        F.col("invoked_us").alias("p_from"),
        F.col("t_wall_us").alias("p_to"),
        F.explode(F.sequence(begun, F.least(over, begun + _MOST_SLICES))).alias("p_slice"),
    )
    # A poll with another filter may not have been for this message.
    judged = findings.join(alike(recording), "poll", "left_semi")
    covered = judged.join(F.broadcast(ended), "account").join(
        polls,
        F.expr(
            f"""poll = p_poll and floor(until / {SLICE_US}) = p_slice and (p_queue is null or p_queue = queue)
            and p_from <= until and p_to >= bound"""
        ),
        "left_semi",
    )
    at = F.coalesce("second.at", "ended_us")
    second = F.struct(at.alias("at"), F.col("second.recorder"), F.col("second.seq"))
    return covered.withColumns({"second": second, "margin_us": at - F.col("until")}).drop("ended_us")


def outages(events: DataFrame) -> DataFrame:
    """Return the times at which polls of a client reported the server as unavailable (no connection, internal error).

    A client cannot distinguish a restart from a network failure: this exempts nothing, and makes findings possible."""
    slices = events.where("kind = 'receive' and result = 'away'").groupBy(
        F.xxhash64("recorder").alias("by"), F.floor(F.col("t_wall_us") / AWAY_US).alias("slice")
    )
    return slices.agg(F.min("t_wall_us").alias("a_since"), F.max("t_wall_us").alias("a_until"))


def doubtful(findings: DataFrame, events: DataFrame) -> DataFrame:
    """Return the `id` of findings for which the first event's recorder reported its server as unavailable within
    LINGERS_US before the second event; for acks and late redeliveries with the same windows as restarts have."""
    forgotten = ", ".join(f"'{name}'" for name in FORGOTTEN)
    late = "invariant = 'INV-LATE'"
    joined = findings.where(f"invariant in ({forgotten})").join(
        outages(events),
        F.expr(
            f"""by = first.recorder
            and a_since < if({late}, second.at - margin_us + {LATE_MS * 1000}, second.at)
            and a_until > if({late}, second.at - margin_us, second.at) - {LINGERS_US}
            and (invariant <> 'INV-ACKED' or a_since < second.at - margin_us + {FLUSH_US})"""
        ),
    )
    return joined.select("id").distinct()
