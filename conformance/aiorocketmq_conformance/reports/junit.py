"""JUnit XML: one testsuite for each group of each target; inventory 6.2."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from xml.etree import ElementTree as ET

from aiorocketmq_conformance.results import CaseResult, RunResult
from aiorocketmq_conformance.verdicts import Verdict

# Characters that XML 1.0 cannot hold, not even escaped.
_ILLEGAL = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")


def junit_xml(runs: Sequence[RunResult]) -> str:
    """Return the document for `runs`; xfail, n/a, inconclusive and not-run are skipped, xpass and error are
    failures."""
    root = ET.Element("testsuites", name="aiorocketmq conformance")
    for run in runs:
        by_group = groupby(sorted(run.results, key=lambda result: result.case.group), lambda r: r.case.group)
        for group, results in by_group:
            _suite(root, run, group, list(results))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(root: ET.Element, run: RunResult, group: str, results: Sequence[CaseResult]) -> None:
    suite = ET.SubElement(
        root,
        "testsuite",
        name=f"{run.target} {group}",
        timestamp=run.started.isoformat(timespec="seconds"),
        time=f"{sum(result.seconds for result in results):.3f}",
        tests=str(len(results)),
        failures=str(_count(results, {Verdict.FAIL, Verdict.XPASS})),
        errors=str(_count(results, {Verdict.ERROR})),
        skipped=str(sum(result.verdict.counts_as == "skipped" for result in results)),
    )
    for result in results:
        _case(suite, run, result)


def _count(results: Iterable[CaseResult], verdicts: set[Verdict]) -> int:
    return sum(result.verdict in verdicts for result in results)


def _case(suite: ET.Element, run: RunResult, result: CaseResult) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=f"{run.target}.{result.case.group}".replace(":", "-"),
        name=result.case.id,
        time=f"{result.seconds:.3f}",
    )
    properties = ET.SubElement(case, "properties")
    facts = {
        "level": result.case.level.value,
        "rules": " ".join(result.case.rules),
        "needs": " ".join(result.case.needs),
        "verdict": result.verdict.value,
        **result.notes,
    }
    for name, value in facts.items():
        ET.SubElement(properties, "property", name=_clean(name), value=_clean(str(value)))
    if result.verdict is Verdict.PASS:
        return
    tag = {"failed": "error" if result.verdict is Verdict.ERROR else "failure"}.get(
        result.verdict.counts_as, "skipped"
    )
    end = ET.SubElement(case, tag, message=_clean(f"{result.verdict.value}: {result.detail}"))
    if tag != "skipped" and result.evidence:
        end.text = _clean(result.evidence)


def _clean(text: str) -> str:
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)
