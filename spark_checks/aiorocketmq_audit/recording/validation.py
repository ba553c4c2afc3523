"""Validates columns and types of all files, and ranges of values, before the rules are evaluated.

A recording that violates its schema (docs/reference/recording.md) is rejected with an error that names file and column.
Columns are validated before any row is read, by Parquet footers; values by `WRONG`, as part of the gates' aggregation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F

from aiorocketmq_audit.errors import InvalidRecordingError, UsageError
from aiorocketmq_audit.failures import reason
from aiorocketmq_audit.recording.schema import COLUMNS, ESSENTIAL, RANGES, REQUIRED, VERSION

_PAGE = "(docs/reference/recording.md)"
_VERSION_KEY = b"aiorocketmq.recording.version"

_WIDENED = {"int": ("tinyint", "smallint"), "bigint": ("tinyint", "smallint", "int")}
"""Types that Spark reads as these without loss."""

_ARROW = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean"}
_ARROW |= dict.fromkeys(("large_string", "string_view"), "string")


def lacking_columns(files: Iterable[str]) -> tuple[str, ...]:
    """Return the essential columns that are missing in some of these local files.

    Raises InvalidRecordingError for a file with a damaged footer, another version, a column of another type, or
    without a required column.
    """
    try:
        from pyarrow import ArrowException, parquet
    except ModuleNotFoundError as error:
        raise UsageError("auditing needs pyarrow: run pip install 'aiorocketmq[spark]'.") from error
    lacking: set[str] = set()
    for file in files:
        try:
            schema = parquet.read_schema(file)
        except (ArrowException, OSError) as error:
            raise InvalidRecordingError(
                f"{file} cannot be read: its footer is damaged; remove it, and the verdict will be unknown."
            ) from error
        version = (schema.metadata or {}).get(_VERSION_KEY, b"1").decode("utf-8", "replace")
        check_version(int(version) if version.isdecimal() else -1)
        lacking |= _lacking(file, {field.name: _type_name(field.type) for field in schema})
    return tuple(sorted(lacking))


def lacking_remote_columns(spark: SparkSession, paths: Sequence[str]) -> tuple[str, ...]:
    """Return the essential columns that are missing in all files of remote paths.

    The common schema of the files is validated, or each file if there is none. Raises UsageError for paths that do not
    exist or cannot be reached, and InvalidRecordingError as `lacking_columns` does.
    """
    names = ", ".join(paths)
    try:
        schema = spark.read.option("mergeSchema", True).parquet(*paths).schema
        return tuple(sorted(_lacking(names, _spark_types(schema.fields))))
    except (PySparkException, Py4JJavaError) as error:
        if "UNABLE_TO_INFER_SCHEMA" in str(error):
            raise InvalidRecordingError(
                f"{names} holds no Parquet file: give the folder of a recording."
            ) from error
        if "FOOTER" in str(error):
            raise InvalidRecordingError(f"{names} cannot be read: {reason(error)}") from error
        if "CANNOT_MERGE_SCHEMAS" not in str(error):
            raise UsageError(f"{names} cannot be read: {reason(error)}") from error
    lacking: set[str] = set()
    for file in spark.read.schema("seq bigint").parquet(*paths).inputFiles():
        lacking |= _lacking(file, _spark_types(spark.read.parquet(file).schema.fields))
    return tuple(sorted(lacking))


def _spark_types(fields: Iterable[Any]) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in fields}


def _type_name(kind: Any) -> str:
    """Return Spark's name for an Arrow type, or else Arrow's own."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return _type_name(kind.value_type)
    if types.is_map(kind):
        return f"map<{_type_name(kind.key_type)},{_type_name(kind.item_type)}>"
    if types.is_list(kind) or types.is_large_list(kind):
        return f"array<{_type_name(kind.value_type)}>"
    if types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{_type_name(field.type)}' for field in kind)}>"
    return _ARROW.get(str(kind), str(kind))


