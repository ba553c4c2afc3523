"""The `--report` folder: result.json, junit.xml, report.html."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from aiorocketmq_conformance.reports.html import html_page
from aiorocketmq_conformance.reports.junit import junit_xml
from aiorocketmq_conformance.results import SCHEMA, RunResult


def result_json(runs: Sequence[RunResult]) -> str:
    """Return the document of `result.json`: a schema version, and one entry for each run.

    It is ASCII, so that terminals do not interpret what a server sent.
    """
    document = {"schema": SCHEMA, "runs": [run.to_json() for run in runs]}
    return json.dumps(document, indent=2, default=str) + "\n"


def write_reports(folder: Path, runs: Sequence[RunResult]) -> None:
    """Write the three reports into `folder`, which is created if it is missing; older reports are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "result.json": result_json(runs),
        "junit.xml": junit_xml(runs),
        "report.html": html_page(runs),
    }
    for name, text in texts.items():
        # Case details may quote anything a server sent, including unpaired surrogates.
        (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace")
