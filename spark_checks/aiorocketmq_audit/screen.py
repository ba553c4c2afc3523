"""The screen: which few messages and message groups the checks must look at closely, and the figures of all others.

One scan, one exchange, one sort, one window and one aggregation, over narrow rows of numbers. The rows of a
message stand together in the order of time, so that what follows a delivery is its next row or the one after:
an end of its hold, then the next delivery. What is not so simple (a change and an ack, an answer that nobody
has, a copy at another place) is *odd*, and is left to the exact pass, with its figures. So are messages that any
check suspects; the predicates are the checks' own, on the same columns as `deliveries` has.

Rows are exchanged by message, or for ordered groups by chunk of offsets of a message group in its queue: a hot
message group becomes many parts. Within a chunk one running maximum over the offsets finds what could break the
order; from chunk to chunk a running maximum over the chunks' own maxima does. Both only ever suspect too much.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, functions as F

from aiorocketmq_audit import attempts, dead_letters, delay, double_delivery, retry_timing
from aiorocketmq_audit.deliveries import (
    ACK,
    CHANGE,
    DEAD,
    DELIVER,
    FAILED,
    FORWARD,
    INVOKED,
    OK,
    identified,
    step,
    traits,
    with_hold,
)

CHUNK_BITS = 12
"""A chunk spans 4096 offsets of a queue."""

NEVER = 1 << 62

_KEY = ("part", "place_in_part", "message")
_SETTLED = (ACK, FORWARD, CHANGE, DEAD)


def screened(
    events: DataFrame,
    settings: DataFrame,
    *,
    clocks_agree: bool,
    ended_us: int,
    has_open_calls: bool,
    has_drains: bool = False,
) -> DataFrame:
    """One row per delivery: the columns that `figures` and the checks' predicates look at, and what the screen says:
    `odd`, `suspect`, and for ordered groups `chunk` (with `lane`), `begin`, `end`, `disorder`.

    `has_open_calls` tells that some acks or changes were never answered.
    """
    rows = _packed(events, settings, clocks_agree=clocks_agree, has_calls=has_open_calls)
    if has_open_calls:
        rows = _without_answered_calls(rows)
    paired = _paired(rows).where(F.col("kind") == DELIVER)
    given = with_hold(_told(paired, settings))
    end_lo = F.least("ended_all", F.when(F.col("n_hi").isNull(), F.col("end_lo")))
    judged = given.withColumn("done_lo", end_lo)
    return _ordered(judged.withColumn("suspect", _suspect(ended_us, has_drains=has_drains)))


def _packed(events: DataFrame, settings: DataFrame, *, clocks_agree: bool, has_calls: bool) -> DataFrame:
    """Relevant rows, exchanged: numbers only. What settings say beyond the order is joined afterwards."""
    order = settings.select("run_id", "case_id", "group", "ordered")
    known = identified(events, order, clocks_agree=clocks_agree)
    if not has_calls:
        known = known.where(F.col("kind_code").isin(DELIVER, DEAD) | (F.col("phase_code") != INVOKED))
    chunk = F.shiftright("offset", CHUNK_BITS)
    by_chunk = (
        F.coalesce("ordered", F.lit(False)) & F.col("message_group").isNotNull() & F.col("offset").isNotNull()
    )
    is_deliver = F.col("kind_code") == DELIVER
    return known.select(
        F.when(by_chunk, F.xxhash64("lane", "place", chunk))
        .otherwise(F.xxhash64("lane", "message"))
        .alias("part"),
        F.when(by_chunk, F.col("offset")).alias("place_in_part"),
        "message",
        "lane",
        "at",
        "at_seq",
        "lo",
        "hi",
        F.when(is_deliver, F.xxhash64("recorder")).alias("recorder"),
        F.col("kind_code").cast("tinyint").alias("kind"),
        F.col("phase_code").cast("tinyint").alias("phase"),
        F.col("reason_code").cast("tinyint").alias("reason"),
        "hold",
        F.col("delivered").alias("delivery"),
        "attempt",
        F.xxhash64("run_id", "case_id", "group").alias("told_by"),
        F.when(by_chunk, F.col("place")).alias("place"),
        F.when(is_deliver & (F.col("attempt") == 1), F.xxhash64("place", "offset")).alias("copy_at"),
        *(F.when(is_deliver, F.col(name)).alias(name) for name in ("answer", "again")),
        *(F.when(is_deliver, value).alias(name) for name, value in traits().items()),
    ).repartition("part")


def _without_answered_calls(rows: DataFrame) -> DataFrame:
    """Leave out calls whose completion stands beside them: it bears the call's time and number."""
    history = Window.partitionBy(*_KEY).orderBy("at", "at_seq")
    for way, name in ((F.lag, "before"), (F.lead, "after")):
        rows = rows.withColumn(
            f"{name}_seq",
            way(F.when(F.col("phase") != INVOKED, F.struct("at_seq", "kind"))).over(history),
        )
    own = F.struct("at_seq", "kind")
    beside = F.coalesce(F.col("before_seq") == own, F.lit(False)) | F.coalesce(
        F.col("after_seq") == own, F.lit(False)
    )
    answered = (F.coalesce("phase", F.lit(OK)) == INVOKED) & beside
    return rows.where(~answered).drop("before_seq", "after_seq")


