"""From events to deliveries: one row for each time a message was handed out, with how that ended and what came next.

The model. A broker promises a consumer group: a message that was handed out stays away from the group for a
*hold*, which begins with the delivery, lasts as long as was asked for, and moves with every change of that
lease. It comes back only when the hold has ended without a *terminal* (an ack, a forward, a dead letter).
Observers see the ends of operations, not the operations, so each instant here is an interval: a delivery lies
between the call of its receive (`lo`) and the moment it was seen (`hi`), a change between call and answer.
`until_lo` and `until_hi` bound the end of a hold in the same way. What is true for every choice of instants
is definite; what is true only for some is possible. The checks decide on these columns alone.

The plan. Every event of a message, whatever its group of consumers, lands in one *lane*: a hash of run,
observer, topic, consumer group and message group (or message, where it has none). One exchange by lane; one
sort by (lane, message, time); a window numbers the deliveries of a message; an aggregation on the same sort
folds the changes and acks after each delivery into it; `lead` puts the next delivery beside it. Order within
a lane needs no further exchange. Only built-in expressions, and only fixed-width columns are shuffled: texts
become 64-bit hashes, and findings get them back at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window, functions as F

from aiorocketmq_audit.filters import is_unwanted
from aiorocketmq_audit.recording.reading import EARLY_MS, LATE_MS

SETTLING = ("ack", "change", "forward")

DELIVER, ACK, CHANGE, FORWARD, DEAD = range(1, 6)
INVOKED, OK, FAILED, UNKNOWN = range(1, 5)
RETRY, EXTEND, NO_LADDER, TAKEN_BACK = 1, 2, 3, 4

KINDS = {"deliver": DELIVER, "ack": ACK, "change": CHANGE, "forward": FORWARD, "dlq.deliver": DEAD}
PHASES = {"invoke": INVOKED, "ok": OK, "fail": FAILED, "info": UNKNOWN}
SCOPE = ("run_id", "case_id", "observer")

CLOCK_SLACK_US = 50_000
"""How far a server's clock, which gate INV-CLOCK found agreeing, is trusted."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the exact pass is about, where it is not about everything."""

    messages: DataFrame
    """`closeup`, a hash of lane and message, and `odd`: whether the screen left its figures out."""
    lanes: DataFrame
    """`lane` of message groups that are to be judged as a whole."""


def deliveries(
    events: DataFrame,
    settings: DataFrame,
    *,
    cut_at: dict[str, int],
    clocks_agree: bool,
    chosen: Chosen | None = None,
) -> DataFrame:
    """One row per (observer, group, message, delivery), with its end and its successor (`n_…` columns, null
    at the last one).

    `cut_at` names recorders that were cut short with the last time each wrote. `clocks_agree` allows
    the server's own store time to narrow the interval of a delivery. `chosen` leaves out all other messages;
    `whole` then tells the rows whose message group is there as a whole, as it does where `events` have that column.
    """
    known = identified(events, settings, clocks_agree=clocks_agree)
    # Events that were picked tell whether their message groups are there as a whole.
    everything = {"odd": F.lit(True)} | ({} if "whole" in events.columns else {"whole": F.lit(True)})
    wanted = known.withColumns(everything) if chosen is None else _closely(known, chosen)
    packed = _packed(wanted, cut_at=cut_at).repartition("lane")
    numbered = _numbered(packed)
    folded = _folded(numbered)
    return _with_successor(folded)


