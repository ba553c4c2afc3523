"""What a check returns: one row per broken or possibly broken promise, with the rows that prove it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession, Window, WindowSpec, functions as F
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructField, StructType

from aiorocketmq_audit.schema import COLUMNS

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
) -> list[Column]:
    """The columns of FINDING, for a select."""
    values = (
        F.lit(check),
        invariant,
        verdict,
        excuse if excuse is not None else F.lit(None).cast("string"),
        margin.cast("bigint"),
        at.cast("bigint"),
        *first,
        *second,
        F.col("cut"),
    )
    return [value.alias(name) for value, name in zip(values, FINDING, strict=True)]


def softened(findings: DataFrame, *, has_gaps: bool) -> DataFrame:
    """Turn broken into possible wherever rows that are missing could hold the excuse."""
    unsure = F.lit(has_gaps) | F.coalesce(F.col("at_us") > F.col("cut"), F.lit(False))
    verdict = F.when((F.col("verdict") == BROKEN) & unsure, F.lit(POSSIBLE)).otherwise(F.col("verdict"))
    return findings.withColumn("verdict", verdict).drop("cut")


def worst_first() -> WindowSpec:
    """The order in which a check's findings are shown: proven ones first, then by margin."""
    is_possible = (F.col("verdict") != BROKEN).cast("int")
    return Window.partitionBy("check").orderBy(is_possible, F.col("margin_ms").desc_nulls_last(), "at_us")


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


def write_none(spark: SparkSession, path: str) -> None:
    """Write the empty result, with its columns."""
    spark.createDataFrame([], NAMED).coalesce(1).write.mode("overwrite").parquet(path)


def with_evidence(findings: DataFrame, events: DataFrame) -> DataFrame:
    """Put names and numbers beside each finding: where it happened (the later delivery), and what the other one was."""
    wanted = findings.select(F.col("first_recorder").alias("key"), F.col("first_seq").alias("seq")).unionAll(
        findings.select("second_recorder", "second_seq")
    )
    proofs = (
        events.withColumn("key", F.xxhash64("recorder"))
        .join(F.broadcast(wanted.where("seq is not null").distinct()), ["key", "seq"], "left_semi")
        .select("key", "seq", "recorder", *EVIDENCE)
    )
    first = proofs.select(
        F.col("key").alias("first_recorder"),
        F.col("seq").alias("first_seq"),
        F.col("recorder").alias("first_name"),
        *(F.col(name).alias(f"first_{name}") for name in EVIDENCE),
    )
    second = proofs.select(
        F.col("key").alias("second_recorder"),
        F.col("seq").alias("second_seq"),
        F.col("recorder").alias("second_name"),
        *(F.col(name).alias(f"second_{name}") for name in EVIDENCE),
    )
    joined = findings.join(first, ["first_recorder", "first_seq"], "left").join(
        second, ["second_recorder", "second_seq"], "left"
    )
    late = [F.coalesce(f"second_{name}", f"first_{name}").alias(name) for name in EVIDENCE]
    return joined.select(
        "check",
        "invariant",
        "verdict",
        *late,
        (F.col("margin_us") / 1000).alias("margin_ms"),
        "at_us",
        F.col("first_message_id").alias("other_message_id"),
        F.col("first_client_id").alias("other_client_id"),
        F.col("first_attempt").alias("other_attempt"),
        F.col("first_offset").alias("other_offset"),
        F.col("first_name").alias("first_recorder"),
        "first_seq",
        F.col("second_name").alias("second_recorder"),
        "second_seq",
    )
