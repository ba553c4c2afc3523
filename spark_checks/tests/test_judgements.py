"""The battery of recordings is judged as it was: the same findings, exempted ones included, and the same verdicts."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_checks.tests.judgements import battery
from spark_checks.tests.judgements.compare import differences
from spark_checks.tests.judgements.engine import judged

pytestmark = pytest.mark.spark

ENTRIES = battery.entries()
QUICK = {"pages", "scenes", "message-or-queue", "small-planted"}
"""Recordings that every run of the tests judges; the others are slow."""


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(entry, id=entry.name, marks=() if entry.name in QUICK else pytest.mark.slow)
        for entry in ENTRIES
    ],
)
def test_judgements_are_those_expected(entry: battery.Entry, spark: SparkSession) -> None:
    lines = differences(entry, judged([str(entry.path)], spark, entry.narrowing))
    assert not lines, "\n".join(lines)


def test_the_battery_has_every_invariant_in_every_outcome_that_it_can_have() -> None:
    findings = {each for entry in ENTRIES for each in entry.expected.findings}
    assert {each.invariant for each in findings if each.verdict == "broken"} == {
        each.invariant for each in findings
    }