def identified(events: DataFrame, settings: DataFrame, *, clocks_agree: bool) -> DataFrame:
    """The events of deliveries beside what `settings` say of their groups, with the numbers that place them: `lane`,
    `message` in it, `at` and `at_seq`, `lo` and `hi`, and codes for kind, phase and reason."""
    relevant = events.where(F.col("kind").isin("deliver", "dlq.deliver", *SETTLING))
    relevant = relevant.where(F.col("group").isNotNull() & F.col("message_id").isNotNull())
    # Who owns a whole queue has no leases, and may read it again: the check `queues` is about them.
    relevant = relevant.where(F.coalesce("role", F.lit("")) != "pull")
    known = relevant.join(F.broadcast(settings), ["run_id", "case_id", "group"], "left")
    is_deliver = F.col("kind") == "deliver"
    called = there = F.coalesce("invoked_us", "t_wall_us")
    if clocks_agree:
        # Copies that come again are stored anew.
        made = F.least("store_us", "born_us")
        there = F.when(made.isNull(), called).otherwise(F.least(made, "t_wall_us"))
        # Not by `server_deliver_us`: a server takes a message out first and may write its answer much later.
        stored = F.coalesce(F.col("store_us") - CLOCK_SLACK_US, called)
        called = F.when(is_deliver, F.least(F.greatest(called, stored), "t_wall_us")).otherwise(called)
    # Ordered groups hand a message out again from its own place, so that place tells copies of one id apart.
    # Other groups hand it out again from a retry topic, with another place: there the id must do.
    copy = F.xxhash64("message_id", "broker", "queue", "offset")
    lane = F.xxhash64(*SCOPE, "topic", "group", F.coalesce("message_group", "message_id"))
    return known.withColumns(
        {
            "lane": lane,
            "message": F.when(F.coalesce("ordered", F.lit(False)), copy).otherwise(F.xxhash64("message_id")),
            "at": F.when(is_deliver, F.col("t_wall_us")).otherwise(called),
            "at_seq": F.when(is_deliver, F.col("seq")).otherwise(F.coalesce("invoked_seq", "seq")),
            "lo": called,
            "there": there,
            "hi": F.col("t_wall_us"),
            "kind_code": _code("kind", KINDS),
            "phase_code": _code("phase", PHASES),
            "reason_code": _reason(),
            "hold": F.col("invisible_ms") * 1000,
            "delivered": F.when(F.col("delivery").isNotNull(), F.xxhash64("delivery")),
            "place": F.xxhash64("broker", "queue"),
            "answer": F.when(F.col("batch").isNotNull(), F.xxhash64("recorder", "batch")),
            "again": F.when(F.col("receive_attempt") != "", F.xxhash64("receive_attempt")),
        }
    )


def _closely(known: DataFrame, chosen: Chosen) -> DataFrame:
    beside = known.withColumn("closeup", F.xxhash64("lane", "message")).join(
        chosen.messages, "closeup", "left"
    )
    whole = chosen.lanes.select("lane", F.lit(True).alias("whole"))
    marked = beside.join(whole, "lane", "left").where("odd is not null or whole is not null")
    return marked.withColumns({name: F.coalesce(name, F.lit(False)) for name in ("odd", "whole")})


def _packed(known: DataFrame, *, cut_at: dict[str, int]) -> DataFrame:
    """Relevant rows, narrow: longs and small integers only."""
    is_deliver = F.col("kind") == "deliver"
    return known.select(
        "lane",
        "message",
        "at",
        "at_seq",
        "lo",
        "hi",
        F.col("kind_code").alias("kind"),
        F.col("phase_code").alias("phase"),
        F.col("reason_code").alias("reason"),
        "hold",
        F.xxhash64("recorder").alias("teller"),
        F.col("delivered").alias("delivery"),
        F.when(
            is_deliver,
            F.struct(
                F.xxhash64("recorder").alias("recorder"),
                F.col("seq"),
                F.xxhash64("run_id", "case_id").alias("scope"),
                F.xxhash64(*SCOPE).alias("account"),
                *(value.alias(name) for name, value in traits().items()),
                F.xxhash64("client_id").alias("client"),
                F.xxhash64(*SCOPE, "topic", "group").alias("poll"),
                "place",
                F.col("queue"),
                F.col("offset"),
                F.col("attempt"),
                F.col("answer").alias("batch"),
                "again",
                F.col("ordered"),
                F.coalesce("locks_queue", F.lit(False)).alias("locks_queue"),
                (F.coalesce("told_by_broker", F.lit(False)) & (F.col("observer") != "broker")).alias(
                    "attested"
                ),
                F.col("max_attempts"),
                F.coalesce("early_us", F.lit(EARLY_MS * 1000)).alias("early"),
                F.coalesce("late_us", F.lit(LATE_MS * 1000)).alias("late"),
                F.coalesce("apart_us", F.lit(0)).alias("apart"),
                step().alias("step"),
                _cut(cut_at).alias("cut"),
                "there",
                (F.col("hi") - F.coalesce("invoked_us", "hi")).alias("polled"),
                "odd",
                "whole",
            ),
        ).alias("facts"),
    )


