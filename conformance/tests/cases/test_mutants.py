"""The cases can fail: each mutant is killed by the cases that its entry names."""

import pytest

from conformance.tests.mutants.catalogue import MUTANTS, UNPROVEN
from conformance.tests.mutants.mutant import Mutant
from conformance.tests.mutants.proof import try_mutant, unproven, victims


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
async def test_the_mutant_is_killed(mutant: Mutant) -> None:
    trial = await try_mutant(mutant)
    assert not trial.complaints


def test_every_case_kills_a_mutant_or_has_a_reason_on_record() -> None:
    assert not [case for case, reason in unproven().items() if not reason]


def test_no_reason_exists_for_a_case_that_kills_a_mutant() -> None:
    assert set(UNPROVEN) <= set(unproven())


def test_every_pattern_of_the_catalogue_names_a_case() -> None:
    dead = [(mutant.name, glob) for mutant in MUTANTS for glob in mutant.kills if not victims_of(glob)]
    assert not dead


def victims_of(glob: str) -> list[str]:
    return [case.id for case in victims(Mutant("one", (glob,)))]
