"""The battery of recordings is judged as it was: the same findings, exempted ones included, and the same verdicts."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_checks.tests.judgements import battery
from spark_checks.tests.judgements.compare import Events, differences
from spark_checks.tests.judgements.engine import judged

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", battery.names())
def test_judgements_are_those_expected(name: str, spark: SparkSession) -> None:
    found = judged([str(battery.path_of(name))], spark)
    lines = differences(battery.expected(name), found, Events(name))
    assert not lines, "\n".join(lines)


def test_the_battery_has_every_invariant_in_every_outcome_that_it_can_have() -> None:
    findings = {each for name in battery.names() for each in battery.expected(name).findings}
    assert {each.invariant for each in findings if each.verdict == "broken"} == {
        each.invariant for each in findings
    }