def traits() -> dict[str, Column]:
    """What can be said of a delivery by its own row."""
    return {
        "by_broker": F.col("observer") == "broker",
        "who": F.xxhash64("group"),
        "grouped": F.col("message_group").isNotNull(),
        "due": F.col("due_us"),
        "unwanted": F.coalesce(is_unwanted(), F.lit(False)),
        "by_tag": F.col("filter").startswith("TAG:"),
    }


def _code(name: str, codes: dict[str, int]) -> Column:
    column = F.lit(None).cast("int")
    for text, code in codes.items():
        column = F.when(F.col(name) == text, F.lit(code)).otherwise(column)
    return column


def _reason() -> Column:
    """Why a lease was changed; simple consumers do not climb the group's ladder, whatever time they ask for."""
    told = _code("reason", {"retry": RETRY, "extend": EXTEND, "undelivered": TAKEN_BACK})
    is_simple = F.col("reason").isNull() & (F.col("role") == "simple")
    return F.when(is_simple, F.lit(NO_LADDER)).otherwise(told)


def step() -> Column:
    """The group's own wait after this attempt; the last step repeats."""
    steps = F.col("steps_ms")
    index = F.least(F.col("attempt"), F.size(steps))
    return F.when((F.col("attempt") >= 1) & (F.size(steps) >= 1), F.element_at(steps, index) * 1000)


def _cut(cut_at: dict[str, int]) -> Column:
    if not cut_at:
        return F.lit(None).cast("bigint")
    pairs = [F.lit(part) for pair in cut_at.items() for part in pair]
    return F.create_map(*pairs)[F.col("recorder")]


def _numbered(packed: DataFrame) -> DataFrame:
    """Give every event the number and the handle of the delivery before it; drop what came before any delivery."""
    history = Window.partitionBy("lane", "message").orderBy("at", "at_seq")
    so_far = history.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    is_deliver = F.col("kind") == DELIVER
    numbered = packed.withColumns(
        {
            "number": F.count(F.when(is_deliver, 1)).over(so_far),
            "current": F.last(F.when(is_deliver, F.col("delivery")), ignorenulls=True).over(so_far),
        }
    )
    return numbered.where(F.col("number") > 0)


