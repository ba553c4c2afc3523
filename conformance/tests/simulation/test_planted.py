"""Planted bugs: each breaks a promise in the world that its line names, and none does without it."""

from __future__ import annotations

import pytest

from conformance.tests.simulation.planted import MOST, PLANTED, Planted
from tools.simulation.run import run
from tools.simulation.world import generate


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Planted) -> None:
    assert bug.seed < MOST
    assert bug.rule in bug.run(generate(bug.seed)).rules


@pytest.mark.parametrize("seed", sorted({bug.seed for bug in PLANTED}))
def test_the_same_worlds_keep_all_promises_without_a_bug(seed: int) -> None:
    assert run(generate(seed)).lines == []
