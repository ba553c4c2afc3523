"""The settings of groups, from the recording's `config` events and assignments."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from aiorocketmq_audit.frames.frame import SCOPE
from aiorocketmq_audit.recording.schema import GRAIN

EARLY_MS = 100
"""Default tolerance for early redeliveries: a server's own rounding (live-broker-consumption.md 12)."""

LATE_MS = 15_000
"""How late a redelivery may be while a poll is open: the slowest observed on real servers was 10 s and one sweep."""


def settings(events: DataFrame, *, early_ms: int | None = None, skew_us: int = 50_000) -> DataFrame:
    """Return one row per run, case and group: the last `config` values, with defaults for tolerances, or `early_ms` for
    all; two recorders' clocks may differ by twice `skew_us`.

    `ordered` is null if observers disagree or it is unknown: then the order is not judged. Each member of a
    `broadcast` group is delivered all messages.
    """
    declared = events.where("kind in ('config', 'assign') and group is not null")
    latest = {
        name: F.max_by(
            F.col("cfg").getItem(name), F.when(F.col("cfg").getItem(name).isNotNull(), F.col("t_wall_us"))
        )
        for name in ("max_attempts", "steps_ms", "order_grain", "early_ms", "late_ms")
    }
    ordered = F.col("cfg").getItem("ordered")
    grouped = declared.groupBy(*SCOPE, "group").agg(
        F.min(ordered).alias("ordered_min"),
        F.max(ordered).alias("ordered_max"),
        F.max((F.col("kind") == "config") & (F.col("observer") == "broker")).alias("declared_by_broker"),
        F.max((F.col("kind") == "assign") & (F.expr(GRAIN) == "broadcast")).alias("broadcast"),
        *(column.alias(name) for name, column in latest.items()),
    )
    early = F.coalesce(F.col("early_ms").try_cast("bigint"), F.lit(EARLY_MS))
    return grouped.select(
        *SCOPE,
        "group",
        F.xxhash64(*SCOPE, "group").alias("gid"),
        F.when(F.col("ordered_min") == F.col("ordered_max"), F.col("ordered_min") == "true").alias("ordered"),
        F.col("max_attempts").try_cast("int").alias("max_attempts"),
        F.split("steps_ms", ",").try_cast("array<bigint>").alias("steps_ms"),
        F.coalesce(F.col("order_grain") == "queue", F.lit(False)).alias("locks_queue"),
        "declared_by_broker",
        "broadcast",
        ((early if early_ms is None else F.lit(early_ms)) * 1000).cast("bigint").alias("early_us"),
        (F.coalesce(F.col("late_ms").try_cast("bigint"), F.lit(LATE_MS)) * 1000).alias("late_us"),
        F.lit(2 * skew_us).cast("bigint").alias("apart_us"),
    )