def _folded(numbered: DataFrame) -> DataFrame:
    """One row per delivery: its own facts, the last change of its lease, and the first ack."""
    kind, phase, hold = F.col("kind"), F.col("phase"), F.col("hold")
    own = F.col("delivery").isNull() | F.col("current").isNull() | (F.col("delivery") == F.col("current"))
    changed = own & (kind == CHANGE)
    terminal = kind.isin(ACK, FORWARD)
    last_change = F.max(
        F.when(changed & (phase == OK), F.struct("at", "at_seq", "lo", "hi", "hold", "reason")),
    )
    folded = numbered.groupBy("lane", "message", "number").agg(
        F.max(
            F.when(kind == DELIVER, F.struct("at", "at_seq", "lo", "hi", "hold", "delivery", "facts"))
        ).alias("d"),
        last_change.alias("change"),
        F.min(F.when(changed & phase.isin(INVOKED, UNKNOWN), F.col("lo") + hold)).alias("unsure_lo"),
        F.max(F.when(changed & phase.isin(INVOKED, UNKNOWN), F.col("hi") + hold)).alias("unsure_hi"),
        F.count_if(changed & (phase == UNKNOWN)).alias("unsure_changes"),
        F.count_if(changed & (phase == INVOKED)).alias("changes_called"),
        F.count_if(changed & phase.isin(OK, FAILED, UNKNOWN)).alias("changes_answered"),
        F.min(F.when(own & (kind == ACK) & (phase == OK), F.col("hi"))).alias("acked_hi"),
        F.min(F.when((terminal & phase.isin(OK, UNKNOWN)) | (kind == DEAD), F.col("lo"))).alias("ended_lo"),
        F.min(F.when(kind == DEAD, F.col("hi"))).alias("dead_hi"),
        F.min(F.when(terminal & (phase == INVOKED), F.col("lo"))).alias("called_lo"),
        F.count_if(terminal & (phase == INVOKED)).alias("ends_called"),
        F.count_if(terminal & phase.isin(OK, FAILED, UNKNOWN)).alias("ends_answered"),
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
        *(F.col(f"d.{name}") for name in ("lo", "hi", "at_seq", "hold")),
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


def _with_successor(folded: DataFrame) -> DataFrame:
    message = Window.partitionBy("lane", "message").orderBy("number")
    whole = Window.partitionBy("lane", "message")
    names = ("lo", "hi", "hold", "recorder", "seq", "batch", "again", "attempt", "polled")
    following = F.lead(F.struct(*names)).over(message)
    first_place = F.when(F.col("attempt") == 1, F.struct("place", "offset"))
    paired = folded.withColumns(
        {
            "next": following,
            "copies": F.coalesce(
                F.min(first_place).over(whole) != F.max(first_place).over(whole), F.lit(False)
            ),
            # By the clock of one recorder, or of several.
            "one_clock": F.min("least_teller").over(whole) == F.max("most_teller").over(whole),
            # Since when the message was there, as far as anybody tells.
            "since": F.min("there").over(whole),
        }
    )
    paired = paired.select("*", *(F.col(f"next.{name}").alias(f"n_{name}") for name in names)).drop(
        "next", "least_teller", "most_teller", "there"
    )
    held = with_hold(paired)
    return held.withColumn("done_lo", F.min("end_lo").over(whole))


def with_hold(paired: DataFrame) -> DataFrame:
    """Bound the end of each hold, and say whether the wait was asked for by a retry. `paired` are deliveries beside
    the next one (`n_…`) and the last `change` of their lease."""
    base_lo, base_hi = F.col("lo") + F.col("hold"), F.col("hi") + F.col("hold")
    change = F.col("change")
    moved_lo, moved_hi = change["lo"] + change["hold"], change["hi"] + change["hold"]
    # A change whose answer came after the next delivery may have taken effect on either side of it.
    crossing = change["hi"] > F.col("n_hi")
    last_lo = F.when(crossing, F.least(base_lo, moved_lo)).otherwise(moved_lo)
    last_hi = F.when(crossing, F.greatest(base_hi, moved_hi)).otherwise(moved_hi)
    until_lo = F.least(F.when(change.isNotNull(), last_lo).otherwise(base_lo), "unsure_lo")
    until_hi = F.greatest(F.when(change.isNotNull(), last_hi).otherwise(base_hi), "unsure_hi")
    # A broker cannot see why a lease was changed: the group's own step, or less than was left, means "come again then".
    reason = F.coalesce(change["reason"], F.lit(0))
    looks_like_retry = ((change["hold"] == F.col("step")) & (reason != NO_LADDER)) | (moved_lo < base_lo)
    asked = change.isNotNull() & F.when(reason.isin(RETRY, EXTEND), reason == RETRY).otherwise(
        F.coalesce(looks_like_retry, F.lit(False))
    )
    exhausted = F.col("n_hi").isNull() & (F.col("attempt") >= F.coalesce("max_attempts", F.lit(1)))
    held = paired.withColumns(
        {
            "base_lo": base_lo,
            # A hold that nobody told has no end that one could be early for.
            "until_lo": F.when(F.col("hold").isNotNull() | change.isNotNull(), until_lo),
            "until_hi": F.when(F.col("hold").isNotNull() | change.isNotNull(), until_hi),
            "unsure": F.col("unsure_lo").isNotNull() | F.coalesce(crossing, F.lit(False)),
            "asked": asked & F.col("unsure_lo").isNull(),
            "taken_back": reason == TAKEN_BACK,
            "wait": F.when(asked, change["hold"]),
            "asked_lo": F.when(asked, change["lo"]),
            "asked_hi": F.when(asked, change["hi"]),
        }
    )
    # The broker itself ends a message after its last attempt, when the hold is over and unseen by consumers.
    end_lo = F.least("ended_lo", F.when(exhausted, F.coalesce("until_lo", "lo")))
    return held.withColumn("end_lo", end_lo).drop("change", "unsure_lo", "unsure_hi")
