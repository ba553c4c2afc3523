"""What `sides` judge, from transactions and answers to handles and drains: each promise kept, or just broken."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import pytest
from aiorocketmq_audit import excuses
from aiorocketmq_audit.deliveries import deliveries
from aiorocketmq_audit.findings import counted, tally
from aiorocketmq_audit.recording import reading
from aiorocketmq_audit.sides import SIDES, Sources
from pyspark.sql import DataFrame, functions as F

from spark_checks.tests.histories import ASIDE, SECOND, START

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def sources(request: pytest.FixtureRequest) -> Iterator[Sources]:
    """All histories in one frame."""
    events = ASIDE.events(request.getfixturevalue("spark"), request.getfixturevalue("history_type"))
    by_clients = [name for name, page in ASIDE.pages.items() if page.by_clients]
    told = ~F.col("case_id").isin(*by_clients)
    settings = reading.settings(events).withColumn("told_by_broker", told)
    given = deliveries(events, settings, cut_at={}, clocks_agree=True).cache()
    yield Sources(events, settings, given, excuses.marks(events), START + 1000 * SECOND)
    given.unpersist()


@pytest.fixture(scope="module")
def results(sources: Sources) -> dict[str, set[tuple[str, str]]]:
    """What the checks find in each history."""
    found = reduce(DataFrame.unionByName, (side.facts(sources) for side in SIDES.values()))
    return ASIDE.found(found.where("verdict is not null"), sources.events, "second_recorder")


@pytest.mark.parametrize("name", ASIDE.pages)
def test_history(name: str, results: dict[str, set[tuple[str, str]]]) -> None:
    assert results[name] == ASIDE.pages[name].found


def test_what_is_told_without_its_proof_is_what_is_found_with_it(sources: Sources) -> None:
    quick = {name: side for name, side in SIDES.items() if side.judged is not None}
    told = [
        tally(name, side.judged(sources), judged=F.lit(True), found=F.col("wrong"))
        for name, side in quick.items()
        if side.judged is not None
    ]
    is_found = F.col("verdict").isNotNull()
    found = [
        tally(name, side.facts(sources), judged=F.lit(True), found=is_found) for name, side in quick.items()
    ]
    assert counted(told) == counted(found)
    assert all(0 < wrong < facts for facts, wrong in counted(told).values())
