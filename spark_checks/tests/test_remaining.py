"""What numbers carry to the next batch is what Spark's expressions carry."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from aiorocketmq_audit.generator import Shape, generate
from aiorocketmq_audit.generator.planting import chosen
from aiorocketmq_audit.kernels import asking
from aiorocketmq_audit.kernels.processes import processes
from aiorocketmq_audit.recording import files
from aiorocketmq_audit.recording.schema import RECORDING
from aiorocketmq_audit.streaming import retention
from aiorocketmq_audit.streaming.remaining import remaining
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Rows = Counter[tuple[Any, ...]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording in which everything occurs, in row groups of a few rows."""
    made = tmp_path_factory.mktemp("remaining")
    # Of two messages in one place either one may stand for the end of the queue.
    plants = {name: n for name, n in chosen(["all"]).items() if not name.startswith("offset.")}
    generate(made / "runs", events=3_000, seed=9, shape=Shape(hot=0.2, brokers=2), plants=plants)
    parts = [parquet.read_table(file) for file in sorted((made / "runs").rglob("*.parquet"))]
    whole = pa.concat_tables(parts, promote_options="default")
    parquet.write_table(whole, made / "all.parquet", row_group_size=500)
    return made / "all.parquet"


def of(events: DataFrame) -> Rows:
    rows = events.select("recorder", "seq", "kind", "t_wall_us", "message_id", "cfg").collect()
    return Counter(tuple(str(value) for value in row) for row in rows)


@pytest.mark.parametrize(("done", "any_"), [(0.3, 0.1), (0.6, 0.5), (0.95, 0.2), (1.0, 1.0)])
def test_what_numbers_keep_is_what_spark_keeps(
    done: float,
    any_: float,
    folder: Path,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "ROWS", 1)
    events = spark.read.schema(RECORDING).parquet(str(folder))
    begin, end = events.selectExpr("min(t_wall_us)", "max(t_wall_us)").collect()[0]
    window = retention.Window(*(round(begin + share * (end - begin)) for share in (done, any_)))
    found = files.find((str(folder),))
    with processes(0) as workers:
        told = remaining(workers, asking.dealt(found.readable), window)
        told.write(workers, tmp_path / "kept")
    kept = of(spark.read.schema(RECORDING).parquet(str(tmp_path / "kept")))
    expected = retention.kept(events, window)
    assert told.forgotten == expected.forgotten
    assert kept == of(expected.events)
    assert 0 < sum(kept.values()) < events.count()