_NEXT = ("kind", "phase", "lo", "hi", "at", "hold", "reason", "delivery", "attempt", "again")
_SECOND = ("kind", "lo", "hi", "hold", "attempt", "again")


def _paired(rows: DataFrame) -> DataFrame:
    """Put the next two rows of a message beside each, and what is true of all its rows."""
    history = Window.partitionBy(*_KEY).orderBy("at", "at_seq")
    whole = history.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    so_far = history.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    later = history.rowsBetween(1, Window.unboundedFollowing)
    terminal = F.col("kind").isin(ACK, FORWARD, DEAD) & (F.coalesce("phase", F.lit(OK)) != FAILED)
    return rows.withColumns(
        {f"a_{name}": F.lead(name, 1).over(history) for name in _NEXT}
        | {f"b_{name}": F.lead(name, 2).over(history) for name in _SECOND}
        | {
            "number": F.count(F.when(F.col("kind") == DELIVER, 1)).over(so_far),
            "head": F.first("kind").over(whole),
            "came_again": F.min(F.when(F.col("kind") == DELIVER, F.col("at"))).over(later),
            "ended_all": F.min(F.when(terminal, F.col("lo"))).over(whole),
            "copy_least": F.min("copy_at").over(whole),
            "copy_most": F.max("copy_at").over(whole),
        }
    )


def _told(paired: DataFrame, settings: DataFrame) -> DataFrame:
    """Deliveries with the columns that `deliveries` has, as far as the simple way of a message tells them."""
    of_groups = settings.select(
        F.xxhash64("run_id", "case_id", "group").alias("told_by"),
        "ordered",
        F.coalesce("told_by_broker", F.lit(False)).alias("told_by_broker"),
        "max_attempts",
        "steps_ms",
        F.col("early_us").alias("early"),
        F.col("late_us").alias("late"),
    )
    known = paired.join(F.broadcast(of_groups), "told_by", "left")
    a_kind, own = F.col("a_kind"), F.col("delivery").isNull() | F.col("a_delivery").isNull()
    own = own | (F.col("a_delivery") == F.col("delivery"))
    clear = (a_kind == DEAD) | (own & (F.col("a_phase") == OK))
    settles = F.coalesce(a_kind.isin(*_SETTLED) & clear, F.lit(False))
    simple = a_kind.isNull() | (a_kind == DELIVER)
    simple = simple | (settles & (F.col("b_kind").isNull() | (F.col("b_kind") == DELIVER)))
    begins_late = F.col("head") != DELIVER
    change = F.struct(*(F.col(f"a_{name}").alias(name) for name in ("lo", "hi", "hold", "reason")))

    def when(*kinds: int, then: str) -> Column:
        return F.when(settles & a_kind.isin(*kinds), F.col(then))

    def following(name: str) -> Column:
        second = F.when(settles & (F.col("b_kind") == DELIVER), F.col(f"b_{name}"))
        return F.when(a_kind == DELIVER, F.col(f"a_{name}")).otherwise(second)

    nothing = F.lit(None).cast("bigint")
    return known.withColumns(
        {
            "seq": F.col("at_seq"),
            "odd_row": ~F.coalesce(simple, F.lit(False))
            | begins_late
            | F.coalesce(F.col("copy_least") != F.col("copy_most"), F.lit(False)),
            "change": F.when(settles & (a_kind == CHANGE), change),
            "acked_hi": when(ACK, then="a_hi"),
            "dead_hi": when(DEAD, then="a_hi"),
            "ended_lo": when(ACK, FORWARD, DEAD, then="a_lo"),
            "unsure_lo": nothing,
            "unsure_hi": nothing,
            "ack_unsure": F.lit(False),
            "copies": F.lit(False),
            "attested": F.coalesce("told_by_broker", F.lit(False)) & ~F.col("by_broker"),
            "early": F.coalesce("early", F.lit(0)),
            "late": F.coalesce("late", F.lit(0)),
            "step": step(),
            **{f"n_{name}": following(name) for name in ("lo", "hi", "hold", "again", "attempt")},
        }
    )


