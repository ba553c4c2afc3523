"""Frame `deliveries`: one row per delivery of a message, with its settlement and the next delivery.

The model. A broker promises a consumer group: a delivered message is invisible to the group for a *lease*, which begins
with the delivery, lasts as long as requested, and moves with every change of the invisible time. The message becomes
visible again only if the lease expires without a *terminal* (an ack, a forward, a dead letter). Observers record the
ends of operations, not when the server executed them, so each instant here is an interval in server time: a delivery
lies between the call of its receive (`lo`) and its observation (`hi`), a change between call and answer. `until_lo` and
`until_hi` bound the end of a lease in the same way. What is true for every choice of instants is certain; what is true
for some is possible. Rules decide on these columns alone.

The plan. Every event of a message is in one *lane*: a hash of observation, topic, consumer group and message group (or
message, if it has none). One shuffle by lane; one sort by (lane, message, time); a window numbers the deliveries of a
message; an aggregation on the same sort folds the changes and acks after each delivery into its row; `lead` adds the
next delivery. Order within a lane needs another sort, but no further shuffle. Only numbers are shuffled: texts become
64-bit hashes, and are resolved for findings at the end.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, functions as F

from aiorocketmq_audit.frames.frame import ACCOUNT, Frame, Recording
from aiorocketmq_audit.frames.order import with_earlier, without_order
from aiorocketmq_audit.frames.packing import (
    ACK,
    CHANGE,
    DEAD,
    DELIVER,
    EXTEND,
    FAILED,
    FORWARD,
    INVOKED,
    NO_LADDER,
    OK,
    RETRY,
    SUSPEND,
    TAKEN_BACK,
    UNKNOWN,
    packed,
)
from aiorocketmq_audit.frames.places import drains
from aiorocketmq_audit.frames.settings import EARLY_MS, LATE_MS
from aiorocketmq_audit.rules.double_delivery import CAUSE

LATENESS_S = (-10.0, -1.0, -0.1, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Bucket bounds of the lateness histogram, in seconds after the end of the lease."""

MOST_ATTEMPTS = 99
"""Higher attempts are counted as this one."""


def deliveries(recording: Recording) -> DataFrame:
    """Return the rows of the frame."""
    folded = _folded(_numbered(packed(recording).repartition("lane")))
    rows = _with_lease(_with_successor(_with_settings(folded, recording)))
    return with_earlier(rows) if recording.has_order else without_order(rows)


def _numbered(events: DataFrame) -> DataFrame:
    """Add to every event the number and handle of the preceding delivery; drop events before the first delivery."""
    history = Window.partitionBy("lane", "message").orderBy("at", "at_seq")
    so_far = history.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    is_deliver = F.col("kind") == DELIVER
    numbered = events.withColumns(
        {
            "number": F.count(F.when(is_deliver, 1)).over(so_far),
            "current": F.last(F.when(is_deliver, F.col("handle")), ignorenulls=True).over(so_far),
        }
    )
    return numbered.where("number > 0")


