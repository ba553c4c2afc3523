"""Every kind of planted fault is found, named by the right check and invariant, and nothing else is, in one audit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from aiorocketmq_audit.checks import CHECKS
from aiorocketmq_audit.generator import Generated, Shape, generate
from aiorocketmq_audit.generator.plants import KINDS
from aiorocketmq_audit.run import Audit, audit
from pyarrow import parquet
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

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

Findings = Counter[tuple[str, str, str, str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Generated]:
    """A scene of every kind in one recording, and twenty honest recordings beside it."""
    folder = tmp_path_factory.mktemp("planted") / "runs"
    apart = folder.parent / "apart"
    for number, shape in enumerate(HONEST * SEEDS):
        generate(apart / f"honest-{number}", events=500, seed=1_000 + number, shape=shape)
    kinds = dict.fromkeys((name for name, kind in KINDS.items() if not kind.alone), 1)
    planted = generate(apart / "planted", events=1_500, seed=11, shape=Shape(hot=0.2), plants=kinds)
    # In one file: opening hundreds of small ones would take longer than all else.
    folder.mkdir()
    parts = [parquet.read_table(file) for file in sorted(apart.rglob("*.parquet"))]
    parquet.write_table(pa.concat_tables(parts, promote_options="default"), folder / "all.parquet")
    return folder, planted


@pytest.fixture(scope="module", params=[None, False, True], ids=["by numbers", "at once", "screened"])
def judged(
    request: pytest.FixtureRequest, made: tuple[Path, Generated], spark: SparkSession
) -> tuple[Audit, Path]:
    """As recordings are judged on this machine, and as Spark alone judges small ones, and large ones."""
    out = made[0].parent / f"violations-{request.param}"
    return audit([str(made[0])], violations=out, spark=spark, screen=request.param), out


def test_every_planted_fault_is_found_and_nobody_honest_is_accused(
    made: tuple[Path, Generated], judged: tuple[Audit, Path], spark: SparkSession
) -> None:
    wanted: Findings = Counter((p.check, p.invariant, p.observer, p.topic) for p in made[1].planted)
    rows = spark.read.parquet(str(judged[1])).where("verdict = 'broken'").collect()
    found: Findings = Counter((row.check, row.invariant, row.observer, row.topic) for row in rows)
    assert (wanted - found, found - wanted) == (Counter(), Counter())
    named = {(row.topic, name) for row in rows for name in (row.message_id, row.other_message_id)}
    # Owners of queues and what they wrote down are no messages.
    about_messages = [p for p in made[1].planted if p.check not in ("queues", "commits")]
    assert {(p.topic, p.message_id) for p in about_messages} - named == set()


def test_nothing_is_left_in_doubt(judged: tuple[Audit, Path]) -> None:
    assert {check.name: check.tally.possible for check in judged[0].checks} == dict.fromkeys(CHECKS, 0)
    assert judged[0].gates.missing == judged[0].gates.clocks == ()


def test_excuses_were_needed_by_the_honest(judged: tuple[Audit, Path]) -> None:
    used = {excuse for check in judged[0].checks for excuse in check.tally.exempted}
    assert used >= {"E3 owner gone", "E4 restart"}


def test_every_invariant_has_five_kinds_of_faults() -> None:
    kinds = Counter((kind.check, kind.invariant) for kind in KINDS.values() if kind.check)
    assert {name: count for name, count in kinds.items() if count < LEAST_KINDS} == {}
    assert {check for check, _ in kinds} == set(CHECKS)
