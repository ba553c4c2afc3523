"""The reports of a run: they agree with each other, and hold whatever a server may have said."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from aiorocketmq_conformance.declaration import Declaration
from aiorocketmq_conformance.registry import Case, Level
from aiorocketmq_conformance.reports.folder import write_reports
from aiorocketmq_conformance.reports.junit import junit_xml
from aiorocketmq_conformance.reports.page import html_page, matrix_table
from aiorocketmq_conformance.results import CaseResult, RunResult
from aiorocketmq_conformance.target import Target
from aiorocketmq_conformance.verdicts import Verdict

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
        ([Verdict.NOT_APPLICABLE], Level.MUST, 3),
        ([], Level.MUST, 3),
        ([Verdict.PASS, Verdict.INCONCLUSIVE], Level.INFORMATIONAL, 0),
    ],
)
def test_the_exit_code_of_a_run(
    run_of: Callable[..., RunResult], verdicts: list[Verdict], level: Level, code: int
) -> None:
    assert run_of(*verdicts, level=level).exit_code == code


def test_the_headline_adds_up_to_the_number_of_cases(run_of: Callable[..., RunResult]) -> None:
    assert run_of(*Verdict).headline == "1 passed, 3 failed, 4 skipped"


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
        Verdict.NOT_RUN: ["skipped"],
    }
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped")) == (
        "8", "2", "1", "4",
    )  # fmt: skip


@pytest.mark.parametrize("text", ["<b>&\"'</b>", "\x00\x1b[31m\ufffe", "\ud800", "消息", "]]>", "</script>"])
def test_whatever_a_server_said_is_shown_and_breaks_no_report(
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


def test_the_result_says_everything_that_other_reports_show(
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