def _folded(numbered: DataFrame) -> DataFrame:
    """Return one row per delivery: its own columns, the last change of its lease, and the first ack."""
    kind, phase, lease = F.col("kind"), F.col("phase"), F.col("lease_us")
    own = F.col("handle").isNull() | F.col("current").isNull() | (F.col("handle") == F.col("current"))
    changed = own & (kind == CHANGE)
    is_open = changed & phase.isin(INVOKED, UNKNOWN)
    terminal = kind.isin(ACK, FORWARD)
    answered = phase.isin(OK, FAILED, UNKNOWN)
    change = F.struct("at", "at_seq", "lo", "hi", "lease_us", "reason")
    folded = numbered.groupBy("lane", "message", "number").agg(
        F.max(F.when(kind == DELIVER, F.struct("at", "at_seq", "lo", "hi", "lease_us", "facts"))).alias("d"),
        F.max(F.when(changed & (phase == OK), change)).alias("change"),
        F.min(F.when(is_open, F.col("lo") + lease)).alias("unsure_lo"),
        F.max(F.when(is_open, F.col("hi") + lease)).alias("unsure_hi"),
        F.count_if(changed & (phase == UNKNOWN)).alias("unsure_changes"),
        F.count_if(changed & (phase == INVOKED)).alias("changes_called"),
        F.count_if(changed & answered).alias("changes_answered"),
        F.min(F.when(own & (kind == ACK) & (phase == OK), F.col("hi"))).alias("acked_hi"),
        F.min(F.when((terminal & phase.isin(OK, UNKNOWN)) | (kind == DEAD), F.col("lo"))).alias("ended_lo"),
        F.min(F.when(kind == DEAD, F.col("hi"))).alias("dead_hi"),
        F.min(F.when(terminal & (phase == INVOKED), F.col("lo"))).alias("called_lo"),
        F.count_if(terminal & (phase == INVOKED)).alias("ends_called"),
        F.count_if(terminal & answered).alias("ends_answered"),
        F.max(F.when((kind == ACK) & (phase == UNKNOWN), F.lit(True))).alias("ack_unsure"),
        F.min("teller").alias("least_teller"),
        F.max("teller").alias("most_teller"),
    )
    open_end = F.col("ends_called") > F.col("ends_answered")
    is_unsure = (F.col("unsure_changes") > 0) | (F.col("changes_called") > F.col("changes_answered"))
    return folded.select(
        "lane",
        "message",
        "number",
        *(F.col(f"d.{name}") for name in ("lo", "hi", "at_seq", "lease_us")),
        "d.facts.*",
        "change",
        F.when(is_unsure, F.col("unsure_lo")).alias("unsure_lo"),
        F.when(is_unsure, F.col("unsure_hi")).alias("unsure_hi"),
        "acked_hi",
        "dead_hi",
        F.least("ended_lo", F.when(open_end, F.col("called_lo"))).alias("ended_lo"),
        (F.coalesce("ack_unsure", F.lit(False)) | open_end).alias("ack_unsure"),
        "least_teller",
        "most_teller",
    )


def _with_successor(rows: DataFrame) -> DataFrame:
    """Add the next delivery to each one, and properties of the whole message."""
    # All windows have one order, so that Spark computes them in one pass.
    message = Window.partitionBy("lane", "message").orderBy("number")
    whole = message.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    following = F.struct("lo", "hi", "lease_us", "recorder", "seq", "batch", "again", "attempt", "polled_us")
    first_place = F.when(F.col("attempt") == 1, F.struct("place", "offset"))
    # The broker itself ends a message when the lease of its last attempt expires, unseen by consumers.
    moved = F.coalesce(F.col("change.lo") + F.col("change.lease_us"), F.col("lo") + F.col("lease_us"))
    is_last_attempt = F.col("attempt") >= F.coalesce("max_attempts", F.lit(1))
    exhausted = F.when(
        is_last_attempt, F.when(moved.isNotNull(), F.least(moved, "unsure_lo")).otherwise(F.col("lo"))
    )
    return rows.withColumns(
        {
            "next": F.lead(following).over(message),
            "copies": F.coalesce(
                F.min(first_place).over(whole) != F.max(first_place).over(whole), F.lit(False)
            ),
            # Whether the times are of one recorder's clock, or of several.
            "one_clock": F.min("least_teller").over(whole) == F.max("most_teller").over(whole),
            # The earliest recorded time at which the message was available.
            "since": F.min("there").over(whole),
            "done_lo": F.least(F.min("ended_lo").over(whole), F.last(exhausted).over(whole)),
        }
    ).drop("least_teller", "most_teller", "there")


def _with_settings(rows: DataFrame, recording: Recording) -> DataFrame:
    """Add the settings of its group to each delivery, and the last drain of the group."""
    settings = recording.settings.drop("run_id", "case_id", "group", "declared_by_broker")
    attested = recording.settings.select("gid", F.col("declared_by_broker").alias("told"))
    joined = rows.join(F.broadcast(settings), "gid", "left").join(F.broadcast(attested), "gid", "left")
    complete = joined.withColumns(
        {
            "attested": F.coalesce("told", F.lit(False)) & ~F.col("by_broker"),
            "step_us": _step(),
            "locks_queue": F.coalesce("locks_queue", F.lit(False)),
            "early_us": F.coalesce("early_us", F.lit(EARLY_MS * 1000)),
            "late_us": F.coalesce("late_us", F.lit(LATE_MS * 1000)),
            "apart_us": F.coalesce("apart_us", F.lit(0)),
            "ended_us": F.lit(recording.ended_us),
            "drained": F.lit(None).cast("struct<at: bigint, recorder: bigint, seq: bigint>"),
        }
    ).drop("told", "steps_ms")
    if not recording.kinds.get("drain.ok"):
        return complete
    drained = drains(recording.events).select(F.xxhash64(*ACCOUNT, "topic", "group").alias("poll"), "drained")
    return complete.drop("drained").join(F.broadcast(drained), "poll", "left")


