"""Counts over columns of numbers: what Spark's own expressions count, and never less suspicious."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aiorocketmq_audit import excuses, findings, gates, judging, loss, origin, sides
from aiorocketmq_audit.checks import CHECKS
from aiorocketmq_audit.generator import Shape, generate
from aiorocketmq_audit.generator.planting import chosen
from aiorocketmq_audit.kernels import asking, said, survey
from aiorocketmq_audit.kernels.events import Events
from aiorocketmq_audit.kernels.letters import LETTERS
from aiorocketmq_audit.kernels.processes import processes
from aiorocketmq_audit.kernels.texts import hashes
from aiorocketmq_audit.kernels.twice import told_twice
from aiorocketmq_audit.recording import files, reading
from pyarrow import parquet
from pyspark.sql import SparkSession, functions as F

from spark_checks.tests.histories import ASIDE, CHECKED

pytestmark = pytest.mark.spark

Counts = dict[str, tuple[int, int]]

ASKED = (
    *("handles", "offsets", "fairness", "transactions", "recall", "queues", "commits"),
    *(sides.ANSWERS, sides.HANDLERS, sides.DRAINED, sides.NOT_BURIED),
)


def by_expressions(spark: SparkSession, folder: Path) -> Counts:
    """What the checks count by themselves."""
    events = reading.read(spark, files.find((str(folder),)))
    settings = reading.settings(events)
    gate = gates.examine(events)
    deliveries = judging.material_of(events, gate, settings).deliveries
    of = sides.Sources(events, settings, deliveries, excuses.marks(events), gate.ended_us or 0)
    tallies = [origin.facts(origin.traces(events)), loss.facts(loss.expected(events, settings))]
    for name, side in sides.asked(gate, tuple(CHECKS)).items():
        if name not in ASKED:
            continue
        facts = side.facts(of) if side.judged is None else side.judged(of)
        found = F.col("verdict").isNotNull() if side.judged is None else F.col("wrong")
        tallies.append(findings.tally(name, facts, judged=F.lit(True), found=found))
    return findings.counted(tallies)


def by_numbers(spark: SparkSession, folder: Path) -> Counts:
    """The same by whole columns."""
    found = files.find((str(folder),))
    events = reading.read(spark, found)
    with processes(0) as workers:
        seen = asking.surveyed(workers, found.readable)
        assert seen is not None
        gate = gates.examine(events)
        assert gates.judged(seen.numbers, lambda: events, partial(told_twice, workers, seen.tasks)) == gate
        assert by_group(seen.settings) == by_group(
            row.asDict() for row in reading.settings(events).fillna(False, ["locks_queue"]).collect()
        )
        told = seen.ask(workers, gate, tuple(CHECKS))
    return {name: counts for name, counts in told.counts.items() if counts != (0, 0) and name != LETTERS}


def by_group(rows: Iterable[Mapping[str, Any]]) -> dict[Any, Mapping[str, Any]]:
    return {(row["run_id"], row["case_id"], row["group"]): row for row in rows}


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


def compare(told: Counts, expected: Counts) -> None:
    """As many are judged, and of some checks whatever looks wrong at first is counted."""
    assert {name: judged for name, (judged, _) in told.items()} == {
        name: judged for name, (judged, _) in expected.items()
    }
    for name, (_, found) in expected.items():
        if name in ("fairness", origin.NAME):
            assert told[name][1] >= found, name
        else:
            assert told[name][1] == found, name


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
@pytest.mark.parametrize("has_transactions", [True, False])
def test_histories_are_counted_alike(
    has_transactions: bool, new_history: Callable[..., Any], record: Callable[..., Path], spark: SparkSession
) -> None:
    histories = []
    for index, page in enumerate((ASIDE.pages | CHECKED.pages).values()):
        made = page.tell(new_history(f"{index:03}"))
        if has_transactions or not any(row["kind"] in ("tx.end", "recall") for row in made.rows):
            histories.append(made.end())
    folder = in_pieces(record(*histories), 40)
    told, expected = by_numbers(spark, folder), by_expressions(spark, folder)
    compare(told, expected)
    wrong = {name for name, (_, found) in expected.items() if found}
    assert wrong >= {"handles", sides.ANSWERS, "offsets", loss.NAME, origin.NAME, origin.CONFIRMED}
    assert wrong >= {"queues", "commits"}
    assert not has_transactions or wrong >= {"transactions", "recall"}
    assert wrong >= {"fairness"} | expected.keys() & {sides.DRAINED}


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("shape", [Shape(hot=0.2, brokers=2), Shape(skew_ms=25)])
def test_recordings_are_counted_alike_and_what_is_planted_looks_wrong(
    shape: Shape, tmp_path: Path, spark: SparkSession
) -> None:
    generate(tmp_path / "runs", events=3_000, seed=5, shape=shape, plants=chosen(["all"]))
    folder = in_pieces(tmp_path / "runs", 100)
    told, expected = by_numbers(spark, folder), by_expressions(spark, folder)
    assert told.keys() >= {"offsets", sides.ANSWERS, sides.HANDLERS, loss.NAME}
    compare(told, {name: counts for name, counts in expected.items() if name in told})
    assert told[sides.HANDLERS][1]


def test_recorders_of_one_file_have_versions_of_their_own(
    new_history: Callable[..., Any], record: Callable[..., Path], spark: SparkSession
) -> None:
    histories = [new_history(name) for name in ("one", "two", "none")]
    for history, version in zip(histories, ("1", "2", "x"), strict=True):
        history.rows[0]["cfg"] = {"version": version}
    found = files.find((str(in_pieces(record(*(history.end() for history in histories)), 100)),))
    events = reading.read(spark, found)
    with processes(0) as workers:
        seen = asking.surveyed(workers, found.readable)
    assert seen is not None
    told, expected = (
        {row.recorder: row.asDict() for row in rows} for rows in (seen.numbers, gates.numbers(events))
    )
    assert told == expected
    assert {row["version"] for row in told.values()} == {1, 2, -1}


def test_where_commits_are_too_many_what_a_drain_proves_is_left_to_the_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(survey, "MOST_COMMITS", 2)
    row = {"kind": "tx.end", "phase": "ok", "resolution": "commit", "topic": "t", "t_wall_us": 1}
    looks = [
        survey.look(said.table([]), Events.of(pa.Table.from_pylist([row | {"tx_id": name}])))
        for name in "abc"
    ]
    few = survey.merged(looks[:2])
    assert survey.survey(few).committed is not None
    assert survey.survey(survey.merged(looks)).committed is None
    # One part that has too many is enough.
    assert survey.survey(survey.merged([few, survey.merged(looks)])).committed is None


def test_where_windows_are_too_many_loss_is_left_to_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "MOST_WINDOWS", 2)
    nobody = said.table([])
    looks = []
    for group in "abc":
        row = {"kind": "deliver", "group": group, "attempt": 1, "offset": 1, "queue": 0, "filter": "TAG:*"}
        looks.append(survey.look(nobody, Events.of(pa.Table.from_pylist([row]))))
    few = survey.merged(looks[:2])
    assert survey.survey(few).windows is not None
    assert survey.survey(survey.merged(looks)).windows is None
    # One part that has too many is enough.
    assert survey.survey(survey.merged([few, survey.merged(looks)])).windows is None
