"""What allows a broker to break a promise: resets, clients that left, restarts, and locks of whole queues (E2 to E5).

Excuses are looked up for suspicious deliveries only, which are few; each use is counted in the summary.
E1 (the lease was changed) is part of the model in `deliveries`; E6 (one answer repeated) and E7 (an answer was
lost) are part of the check that meets them.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window, functions as F

from aiorocketmq_audit.findings import BROKEN, POSSIBLE
from aiorocketmq_audit.recording.narrowing import told_away
from aiorocketmq_audit.recording.reading import LATE_MS

RESET, OWNER_GONE, RESTARTED, QUEUE_LOCKED = "E2 reset", "E3 owner gone", "E4 restart", "E5 queue locked"
ASSIGNED = "E3 assigned anew"
RESENT, ANSWER_LOST = "resent by its producer", "E7 answer lost"

FLUSH_US = 6_000_000
"""A restarted server may have forgotten acks of this many last microseconds (live-broker-consumption.md 12)."""

MOST_MARKS = 10_000

LINGERS_US = 120_000_000
"""So long a server that was away may go on with what it knew twice: old leases end, and are noticed late."""
AWAY_US = 1_000_000
"""Times at which a server was away are told by slices of so many microseconds."""

RESETS, GONE, RESTARTS = ("reset", "seek"), ("client.stop", "client.crash"), ("restart", "crash")
"""Kinds of events, and of faults."""
FORGOTTEN = (
    *("INV-EXCL", "INV-ACKED", "INV-EARLY", "INV-LATE", "INV-ATTEMPT", "INV-ORD", "INV-ORD-FIRST"),
    *("INV-ORD-HANDLE", "INV-TX-CHECK", "INV-OFFSET", "INV-OFFSET-ORD", "INV-COMMIT", "INV-PULL-ORD"),
)
"""What a server may break that has forgotten, in a restart, what it had not yet written."""
_CLIENTS = (*GONE, "assign")
MARKING = (*RESETS, "fault", *_CLIENTS)
"""Kinds of events that may be marks."""


def marks(events: DataFrame) -> DataFrame:
    """One row holding an array of (excuse, scope, key, at, by, number, until); a null key concerns everyone. A fault
    that was started lasts until somebody says that it has stopped, or for LINGERS_US; all else is over at once."""
    fault = F.col("fault").getItem("kind")
    told = Window.partitionBy("run_id", "case_id", fault, F.col("fault").getItem("target"))
    following = F.lead(F.struct("fault", "t_wall_us")).over(told.orderBy("t_wall_us", "recorder", "seq"))
    stopped = F.when(following["fault"]["state"] == "stop", following["t_wall_us"])
    lasts = F.coalesce(stopped, F.col("t_wall_us") + LINGERS_US)
    excuse = (
        F.when(F.col("kind").isin(*RESETS), F.lit(RESET))
        .when(F.col("kind").isin(*GONE), F.lit(OWNER_GONE))
        .when((F.col("kind") == "assign") & (F.col("role") == "pull"), F.lit(ASSIGNED))
        .when((F.col("kind") == "fault") & fault.isin(*RESTARTS), F.lit(RESTARTED))
    )
    key = (
        F.when(F.col("kind").isin(*RESETS), F.xxhash64("group"))
        .when(F.col("kind").isin(*_CLIENTS), F.xxhash64("client_id"))
        .otherwise(F.lit(None).cast("bigint"))
    )
    marked = events.where(F.col("kind").isin(*MARKING)).select(
        excuse.alias("excuse"),
        F.xxhash64("run_id", "case_id").alias("scope"),
        key.alias("key"),
        F.col("t_wall_us").alias("at"),
        F.xxhash64("recorder").alias("by"),
        F.col("seq").alias("number"),
        F.when(F.col("fault").getItem("state") == "start", lasts)
        .otherwise(F.col("t_wall_us"))
        .alias("until"),
    )
    few = marked.where("excuse is not null").limit(MOST_MARKS)
    all_ = F.collect_list(F.struct("excuse", "scope", "key", "at", "by", "number", "until"))
    # In order, so that of several excuses the same one is told every time.
    return few.agg(F.sort_array(all_).alias("marks"))


def away(events: DataFrame) -> DataFrame:
    """One row holding an array of (by, since, until): when polls of a client's recorder told that the server was
    away: not to be reached, or failing by itself.

    A client cannot tell a restart from a broken network, so that this excuses nothing, and leaves a doubt."""
    slices = (
        events.where(told_away())
        .groupBy(F.xxhash64("recorder").alias("by"), F.floor(F.col("t_wall_us") / AWAY_US))
        .agg(F.min("t_wall_us").alias("since"), F.max("t_wall_us").alias("until"))
        .limit(MOST_MARKS)
    )
    return slices.agg(F.collect_list(F.struct("by", "since", "until")).alias("away"))


def doubted(findings: DataFrame, away: DataFrame) -> DataFrame:
    """Turn broken into possible where the recorder of the first event saw its server away within LINGERS_US before the
    second one; for acks as with restarts, and for what is late, around the time for which it was due."""
    forgotten = ", ".join(f"'{name}'" for name in FORGOTTEN)
    doubt = F.expr(
        f"""invariant in ({forgotten}) and exists(away, a -> a.by = first_recorder
                and a.since < if(invariant = 'INV-LATE', at_us - margin_us + {LATE_MS * 1000}, at_us)
                and a.until > if(invariant = 'INV-LATE', at_us - margin_us, at_us) - {LINGERS_US}
                and (invariant <> 'INV-ACKED' or a.since < at_us - margin_us + {FLUSH_US}))"""
    )
    verdict = F.when((F.col("verdict") == BROKEN) & doubt, F.lit(POSSIBLE)).otherwise(F.col("verdict"))
    return findings.crossJoin(F.broadcast(away)).withColumn("verdict", verdict).drop("away")


def with_excuse(
    suspects: DataFrame, marks: DataFrame, *, moves: bool = False, only: str | None = None
) -> DataFrame:
    """Add `excuse`: the first mark between a delivery (`lo`) and the one that looks wrong (`n_hi`), or null.

    With a manual clock much happens at one instant; there the recorder's own numbers tell what came first.
    A server that went down may hold two states of what it knew of then, and go on with both: a restart counts for
    whatever was there before it (`since`, or `lo` where nobody tells). `moves` lets assignments of queues excuse too,
    for consumers that own them. `only` is the one excuse to look for.
    """
    others = "true" if moves else f"m.excuse <> '{ASSIGNED}'"
    if only is not None:
        others = f"m.excuse = '{only}'"
    found = F.expr(
        f"""get(filter(marks, m -> m.scope = scope and {others}
                   and (m.at > lo or (m.at = lo and m.by = recorder and m.number > seq)
                        or (m.excuse = '{RESTARTED}' and m.until > since and m.until > n_hi - {LINGERS_US}))
                   and (m.at < n_hi or (m.at = n_hi and m.by = n_recorder and m.number < n_seq))
                   and (m.key is null or m.key = who or m.key = client)
                   and (m.excuse <> '{RESTARTED}' or acked_hi is null or acked_hi > m.at - {FLUSH_US})
            ), 0).excuse"""
    )
    if "since" not in suspects.columns:
        suspects = suspects.withColumn("since", F.col("lo"))
    return suspects.crossJoin(F.broadcast(marks)).withColumn("excuse", found).drop("marks")


def with_queue_lock(suspects: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Fill `excuse` where a whole queue was locked and an earlier message of the same answer was not yet acked."""
    locked = suspects.where("excuse is null and locks_queue and batch is not null")
    wanted = locked.select(
        F.col("batch").alias("w_batch"),
        F.col("offset").alias("w_offset"),
        F.col("n_hi").alias("w_until"),
        F.col("recorder").alias("w_recorder"),
        F.col("seq").alias("w_seq"),
    )
    unsettled = (
        deliveries.where("locks_queue")
        .select("batch", "offset", "acked_hi")
        .join(
            F.broadcast(wanted),
            (F.col("batch") == F.col("w_batch"))
            & (F.col("offset") < F.col("w_offset"))
            & (F.col("acked_hi").isNull() | (F.col("acked_hi") > F.col("w_until"))),
        )
        .select(
            F.col("w_recorder").alias("recorder"),
            F.col("w_seq").alias("seq"),
            F.lit(True).alias("behind_gap"),
        )
        .distinct()
    )
    known = suspects.join(F.broadcast(unsettled), ["recorder", "seq"], "left")
    excuse = F.when(F.col("behind_gap"), F.lit(QUEUE_LOCKED)).otherwise(F.col("excuse"))
    return known.withColumn("excuse", excuse).drop("behind_gap")