def _suspect(ended_us: int, *, has_drains: bool) -> Column:
    """Whether any check would look into this delivery."""
    any_of = (
        double_delivery.is_suspicious()
        | retry_timing.is_suspiciously_early()
        | retry_timing.is_suspiciously_late(F.lit(ended_us))
        | attempts.is_suspicious()
        | delay.is_suspicious()
        | dead_letters.comes_after()
        | F.col("unwanted")
    )
    if has_drains:
        used_up = F.col("n_hi").isNull() & (F.col("attempt") >= F.col("max_attempts")) & F.col("by_broker")
        any_of = any_of | F.coalesce(used_up, F.lit(False))
    return any_of


def _ordered(judged: DataFrame) -> DataFrame:
    """Say where, in a chunk, a delivery began before all that is in front of it was over; and whose message is odd."""
    message = Window.partitionBy(*_KEY).orderBy("at", "at_seq")
    whole = message.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    by_offset = Window.partitionBy("part").orderBy("place_in_part", "message", "at", "at_seq")
    before = by_offset.rowsBetween(Window.unboundedPreceding, -1)
    # An end that is too late only makes suspicious, so odd messages need not be understood.
    used_up = F.when(~F.col("odd_row") & F.col("n_hi").isNull(), F.col("end_lo"))
    known = F.least("came_again", "ended_all", used_up)
    end = F.when(F.col("head") == DELIVER, F.coalesce(known, F.lit(NEVER))).otherwise(F.lit(NEVER))
    answer = F.coalesce("answer", F.xxhash64("recorder", "at_seq"))
    seen = judged.withColumns({"end": end, "answer": answer}).withColumns(
        {
            "opened": F.max("end").over(before),
            "seen": F.max("hi").over(before),
            "answer_before": F.lag("answer").over(by_offset),
            "hi_before": F.lag("hi").over(by_offset),
            "seq_before": F.lag("at_seq").over(by_offset),
            "odd": F.max("odd_row").over(whole),
        }
    )
    # The messages of one answer do not wait for each other; what stood before the first of them did for all.
    goes_on = (F.col("answer_before") == F.col("answer")) & (F.col("hi_before") == F.col("hi"))
    overtakes = (F.col("opened") > F.col("hi")) | (F.col("seen") > F.col("hi"))
    wrong = F.when(goes_on, F.col("seq_before") > F.col("at_seq")).otherwise(overtakes)
    in_chunk = F.col("place_in_part").isNotNull()
    return seen.withColumns(
        {
            "disorder": F.coalesce(in_chunk & wrong, F.lit(False)),
            "chunk_lane": F.when(in_chunk, F.col("lane")),
            "chunk_place": F.when(in_chunk, F.col("place")),
            "chunk": F.when(in_chunk, F.shiftright("place_in_part", CHUNK_BITS)),
            "closeup": F.when(F.col("odd") | F.col("suspect"), F.xxhash64("lane", "message")),
        }
    )