def _lacking(file: str, types: Mapping[str, str]) -> frozenset[str]:
    for name in REQUIRED:
        if name not in types:
            raise InvalidRecordingError(
                f"{file} has no column {name}: it is not part of a recording {_PAGE}."
            )
    for name, declared in COLUMNS.items():
        declared_type, type_name = declared.simpleString(), types.get(name)
        if type_name not in (None, declared_type, *_WIDENED.get(declared_type, ())):
            raise InvalidRecordingError(
                f"{file}: column {name} has the type {type_name}, it must be {declared_type} {_PAGE}."
            )
    return ESSENTIAL.difference(types)


def check_version(version: int) -> None:
    """Raise InvalidRecordingError for an unsupported version; -1 stands for one that is not a number."""
    if not 1 <= version <= VERSION:
        raise InvalidRecordingError(
            f"this recording has version {version if version >= 0 else '(no number)'} and this program reads 1 to "
            f"{VERSION}: upgrade with pip install -U 'aiorocketmq[spark]'."
        )


_STEP = "[0-9]{1,12}"
_SETTINGS = {
    "ordered": ("{} in ('true', 'false')", "true or false"),
    "max_attempts": ("coalesce(try_cast({} as int) >= 0, {} is null)", "a whole number"),
    # With a space, as fake brokers have recorded it.
    "order_grain": ("{} in ('message_group', 'message group', 'queue')", "message_group or queue"),
    "steps_ms": (f"{{}} rlike '^ *{_STEP}( *, *{_STEP})* *$'", "milliseconds, separated by commas"),
    "early_ms": (f"{{}} rlike '^ *{_STEP} *$'", "milliseconds"),
    "late_ms": (f"{{}} rlike '^ *{_STEP} *$'", "milliseconds"),
}
"""For each key of a group's settings: the condition for its text, and its description."""

_MOST = RANGES["t_wall_us"][1]


@dataclass(frozen=True, slots=True)
class _Rule:
    """A constraint of a column: the condition that violates it (Spark SQL), and what is allowed."""

    column: str
    broken: str
    allowed: str
    value: str


_RULES = (
    *(_Rule(name, f"`{name}` is null", "a value", f"`{name}`") for name in REQUIRED),
    *(
        _Rule(name, f"`{name}` not between {least} and {most}", f"{least} to {most}", f"`{name}`")
        for name, (least, most) in RANGES.items()
    ),
    *(
        _Rule("cfg", f"kind = 'config' and not {holds.replace('{}', text)}", f"{key}: {words}", text)
        for key, (holds, words) in _SETTINGS.items()
        for text in (f"cfg['{key}']",)
    ),
    *(
        _Rule(
            "clk",
            f"clk['{key}'] not between {least} and {_MOST}",
            f"{key}: {least} to {_MOST}",
            f"clk['{key}']",
        )
        for key, least in (("offset_us", -_MOST), ("error_us", 0))
    ),
)

WRONG = f"case {' '.join(f'when {rule.broken} then {place}' for place, rule in enumerate(_RULES))} end"
"""The index of the first rule that a row violates, else null."""


def refuse_value(events: DataFrame, place: int) -> NoReturn:
    """Raise InvalidRecordingError for a row that violates the rule at `place`, and name its file."""
    rule = _RULES[place]
    shown = {
        "file": F.input_file_name(),
        "value": F.expr(f"cast({rule.value} as string)"),
        "seq": F.col("seq"),
    }
    row = events.where(rule.broken).select(*(column.alias(name) for name, column in shown.items())).first()
    file = unquote(row.file).removeprefix("file://") if row is not None and row.file else "this recording"
    value = "no value" if row is None or row.value is None else repr(row.value[:40])
    number = "" if row is None else f" of row {row.seq}"
    raise InvalidRecordingError(
        f"{file}: column {rule.column}{number} holds {value}, allowed is {rule.allowed} {_PAGE}."
    )
