"""The cases themselves: on both profiles of the bundled fake, and on a real server."""

from datetime import date

import pytest
from aiorocketmq_conformance.case import Case, load
from aiorocketmq_conformance.deviations import bundled
from aiorocketmq_conformance.results import CaseResult
from aiorocketmq_conformance.runner import Run
from aiorocketmq_conformance.targets.choice import choose
from aiorocketmq_conformance.verdicts import Verdict

CASES = load()
GROUPS = sorted({case.group for case in CASES})
OF_OTHERS = {
    "filter.sql-absent",
    "pull.absent-is-clean",
    "recall.disabled",
    "send.batch-receipt-one",
    "tx.check-gives-up",
}
"""Cases about servers that lack what the documents promise, or do it otherwise; the documented fake has all of it."""


async def results(spec: str, cases: list[Case]) -> list[CaseResult]:
    async with choose(spec) as broker:
        expected = bundled(broker.deviations, known=CASES, today=date.today())
        return list((await Run(cases, broker, deviations=expected).finish()).results)


def told(found: list[CaseResult], *expected: Verdict) -> list[str]:
    return [
        f"{one.case.id}: {one.verdict.value} {one.detail}"
        for one in found
        if one.verdict not in expected and not one.detail.startswith("for information: ")
    ]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("profile", ["documented", "apache-5.5", "apache-5.5-cluster"])
async def test_every_case_passes_on_the_fake_or_is_a_deviation_of_its_server(
    profile: str, group: str
) -> None:
    outcomes = await results(f"fake:{profile}", CASES.select([f"{group}.*"]))
    assert not told(outcomes, Verdict.PASS, Verdict.XFAIL, Verdict.NOT_APPLICABLE)
    if profile == "documented":
        left_out = {one.case.stem for one in outcomes if one.verdict is Verdict.NOT_APPLICABLE}
        assert left_out == {stem for stem in OF_OTHERS if stem.startswith(f"{group}.")}


@pytest.mark.real
@pytest.mark.timeout(3600)
async def test_every_case_passes_on_a_real_server_or_is_a_named_deviation() -> None:
    outcomes = await results("apache:5.5.0", CASES.select())
    assert not told(outcomes, Verdict.PASS, Verdict.XFAIL, Verdict.NOT_APPLICABLE)


def test_the_groups_that_every_broker_is_judged_by_have_cases() -> None:
    assert set(GROUPS) >= {"life", "send", "fifo", "push", "simple", "retry", "timing", "dlq", "lb"}


def test_every_case_names_the_rules_that_it_judges() -> None:
    assert not [case.id for case in CASES.select() if not case.rules]
