"""Verdicts: a recording that is cut short is never valid, and what nobody saw is never invalid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aiorocketmq_audit.gates import Gates
from aiorocketmq_audit.verdicts import CheckResult, Tally, Verdict, judge, overall

WHOLE = Gates(100, ("r",), False, (), False, {}, (), 0, ("1",), 0, 1)
CUT = replace(WHOLE, missing=("recorder r has no end: it was cut short.",), cut_at={"r": 1})
STEPPED = replace(WHOLE, clocks=("the wall clock of recorder r was stepped by 3.000 s.",))


def judged(tally: Tally, gates: Gates = WHOLE, **more: Any) -> CheckResult:
    return judge(
        "x", tally, {}, gates, subject="things", depends_on_time=more.pop("depends_on_time", True), **more
    )


def test_a_whole_recording_without_findings_is_valid() -> None:
    assert judged(Tally(5)).verdict is Verdict.VALID


def test_a_broken_promise_is_invalid_even_in_a_cut_recording() -> None:
    assert judged(Tally(5, broken=1), CUT).verdict is Verdict.INVALID


def test_a_cut_recording_is_unknown_never_valid() -> None:
    assert judged(Tally(5), CUT).verdict is Verdict.UNKNOWN
    assert overall([judged(Tally(5), CUT)], CUT) is Verdict.UNKNOWN


def test_what_is_only_possible_is_unknown() -> None:
    assert judged(Tally(5, possible=1)).verdict is Verdict.UNKNOWN


def test_without_anything_to_judge_nothing_is_valid() -> None:
    assert judged(Tally(0)).verdict is Verdict.UNKNOWN


def test_clocks_matter_to_checks_of_time_alone() -> None:
    assert judged(Tally(5), STEPPED).verdict is Verdict.UNKNOWN
    assert judged(Tally(5), STEPPED, depends_on_time=False).verdict is Verdict.VALID


def test_when_excuses_explain_most_redeliveries_nobody_knows() -> None:
    assert judged(Tally(9, excused={"E2 reset": 6}), redeliveries=10).verdict is Verdict.UNKNOWN
    assert judged(Tally(9, excused={"E2 reset": 5}), redeliveries=10).verdict is Verdict.VALID


def test_a_check_without_a_subject_does_not_spoil_the_whole() -> None:
    assert overall([judged(Tally(0)), judged(Tally(5))], WHOLE) is Verdict.VALID
    assert overall([judged(Tally(0))], WHOLE) is Verdict.UNKNOWN


def test_invalid_wins_over_unknown() -> None:
    assert overall([judged(Tally(5, possible=1)), judged(Tally(5, broken=1))], WHOLE) is Verdict.INVALID
