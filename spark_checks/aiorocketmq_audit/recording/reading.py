"""Reading a recording into one DataFrame, and the settings that were in force."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.types import StructField

from aiorocketmq_audit.recording.files import RecordingFiles
from aiorocketmq_audit.recording.schema import RECORDING
from aiorocketmq_audit.recording.validation import lacking_remote_columns

_PATTERN = re.compile(r"[\\*?\[\]{}]")

EARLY_MS = 100
"""How much early is tolerated where the recording does not say: a server's own rounding
(live-broker-consumption.md 12)."""

LATE_MS = 15_000
"""How late a redelivery may be while a poll is open: the slowest seen on real servers was 10 s and one sweep."""


APART_US = 100_000
"""How far two recorders' clocks may be apart, when each is 50 ms from the server's at most (gate INV-CLOCK)."""


def read(spark: SparkSession, files: RecordingFiles) -> tuple[DataFrame, tuple[str, ...]]:
    """Return all events with the columns of the contract, and the essential columns that some file lacks.

    There are no rows if every file is unfinished. Raises WrongUse and NotARecording for remote paths as
    `validation.lacking_remote_columns` does.
    """
    if not files.readable:
        return empty(spark, RECORDING), files.lacking
    remote = [path for path in files.readable if "://" in path]
    lacking = lacking_remote_columns(spark, remote) if remote else ()
    # In the name of a local file these characters are no pattern.
    paths = [path if "://" in path else _PATTERN.sub(r"\\\g<0>", path) for path in files.readable]
    return spark.read.schema(RECORDING).parquet(*paths), tuple(sorted({*files.lacking, *lacking}))


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
    """Return one row per run, case and group: the settings of its last `config` events, with default tolerances.

    `ordered` is null if observers disagree or if it is unknown; then order is not judged. A text that is not of its
    type is null, too: `validation` refuses it before.
    """
    names = ("max_attempts", "steps_ms", "order_grain", "early_ms", "late_ms")
    latest = (
        f"max_by(cfg['{name}'], if(cfg['{name}'] is null, null, t_wall_us)) as {name}" for name in names
    )
    grouped = (
        events.where("kind = 'config' and `group` is not null")
        .groupBy("run_id", "case_id", "group")
        .agg(
            F.expr("min(cfg['ordered']) as least"),
            F.expr("max(cfg['ordered']) as most"),
            F.expr("max(observer = 'broker') as told_by_broker"),
            *map(F.expr, latest),
        )
    )
    return grouped.selectExpr(
        "run_id",
        "case_id",
        "`group`",
        "if(least = most, least = 'true', null) as ordered",
        "try_cast(max_attempts as int) as max_attempts",
        "try_cast(split(steps_ms, ',') as array<bigint>) as steps_ms",
        "order_grain = 'queue' as locks_queue",
        "told_by_broker",
        f"coalesce(try_cast(early_ms as bigint), {EARLY_MS}) * 1000 as early_us",
        f"coalesce(try_cast(late_ms as bigint), {LATE_MS}) * 1000 as late_us",
        f"cast({APART_US} as bigint) as apart_us",
    )


def last_instants(events: DataFrame) -> DataFrame:
    """The last time of each observer's account of a run and case, by the hash that deliveries carry as `account`."""
    account = F.xxhash64("run_id", "case_id", "observer").alias("account")
    return events.groupBy(account).agg(F.max("t_wall_us").alias("ended_us"))
