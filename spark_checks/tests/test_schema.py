"""One contract: the page, the format that all share, and the schema that Spark gets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from aiorocketmq.recording_format import arrow_schema
from aiorocketmq_audit.recording.schema import COLUMNS, RANGES, RECORDING, REQUIRED, VERSION
from pyspark.sql.types import StructType

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "recording.md"


def rows_of_the_page() -> list[tuple[str, str, str]]:
    table = PAGE.read_text("utf-8").partition("## Columns")[2].partition("## Kinds")[0]
    return re.findall(r"^\| `(\w+)` \| ([\w<>:,]+) \| (yes|no) \|", table, re.MULTILINE)


def test_the_page_and_the_schema_name_the_same_columns_in_the_same_order_with_the_same_types() -> None:
    assert [(name, kind) for name, kind, _ in rows_of_the_page()] == [
        (name, kind.simpleString()) for name, kind in COLUMNS.items()
    ]


def test_the_page_and_the_schema_require_the_same_columns() -> None:
    assert tuple(name for name, _, required in rows_of_the_page() if required == "yes") == REQUIRED


def test_the_page_and_the_schema_have_the_same_ranges() -> None:
    table = PAGE.read_text("utf-8").partition("## Ranges")[2].partition("## Kinds")[0]
    rows = re.findall(r"^\| (`[^|]+`) \| (-?\d+) \| (\d+) \|", table, re.MULTILINE)
    assert {
        name: (int(least), int(most)) for names, least, most in rows for name in re.findall(r"\w+", names)
    } == RANGES


def test_the_page_names_the_version_that_is_read() -> None:
    assert f"**version {VERSION}**" in PAGE.read_text("utf-8")


def test_arrow_schema_of_the_writers_is_what_the_audit_declares() -> None:
    pyarrow_types = pytest.importorskip("pyspark.sql.pandas.types")
    written: StructType = pyarrow_types.from_arrow_schema(arrow_schema())
    assert [field.dataType for field in written] == [field.dataType for field in RECORDING]
    assert [field.name for field in written if not field.nullable] == list(REQUIRED)
    assert arrow_schema().metadata[b"aiorocketmq.recording.version"] == str(VERSION).encode()
