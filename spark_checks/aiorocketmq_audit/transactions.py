"""Check `transactions`: a half message is handed out after a commit was tried, never after a rollback alone.

INV-TX: of a transaction that the account knows, nothing is delivered before a commit was tried. Where only a
client tells, and nobody rolled back, another producer of its group may have committed unseen: possible, not
proven. INV-TX-CHECK: when a decision was answered OK, the server stops asking within one interval of checks. A
decision ends one half message, and a send that the network repeated stores several of one transaction. Where the
broker tells of several, it may ask about those that are left; where it does not tell how many there are, that is
possible only. A killed server may ask again about what it was told last (E4).
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window, functions as F

from aiorocketmq_audit import excuses
from aiorocketmq_audit.findings import BROKEN, EXCUSED, POSSIBLE, finding, place

NAME = "transactions"

CHECK_US = 31_000_000
"""One interval between checks (30 s) and a second: a decision is written in batches (broker-semantics R9.11)."""

_TRANSACTION = ("run_id", "case_id", "topic", "tx_id")


def facts(events: DataFrame, marks: DataFrame) -> DataFrame:
    """Transactions and the checks of them: rows of FINDING, whose verdict is null where all is well."""
    known = _transactions(events)
    committed = F.coalesce(F.col("commit_lo") <= F.col("given.at"), F.lit(False))
    proven = (F.col("observer") == "broker") | F.col("rolled").isNotNull() | F.col("commit_lo").isNotNull()
    hidden = known.select(
        finding(
            NAME,
            F.lit("INV-TX"),
            F.when(
                F.col("given").isNotNull() & ~committed,
                F.when(proven, F.lit(BROKEN)).otherwise(F.lit(POSSIBLE)),
            ),
            margin=F.col("commit_lo") - F.col("given.at"),
            at=F.coalesce("given.at", "began.at"),
            first=(F.col("began.recorder"), F.col("began.seq")),
            second=(F.coalesce("given.recorder", "began.recorder"), F.coalesce("given.seq", "began.seq")),
        )
    )
    late = F.col("asked.at") > F.col("decided.at") + CHECK_US
    asked = known.where("asked is not null and decided is not null and halves <= 1").select(
        *("asked", "decided", "halves"),
        F.xxhash64("run_id", "case_id").alias("scope"),
        F.lit(None).cast("bigint").alias("who"),
        F.lit(None).cast("bigint").alias("client"),
        F.col("decided.at").alias("acked_hi"),
        F.col("decided.at").alias("lo"),
        "decided.recorder",
        "decided.seq",
        F.col("asked.at").alias("n_hi"),
        F.col("asked.recorder").alias("n_recorder"),
        F.col("asked.seq").alias("n_seq"),
        late.alias("late"),
    )
    checked = excuses.with_excuse(asked, marks, only=excuses.RESTARTED).select(
        finding(
            NAME,
            F.lit("INV-TX-CHECK"),
            F.when(~F.col("late"), F.lit(None).cast("string"))
            .when(F.col("excuse").isNotNull(), F.lit(EXCUSED))
            .when(F.col("halves") == 1, F.lit(BROKEN))
            .otherwise(F.lit(POSSIBLE)),
            margin=F.col("asked.at") - F.col("decided.at"),
            at=F.col("asked.at"),
            first=(F.col("decided.recorder"), F.col("decided.seq")),
            second=(F.col("asked.recorder"), F.col("asked.seq")),
            excuse=F.when(F.col("late"), F.col("excuse")),
        )
    )
    return hidden.unionByName(checked)


def _transactions(events: DataFrame) -> DataFrame:
    kind, phase = F.col("kind"), F.col("phase")
    here = place()
    ended = (kind == "tx.end") & (F.coalesce(phase, F.lit("info")) != "fail")
    commit, rollback = F.col("resolution") == "commit", F.col("resolution") == "rollback"
    of_them = events.where("tx_id is not null and kind in ('send', 'deliver', 'tx.end', 'tx.check')")
    seen = of_them.groupBy("observer", *_TRANSACTION).agg(
        F.min(F.when(kind != "deliver", here)).alias("began"),
        F.min(F.when(kind == "deliver", here)).alias("given"),
        F.min(F.when(ended & commit, F.coalesce("invoked_us", "t_wall_us"))).alias("commit_lo"),
        F.min(F.when(ended & rollback & (phase == "ok"), here)).alias("rolled"),
        F.min(F.when(ended & (commit | rollback) & (phase == "ok"), here)).alias("decided"),
        F.count_if((kind == "send") & (phase == "ok") & (F.col("observer") == "broker")).alias("stored"),
        F.max(F.when(kind == "tx.check", here)).alias("asked"),
    )
    told = seen.where(F.col("began").isNotNull())
    halves = F.sum("stored").over(Window.partitionBy(*_TRANSACTION))
    return told.withColumn("halves", halves)
