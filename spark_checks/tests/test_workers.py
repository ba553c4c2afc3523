"""Whoever deals pieces of a recording out says the same; what fails in a worker is told, and ends nobody else."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from aiorocketmq_audit import gates
from aiorocketmq_audit.checks import CHECKS
from aiorocketmq_audit.errors import WorkerLost
from aiorocketmq_audit.generator import Shape, generate
from aiorocketmq_audit.kernels import asking
from aiorocketmq_audit.kernels.by_spark import SparkWorkers
from aiorocketmq_audit.kernels.events import Piece, pieces
from aiorocketmq_audit.kernels.processes import processes
from aiorocketmq_audit.kernels.twice import told_twice
from aiorocketmq_audit.recording import files
from aiorocketmq_audit.recording.schema import RECORDING
from aiorocketmq_audit.streaming import arrived
from aiorocketmq_audit.streaming.batches import COUNTED
from pyarrow import parquet
from pyspark.sql import SparkSession, functions as F


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    folder = tmp_path_factory.mktemp("dealt") / "runs"
    generate(folder, events=6_000, seed=3, shape=Shape(hot=0.2, brokers=2))
    return files.find((str(folder),)).readable


@pytest.fixture
def many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ROWS", 1), ("SHARE", 500), ("_TASK", 2)):
        monkeypatch.setattr(asking, name, value)


def told(workers: Any, recording: tuple[str, ...]) -> Any:
    seen = asking.surveyed(workers, recording)
    assert seen is not None
    gate = gates.judged(seen.numbers, lambda: pytest.fail("nothing is odd"), lambda _: {})
    answers = seen.ask(workers, gate, tuple(CHECKS))
    # Of several messages that came equally often any one is the farthest.
    any_one = ("far_recorder", "far_seq")
    cells = sorted(
        str({k: v for k, v in cell.asDict().items() if k not in any_one}) for cell in answers.cells
    )
    return gate, answers.counts, cells, answers.sought.tolist(), answers.lanes.tolist()


@pytest.mark.spark
@pytest.mark.usefixtures("many_tasks")
def test_processes_and_sparks_workers_answer_alike(recording: tuple[str, ...], spark: SparkSession) -> None:
    with processes(0) as nobody:
        expected = told(nobody, recording)
    assert expected[1]["handles"][0] > 1_000
    with processes(3) as workers:
        assert told(workers, recording) == expected
    assert told(SparkWorkers(spark), recording) == expected


@pytest.mark.spark
def test_new_files_are_counted_as_spark_counts_them(recording: tuple[str, ...], spark: SparkSession) -> None:
    events = spark.read.schema(RECORDING).parquet(*recording)
    middle = events.agg(F.percentile_approx("t_wall_us", 0.5)).first()[0]  # type: ignore[index]
    also = {name: F.count_if(F.expr(text)) for name, text in COUNTED.items()}
    also["late_rows"] = F.count_if(F.col("t_wall_us") < middle)
    file = F.col("_metadata.file_path").alias("file")
    with processes(0) as workers:
        found = arrived.numbers(workers, recording, middle)
    expected = gates.numbers(events, file, also=also)
    told, wanted = by_file(found), by_file(expected)
    assert told.keys() == wanted.keys()
    for key, row in wanted.items():
        # Spark divides nanoseconds as floating point.
        apart = {name: told[key].pop(name) - row.pop(name) for name in ("beside_least", "beside_most")}
        assert set(apart.values()) <= {-1, 0, 1}
        assert told[key] == row
    assert sum(row.late_rows for row in found) > 1_000


def by_file(rows: Sequence[Any]) -> dict[Any, dict[str, Any]]:
    names = [Path(unquote(row.file)).name for row in rows]
    return {
        (row.recorder, row.boot, name): row.asDict() | {"file": None}
        for row, name in zip(rows, names, strict=True)
    }


@pytest.mark.spark
def test_what_is_told_twice_is_counted_as_spark_counts_it(
    recording: tuple[str, ...], spark: SparkSession, tmp_path: Path
) -> None:
    whole = pa.concat_tables([parquet.read_table(file) for file in recording], promote_options="default")
    # Some rows again, by other numbers; some by their own.
    again, copies = whole.slice(1_000, 300), whole.slice(2_000, 300)
    moved = pc.add(again.column("seq"), 1_000_000)
    again = again.set_column(again.column_names.index("seq"), "seq", moved)
    both = pa.concat_tables([whole, again, copies], promote_options="default")
    parquet.write_table(both, tmp_path / "all.parquet", row_group_size=700)
    recorders = whole.column("recorder").unique().to_pylist()
    events = spark.read.schema(RECORDING).parquet(str(tmp_path))
    expected = gates.told_twice(events, recorders)
    assert sum(expected.values()) > 50
    for asked in (recorders, recorders[:2]):
        with processes(0) as workers:
            found = told_twice(workers, asking.dealt([str(tmp_path / "all.parquet")]), asked)
        assert found == {name: n for name, n in expected.items() if name in asked}


class Doomed:
    """Work that ends its own process, or fails."""

    def __init__(self, way: str) -> None:
        self.way = way

    def __call__(self, tasks: Sequence[Piece]) -> NoReturn:
        if self.way == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError(f"no such number in {Path(tasks[0].path).name}")


@pytest.fixture
def tasks(recording: tuple[str, ...]) -> list[list[Piece]]:
    return [[piece] for piece in pieces(recording, 1)]


def test_what_fails_in_a_worker_fails_here(tasks: list[list[Piece]]) -> None:
    with processes(2) as workers, pytest.raises(ValueError, match="no such number in"):
        workers.each(Doomed("fails"), tasks)


def test_a_worker_that_dies_is_told_of(tasks: list[list[Piece]]) -> None:
    with processes(2) as workers, pytest.raises(WorkerLost):
        workers.each(Doomed("dies"), tasks)


def test_workers_end_with_their_work(tasks: list[list[Piece]]) -> None:
    with processes(2) as workers:
        first, *_ = {pid for pids in workers.each(own_pid, tasks) for pid in pids}
        os.kill(first, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def own_pid(_: Sequence[Piece]) -> list[int]:
    return [os.getpid()]
