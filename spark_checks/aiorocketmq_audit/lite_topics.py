"""A part of check `filters`: a consumer of lite topics gets messages of those that it wants, and of no others.

INV-ISOLATE: a list that was told to the servers counts from its call on, and what it leaves out is surely over when it
was answered OK before the poll of a delivery was asked. Judged are clients whose whole list was told by then; a list
of which nobody knows whether it came there may count for ever, and what a server says to have taken away is
over for the audit with the next whole list, as a list under way may have crossed that word. Everything is compared
within one life of one recorder: by the numbers of its rows, and in the account of a broker, whose
calls are instants, by its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from pyspark.sql import Column, DataFrame, Window, functions as F

from aiorocketmq_audit.findings import BROKEN, finding, nothing_found

CHECK, INVARIANT = "filters", "INV-ISOLATE"

KINDS = ("lite.sync",)
"""Without lists there is nothing to judge."""

_NEVER = 1 << 62


def facts(events: DataFrame) -> DataFrame:
    """Deliveries of lite topics: rows of FINDING, whose verdict is null where all is well."""
    seen = judged(events)
    fine = seen.where(~F.col("wrong")).select(nothing_found(CHECK, INVARIANT))
    found = seen.where("wrong")
    return fine.unionByName(
        found.select(
            finding(
                CHECK,
                F.lit(INVARIANT),
                F.lit(BROKEN),
                margin=F.lit(None),
                at=F.col("given.at"),
                first=(F.col("given.recorder"), F.col("over.seq")),
                second=(F.col("given.recorder"), F.col("given.seq")),
            )
        )
    )


def judged(events: DataFrame) -> DataFrame:
    """One row per delivery whose client had told its whole list; `wrong` are the findings."""
    rows = reduce(DataFrame.unionByName, (*_lists(events), *_deliveries(events))).repartition("key")
    by_client, by_name = (
        Window.partitionBy(*whose).orderBy("place") for whose in (("key",), ("key", "name"))
    )
    # Rows of a name are what is told of it; those without a name are whole lists, which concern every name.
    told = F.when(F.col("since").isNotNull(), F.struct("since", "seq"))
    whole = F.when(F.col("name").isNull(), told)
    up_to = Window.unboundedPreceding
    seen = rows.withColumns(
        {
            "whole": F.max(whole).over(by_client.rangeBetween(up_to, -1)),
            "removed": F.max(told).over(by_name.rangeBetween(up_to, -1)),
            "wanted": F.max("until").over(by_name.rangeBetween(up_to, 0)),
        }
    ).where("given is not null")
    # Each delivery has two rows: when it was asked for, and when it came.
    whole, removed = (F.when(~F.col("given.came"), F.col(name)) for name in ("whole", "removed"))
    each = seen.groupBy("key", F.col("given.seq").alias("number")).agg(
        F.max("given").alias("given"),
        F.max(whole).alias("whole"),
        F.max(F.greatest(whole, removed)).alias("over"),
        F.max(F.when(F.col("given.came"), F.col("wanted"))).alias("wanted"),
    )
    known = each.where("whole is not null")
    return known.withColumn("wrong", F.coalesce("wanted", F.lit(-1)) < F.col("over.since"))


def _key() -> Column:
    return F.xxhash64("recorder", "boot", "client_id", "group", "topic").alias("key")


def _place(numbered: str, timed: str) -> Column:
    """Where a row stands, in order."""
    return F.when(F.col("observer") == "broker", F.col(timed)).otherwise(F.col(numbered))


def _lists(events: DataFrame) -> Iterator[DataFrame]:
    """What counts from a list's call on, what is over with its answer, and answers of whole lists."""
    here = _place("seq", "t_wall_us")
    is_ok = F.coalesce("phase", F.lit("ok")) == "ok"
    calls = (
        events.where(F.col("kind").isin(*KINDS))
        .groupBy(_key(), F.coalesce("op_id", F.concat(F.lit("#"), "seq")).alias("call"))
        .agg(
            F.min(F.coalesce(_place("invoked_seq", "invoked_us"), here)).alias("begin"),
            F.max(F.when(is_ok, here)).alias("end"),
            F.max(F.when(is_ok, F.col("seq"))).alias("seq"),
            F.max(F.coalesce("phase", F.lit("ok")) == "fail").alias("failed"),
            *(F.max(F.col("cfg").getItem(name)).alias(name) for name in ("all", "add", "remove")),
        )
        .where("not failed")
    )
    until = F.coalesce("end", F.lit(_NEVER))
    for names in ("all", "add"):
        yield _row(_named(calls, names), place=F.col("begin"), until=until)
    over = calls.where("end is not null")
    whole = over.where(F.col("all").isNotNull()).withColumn("name", F.lit(None))
    for told in (whole, _named(over, "remove")):
        yield _row(told, place=F.col("end"), since=F.col("begin"))


def _named(calls: DataFrame, names: str) -> DataFrame:
    """One row for each lite topic that the calls name in this way; none for calls of another kind."""
    each = calls.withColumn("lite_topic", F.explode(F.split(names, ",")))
    return each.withColumn("name", F.xxhash64("lite_topic"))


def _deliveries(events: DataFrame) -> Iterator[DataFrame]:
    """Each delivery of a lite topic to a consumer of them twice: when it was asked for, and when it came."""
    # By its own account a broker has ordinary consumers of the parent, too, which get everything.
    told = events.where("lite_topic is not null and (observer <> 'broker' or role = 'lite')")
    told = told.where("kind = 'deliver'").withColumn("request", F.xxhash64("recorder", "boot", "batch"))
    polls = events.where("kind = 'receive' and observer = 'broker' and op_id is not null")
    asked = polls.groupBy(F.xxhash64("recorder", "boot", "op_id").alias("request")).agg(
        F.min("invoked_us").alias("asked_us")
    )
    given = told.join(asked, "request", "left").withColumn("asked", _place("invoked_seq", "asked_us"))
    known = given.where("asked is not null").withColumns(
        {"key": _key(), "name": F.xxhash64("lite_topic"), "came_at": _place("seq", "t_wall_us")}
    )
    for came, place in ((False, "asked"), (True, "came_at")):
        who = F.struct(
            F.lit(came).alias("came"),
            F.col("t_wall_us").alias("at"),
            F.xxhash64("recorder").alias("recorder"),
            F.col("seq").alias("seq"),
        )
        yield _row(known, place=F.col(place), given=who)


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
        .cast("struct<came:boolean,at:bigint,recorder:bigint,seq:bigint>")
        .alias("given"),
    )