def _step() -> Column:
    """Return the group's own wait after this attempt; the last step repeats."""
    steps = F.col("steps_ms")
    index = F.least(F.col("attempt"), F.size(steps))
    return F.when((F.col("attempt") >= 1) & (F.size(steps) >= 1), F.element_at(steps, index) * 1000)


def _with_lease(rows: DataFrame) -> DataFrame:
    """Add the bounds of the end of each lease, and whether a retry was requested."""
    base_lo, base_hi = F.col("lo") + F.col("lease_us"), F.col("hi") + F.col("lease_us")
    change, is_changed = F.col("change"), F.col("change").isNotNull()
    moved_lo, moved_hi = change["lo"] + change["lease_us"], change["hi"] + change["lease_us"]
    # A change that was answered after the next delivery may have taken effect before or after it.
    crossing = F.coalesce(change["hi"] > F.col("next.hi"), F.lit(False))
    last_lo = F.when(crossing, F.least(base_lo, moved_lo)).when(is_changed, moved_lo).otherwise(base_lo)
    last_hi = F.when(crossing, F.greatest(base_hi, moved_hi)).when(is_changed, moved_hi).otherwise(base_hi)
    # A broker does not know why a lease was changed: the group's own step, or less than the rest, means a retry.
    reason = F.coalesce(change["reason"], F.lit(0))
    looks_like_retry = ((change["lease_us"] == F.col("step_us")) & (reason != NO_LADDER)) | (
        moved_lo < base_lo
    )
    retry_requested = is_changed & F.when(reason.isin(RETRY, EXTEND, SUSPEND), reason != EXTEND).otherwise(
        F.coalesce(looks_like_retry, F.lit(False))
    )
    # If the lease length is unknown, a redelivery cannot be judged early.
    is_known = F.col("lease_us").isNotNull() | is_changed
    leased = rows.withColumns(
        {
            "until_lo": F.when(is_known, F.least(last_lo, "unsure_lo")),
            "until_hi": F.when(is_known, F.greatest(last_hi, "unsure_hi")),
            "unsure": F.col("unsure_lo").isNotNull() | crossing,
            "retry_requested": retry_requested & F.col("unsure_lo").isNull(),
            "uncounted": reason.isin(TAKEN_BACK, SUSPEND),
            "asked": F.when(retry_requested, F.struct("change.lo", "change.hi", "change.lease_us")),
        }
    )
    return leased.drop("change", "unsure_lo", "unsure_hi", "step_us")


_LATE = "next.hi - until_hi"
_BUCKET = "".join(
    f" when {_LATE} >= {round(border * 1e6)} then {index + 1}"
    for index, border in reversed(tuple(enumerate(LATENESS_S)))
)

FRAME = Frame(
    "deliveries",
    deliveries,
    ("deliver",),
    cell={
        "gid": "gid",
        "by_broker": "by_broker",
        "cell_attempt": f"least(attempt, {MOST_ATTEMPTS})",
        "cause": CAUSE,
        "bucket": f"""case when {_LATE} is null or not ({CAUSE}) in ('retry requested', 'lease ended', 'none') then null
            {_BUCKET} else 0 end""",
        "retry_requested": "retry_requested",
    },
    counts={
        "n": ("count(*)", "sum(n)"),
        "first": ("count_if(number = 1)", "sum(first)"),
        "unknown_order": ("count_if(ordered is null and grouped)", "sum(unknown_order)"),
        "redelivered": ("count_if(next is not null)", "sum(redelivered)"),
        "asked_us": ("sum(if(next is not null, asked.lease_us, null))", "sum(asked_us)"),
        "asked_most": ("max(if(next is not null, asked.lease_us, null))", "max(asked_most)"),
        "seen_us": ("sum(if(retry_requested, next.hi - asked.hi, null))", "sum(seen_us)"),
        "seen_least": ("min(if(retry_requested, next.hi - asked.hi, null))", "min(seen_least)"),
        "seen_most": ("max(if(retry_requested, next.hi - asked.hi, null))", "max(seen_most)"),
        "dead": ("count_if(dead_hi is not null and by_broker)", "sum(dead)"),
        # Fixed-width numbers, since an aggregate of structs falls back to sorting every row.
        "far_number": ("max(number)", "max(far_number)"),
        "far_recorder": ("max_by(recorder, number)", "max_by(far_recorder, far_number)"),
        "far_seq": ("max_by(seq, number)", "max_by(far_seq, far_number)"),
    },
)
