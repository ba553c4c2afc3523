"""A part of check `ordering`, by the account of push consumers: an ordered group handles the messages of a message
group one at a time.

INV-ORD-HANDLE: no handler begins while another one of its message group is at work that still holds its message.
A handler that goes on after its lease has ended says nothing: by then the message may be another's. A running
maximum over the begins of handlers in the order of time.

Where clocks of two recorders tell of two handlers, they were beside each other when they were so however far, within
the clocks' tolerance, one clock is ahead of the other.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window, functions as F

from aiorocketmq_audit import excuses
from aiorocketmq_audit.findings import BROKEN, EXCUSED, finding, nothing_found

CHECK, INVARIANT = "ordering", "INV-ORD-HANDLE"

KINDS = ("handle.start",)
"""Without handlers that begin there is nothing to judge."""

_GROUP = ("run_id", "case_id", "observer", "topic", "group")

_NEVER = 1 << 62


def facts(events: DataFrame, settings: DataFrame, marks: DataFrame) -> DataFrame:
    """Handlers that began: rows of FINDING, whose verdict is null where all is well."""
    seen = judged(events, settings)
    fine = seen.where(~F.col("wrong")).select(nothing_found(CHECK, INVARIANT))
    excused = excuses.with_excuse(seen.where("wrong"), marks)
    found = excused.select(
        finding(
            CHECK,
            F.lit(INVARIANT),
            F.when(F.col("excuse").isNotNull(), F.lit(EXCUSED)).otherwise(F.lit(BROKEN)),
            margin=F.when(F.col("until") < _NEVER, F.col("until") - F.col("n_hi")),
            at=F.col("n_hi"),
            first=(F.col("recorder"), F.col("seq")),
            second=(F.col("n_recorder"), F.col("n_seq")),
            excuse=F.col("excuse"),
        )
    )
    return fine.unionByName(found)


def judged(events: DataFrame, settings: DataFrame) -> DataFrame:
    """One row per begin of a handler; `wrong` are the findings. For an excuse the interval runs from the begin of the
    other one to this one."""
    known = settings.where("ordered").select("run_id", "case_id", "group", "apart_us")
    by_time = Window.partitionBy("lane").orderBy("at", "seq")
    before = by_time.rowsBetween(Window.unboundedPreceding, -1)
    at_work = F.struct("until", "at", "seq", "recorder", "client")
    seen = _handlers(events, known).withColumn("other", F.max(at_work).over(before))
    apart = F.when(F.col("other.recorder") == F.col("recorder"), F.lit(0)).otherwise(F.col("apart_us"))
    # Which of the two began first, clocks that are apart may not tell.
    was_first = F.col("other.at") + apart <= F.col("at")
    began_beside = was_first | F.coalesce(F.col("until") > F.col("other.at") + apart, F.lit(False))
    went_on = F.coalesce(F.col("other.until") > F.col("at") + apart, F.lit(False))
    return seen.select(
        "scope",
        "who",
        F.col("other.client").alias("client"),
        F.lit(None).cast("bigint").alias("acked_hi"),
        F.col("at").alias("n_hi"),
        F.col("recorder").alias("n_recorder"),
        F.col("seq").alias("n_seq"),
        F.col("other.at").alias("lo"),
        F.col("other.recorder").alias("recorder"),
        F.col("other.seq").alias("seq"),
        F.col("other.until").alias("until"),
        (went_on & began_beside).alias("wrong"),
    )


def _handlers(events: DataFrame, known: DataFrame) -> DataFrame:
    """One row per begin of a handler, with `until` when it was at work and held its message at the least."""
    kind = F.col("kind")
    told = events.where(
        "message_group is not null and message_id is not null and role = 'push' and "
        "(kind in ('deliver', 'handle.start', 'handle.end') or (kind = 'change' and phase = 'ok'))"
    ).join(F.broadcast(known), ["run_id", "case_id", "group"])
    leased = F.coalesce("invoked_us", "t_wall_us") + F.col("invisible_ms") * 1000
    renewed = (kind == "deliver") & F.coalesce("auto_renew", F.lit(False))
    packed = told.select(
        F.xxhash64(*_GROUP, "broker", "queue", "message_group").alias("lane"),
        F.xxhash64("message_id", "offset").alias("message"),
        F.xxhash64("run_id", "case_id").alias("scope"),
        F.xxhash64("group").alias("who"),
        F.xxhash64("client_id").alias("client"),
        F.xxhash64("recorder").alias("recorder"),
        F.col("t_wall_us").alias("at"),
        "seq",
        "attempt",
        "apart_us",
        (kind == "deliver").alias("is_given"),
        (kind == "handle.start").alias("begins"),
        (kind == "handle.end").alias("ends"),
        # A server that renews leases by itself lets none end while its client lives.
        F.when(renewed, F.lit(_NEVER)).when(kind.isin("deliver", "change"), leased).alias("lease"),
    )
    # A delivery and what was done about it: what follows the next one belongs to that.
    whose = ("lane", "message", "attempt", "recorder", "client")
    so_far = (
        Window.partitionBy(*whose).orderBy("seq").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    given = packed.withColumn("given", F.count_if("is_given").over(so_far))
    own = Window.partitionBy(*whose, "given").orderBy("seq")
    so_far = own.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    later = own.rowsBetween(1, Window.unboundedFollowing)
    held = given.withColumn("lease", F.last("lease", ignorenulls=True).over(so_far))
    end = F.first(F.when(F.col("ends"), F.struct("at", "lease")), ignorenulls=True).over(later)
    last = F.last("lease").over(own.rowsBetween(Window.currentRow, Window.unboundedFollowing))
    ended = held.withColumns({"end": end, "last": last}).where("begins")
    # A renewed lease of a handler without an end is that of a client which is gone: nobody knows since when.
    alone = F.when(F.col("last") < _NEVER, F.col("last"))
    through = F.when(F.col("end.lease").isNotNull(), F.least("end.at", "end.lease"))
    return ended.withColumn("until", F.when(F.col("end").isNotNull(), through).otherwise(alone))
