"""What the page shows of groups and times, counted by Spark from a small history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from aiorocketmq_audit import gates
from aiorocketmq_audit.overview import BINS, LATENCY_S, cells, overview, slices
from pyspark.sql import DataFrame

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
    cut = slices(gates.examine(events))
    seen = overview(cells(events, cut).collect(), cut, None)
    group = seen.groups[0]
    assert (group.observer, group.group) == ("broker", "shipping")
    assert (group.deliveries, group.again, group.dead_letters, group.found) == (3, 1, 1, {})
    at_5_ms, at_2_s = LATENCY_S.index(0.003) + 1, LATENCY_S.index(1.0) + 1
    assert {place: n for place, n in enumerate(seen.latency["broker"]) if n} == {at_5_ms: 1, at_2_s: 1}
    assert len(seen.letters["broker"]) == BINS
    assert {place for place, n in enumerate(seen.letters["broker"]) if n} == {BINS - 1}
