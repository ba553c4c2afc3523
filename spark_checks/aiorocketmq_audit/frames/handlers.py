"""Frames of push consumers and of lite topics: `handlers` (running handlers, and until when), and `lite deliveries`
(a client's subscription at each delivery)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from pyspark.sql import Column, DataFrame, Window, functions as F

from aiorocketmq_audit.frames.frame import ACCOUNT, SCOPE, Frame, Recording
from aiorocketmq_audit.frames.places import called, scope
from aiorocketmq_audit.rules.ordering import NEVER


def handlers(recording: Recording) -> DataFrame:
    """Return one row per handler start of an ordered group: `until` when it surely ran and leased its message, and the
    `other` handler of its message group that runs longest among those that began before.

    `other` is a running maximum over handler starts in the order of time."""
    ordered_groups = recording.settings.where("ordered").select(*SCOPE, "group", "apart_us")
    by_time = Window.partitionBy("lane").orderBy("at", "seq")
    before = by_time.rowsBetween(Window.unboundedPreceding, -1)
    at_work = F.struct("until", "at", "seq", "recorder", "client")
    return _with_end(_handled(recording.events, ordered_groups)).withColumn(
        "other", F.max(at_work).over(before)
    )


def _handled(events: DataFrame, ordered_groups: DataFrame) -> DataFrame:
    kind = F.col("kind")
    rows = events.where(
        """message_group is not null and message_id is not null and role = 'push' and
        (kind in ('deliver', 'handle.start', 'handle.end') or kind = 'change' and phase = 'ok')"""
    ).join(F.broadcast(ordered_groups), [*SCOPE, "group"])
    leased = called() + F.col("invisible_ms") * 1000
    renewed = (kind == "deliver") & F.coalesce("auto_renew", F.lit(False))
    return rows.select(
        F.xxhash64(*ACCOUNT, "topic", "group", "broker", "queue", "message_group").alias("lane"),
        F.xxhash64("message_id", "offset").alias("message"),
        scope(),
        F.xxhash64(*SCOPE, "group").alias("gid"),
        F.xxhash64(*SCOPE, "client_id").alias("client"),
        F.xxhash64("recorder").alias("recorder"),
        F.col("t_wall_us").alias("at"),
        "seq",
        "attempt",
        "apart_us",
        (kind == "deliver").alias("is_given"),
        (kind == "handle.start").alias("begins"),
        (kind == "handle.end").alias("ends"),
        # A server that renews leases by itself lets none expire while the client is connected.
        F.when(renewed, F.lit(NEVER)).when(kind.isin("deliver", "change"), leased).alias("lease"),
    )


def _with_end(packed: DataFrame) -> DataFrame:
    # A delivery with its handling: events after the next delivery belong to that one.
    whose = ("lane", "message", "attempt", "recorder", "client")
    so_far = (
        Window.partitionBy(*whose).orderBy("seq").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    numbered = packed.withColumn("given", F.count_if("is_given").over(so_far))
    own = Window.partitionBy(*whose, "given").orderBy("seq")
    so_far = own.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    later = own.rowsBetween(1, Window.unboundedFollowing)
    held = numbered.withColumn("lease", F.last("lease", ignorenulls=True).over(so_far))
    end = F.first(F.when(F.col("ends"), F.struct("at", "lease")), ignorenulls=True).over(later)
    last = F.last("lease").over(own.rowsBetween(Window.currentRow, Window.unboundedFollowing))
    ended = held.withColumns({"end": end, "last": last}).where("begins")
    # A renewed lease of a handler without an end belongs to a client that stopped at an unknown time.
    alone = F.when(F.col("last") < NEVER, F.col("last"))
    through = F.when(F.col("end.lease").isNotNull(), F.least("end.at", "end.lease"))
    return ended.withColumn("until", F.when(F.col("end").isNotNull(), through).otherwise(alone))


def lite_deliveries(recording: Recording) -> DataFrame:
    """Return one row per delivery of a lite topic to a client with a complete list: until when the topic was subscribed
    (`wanted`), and since when it was unsubscribed (`over`).

    Everything is compared within one run of one recorder: by sequence number, and for a broker, for which calls are
    instants, by time."""
    rows = reduce(DataFrame.unionByName, (*_lists(recording.events), *_deliveries(recording.events)))
    by_client, by_name = (
        Window.partitionBy(*whose).orderBy("place") for whose in (("key",), ("key", "name"))
    )
    # Rows with a name concern that topic; rows without a name are complete lists, which concern every topic.
    listed = F.when(F.col("since").isNotNull(), F.struct("since", "seq"))
    whole = F.when(F.col("name").isNull(), listed)
    up_to = Window.unboundedPreceding
    compared = (
        rows.repartition("key")
        .withColumns(
            {
                "whole": F.max(whole).over(by_client.rangeBetween(up_to, -1)),
                "removed": F.max(listed).over(by_name.rangeBetween(up_to, -1)),
                "wanted": F.max("until").over(by_name.rangeBetween(up_to, 0)),
            }
        )
        .where("given is not null")
    )
    # Each delivery has two rows: when it was requested, and when it arrived.
    whole, removed = (F.when(~F.col("given.came"), F.col(name)) for name in ("whole", "removed"))
    each = compared.groupBy("key", F.col("given.seq").alias("number")).agg(
        F.max("given").alias("given"),
        F.max(whole).alias("whole"),
        F.max(F.greatest(whole, removed)).alias("over"),
        F.max(F.when(F.col("given.came"), F.col("wanted"))).alias("wanted"),
    )
    return each.where("whole is not null").withColumn("scope", F.col("given.scope"))


def _key() -> Column:
    return F.xxhash64("recorder", "boot", "client_id", "group", "topic").alias("key")


def _where(numbered: str, timed: str) -> Column:
    """Return the position of a row in the order of its recorder."""
    return F.when(F.col("observer") == "broker", F.col(timed)).otherwise(F.col(numbered))


def _lists(events: DataFrame) -> Iterator[DataFrame]:
    """Yield subscriptions from the call of a list on, their ends with an answer, and answers of complete lists."""
    here = _where("seq", "t_wall_us")
    is_ok = F.coalesce("phase", F.lit("ok")) == "ok"
    calls = (
        events.where("kind = 'lite.sync'")
        .groupBy(_key(), F.coalesce("op_id", F.concat(F.lit("#"), "seq")).alias("call"))
        .agg(
            F.min(F.coalesce(_where("invoked_seq", "invoked_us"), here)).alias("begin"),
            F.max(F.when(is_ok, here)).alias("end"),
            F.max(F.when(is_ok, F.col("seq"))).alias("seq"),
            F.max(F.coalesce("phase", F.lit("ok")) == "fail").alias("failed"),
            *(F.max(F.col("cfg").getItem(name)).alias(name) for name in ("all", "add", "remove")),
        )
        .where("not failed")
    )
    until = F.coalesce("end", F.lit(NEVER))
    for names in ("all", "add"):
        yield _row(_named(calls, names), place=F.col("begin"), until=until)
    over = calls.where("end is not null")
    whole = over.where(F.col("all").isNotNull()).withColumn("name", F.lit(None))
    for calls_of in (whole, _named(over, "remove")):
        yield _row(calls_of, place=F.col("end"), since=F.col("begin"))


def _named(calls: DataFrame, names: str) -> DataFrame:
    """Return one row for each lite topic that the calls name in the column `names`; none for other calls."""
    each = calls.withColumn("lite_topic", F.explode(F.split(names, ",")))
    return each.withColumn("name", F.xxhash64("lite_topic"))


def _deliveries(events: DataFrame) -> Iterator[DataFrame]:
    """Yield each delivery of a lite topic to a lite consumer twice: when it was requested, and when it arrived."""
    # A broker also records ordinary consumers of the parent topic, which are delivered everything.
    delivered = events.where(
        "lite_topic is not null and (observer <> 'broker' or role = 'lite') and kind = 'deliver'"
    )
    delivered = delivered.withColumn("request", F.xxhash64("recorder", "boot", "batch"))
    polls = events.where("kind = 'receive' and observer = 'broker' and op_id is not null")
    requests = polls.groupBy(F.xxhash64("recorder", "boot", "op_id").alias("request")).agg(
        F.min("invoked_us").alias("asked_us")
    )
    joined = delivered.join(requests, "request", "left").withColumn(
        "asked", _where("invoked_seq", "asked_us")
    )
    timed = joined.where("asked is not null").withColumns(
        {"key": _key(), "name": F.xxhash64("lite_topic"), "came_at": _where("seq", "t_wall_us")}
    )
    for came, where in ((False, "asked"), (True, "came_at")):
        who = F.struct(
            F.lit(came).alias("came"),
            F.col("t_wall_us").alias("at"),
            F.xxhash64("recorder").alias("recorder"),
            F.col("seq").alias("seq"),
            scope(),
        )
        yield _row(timed, place=F.col(where), given=who)


def _row(
    of: DataFrame,
    *,
    place: Column,
    until: Column | None = None,
    since: Column | None = None,
    given: Column | None = None,
) -> DataFrame:
    nothing = F.lit(None)
    return of.select(
        "key",
        F.col("name").cast("bigint").alias("name"),
        place.cast("bigint").alias("place"),
        (nothing if until is None else until).cast("bigint").alias("until"),
        (nothing if since is None else since).cast("bigint").alias("since"),
        F.col("seq").cast("bigint").alias("seq"),
        (nothing if given is None else given)
        .cast("struct<came:boolean,at:bigint,recorder:bigint,seq:bigint,scope:bigint>")
        .alias("given"),
    )


HANDLERS = Frame("handlers", handlers, ("handle.start",))
LITE = Frame("lite deliveries", lite_deliveries, ("lite.sync",))
