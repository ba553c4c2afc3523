"""The recorded trial of all mutants: none survived, and every case has killed one or has a reason."""

from pathlib import Path

from aiorocketmq_conformance.case import Level, load
from aiorocketmq_conformance.results import CaseResult
from aiorocketmq_conformance.verdicts import Verdict

from conformance.tests.mutants.catalogue import MUTANTS, UNPROVEN
from conformance.tests.mutants.kills import read, record
from conformance.tests.mutants.mutant import Mutant
from conformance.tests.mutants.proof import Trial

RECORDED = Path(__file__).parents[3] / "docs" / "reference" / "mutants.json"
AGAIN = "python -m conformance.tests.mutants --record docs/reference/mutants.json, with the names of new ones"


def test_every_mutant_was_tried_and_none_survived() -> None:
    killed_by = read(RECORDED)
    assert set(killed_by) == {mutant.name for mutant in MUTANTS}, AGAIN
    assert [name for name, cases in killed_by.items() if not cases] == []


def test_every_case_has_killed_a_mutant_or_has_a_reason_on_record() -> None:
    killers = {case for cases in read(RECORDED).values() for case in cases}
    idle = [
        case.id
        for case in load()
        if case.id not in killers | set(UNPROVEN) and case.level is not Level.INFORMATIONAL
    ]
    assert idle == [], AGAIN


def test_records_of_other_mutants_are_kept(tmp_path: Path) -> None:
    case = next(iter(load()))
    for name, verdict in (("MU01", Verdict.FAIL), ("MU02", Verdict.PASS)):
        result = CaseResult(case, verdict)
        record([Trial(Mutant(name, (case.id,)), (result,), ())], tmp_path / "kept.json")
    assert read(tmp_path / "kept.json") == {"MU01": [case.id], "MU02": []}
