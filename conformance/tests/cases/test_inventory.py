"""Nothing of the inventory is forgotten: every id of its case list has code or a reason, every mutant of it
exists."""

import tomllib
from collections import Counter
from pathlib import Path

import pytest
from aiorocketmq_conformance.case import Level, load

from conformance.tests.mutants.catalogue import MUTANTS

INVENTORY = tomllib.loads(Path(__file__).with_name("inventory.toml").read_text(encoding="utf-8"))
STEMS = {case.stem for case in load()}
OVER_REMOTING = [case for case in load() if "remoting" in case.needs]
QUEUES_AND_GROUPS = ("pull", "lb", "reb", "offset", "keep")
"""Groups of the inventory about what the remoting protocol serves, too."""
LEVELS = {
    "must": Level.MUST,
    "should": Level.SHOULD,
    "extension": Level.EXTENSION,
    "informational": Level.INFORMATIONAL,
}


@pytest.mark.parametrize("level", LEVELS)
def test_every_id_of_the_inventory_has_a_case_or_a_reason(level: str) -> None:
    assert not set(INVENTORY[level]) - STEMS - set(INVENTORY["elsewhere"])


def test_every_id_about_queues_and_groups_is_judged_over_remoting_or_has_a_reason() -> None:
    elsewhere = INVENTORY["remoting"]
    ids = {id_ for level in LEVELS for id_ in INVENTORY[level] if id_.startswith(QUEUES_AND_GROUPS)}
    own = {case.stem for case in OVER_REMOTING}
    assert ids - own == set(elsewhere)


def test_the_cases_that_replace_others_over_remoting_exist() -> None:
    named = {stem for cases in INVENTORY["remoting"].values() if isinstance(cases, list) for stem in cases}
    assert named <= {case.stem for case in OVER_REMOTING}


def test_no_reason_exists_for_an_id_that_has_a_case() -> None:
    ids = {id_ for level in LEVELS for id_ in INVENTORY[level]}
    assert not set(INVENTORY["elsewhere"]) & STEMS
    assert set(INVENTORY["elsewhere"]) <= ids


def test_no_case_is_less_binding_than_in_the_inventory() -> None:
    binding = list(LEVELS.values())
    levels = {case.stem: case.level for case in load()}
    weaker = {
        id_
        for name, level in LEVELS.items()
        for id_ in INVENTORY[name]
        if id_ in levels and binding.index(levels[id_]) > binding.index(level)
    }
    assert weaker == set(INVENTORY["weaker"])


def test_no_name_of_a_mutant_is_given_twice() -> None:
    numbered = Counter(mutant.name for mutant in MUTANTS)
    assert [name for name, count in numbered.items() if count > 1] == []
