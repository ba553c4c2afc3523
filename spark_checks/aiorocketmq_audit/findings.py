"""What a check returns: one row per broken or possibly broken promise, with the rows that prove it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession, Window, WindowSpec, functions as F
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructField, StructType

from aiorocketmq_audit.recording.reading import empty
from aiorocketmq_audit.recording.schema import COLUMNS

BROKEN, POSSIBLE, EXCUSED = "broken", "possible", "excused"

FINDING = (
    "check",
    "invariant",
    "verdict",
    "excuse",
    "margin_us",
    "at_us",
    "first_recorder",
    "first_seq",
    "second_recorder",
    "second_seq",
    "cut",
)
"""Columns of every check's result. `first` and `second` are the two deliveries that prove the finding, by
hash of the recorder and by `seq`; `second` is null where the finding is that nothing came. `cut` is when the
first one's recorder was cut short."""


def finding(
    check: str,
    invariant: Column,
    verdict: Column,
    *,
    margin: Column,
    at: Column,
    first: tuple[Column, Column],
    second: tuple[Column, Column],
    excuse: Column | None = None,
    cut: Column | None = None,
) -> list[Column]:
    """The columns of FINDING, for a select. `cut`: what FINDING says; null where not given."""
    values = (
        F.lit(check),
        invariant,
        verdict,
        excuse if excuse is not None else F.lit(None).cast("string"),
        margin.cast("bigint"),
        at.cast("bigint"),
        *first,
        *second,
        cut if cut is not None else F.lit(None).cast("bigint"),
    )
    return [value.alias(name) for value, name in zip(values, FINDING, strict=True)]


def nothing_found(check: str, invariant: str) -> list[Column]:
    """The columns of FINDING for a fact that was judged and is well."""
    nobody = (F.lit(None).cast("bigint"), F.lit(None).cast("bigint"))
    return finding(
        check,
        F.lit(invariant),
        F.lit(None).cast("string"),
        margin=F.lit(None),
        at=F.lit(None),
        first=nobody,
        second=nobody,
    )


def place() -> Column:
    """Where an event stands: its time, its recorder by hash, its number. Sorts by time."""
    return F.struct(
        F.col("t_wall_us").alias("at"), F.xxhash64("recorder").alias("recorder"), F.col("seq").alias("seq")
    )


def time_and_number(at: str) -> Column:
    """Time, and of equal times the number, in one number to sort by; both fit until the year 2255."""
    return F.col(at) * 1024 + F.col("seq").bitwiseAND(F.lit(1023))


def softened(findings: DataFrame, *, has_gaps: bool) -> DataFrame:
    """Turn broken into possible wherever rows that are missing could hold the excuse."""
    unsure = F.lit(has_gaps) | F.coalesce(F.col("at_us") > F.col("cut"), F.lit(False))
    verdict = F.when((F.col("verdict") == BROKEN) & unsure, F.lit(POSSIBLE)).otherwise(F.col("verdict"))
    return findings.withColumn("verdict", verdict).drop("cut")


def worst_first() -> WindowSpec:
    """The order in which a check's findings are shown: proven ones first, then by margin."""
    is_possible = (F.col("verdict") != BROKEN).cast("int")
    return Window.partitionBy("check").orderBy(is_possible, F.col("margin_ms").desc_nulls_last(), "at_us")


def tally(what: str | Column, rows: DataFrame, *, judged: Column, found: Column) -> DataFrame:
    """For `counted`: which of `rows` were judged, and which are findings."""
    name = F.lit(what) if isinstance(what, str) else what
    return rows.select(name.alias("what"), judged.alias("judged"), found.alias("found"))


def counted(tallies: Sequence[DataFrame]) -> dict[str, tuple[int, int]]:
    """By `what`: how many facts were judged, and how many are findings. All in one job; nothing of what has no row."""
    if not tallies:
        return {}
    sums = (F.count_if("judged").alias("judged"), F.count_if("found").alias("found"))
    rows = reduce(DataFrame.unionByName, tallies).groupBy("what").agg(*sums).collect()
    return {row.what: (row.judged, row.found) for row in rows}


EVIDENCE = (
    "run_id",
    "case_id",
    "observer",
    "topic",
    "group",
    "broker",
    "queue",
    "offset",
    "message_group",
    "message_id",
    "client_id",
    "attempt",
)


NAMED = StructType(
    [
        *(StructField(name, StringType()) for name in ("check", "invariant", "verdict")),
        *(StructField(name, COLUMNS[name]) for name in EVIDENCE),
        StructField("margin_ms", DoubleType()),
        StructField("at_us", LongType()),
        StructField("other_message_id", StringType()),
        StructField("other_client_id", StringType()),
        StructField("other_attempt", IntegerType()),
        StructField("other_offset", LongType()),
        StructField("first_recorder", StringType()),
        StructField("first_seq", LongType()),
        StructField("second_recorder", StringType()),
        StructField("second_seq", LongType()),
    ]
)
"""What is written to `violations/`. Plain columns say where the later delivery was, `other_…` what the
earlier one was."""


def write_none(path: str) -> None:
    """Write the empty result, with its columns, to a folder of this machine, which is replaced. Raises OSError where
    that cannot be written."""
    import pyarrow as pa
    from pyarrow import parquet
    from pyspark.sql.pandas.types import to_arrow_schema

    folder = Path(unquote(path.removeprefix("file://")))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    schema: pa.Schema = to_arrow_schema(NAMED)
    parquet.write_table(schema.empty_table(), folder / "part-00000.parquet")
    (folder / "_SUCCESS").touch()


def write_none_by(spark: SparkSession, path: str) -> None:
    """The same, to wherever Spark can write."""
    empty(spark, NAMED).coalesce(1).write.mode("overwrite").parquet(path)


def with_evidence(findings: DataFrame, events: DataFrame) -> DataFrame:
    """Put names and numbers beside each finding, as NAMED says. One pass over the events, one small shuffle."""
    places = F.array(
        F.struct(
            F.lit(1).alias("role"), F.col("first_recorder").alias("key"), F.col("first_seq").alias("at_seq")
        ),
        F.struct(
            F.lit(2).alias("role"), F.col("second_recorder").alias("key"), F.col("second_seq").alias("at_seq")
        ),
    )
    wanted = findings.select("*", F.explode(places).alias("place")).select(
        *findings.columns, F.col("place.role"), F.col("place.key"), F.col("place.at_seq")
    )
    facts = events.select(
        F.xxhash64("recorder").alias("event_key"), "recorder", F.col("seq").alias("event_seq"), *EVIDENCE
    )
    proofs = facts.join(
        F.broadcast(wanted), (F.col("key") == F.col("event_key")) & (F.col("at_seq") == F.col("event_seq"))
    )
    proof = F.struct("recorder", *EVIDENCE)
    joined = proofs.groupBy(*findings.columns).agg(
        F.max(F.when(F.col("role") == 1, proof)).alias("first"),
        F.max(F.when(F.col("role") == 2, proof)).alias("second"),
    )
    late = [F.coalesce(f"second.{name}", f"first.{name}").alias(name) for name in EVIDENCE]
    return joined.select(
        "check",
        "invariant",
        "verdict",
        *late,
        (F.col("margin_us") / 1000).alias("margin_ms"),
        "at_us",
        F.col("first.message_id").alias("other_message_id"),
        F.col("first.client_id").alias("other_client_id"),
        F.col("first.attempt").alias("other_attempt"),
        F.col("first.offset").alias("other_offset"),
        F.col("first.recorder").alias("first_recorder"),
        "first_seq",
        F.col("second.recorder").alias("second_recorder"),
        "second_seq",
    )
