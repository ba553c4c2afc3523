"""Every kind of planted fault is found in a generated recording, named by the right check and invariant, and nothing
else is, by Spark and by the the reference model alike; twenty honest recordings beside it are accused of nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from aiorocketmq_audit.generator import Generated, Shape, generate
from aiorocketmq_audit.generator.faults import KINDS
from aiorocketmq_audit.generator.faults.scenario import Row
from aiorocketmq_audit.judgement import EXEMPTED
from aiorocketmq_audit.rules import CHECKS
from pyarrow import parquet
from pyspark.sql import SparkSession

from spark_checks.tests.bench import read
from spark_checks.tests.judging import Finding, found, found_plainly

LEAST_KINDS = 5

HONEST = (
    Shape(),
    Shape(hot=0.4, retries=0.1, message_groups=5),
    Shape(lost=0.05, expiries=0.05, slow=0.05, extended=0.05, consumers=3),
    Shape(dead=0.05, refused=0.05, retries=0.1, steps_ms=(500, 2_000), max_attempts=3),
    Shape(crashes=20, restarts=20, retries=0.05),
    Shape(observers=("client",), skew_ms=25, hot=0.3, consumers=4, message_groups=3),
    Shape(observers=("broker",), brokers=3, queues=8, producers=4, delayed=0.9),
    Shape(groups=0, ordered_groups=3, ordered_share=1.0, expiries=0.03),
    Shape(groups=4, ordered_groups=0, ordered_share=0.0, retries=0.2),
    Shape(retries=0.3, hold_ms=10_000, ordered_share=0.8, hot=0.8),
    Shape(observers=("client",), skew_ms=25, groups=0, ordered_share=1.0, message_groups=2, expiries=0.2),
)
"""What honest recordings may look like; each is made of several seeds."""

SEEDS = 2


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Row], Generated]:
    """A scene of every kind in one recording, and the honest ones."""
    folder = tmp_path_factory.mktemp("planted")
    for number, shape in enumerate(HONEST * SEEDS):
        generate(folder / f"honest-{number}", events=500, seed=1_000 + number, shape=shape)
    kinds = dict.fromkeys((name for name, kind in KINDS.items() if not kind.alone), 1)
    planted = generate(folder / "planted", events=1_500, seed=11, shape=Shape(hot=0.2), plants=kinds)
    files = sorted(folder.rglob("*.parquet"))
    return [row for file in files for row in parquet.read_table(file).to_pylist()], planted


def judge(found: set[Finding], made: tuple[list[Row], Generated]) -> None:
    """Nothing is left in doubt, and what is broken was planted."""
    rows = {(row["recorder"], row["seq"]): row for row in made[0]}
    proofs = [(each, rows[each.recorder, each.seq]) for each in found]
    assert {each.verdict for each in found} == {"broken"}
    planted = Counter((p.check, p.invariant, p.observer, p.topic) for p in made[1].planted)
    reported = Counter((each.check, each.invariant, row["observer"], row["topic"]) for each, row in proofs)
    assert (planted - reported, reported - planted) == (Counter(), Counter())


@pytest.mark.spark
def test_spark_finds_every_planted_fault_and_reports_nothing_else(
    made: tuple[list[Row], Generated], spark: SparkSession, tmp_path: Path
) -> None:
    recording, gate = read(spark, tmp_path, made[0])
    assert gate.missing == gate.clocks == ()
    findings = found(recording, gate)
    judge({each for each in findings if each.verdict != EXEMPTED}, made)
    # Exemptions were needed by the honest.
    assert {each.exemption for each in findings} >= {"owner gone", "restart"}


def test_the_plain_readings_do_so_too(made: tuple[list[Row], Generated]) -> None:
    judge(found_plainly(made[0]), made)


def test_every_invariant_has_five_kinds_of_faults() -> None:
    kinds = Counter((kind.check, kind.invariant) for kind in KINDS.values() if kind.check)
    assert {name: count for name, count in kinds.items() if count < LEAST_KINDS} == {}
    assert {check for check, _ in kinds} == set(CHECKS)
