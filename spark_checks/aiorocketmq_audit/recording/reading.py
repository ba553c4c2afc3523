"""Reading a recording into one DataFrame."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.types import StructField

from aiorocketmq_audit.recording.files import RecordingFiles
from aiorocketmq_audit.recording.schema import RECORDING
from aiorocketmq_audit.recording.validation import lacking_remote_columns

_PATTERN = re.compile(r"[\\*?\[\]{}]")


def read(spark: SparkSession, files: RecordingFiles) -> tuple[DataFrame, tuple[str, ...]]:
    """Return all events with the columns of the schema, and the essential columns missing in some file.

    There are no rows if every file is unfinished. Raises UsageError and InvalidRecordingError for remote paths as
    `validation.lacking_remote_columns` does.
    """
    if not files.readable:
        return empty(spark, RECORDING), files.lacking
    remote = [path for path in files.readable if "://" in path]
    lacking = lacking_remote_columns(spark, remote) if remote else ()
    paths = map(literal, files.readable)
    return spark.read.schema(RECORDING).parquet(*paths), tuple(sorted({*files.lacking, *lacking}))


def literal(path: str) -> str:
    """Return the path escaped for Spark, which interprets glob patterns: names of local files are literal."""
    return path if "://" in path else _PATTERN.sub(r"\\\g<0>", path)


def empty(spark: SparkSession, columns: Iterable[StructField]) -> DataFrame:
    """Return an empty frame, created by Spark alone: from an empty Python list it would start a Python worker."""
    return spark.range(0).select(*(F.lit(None).cast(each.dataType).alias(each.name) for each in columns))
