"""What the page shows of groups and times, counted by Spark from a small history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from aiorocketmq_audit.frames.overview import LATENCY_S, cells, overview, slices
from aiorocketmq_audit.recording import gates
from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

START = 1_700_000_000_000_000


def test_groups_latency_and_dead_letters_are_counted(
    new_history: type[Any], frame: Callable[[Iterable[Any]], DataFrame]
) -> None:
    history = new_history(observer="broker", group="shipping")
    quick = history.deliver("/1", 10.0, store_us=START + 9_995_000)
    history.settle("ack", quick, 11.0)
    history.deliver("/2", 50.0, store_us=START, due_us=START + 48_000_000)
    last = history.deliver("/2", 90.0, attempt=2, store_us=START)
    history.bury(last, 100.0)
    history.end()
    events = frame([history])
    gate = gates.examine(events)
    cut = slices(gate.started_us, gate.ended_us)
    result = overview(cells(events, cut).collect(), None, cut)
    group = result.groups[0]
    assert (group.observer, group.group) == ("broker", "shipping")
    assert (group.deliveries, group.redeliveries, group.dead_letters, group.found) == (3, 1, 1, {})
    at_5_ms, at_2_s = LATENCY_S.index(0.003) + 1, LATENCY_S.index(1.0) + 1
    assert {place: n for place, n in enumerate(result.latency["broker"]) if n} == {at_5_ms: 1, at_2_s: 1}
    assert result.slice_s == 2.0
    assert {place: n for place, n in enumerate(result.dead_letters["broker"]) if n} == {50: 1}


def test_findings_are_counted_by_group_and_rule(spark: SparkSession) -> None:
    rows = [("broker", "g", "INV-B", "broken")] * 2 + [("broker", "g", "INV-A", "possible")]
    findings = [*rows, ("client", None, "INV-A", "broken")]
    violations = spark.createDataFrame(
        findings, "observer string, group string, invariant string, verdict string"
    )
    result = overview([], violations, slices(0, 0))
    assert [(group.observer, group.group, group.found) for group in result.groups] == [
        ("broker", "g", {"INV-A": {"possible": 1}, "INV-B": {"broken": 2}})
    ]


@pytest.mark.parametrize(
    ("seconds", "length", "bins"),
    [(0, 1, 1), (59.9, 1, 60), (60, 2, 31), (7200, 300, 25), (86_400 * 365, 86_400 * 7, 53)],
)
def test_slices_have_lengths_that_people_use(seconds: float, length: int, bins: int) -> None:
    cut = slices(START, START + round(seconds * 1e6))
    assert (cut.us / 1e6, cut.bins) == (length, bins)
