"""The checks, promise by promise: each history is kept or broken by the smallest margin; all are judged in one go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import pytest
from aiorocketmq_audit import excuses, loss, origin
from aiorocketmq_audit.checks import CHECKS, Material
from aiorocketmq_audit.deliveries import deliveries
from aiorocketmq_audit.double_delivery import cause
from aiorocketmq_audit.recording import reading
from pyspark.sql import DataFrame

from spark_checks.tests.histories import CHECKED

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> dict[str, set[tuple[str, str]]]:
    """What the checks find in each history, judged in one frame."""
    events = CHECKED.events(request.getfixturevalue("spark"), request.getfixturevalue("history_type"))
    settings = reading.settings(events)
    given = deliveries(events, settings, cut_at={}, clocks_agree=True).cache()
    material = Material(
        events,
        settings,
        given,
        excuses.marks(events),
        excuses.away(events),
        origin.traces(events),
        loss.expected(events, settings),
        events,
    )
    found = reduce(DataFrame.unionByName, (check.find(material) for check in CHECKS.values() if check.find))
    results = CHECKED.found(excuses.doubted(found, material.away), events, "first_recorder")
    given.unpersist()
    return results


@pytest.mark.parametrize("name", CHECKED.pages)
def test_history(name: str, results: dict[str, set[tuple[str, str]]]) -> None:
    assert results[name] == CHECKED.pages[name].found


def test_every_redelivery_has_a_cause(
    new_history: type[Any], frame: Callable[[Iterable[Any]], DataFrame]
) -> None:
    h = new_history()
    h.config(ordered=False, max_attempts=17)
    h.deliver("/0", 0, hold=10)
    h.settle("change", h.deliver("/0", 11, attempt=2), 12, seconds=5, reason="retry")
    h.settle("ack", h.deliver("/0", 17, attempt=3, hold=10), 18, phase="info")
    h.settle("ack", h.deliver("/0", 30, attempt=4), 31)
    h.deliver("/0", 32, attempt=5)
    events = frame([h.end()])
    given = deliveries(events, reading.settings(events), cut_at={}, clocks_agree=True)
    causes = [row.cause for row in given.orderBy("number").select(cause().alias("cause")).collect()]
    assert causes == ["lease ended", "retry asked for", "ack of unknown effect", "none", None]


def test_the_events_are_exchanged_once_and_read_in_few_columns(
    spark: Any, record: Any, clean: tuple[Any, Any]
) -> None:
    folder = record(*(history.end() for history in clean))
    from aiorocketmq_audit.recording.schema import RECORDING

    events = spark.read.schema(RECORDING).parquet(str(folder))
    given = deliveries(events, reading.settings(events), cut_at={}, clocks_agree=True)
    plan = given._jdf.queryExecution().executedPlan().toString()
    main = [line for line in plan.splitlines() if "Exchange" in line and "Broadcast" not in line]
    # One for the events, one for the few settings beside them.
    assert len(main) == 2, plan
    assert "body_sha" not in plan
