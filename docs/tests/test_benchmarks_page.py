"""The page of benchmarks shows its raw data and nothing else, and what is asked of it holds in the published run."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.page import demands, page
from benchmarks.plan import OURS, SIZES, WORKS

REFERENCE = Path(__file__).resolve().parents[1] / "reference"


@pytest.fixture
def run() -> dict[str, Any]:
    """The published run."""
    return dict(json.loads((REFERENCE / "benchmarks.json").read_text(encoding="utf-8")))


def test_the_page_is_what_its_raw_data_gives(run: dict[str, Any]) -> None:
    assert (REFERENCE / "benchmarks.md").read_text(encoding="utf-8") == page(run)


def test_every_demand_is_judged_and_holds_in_the_published_run(run: dict[str, Any]) -> None:
    judged = demands(run)
    assert len(judged) == 2 + 2 * len(WORKS) + len(SIZES)
    assert [words for words, holds in judged if not holds] == []


@pytest.mark.parametrize(("key", "factor"), [("rate", 0.5), ("cpu_us", 2.0)])
def test_a_producer_half_as_fast_or_twice_as_dear_does_not_pass(
    run: dict[str, Any], key: str, factor: float
) -> None:
    worse = copy.deepcopy(run)
    for result in worse["results"][WORKS[0].title][OURS]:
        result[key] *= factor
    assert any(not holds and WORKS[0].title in words for words, holds in demands(worse))


def test_a_fake_that_starts_slowly_does_not_pass(run: dict[str, Any]) -> None:
    worse = copy.deepcopy(run)
    worse["sizes"]["fake_ready_s"] = [0.51, 0.52, 0.53]
    assert sum(not holds for _, holds in demands(worse)) == 1
