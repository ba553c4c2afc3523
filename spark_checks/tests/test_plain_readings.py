"""The plain readings of the promises, without Spark: they find every planted fault, and accuse nobody honest."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq_audit.checks import CHECKS
from aiorocketmq_audit.generator import Generated, Shape, generate
from aiorocketmq_audit.generator.plants import KINDS
from aiorocketmq_audit.oracle import judge

parquet = pytest.importorskip("pyarrow.parquet")


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [row for file in sorted(folder.rglob("*.parquet")) for row in parquet.read_table(file).to_pylist()]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Generated, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("plain") / "runs"
    made = generate(
        folder,
        events=1_000,
        seed=3,
        plants=dict.fromkeys((name for name, kind in KINDS.items() if not kind.alone), 1),
    )
    return made, rows_of(folder)


def test_they_find_what_was_planted_and_nothing_else(planted: tuple[Generated, list[dict[str, Any]]]) -> None:
    made, rows = planted
    found = list(judge(rows))
    assert {each.verdict for each in found} == {"broken"}
    wanted = Counter((p.check, p.invariant, p.observer, p.topic) for p in made.planted)
    seen = Counter((f.check, f.invariant, f.row["observer"], f.row["topic"]) for f in found)
    assert (wanted - seen, seen - wanted) == (Counter(), Counter())


def test_there_is_one_for_every_check(planted: tuple[Generated, list[dict[str, Any]]]) -> None:
    assert {each.check for each in judge(planted[1])} == set(CHECKS)


@pytest.mark.parametrize(
    "shape",
    [
        Shape(retries=0.1, expiries=0.05, slow=0.05, extended=0.05, lost=0.05, crashes=5, restarts=5),
        Shape(hot=0.5, consumers=4, skew_ms=25, dead=0.05, max_attempts=3, retries=0.1),
        Shape(observers=("client",), lost=0.1, refused=0.1, message_groups=2),
        Shape(observers=("broker",), brokers=2, delayed=0.9, dead=0.1),
    ],
    ids=["eventful", "hot", "clients", "broker"],
)
def test_they_accuse_nobody_honest(shape: Shape, tmp_path: Path) -> None:
    for seed in range(3):
        generate(tmp_path / str(seed), events=1_500, seed=seed, shape=shape)
    assert list(judge(rows_of(tmp_path))) == []
