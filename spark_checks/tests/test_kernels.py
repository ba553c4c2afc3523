"""Counts over columns of numbers: what Spark's own expressions count, and never less suspicious."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aiorocketmq_audit import excuses, files, findings, gates, loss, origin, reading, sides
from aiorocketmq_audit.generator import Shape, generate
from aiorocketmq_audit.generator.planting import chosen
from aiorocketmq_audit.kernels import asking
from aiorocketmq_audit.kernels.texts import hashes
from pyarrow import parquet
from pyspark.sql import SparkSession, functions as F

from spark_checks.tests.histories import ASIDE, CHECKED

pytestmark = pytest.mark.spark

Counts = dict[str, tuple[int, int]]


def by_expressions(spark: SparkSession, folder: Path) -> Counts:
    """What the checks count by themselves."""
    events = reading.read(spark, files.find((str(folder),)))
    settings = reading.settings(events)
    of = sides.Sources(events, settings, events, excuses.marks(events), 0)
    tallies = [origin.facts(origin.traces(events)), loss.facts(loss.expected(events, settings))]
    for name in ("handles", sides.ANSWERS, "offsets"):
        judged = sides.SIDES[name].judged
        assert judged is not None
        tallies.append(findings.tally(name, judged(of), judged=F.lit(True), found=F.col("wrong")))
    return findings.counted(tallies)


def by_numbers(spark: SparkSession, folder: Path) -> Counts:
    """The same by whole columns."""
    found = files.find((str(folder),))
    events = reading.read(spark, found)
    told = asking.ask(spark, found, reading.settings(events), gates.examine(events), tuple(asking.QUESTIONS))
    assert told is not None
    told.release()
    return {name: counts for name, counts in told.counts.items() if counts != (0, 0)}


def random_texts(seed: int) -> list[str | None]:
    chance = random.Random(seed)
    lengths = [*range(70), *(chance.randint(0, 300) for _ in range(100))]
    return [None, "", *("".join(chance.choices("aä€😀0Z/", k=length)) for length in lengths)]


@pytest.mark.parametrize("seed", range(3))
def test_texts_have_the_hashes_that_spark_gives_them(seed: int, spark: SparkSession) -> None:
    texts = random_texts(seed)
    frame = spark.createDataFrame([(text,) for text in texts], "text string")
    told = [
        row.h
        for row in frame.select(F.when(F.col("text").isNotNull(), F.xxhash64("text")).alias("h")).collect()
    ]
    for array in (pa.array(texts), pa.array(texts, pa.large_string()), pa.array(["cut", *texts]).slice(1)):
        assert hashes(array).view(np.int64).tolist() == [each or 0 for each in told]


def in_pieces(folder: Path, rows: int) -> Path:
    """The same recording in one file, whose row groups have so many rows."""
    parts = [parquet.read_table(file) for file in sorted(folder.rglob("*.parquet"))]
    whole = pa.concat_tables(parts, promote_options="default")
    together = folder.parent / f"{folder.name}-{rows}"
    together.mkdir()
    parquet.write_table(whole, together / "all.parquet", row_group_size=rows)
    return together


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups are looked at one by one, and questions in many shares."""
    monkeypatch.setattr(asking, "ROWS", 1)
    monkeypatch.setattr(asking, "SHARE", 50)


@pytest.mark.usefixtures("small_pieces")
def test_histories_are_counted_alike(
    new_history: Callable[..., Any], record: Callable[..., Path], spark: SparkSession
) -> None:
    histories = []
    for index, page in enumerate((ASIDE.pages | CHECKED.pages).values()):
        made = new_history(f"{index:03}")
        made.config(ordered=page.ordered, max_attempts=17, steps_ms="40000")
        page.write(made)
        histories.append(made.end())
    folder = in_pieces(record(*histories), 40)
    expected = by_expressions(spark, folder)
    assert by_numbers(spark, folder) == expected
    wrong = {name for name, (_, found) in expected.items() if found}
    assert wrong >= {"handles", sides.ANSWERS, "offsets", loss.NAME, origin.NAME, origin.CONFIRMED}


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("shape", [Shape(hot=0.2, brokers=2), Shape(skew_ms=25)])
def test_recordings_are_counted_alike_and_what_is_planted_looks_wrong(
    shape: Shape, tmp_path: Path, spark: SparkSession
) -> None:
    generate(tmp_path / "runs", events=3_000, seed=5, shape=shape, plants=chosen(["all"]))
    folder = in_pieces(tmp_path / "runs", 100)
    told, expected = by_numbers(spark, folder), by_expressions(spark, folder)
    assert {name: judged for name, (judged, _) in told.items()} == {
        name: judged for name, (judged, _) in expected.items()
    }
    assert all(told[name][1] >= found for name, (_, found) in expected.items())
