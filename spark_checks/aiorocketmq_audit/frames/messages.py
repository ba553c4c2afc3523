"""Frames of whole messages: `messages` (each with its sends and deliveries), `dead letters`, `recalls`, `transactions`
and `drained messages` (messages due to a group that was drained).

Message ids are unique, so that each frame is one aggregation by message. Frames of rare kinds of events are small, and
are skipped if the recording has no such events.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, functions as F

from aiorocketmq_audit.frames.frame import ACCOUNT, SCOPE, Frame, Recording
from aiorocketmq_audit.frames.places import (
    by_broker,
    by_one_filter,
    called,
    drains,
    earliest,
    not_attested,
    place,
    placed,
    reset_groups,
    scope,
    trimmed,
)
from aiorocketmq_audit.frames.tags import is_unwanted
from aiorocketmq_audit.recording.schema import BY_QUEUE
from aiorocketmq_audit.rules.origin import JUDGED, REFUSED

_MESSAGE = (*ACCOUNT, "message_id")
_PARTS = ("body", "props")
_GROUP = (*ACCOUNT, "topic", "group")


def messages(recording: Recording) -> DataFrame:
    """Return one row per observation and delivered message."""
    phase, is_send = F.col("phase"), F.col("kind") == "send"
    account = F.xxhash64(*ACCOUNT)
    traced = recording.events.where(F.col("kind").isin("send", "deliver") & F.col("message_id").isNotNull())
    packed = traced.select(
        F.xxhash64(*_MESSAGE).alias("trace"),
        account.alias("account"),
        scope(),
        by_broker(),
        is_send.alias("is_send"),
        (is_send & (phase == "invoke")).alias("called"),
        (is_send & phase.isin("ok", "fail", "info")).alias("answered"),
        (is_send & (phase == "fail")).alias("refused"),
        (is_send & (phase == "ok")).alias("confirmed"),
        *(
            F.when(whose & F.col(f"{part}_sha").isNotNull(), F.xxhash64(f"{part}_sha")).alias(f"{way}_{part}")
            for way, whose in (("sent", is_send), ("given", ~is_send))
            for part in _PARTS
        ),
        place().alias("place"),
        "store_us",
    )
    by_message = packed.groupBy("trace", "account", "scope", "by_broker").agg(
        F.count_if("is_send").alias("sends"),
        F.count_if(~F.col("is_send")).alias("times"),
        *(F.count_if(name).alias(name) for name in ("called", "answered", "refused", "confirmed")),
        *(
            most(f"{way}_{part}").alias(f"{way}_{part}_{name}")
            for name, most in (("least", F.min), ("most", F.max))
            for way in ("sent", "given")
            for part in _PARTS
        ),
        *earliest("sent", F.col("is_send")),
        *earliest("given", ~F.col("is_send")),
        F.min_by("store_us", F.when(~F.col("is_send"), F.col("place.at"))).alias("given_store"),
    )
    began = recording.events.where("kind = 'recorder.start'").groupBy(account.alias("account"))
    starts = began.agg(F.min("t_wall_us").alias("began"))
    return placed(by_message.where("times > 0").join(F.broadcast(starts), "account", "left"), "sent", "given")


def dead_letters(recording: Recording) -> DataFrame:
    """Return one row per group and message that the broker made a dead letter."""
    recorded = recording.events.where("observer = 'broker' and kind in ('dlq.deliver', 'forward')")
    where = F.struct("broker", "queue", "offset")
    is_dead = F.col("kind") == "dlq.deliver"
    fact = F.struct(place().alias("place"), "attempt")
    by_message = recorded.groupBy(*_GROUP, "message_id").agg(
        scope_of(),
        F.count_if(is_dead).alias("letters"),
        F.count_if(~is_dead).alias("forwards"),
        F.count_distinct(F.when(is_dead, where)).alias("places"),
        F.min(F.when(is_dead, fact)).alias("first"),
        F.max(F.when(is_dead, fact)).alias("last"),
    )
    limits = recording.settings.select(*SCOPE, "group", "max_attempts")
    return by_message.where("letters > 0").join(F.broadcast(limits), [*SCOPE, "group"], "left")


def scope_of() -> Column:
    """Return the scope of a group of rows that share it."""
    return F.max(F.xxhash64(*SCOPE)).alias("scope")


def recalls(recording: Recording) -> DataFrame:
    """Return one row per recalled message."""
    key = (*ACCOUNT, "topic", "message_id")
    kind = F.col("kind")
    recalled = recording.events.where("kind = 'recall' and phase = 'ok' and message_id is not null")
    recall_times = recalled.groupBy(*key).agg(F.min(place()).alias("recalled"))
    ways = recording.events.where("kind in ('send', 'deliver')").join(F.broadcast(recall_times), list(key))
    return ways.groupBy(*key, "recalled").agg(
        scope_of(),
        F.max("due_us").alias("due_us"),
        F.min(F.when(kind == "deliver", place())).alias("given"),
    )


def transactions(recording: Recording) -> DataFrame:
    """Return one row per observation and transaction, with the number of half messages that the broker stored."""
    key = (*SCOPE, "topic", "tx_id")
    kind, phase, here = F.col("kind"), F.col("phase"), place()
    ended = (kind == "tx.end") & (F.coalesce(phase, F.lit("info")) != "fail")
    commit, rollback = F.col("resolution") == "commit", F.col("resolution") == "rollback"
    recorded = recording.events.where(
        "tx_id is not null and kind in ('send', 'deliver', 'tx.end', 'tx.check')"
    )
    by_transaction = recorded.groupBy("observer", *key).agg(
        scope_of(),
        F.min(F.when(kind != "deliver", here)).alias("began"),
        F.min(F.when(kind == "deliver", here)).alias("given"),
        F.min(F.when(ended & commit, called())).alias("commit_lo"),
        F.min(F.when(ended & rollback & (phase == "ok"), here)).alias("rolled"),
        F.min(F.when(ended & (commit | rollback) & (phase == "ok"), here)).alias("decided"),
        F.count_if((kind == "send") & (phase == "ok") & by_broker()).alias("stored"),
        F.max(F.when(kind == "tx.check", here)).alias("asked"),
    )
    begun = by_transaction.where("began is not null").withColumn("by_broker", by_broker())
    return begun.withColumn("halves", F.sum("stored").over(Window.partitionBy(*key)))


def drained_messages(recording: Recording) -> DataFrame:
    """Return one row per drained group and message that it should have settled; `done` if it has.

    These are the messages that were sent after the group had begun to poll, and were deliverable before the drain
    (committed, delivery time reached). Not included: messages that were recalled or expired, groups with a reset, and
    groups that filter by SQL.
    """
    events = recording.events
    wish = F.xxhash64(*_GROUP, "message_id").alias("wish")
    drained = drains(events).join(by_one_filter(recording), list(_GROUP))
    drained = drained.join(reset_groups(events), [*ACCOUNT, "group"], "left_anti")
    sent = _sent(recording).join(F.broadcast(not_attested(drained, recording.settings)), [*ACCOUNT, "topic"])
    settled = events.where(
        f"""(kind in ('ack', 'forward') and coalesce(phase, '') <> 'fail' or kind = 'dlq.deliver'
            or kind = 'deliver' and {BY_QUEUE}) and group is not null and message_id is not null"""
    )
    wishes = sent.select(
        wish,
        scope(),
        by_broker(),
        "primed",
        "drained",
        "place",
        "visible",
        "due_us",
        "here",
        is_unwanted("wanted").alias("unwanted"),
    )
    # One shuffle for both sides, and no join.
    rows = wishes
    for of in (settled, _given_up(recording)):
        rows = rows.unionByName(of.select(wish, F.lit(True).alias("done")), allowMissingColumns=True)
    first = rows.groupBy("wish").agg(
        *(F.max(name).alias(name) for name in ("scope", "by_broker", "primed", "unwanted", "done")),
        *earliest("sent"),
        *earliest("drained", of="drained", latest=True),
        F.min("visible").alias("visible"),
        F.max("due_us").alias("due_us"),
        F.min("here").alias("here"),
    )
    return placed(first, "sent", "drained").where(
        """sent.at > primed and greatest(visible, coalesce(due_us, 0)) < drained.at and visible is not null and here
        and not unwanted"""
    )


def _given_up(recording: Recording) -> DataFrame:
    """Return deliveries observed by clients after which servers make the message a dead letter."""
    limits = recording.settings.select(*SCOPE, "group", "max_attempts").where("max_attempts > 0")
    delivered = recording.events.where("kind = 'deliver' and observer <> 'broker' and message_id is not null")
    return delivered.join(F.broadcast(limits), [*SCOPE, "group"]).where("attempt >= max_attempts")


def _sent(recording: Recording) -> DataFrame:
    """Return sends that surely succeeded, with the time from which the message is visible (null: not committed), and
    whether it is still stored."""
    events = recording.events
    sent = events.where("kind = 'send' and phase = 'ok' and message_id is not null")
    if recording.kinds.get("recall"):
        recalled = events.where(
            "kind = 'recall' and message_id is not null and coalesce(phase, '') <> 'fail'"
        )
        message = [*ACCOUNT, "topic", "message_id"]
        sent = sent.join(recalled.select(*message).distinct(), message, "left_anti")
    ended = events.where("kind = 'tx.end' and phase = 'ok' and tx_id is not null and resolution = 'commit'")
    committed = ended.groupBy(*ACCOUNT, "topic", "tx_id").agg(F.min("t_wall_us").alias("committed"))
    joined = sent.join(F.broadcast(committed), [*ACCOUNT, "topic", "tx_id"], "left")
    joined = joined.join(trimmed(events), [*ACCOUNT, "topic", "broker", "queue"], "left")
    return joined.select(
        *ACCOUNT,
        "topic",
        "message_id",
        "tag",
        "due_us",
        place().alias("place"),
        F.when(F.col("tx_id").isNull(), F.col("t_wall_us")).otherwise(F.col("committed")).alias("visible"),
        F.coalesce(F.col("offset") >= F.col("left_from"), F.lit(True)).alias("here"),
    )


MESSAGES = Frame(
    "messages",
    messages,
    ("deliver",),
    counts={
        "known": (f"count_if({JUDGED} and confirmed > 0)", "sum(known)"),
        "recovered": (
            f"count_if({JUDGED} and confirmed = 0 and sends > 0 and not {REFUSED})",
            "sum(recovered)",
        ),
    },
)
DEAD_LETTERS = Frame("dead letters", dead_letters, ("dlq.deliver",))
RECALLS = Frame("recalls", recalls, ("recall",))
TRANSACTIONS = Frame("transactions", transactions, ("tx.end", "tx.check"))
DRAINED = Frame("drained messages", drained_messages, ("drain.ok",))
