"""Reading a recording into one DataFrame, and the settings that were in force."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.types import StructField

from aiorocketmq_audit.errors import WrongUse
from aiorocketmq_audit.files import RecordingFiles
from aiorocketmq_audit.schema import RECORDING

EARLY_MS = 100
"""How much early is tolerated where the recording does not say: a server's own rounding
(live-broker-consumption.md 12)."""

LATE_MS = 15_000
"""How late a redelivery may be while a poll is open: the slowest seen on real servers was 10 s and one sweep."""


APART_US = 100_000
"""How far two recorders' clocks may be apart, when each is 50 ms from the server's at most (gate INV-CLOCK)."""


def read(spark: SparkSession, files: RecordingFiles) -> DataFrame:
    """All events, as declared; no rows when every file is unfinished. Raises WrongUse for a remote path that
    is not there."""
    if not files.readable:
        return empty(spark, RECORDING)
    try:
        return spark.read.schema(RECORDING).parquet(*files.readable)
    except AnalysisException as error:
        raise WrongUse(f"{', '.join(files.readable)} cannot be read: {reason(error)}") from error


def empty(spark: SparkSession, columns: Iterable[StructField]) -> DataFrame:
    """No rows of these columns, made by Spark alone: an empty list of Python values would start a Python worker."""
    return spark.range(0).select(*(F.lit(None).cast(each.dataType).alias(each.name) for each in columns))


def worked_out(frame: DataFrame) -> DataFrame:
    """The rows, worked out once in one part. Small recordings are asked dozens of small questions: planning each from
    the files on takes far longer than answering it."""
    return frame.coalesce(1).localCheckpoint()


def without_duplicates(events: DataFrame) -> DataFrame:
    """Each event once: the same file may lie in two folders of a recording."""
    return events.dropDuplicates(["recorder", "seq"])


def settings(events: DataFrame) -> DataFrame:
    """One row per run, case and group: what the last `config` events said, with defaults for tolerances.

    `ordered` is null when two observers disagree or nobody said it: then nobody can judge the order.
    """
    said = events.where(F.col("kind") == "config").where(F.col("group").isNotNull())
    latest = {
        name: F.max_by(
            F.col("cfg").getItem(name), F.when(F.col("cfg").getItem(name).isNotNull(), F.col("t_wall_us"))
        )
        for name in ("max_attempts", "steps_ms", "order_grain", "early_ms", "late_ms")
    }
    ordered = F.col("cfg").getItem("ordered")
    grouped = said.groupBy("run_id", "case_id", "group").agg(
        F.min(ordered).alias("ordered_min"),
        F.max(ordered).alias("ordered_max"),
        F.max(F.col("observer") == "broker").alias("by_broker"),
        *(column.alias(name) for name, column in latest.items()),
    )
    return grouped.select(
        "run_id",
        "case_id",
        "group",
        F.when(F.col("ordered_min") == F.col("ordered_max"), F.col("ordered_min") == "true").alias("ordered"),
        F.col("max_attempts").try_cast("int").alias("max_attempts"),
        F.split("steps_ms", ",").cast("array<bigint>").alias("steps_ms"),
        (F.col("order_grain") == "queue").alias("locks_queue"),
        F.col("by_broker").alias("told_by_broker"),
        (F.coalesce(F.col("early_ms").try_cast("bigint"), F.lit(EARLY_MS)) * 1000).alias("early_us"),
        (F.coalesce(F.col("late_ms").try_cast("bigint"), F.lit(LATE_MS)) * 1000).alias("late_us"),
        F.lit(APART_US).cast("bigint").alias("apart_us"),
    )


def last_instants(events: DataFrame) -> DataFrame:
    """The last time of each observer's account of a run and case, by the hash that deliveries carry as `account`."""
    account = F.xxhash64("run_id", "case_id", "observer").alias("account")
    return events.groupBy(account).agg(F.max("t_wall_us").alias("ended_us"))


def reason(error: Exception) -> str:
    """The deepest cause that an error of Spark names, or its first line; their texts run over many."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    # Py4J writes the error itself on the second line, after a colon.
    causes = [line.partition(": ")[2] for line in lines if line.startswith(("Caused by: ", ": "))]
    return (causes or lines)[-1 if causes else 0].rpartition("Exception: ")[2]
