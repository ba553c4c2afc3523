"""Selects the events that are carried to the next batch: those of messages that may still be delivered or settled, and
those that later events are compared with.

A message is *open* while a consumer group leases it, or a group that reads its topic has neither been delivered nor
skipped it (an ordered group skips in each message group separately). These events are kept as well: the lowest, the
highest and the latest offset of each group in each queue and message group; the latest commit in each queue; the first
poll of each group; the last lock request of each member; and all rare ones: settings, clients, assignments, resets,
faults, drains, lists of lite topics. Transactions with their half messages, and locks, are kept as long as open
messages.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from aiorocketmq_audit.engine import materialized
from aiorocketmq_audit.frames.frame import ACCOUNT, SCOPE
from aiorocketmq_audit.recording.schema import BY_QUEUE, READ

ROUTINE = (
    *("send", "receive", "deliver", "ack", "change", "forward", "recall", "expire"),
    *("handle.start", "handle.end", "commit", "clock.sample", "tx.end", "tx.check", "lock", "unlock"),
)
"""Frequent kinds: events of them without a message are mostly not needed later."""

MOST_BROADCAST = 2_000_000
"""Up to this number, keys are broadcast; with more of them rows are shuffled."""

_ACCOUNT = ", ".join(ACCOUNT)
_KEY = f"""if(message_id is not null, xxhash64({_ACCOUNT}, message_id),
    if(kind in ('commit', 'receive', 'lock', 'unlock'), xxhash64(recorder, seq), null)) as key"""
_IS_READ = f"(kind = 'deliver' and offset is not null and attempt = 1 or {READ})"
_IS_SENT = "kind = 'send' and phase in ('ok', 'info')"
_IS_TAKEN = "phase = 'ok' and (kind = 'recall' or kind = 'tx.end' and resolution = 'rollback')"
_IS_SETTLED = f"""kind in ('ack', 'forward', 'dlq.deliver') and coalesce(phase, '') <> 'fail'
    or kind = 'deliver' and {BY_QUEUE}"""
_IS_UNKNOWN = "kind = 'receive' and (phase <=> 'info' or result <=> 'away')"
_IS_OF_TX = "tx_id is not null and kind in ('send', 'tx.end', 'tx.check')"
_IS_LOCK = "kind in ('lock', 'unlock')"
_CODES = (
    f"xxhash64({_ACCOUNT}, topic) as in_topic",
    f"xxhash64({_ACCOUNT}, topic, broker, queue) as in_queue",
    "xxhash64(coalesce(message_group, '')) as lane",
    "xxhash64(`group`) as reader",
)
_WAY = "xxhash64(in_queue, reader, if(coalesce(ordered, true), lane, null)) as way"
"""The unit that a group reads in the order of offsets: a queue, or a message group of it."""


def kept(events: DataFrame, settings: DataFrame, kept_us: int, any_us: int) -> tuple[DataFrame, int]:
    """Return the rows to carry, and the number of open messages that are dropped.

    These are all rows from `kept_us` on, all rows of messages with an event since then, and those of open messages with
    an event since `any_us`. `settings` are the result of `frames.settings`.
    """
    keyed = events.select("*", F.expr(_KEY))
    old = keyed.where(F.col("t_wall_us") < kept_us)
    heard = keyed.where("message_id is not null").groupBy("key")
    times = heard.agg(F.min("t_wall_us").alias("first"), F.expr("max(greatest(t_wall_us, due_us)) as last"))
    aged = times.where(F.col("first") < kept_us).join(_open(keyed, old, settings, kept_us), "key", "left")
    aged = aged.selectExpr(
        "key",
        f"last >= {kept_us} or open is not null and last >= {any_us} as stays",
        f"open is not null and last < {any_us} as lost",
    )
    marks = _places(old, any_us).union(_alone(old)).selectExpr("key", "true as stays", "false as lost")
    by_key = aged.union(marks).groupBy("key")
    keys = materialized(by_key.agg(F.max("stays").alias("stays"), F.max("lost").alias("lost")))
    number, forgotten = keys.agg(F.expr("count_if(stays)"), F.expr("count_if(lost and not stays)")).collect()[
        0
    ]
    keys = keys.where("stays")
    rows = keyed.join(F.broadcast(keys) if number <= MOST_BROADCAST else keys, "key", "left").where(
        f"""stays or t_wall_us >= {kept_us} or t_wall_us >= {any_us} and ({_IS_UNKNOWN} or {_IS_OF_TX} or {_IS_LOCK})
        or message_id is null and kind not in {ROUTINE}"""
    )
    # Sends of dropped messages are unknown from here on: their deliveries must not violate INV-ORIGIN.
    begun = f"if(kind = 'recorder.start', greatest(t_wall_us, {kept_us}), t_wall_us)"
    return rows.withColumn("t_wall_us", F.expr(begun)).select(events.columns), forgotten


def _open(keyed: DataFrame, old: DataFrame, settings: DataFrame, kept_us: int) -> DataFrame:
    """Return the keys of open messages. Messages skipped by deliveries since `kept_us` may still be delivered."""
    order = F.broadcast(settings.select(*SCOPE, "group", "ordered"))
    read = keyed.where("kind = 'deliver' and `group` is not null").join(order, [*SCOPE, "group"], "left")
    readers = read.selectExpr(_CODES[0], _CODES[3], "ordered").distinct()
    passed = (
        read.where(_IS_READ).where(F.col("t_wall_us") <= kept_us).selectExpr(*_CODES, "ordered", "offset")
    )
    highest = passed.groupBy(F.expr(_WAY)).agg(F.max("offset").alias("highest"))
    sent = old.where(f"key is not null and ({_IS_SENT} or {_IS_TAKEN})").selectExpr("*", *_CODES[:3])
    rank = "if(kind = 'send', coalesce(offset, -1), null)"
    sent = sent.groupBy("key").agg(
        *(F.expr(f"max_by({name}, {rank}) as {name}") for name in ("in_topic", "in_queue", "lane", "offset")),
        F.expr("count_if(kind <> 'send') as taken"),
    )
    awaited = sent.where("in_topic is not null and taken = 0").join(F.broadcast(readers), "in_topic", "left")
    missed = (
        awaited.select("*", F.expr(_WAY))
        .join(highest, "way", "left")
        .where("not coalesce(offset <= highest, false)")
    )
    rows = keyed.where(
        f"message_id is not null and `group` is not null and (kind = 'deliver' or {_IS_SETTLED})"
    )
    got = rows.groupBy("key", F.expr(_CODES[3])).agg(
        F.expr("max(if(kind = 'deliver', t_wall_us, null)) as given"),
        F.expr(f"max(if({_IS_SETTLED}, t_wall_us, 0)) as settled"),
    )
    got = got.where("given is not null")
    open_keys = missed.join(got, ["key", "reader"], "left_anti").select("key")
    return (
        open_keys.union(got.where("given > settled").select("key")).distinct().withColumn("open", F.lit(True))
    )


def _places(old: DataFrame, any_us: int) -> DataFrame:
    """Return the messages at the bounds of what each group has read, by queue and filter, and by message group."""
    read = old.where(f"{_IS_READ} and message_id is not null").selectExpr(
        f"xxhash64({_ACCOUNT}, topic, `group`, broker, queue, filter) as way",
        "explode(array_distinct(array(null, if(message_group is null, null, xxhash64(message_group))))) as lane",
        *("key", "offset", "t_wall_us"),
    )
    borders = "array(min_by(key, offset), max_by(key, offset), max_by(key, t_wall_us)) as borders"
    by_way = read.groupBy("way", "lane").agg(F.expr(borders), F.max("t_wall_us").alias("last"))
    return by_way.where(f"lane is null or last >= {any_us}").select(F.explode("borders").alias("key"))


def _alone(old: DataFrame) -> DataFrame:
    """Return the latest commit in each queue, each group's first poll with each filter, and each member's last lock
    request."""
    rank = "if(kind = 'receive', -t_wall_us, t_wall_us * 1024 + (seq & 1023))"
    member = f"if({_IS_LOCK}, xxhash64(recorder, client_id, epoch), null)"
    whose = f"xxhash64(kind, phase, {_ACCOUNT}, topic, `group`, broker, queue, filter, {member})"
    rows = old.where(f"(kind in ('commit', 'receive') or {_IS_LOCK}) and message_id is null")
    alone = rows.groupBy(F.expr(whose))
    return alone.agg(F.expr(f"max_by(key, {rank}) as key")).select("key")
