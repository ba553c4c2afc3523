"""Validation: columns of every file, and values inside their ranges; one sentence with file and column."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq_audit.errors import InvalidRecordingError, UsageError
from aiorocketmq_audit.failures import reason
from aiorocketmq_audit.frames.settings import settings
from aiorocketmq_audit.recording import files, reading
from aiorocketmq_audit.recording.gates import examine
from aiorocketmq_audit.recording.validation import (
    WRONG,
    lacking_columns,
    lacking_remote_columns,
    refuse_value,
)
from pyspark.sql import DataFrame, SparkSession, functions as F

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

JAVA = r"\w+\.\w+\.[A-Z]|Exception|Error:|\n"

Frame = Callable[[Iterable[Any]], DataFrame]

HUGE, LEAST, MOST = 1 << 62, -(1 << 63), (1 << 63) - 1

VALUES = {
    "invisible_ms": (HUGE, -HUGE),
    "t_wall_us": (LEAST, MOST),
    "t_real_us": (-1,),
    "t_mono_ns": (None,),
    "invoked_us": (HUGE,),
    "server_deliver_us": (LEAST,),
    "store_us": (HUGE,),
    "born_us": (MOST,),
    "due_us": (-1,),
    "seq": (HUGE, -1),
    "offset": (HUGE,),
    "commit_offset": (-2,),
    "queue": (-1,),
    "attempt": ((1 << 31) - 1,),
    "recorder": (None,),
    "clk": ({"offset_us": HUGE, "error_us": 0}, {"offset_us": 0, "error_us": -1}),
}

SETTINGS = {
    "ordered": ("yes",),
    "max_attempts": ("many", "9999999999", "-1"),
    "steps_ms": ("1000,,x", "1000,", "", f"1000,{HUGE}"),
    "order_grain": ("topic",),
    "early_ms": ("-1", "1.5"),
    "late_ms": ("soon",),
}


@pytest.mark.spark
def test_values_out_of_range_are_refused_by_column(new_history: type[Any], frame: Frame) -> None:
    expected: list[str] = []
    histories: list[Any] = []
    for column, values in VALUES.items():
        for value in values:
            history = new_history(str(len(histories)))
            history.rows[0] |= {"kind": "clock.sample" if column == "clk" else "deliver", column: value}
            histories.append(history)
            expected.append(column)
    for key, texts in SETTINGS.items():
        for text in texts:
            history = new_history(str(len(histories)))
            history.rows[0] |= {"kind": "config", "cfg": {key: text}}
            histories.append(history)
            expected.append(f"{key}: ")
    events = frame(histories)
    places = [row[0] for row in events.select(F.expr(WRONG)).collect()]
    assert None not in places
    # The sentence of the first row of each rule, whatever its value.
    for place, words in dict(zip(places, expected, strict=True)).items():
        with pytest.raises(
            InvalidRecordingError, match=rf"column \w+ of row \S+ holds .*{words}|column {words} of row"
        ):
            refuse_value(events, place)


@pytest.mark.spark
def test_extreme_values_inside_the_ranges_pass(new_history: type[Any], frame: Frame) -> None:
    history = new_history()
    history.config(ordered=True, max_attempts=2147483647, steps_ms="0, 1000,7200000", order_grain="queue")
    history.config(ordered=False, max_attempts=0, early_ms="0", late_ms="15000")
    row = history.rows[history.deliver("/1", 5.0)]
    row |= {
        "invisible_ms": 10**12,
        "attempt": 0,
        "store_us": 0,
        "due_us": 253_402_300_799_999_999,
        "offset": 10**18,
    }
    history.rows[history.deliver("/2", 5.5)]["invisible_ms"] = -1000
    history.note("commit", 6.0, commit_offset=-1)
    assert examine(frame([history.end()])).missing == ()


@pytest.mark.spark
def test_a_value_out_of_range_names_its_file_and_row(
    new_history: type[Any], record: Callable[..., Path], spark: SparkSession
) -> None:
    history, fine = new_history("a"), new_history("b")
    history.config(steps_ms="1000,,x")
    folder = record(history.end(), fine.end(), name="runs [1]")
    events, lacking = reading.read(spark, files.find((str(folder),)))
    assert lacking == ()
    with pytest.raises(InvalidRecordingError) as refused:
        examine(events)
    assert str(refused.value) == (
        f"{folder}/r1a-00000.parquet: column cfg of row 1 holds '1000,,x', "
        "allowed is steps_ms: milliseconds, separated by commas (docs/reference/recording.md)."
    )


@pytest.mark.spark
def test_settings_of_texts_that_are_no_numbers_are_null(new_history: type[Any], frame: Frame) -> None:
    history = new_history()
    history.config(steps_ms="1000,,x", max_attempts="many", early_ms="x", late_ms="", ordered="true")
    (row,) = settings(frame([history])).collect()
    assert (row.steps_ms, row.max_attempts, row.ordered) == ([1000, None, None], None, True)
    assert (row.early_us, row.late_us) == (100_000, 15_000_000)


def retyped(folder: Path, name: str, kind: Any) -> Path:
    file = sorted(folder.glob("*.parquet"))[0]
    table = parquet.read_table(file)
    place = table.schema.get_field_index(name)
    parquet.write_table(table.set_column(place, name, table[name].cast(kind)), file)
    return Path(file)


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("attempt", "string", "column attempt has the type string, it must be int"),
        ("t_wall_us", "string", "column t_wall_us has the type string, it must be bigint"),
        ("t_wall_us", "timestamp[us]", "column t_wall_us has the type timestamp[us], it must be bigint"),
        ("invisible_ms", "double", "column invisible_ms has the type double, it must be bigint"),
        ("attempt", "int64", "column attempt has the type bigint, it must be int"),
        ("seq", "uint64", "column seq has the type uint64, it must be bigint"),
    ],
)
def test_a_column_of_another_type_is_refused(
    name: str, kind: str, words: str, new_history: type[Any], record: Callable[..., Path]
) -> None:
    types = {"timestamp[us]": pa.timestamp("us"), "double": pa.float64()}
    file = retyped(record(new_history("a").end(), new_history("b").end()), name, types.get(kind, kind))
    with pytest.raises(InvalidRecordingError, match=re.escape(f"{file}: {words}")):
        files.find((str(file.parent),))


@pytest.mark.spark
def test_types_that_widen_without_loss_pass(
    new_history: type[Any], record: Callable[..., Path], spark: SparkSession
) -> None:
    file = retyped(record(new_history().end()), "seq", "int32")
    retyped(file.parent, "queue", "int16")
    retyped(file.parent, "kind", pa.dictionary(pa.int32(), pa.string()))
    retyped(file.parent, "topic", "large_string")
    events, _ = reading.read(spark, files.find((str(file.parent),)))
    assert examine(events).missing == ()


def test_a_required_column_that_is_gone_is_refused(
    new_history: type[Any], record: Callable[..., Path]
) -> None:
    (file,) = record(new_history().end()).iterdir()
    parquet.write_table(parquet.read_table(file).drop_columns(["boot"]), file)
    with pytest.raises(InvalidRecordingError, match=r"00000\.parquet has no column boot"):
        files.find((str(file),))


def test_a_damaged_footer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.parquet").write_bytes(b"PAR1" + bytes(20) + b"PAR1")
    with pytest.raises(InvalidRecordingError, match=r"r\.parquet cannot be read: its footer is damaged"):
        files.find((str(tmp_path),))


def test_a_file_of_a_newer_version_is_refused_whatever_its_columns(tmp_path: Path) -> None:
    table = pa.table({"seq": [1]}).replace_schema_metadata({"aiorocketmq.recording.version": "2"})
    parquet.write_table(table, tmp_path / "r.parquet")
    with pytest.raises(InvalidRecordingError, match="version 2 and this program reads 1 to 1: upgrade"):
        lacking_columns([str(tmp_path / "r.parquet")])


@pytest.mark.spark
def test_remote_files_are_validated_by_the_schema_that_spark_reads(
    new_history: type[Any], record: Callable[..., Path], spark: SparkSession
) -> None:
    """Paths of this machine stand for remote ones."""
    folder = record(new_history("a").end(), new_history("b").end())
    assert lacking_remote_columns(spark, [str(folder)]) == ()
    file = retyped(folder, "seq", "int32")
    assert lacking_remote_columns(spark, [str(folder)]) == ()
    parquet.write_table(parquet.read_table(file).drop_columns(["batch"]), file)
    assert lacking_remote_columns(spark, [str(folder)]) == ("batch",)
    retyped(folder, "attempt", "string")
    words = "r1a-00000.parquet: column attempt has the type string, it must be int"
    with pytest.raises(InvalidRecordingError, match=words):
        lacking_remote_columns(spark, [str(folder)])


@pytest.mark.spark
def test_remote_folders_without_parquet_files_are_no_recording(tmp_path: Path, spark: SparkSession) -> None:
    with pytest.raises(InvalidRecordingError, match="holds no Parquet file"):
        lacking_remote_columns(spark, [str(tmp_path)])
    (tmp_path / "r.parquet").write_bytes(b"PAR1" + bytes(20) + b"PAR1")
    with pytest.raises(InvalidRecordingError, match="cannot be read: ") as refused:
        lacking_remote_columns(spark, [str(tmp_path)])
    assert not re.search(JAVA, str(refused.value))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("o1.x\n: java.lang.OutOfMemoryError: Java heap space", "Java heap space"),
        (
            "o1.x\n: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Cannot read /a/b.V2/r.parquet. "
            "SQLSTATE: KD001\n\tat x\nCaused by: org.apache.parquet.io.ParquetDecodingException: bad page",
            "bad page",
        ),
        (
            "[PATH_NOT_FOUND] Path does not exist: file:/a/b.c.V2. SQLSTATE: 42K03",
            "Path does not exist: file:/a/b.c.V2",
        ),
        ("java.io.IOException: Input/output error", "Input/output error"),
    ],
)
def test_reasons_have_no_names_of_java(text: str, words: str) -> None:
    assert reason(RuntimeError(text)) == words


@pytest.mark.spark
@pytest.mark.parametrize("path", ["s3a://bucket/runs", "nothing://runs", "/nowhere/runs"])
def test_remote_paths_that_cannot_be_read_are_named_without_names_of_java(
    path: str, spark: SparkSession
) -> None:
    with pytest.raises(UsageError, match=f"{path} cannot be read: ") as refused:
        lacking_remote_columns(spark, [path])
    assert not re.search(JAVA, str(refused.value))
