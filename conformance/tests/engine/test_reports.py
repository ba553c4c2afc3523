"""The reports of a run: they agree with each other, and hold whatever a server may have said."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from aiorocketmq_conformance.case import Case, Level
from aiorocketmq_conformance.declaration import Declaration
from aiorocketmq_conformance.reports.files import result_json, write_reports
from aiorocketmq_conformance.reports.html import html_page, matrix_table
from aiorocketmq_conformance.reports.junit import junit_xml
from aiorocketmq_conformance.reports.terminal import print_blocked, print_causes, print_result
from aiorocketmq_conformance.results import CaseResult, Cause, RunResult
from aiorocketmq_conformance.target import Target
from aiorocketmq_conformance.verdicts import Verdict
from rich.console import Console

MakeCase = Callable[..., Case]


async def _nothing(target: Target) -> None: ...


@pytest.fixture
def run_of(make_case: MakeCase) -> Callable[..., RunResult]:
    """A run in which one case ended in each of the verdicts given."""

    def make(*verdicts: Verdict, detail: str = "why", level: Level = Level.MUST) -> RunResult:
        results = tuple(
            CaseResult(
                make_case(_nothing, f"send.n{n}", level=level), verdict, detail, 0.5, 30.0, {"m": 1}, "trace"
            )
            for n, verdict in enumerate(verdicts)
        )
        declaration = Declaration("nothing", "1", frozenset({"dlq"}), {"body.max": 4})
        return RunResult("fake", declaration, datetime(2026, 11, 21, tzinfo=UTC), 1.5, "0.1.0", results)

    return make


@pytest.mark.parametrize(
    ("verdicts", "level", "code"),
    [
        ([Verdict.PASS], Level.MUST, 0),
        ([Verdict.PASS, Verdict.NOT_APPLICABLE], Level.MUST, 0),
        ([Verdict.XFAIL], Level.MUST, 0),
        ([Verdict.PASS, Verdict.FAIL], Level.MUST, 1),
        ([Verdict.PASS, Verdict.XPASS], Level.MUST, 1),
        ([Verdict.PASS, Verdict.ERROR], Level.MUST, 1),
        ([Verdict.INCONCLUSIVE, Verdict.FAIL], Level.MUST, 1),
        ([Verdict.PASS, Verdict.INCONCLUSIVE], Level.MUST, 3),
        ([Verdict.PASS, Verdict.NOT_RUN], Level.MUST, 3),
        ([Verdict.PASS, Verdict.BLOCKED], Level.MUST, 3),
        ([Verdict.NOT_APPLICABLE], Level.MUST, 3),
        ([], Level.MUST, 3),
        ([Verdict.PASS, Verdict.INCONCLUSIVE], Level.INFORMATIONAL, 0),
    ],
)
def test_the_exit_code_of_a_run(
    run_of: Callable[..., RunResult], verdicts: list[Verdict], level: Level, code: int
) -> None:
    assert run_of(*verdicts, level=level).exit_code == code


@pytest.mark.parametrize(("verdict", "code"), [(Verdict.PASS, 1), (Verdict.BLOCKED, 3)])
def test_a_blocked_step_fails_a_run_that_judged_anything(
    run_of: Callable[..., RunResult], verdict: Verdict, code: int
) -> None:
    run = replace(run_of(verdict, Verdict.NOT_APPLICABLE), blocked=("probe of send failed: no",))
    assert run.exit_code == code


def test_cases_are_grouped_by_cause_whatever_their_names_and_numbers(
    make_case: MakeCase, run_of: Callable[..., RunResult]
) -> None:
    details = (
        "send was answered with INTERNAL_SERVER_ERROR: topic cf-1a2b3c-topic-0 is full after 3 s",
        "2 of 4 came",
        "send was answered with INTERNAL_SERVER_ERROR: topic cf-1a2b3c-orders-17 is full after 2.5 s",
        "took 01A2B3C4D5E6F708",
    )
    verdicts = (Verdict.FAIL, Verdict.ERROR, Verdict.BLOCKED, Verdict.PASS)
    results = tuple(
        CaseResult(make_case(_nothing, f"send.n{n}"), verdict, detail)
        for n, (verdict, detail) in enumerate(zip(verdicts, details, strict=True))
    )
    run = replace(run_of(), results=results)
    assert run.causes == (Cause(details[0], ("send.n0", "send.n2")), Cause(details[1], ("send.n1",)))
    assert f"<td>2</td><td>{details[0]}" in html_page([run])
    printed = io.StringIO()
    print_causes(Console(file=printed, width=200), run)
    assert printed.getvalue().splitlines()[1:3] == [f"    2 x {details[0]}", "        send.n0, send.n2"]


def test_a_single_failure_is_not_printed_twice(run_of: Callable[..., RunResult]) -> None:
    printed = io.StringIO()
    print_causes(Console(file=printed), run_of(Verdict.FAIL, Verdict.PASS))
    assert printed.getvalue() == ""


HOSTILE = "a\x1b[31m\n::error::b \x9b2J ##[group] [red]x[/] :bomb: \u202e"


def test_text_of_a_server_is_not_interpreted_by_a_terminal(run_of: Callable[..., RunResult]) -> None:
    run = replace(run_of(Verdict.FAIL, Verdict.ERROR, detail=HOSTILE), blocked=(HOSTILE,))
    file = io.StringIO()
    console = Console(file=file, width=200)
    print_result(console, run.results[0])
    print_blocked(console, run.blocked)
    print_causes(console, run)
    printed = file.getvalue()
    for text in (printed, result_json([run]), html_page([run])):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]|^\s*::", text, re.MULTILINE)
    assert "##[" not in printed
    assert printed.count("[red]x[/] :bomb:") == 3


def test_the_headline_adds_up_to_the_number_of_cases(run_of: Callable[..., RunResult]) -> None:
    assert run_of(*Verdict).headline == "1 passed, 3 failed, 5 skipped"


def test_every_verdict_has_its_place_in_junit(run_of: Callable[..., RunResult]) -> None:
    (suite,) = ET.fromstring(junit_xml([run_of(*Verdict)]))
    ends = {
        case.get("name"): [child.tag for child in case if child.tag != "properties"]
        for case in suite.iter("testcase")
    }
    tags = [ends[f"send.n{n}"] for n, _ in enumerate(Verdict)]
    assert dict(zip(Verdict, tags, strict=True)) == {
        Verdict.PASS: [],
        Verdict.FAIL: ["failure"],
        Verdict.XFAIL: ["skipped"],
        Verdict.XPASS: ["failure"],
        Verdict.NOT_APPLICABLE: ["skipped"],
        Verdict.INCONCLUSIVE: ["skipped"],
        Verdict.ERROR: ["error"],
        Verdict.BLOCKED: ["skipped"],
        Verdict.NOT_RUN: ["skipped"],
    }
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped")) == (
        "9", "2", "1", "5",
    )  # fmt: skip


@pytest.mark.parametrize("text", ["<b>&\"'</b>", "\x00\x1b[31m\ufffe", "\ud800", "消息", "]]>", "</script>"])
def test_any_text_of_a_server_is_shown_and_breaks_no_report(
    run_of: Callable[..., RunResult], tmp_path: Path, text: str
) -> None:
    write_reports(tmp_path / "new" / "folder", [run_of(Verdict.FAIL, detail=text)])
    folder = tmp_path / "new" / "folder"
    ET.parse(folder / "junit.xml")
    document = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert document["runs"][0]["cases"][0]["verdict"] == "fail"
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<b>" not in page.replace("<b>fake</b>", "")
    assert "</script>" not in page


def test_the_result_has_everything_that_other_reports_show(
    run_of: Callable[..., RunResult], tmp_path: Path
) -> None:
    run = run_of(Verdict.PASS, Verdict.XFAIL)
    write_reports(tmp_path, [run])
    document = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    (shown,) = document["runs"]
    assert document["schema"] == shown["schema"] == 1
    assert (shown["target"], shown["headline"], shown["exit_code"]) == ("fake", run.headline, 0)
    assert shown["counts"] == {verdict.value: run.count(verdict) for verdict in Verdict}
    assert shown["cases"][1] == {
        "id": "send.n1", "group": "send", "level": "M", "rules": ["R4.1"], "needs": [], "claim": "Something holds.",
        "verdict": "xfail", "detail": "why", "seconds": 0.5, "target_seconds": 30.0, "notes": {"m": 1},
        "evidence": "trace",
    }  # fmt: skip


def test_the_page_loads_nothing_from_elsewhere(run_of: Callable[..., RunResult]) -> None:
    page = html_page([run_of(*Verdict)])
    assert "http" not in page.replace("http-equiv", "")
    assert "src=" not in page


def test_the_matrix_has_one_column_for_each_target(run_of: Callable[..., RunResult]) -> None:
    table = matrix_table([run_of(Verdict.PASS, Verdict.XFAIL), run_of(Verdict.PASS, Verdict.NOT_APPLICABLE)])
    assert "1/2<small>1 xfail</small>" in table
    assert '<td class="good">1/1</td>' in table
