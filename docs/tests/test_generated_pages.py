"""Pages made from tables, cases and recorded runs are what their sources give, and leave nothing without a reason."""

import re
from typing import Any

import pytest
from aiorocketmq_conformance.case import load

from tools import matrix_page, pages, profile_fields, profile_page, rules_page

ROOT = pages.REFERENCE.parents[1]


@pytest.mark.parametrize(
    "name",
    [
        "rules.md",
        "matrix.md",
        "support.md",
        "profile-fields.md",
        "states.md",
        "mutation.md",
        "states-message.svg",
        "states-consumer.svg",
    ],
)
def test_the_page_is_what_its_sources_give(name: str) -> None:
    made = {path.name: text for path, text in pages.pages().items()}
    assert (pages.REFERENCE / name).read_text(encoding="utf-8") == made[name], "run `python -m tools.pages`"


def test_every_rule_has_a_case_or_a_reason() -> None:
    assert not rules_page.unreasoned(pages.RULES, load())


def test_every_rule_that_a_case_or_a_profile_cites_is_known() -> None:
    says, _ = rules_page.known(pages.RULES)
    assert set(rules_page.cases_by_rule(load())) | set(rules_page.fields_by_rule()) <= set(says)


def test_reasons_name_tests_that_exist() -> None:
    _, reasons = rules_page.known(pages.RULES)
    named = {path for reason in reasons.values() for path in re.findall(r"\w+/tests/[\w/]+\.py", reason)}
    assert {path for path in named if not (ROOT / path).is_file()} == set()


@pytest.mark.parametrize(("fake", "server"), matrix_page.PAIRS)
def test_the_fake_does_what_its_server_does(fake: str, server: str) -> None:
    runs = matrix_page.read_runs(pages.RUNS)
    judged, differing = matrix_page.agreement(runs[fake], runs[server])
    assert judged > 300
    assert len(differing) <= judged * (1 - matrix_page.DEMANDED), differing


def test_everything_that_a_run_saw_broken_has_a_reason() -> None:
    assert not matrix_page.unexplained(matrix_page.read_runs(pages.RUNS), matrix_page.reasons(pages.REASONS))


def test_every_difference_has_a_reason() -> None:
    runs, why = matrix_page.read_runs(pages.RUNS), matrix_page.reasons(pages.REASONS)
    for fake, server in matrix_page.PAIRS:
        _, differing = matrix_page.agreement(runs[fake], runs[server])
        assert {one.case for one in differing} <= set(why)


def test_every_inherited_field_is_measured() -> None:
    assert set(profile_page.measured()) == set(profile_fields.inherited())


def test_cases_that_decide_fields_exist() -> None:
    decided = {
        case for kinds in profile_page.measured().values() for cases in kinds.values() for case in cases
    }
    assert decided <= {case.id for case in load()}


def run(**verdicts: str) -> dict[str, Any]:
    """A recorded run of cases `a`, `b`, ..., as it is kept."""
    cases = [
        {"id": name, "verdict": verdict, "detail": f"{name} said", "notes": {}}
        for name, verdict in verdicts.items()
    ]
    whole = {"target": "x", "started": "2026-11-21T00:00", "seconds": 1.0, "headline": "", "cases": cases}
    return matrix_page.compact(whole)


def test_cases_that_were_run_again_replace_their_own_verdicts_and_are_told() -> None:
    first = run(a="pass", b="fail", c="n/a", d="xfail")
    mended = matrix_page.replaced(first, run(b="pass"))
    assert mended["verdicts"] == {"a": "pass", "b": "pass", "c": "n/a", "d": "xfail"}
    assert (mended["details"], mended["again"]) == ({}, ["b"])
    assert mended["headline"] == "2 passed, 0 failed, 2 skipped"
    assert "`b` run again later" in matrix_page.page({"x": mended}, {})


def test_what_is_known_or_cannot_be_judged_stands_with_its_reason() -> None:
    page = matrix_page.page({"x": run(c="n/a", d="xfail")}, {})
    assert "| `x` | `c` | c said |" in page
    assert "| `x` | `d` | d said |" in page
