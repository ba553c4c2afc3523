"""Verdicts: a recording that is cut short is never valid, and what is only possible is never invalid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aiorocketmq_audit.recording.gates import Gates
from aiorocketmq_audit.verdicts import CheckResult, Overall, Tally, Verdict, judge, overall

WHOLE = Gates(100, ("r",), False, (), False, {}, (), 0, ("1",), 0, 1)
CUT = replace(WHOLE, missing=("recorder r has no end: it was cut short.",), cut_at={"r": 1})
STEPPED = replace(WHOLE, clocks=("the wall clock of recorder r was stepped by 3.000 s.",))


def judged(tally: Tally, gates: Gates = WHOLE, **more: Any) -> CheckResult:
    name, depends_on_time = more.pop("name", "x"), more.pop("depends_on_time", True)
    return judge(name, tally, {}, gates, subject="things", depends_on_time=depends_on_time, **more)


def test_a_whole_recording_without_findings_is_valid() -> None:
    assert judged(Tally(5)).verdict is Verdict.VALID


def test_a_broken_promise_is_invalid_even_in_a_cut_recording() -> None:
    assert judged(Tally(5, broken=1), CUT).verdict is Verdict.INVALID


def test_a_cut_recording_is_unknown_never_valid() -> None:
    assert judged(Tally(5), CUT).verdict is Verdict.UNKNOWN
    assert overall([judged(Tally(5), CUT)], CUT).verdict is Verdict.UNKNOWN


def test_what_is_only_possible_is_unknown() -> None:
    assert judged(Tally(5, possible=1)).verdict is Verdict.UNKNOWN


def test_without_anything_to_judge_nothing_is_valid() -> None:
    assert judged(Tally(0)).verdict is Verdict.UNKNOWN


def test_clocks_matter_to_checks_of_time_alone() -> None:
    assert judged(Tally(5), STEPPED).verdict is Verdict.UNKNOWN
    assert judged(Tally(5), STEPPED, depends_on_time=False).verdict is Verdict.VALID


def test_when_exemptions_apply_to_most_redeliveries_it_is_unknown() -> None:
    assert judged(Tally(9, exempted={"E2 reset": 6}), redeliveries=10).verdict is Verdict.UNKNOWN
    assert judged(Tally(9, exempted={"E2 reset": 5}), redeliveries=10).verdict is Verdict.VALID
    assert judged(Tally(9, exempted={"queue moved": 10}), redeliveries=10).verdict is Verdict.VALID


def test_a_check_without_a_subject_does_not_spoil_the_whole_and_is_named() -> None:
    assert overall([judged(Tally(0)), judged(Tally(5), name="y")], WHOLE) == Overall(Verdict.VALID, ("x",))
    assert overall([judged(Tally(0))], WHOLE) == Overall(Verdict.UNKNOWN, ("x",))


def test_a_required_check_that_judged_nothing_makes_it_unknown() -> None:
    results = [judged(Tally(0)), judged(Tally(5), name="y"), judged(Tally(0), name="z")]
    result = overall(results, WHOLE, require=("x", "y"))
    assert result == Overall(Verdict.UNKNOWN, ("x", "z"), ("x",))
    assert overall(results, WHOLE, require=("y",)) == Overall(Verdict.VALID, ("x", "z"))


def test_a_required_check_that_did_not_run_judged_nothing() -> None:
    assert overall([judged(Tally(5))], WHOLE, require=("y",)) == Overall(Verdict.UNKNOWN, ("y",), ("y",))


def test_a_broken_promise_is_invalid_whatever_is_required() -> None:
    results = [judged(Tally(0)), judged(Tally(5, broken=1), name="y")]
    assert overall(results, WHOLE, require=("x",)).verdict is Verdict.INVALID


def test_a_check_that_judged_nothing_but_has_doubts_is_not_silent() -> None:
    result = judged(Tally(0), doubts=("the order is unknown.",))
    assert overall([result, judged(Tally(5), name="y")], WHOLE) == Overall(Verdict.UNKNOWN)


def test_invalid_wins_over_unknown() -> None:
    results = [judged(Tally(5, possible=1)), judged(Tally(5, broken=1))]
    assert overall(results, WHOLE).verdict is Verdict.INVALID
