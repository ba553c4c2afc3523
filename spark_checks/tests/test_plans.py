"""How Spark makes the rows of each frame: from few columns, by few exchanges, and without Python."""

from __future__ import annotations

from dataclasses import replace

import pytest
from aiorocketmq_audit.audit import recording_of
from aiorocketmq_audit.frames.frame import Frame
from aiorocketmq_audit.generator import Shape, generate
from aiorocketmq_audit.judgement import FRAMES
from aiorocketmq_audit.recording import files, gates, reading
from aiorocketmq_audit.recording.narrowing import EVERYTHING
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SEVERAL = {
    "dead letters": 2,
    "transactions": 2,
    "ownerships": 3,
    "slices": 2,
    "handlers": 2,
    "lite deliveries": 4,
}
"""Frames of few rows, or of rows that were added up first, which are exchanged more than once on their way from the
files; what is sent to every task is not counted."""


@pytest.fixture(scope="module")
def plans(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The plans for a recording in which everything occurs, to be judged in eight parts."""
    folder = tmp_path_factory.mktemp("plans") / "runs"
    generate(folder, events=400, seed=1, shape=Shape())
    events, _ = reading.read(spark, files.find((str(folder),)))
    gate = gates.examine(events)
    frames: list[Frame] = [frame for of in FRAMES.values() for frame in of]
    kinds = {kind: 1 for frame in frames for kind in frame.kinds} | {"drain.ok": 1}
    recording = replace(recording_of(events, gate, EVERYTHING), kinds=kinds)
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "8")
    try:
        rows = {frame.name: frame.rows(recording)._jdf for frame in frames}
        return {name: of.queryExecution().executedPlan().toString() for name, of in rows.items()}
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(before))


def test_events_are_exchanged_once(plans: dict[str, str]) -> None:
    assert "deliveries" in plans
    assert {name: exchanges(plan) for name, plan in plans.items()} == dict.fromkeys(plans, 1) | SEVERAL


def test_no_python_touches_a_row(plans: dict[str, str]) -> None:
    assert [name for name, plan in plans.items() if "Python" in plan or "InArrow" in plan] == []


def test_deliveries_are_read_in_few_columns(plans: dict[str, str]) -> None:
    assert "body_sha" in plans["messages"]
    assert "body_sha" not in plans["deliveries"]


def exchanges(plan: str) -> int:
    """Those outside of what is broadcast."""
    count, few = 0, 1 << 30
    for line in plan.splitlines():
        node = line.lstrip(" :+-")
        depth = len(line) - len(node)
        if depth <= few:
            few = depth if node.startswith("BroadcastExchange") else 1 << 30
            count += node.startswith("Exchange")
    return count
