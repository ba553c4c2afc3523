"""Prints an audit to a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from aiorocketmq_audit.report import sentences
from aiorocketmq_audit.text import duration, plain

STYLES = {"valid": "bold green", "invalid": "bold red", "unknown": "bold yellow"}
COUNTS = ("judged", "broken", "possible", "exempted")
MOST_FINDINGS, MOST_STAGES = 3, 6
"""Most findings shown of each check (the worst), and most stages (the longest)."""


def show(document: Mapping[str, Any], folder: Path | None, console: Console | None = None) -> None:
    """Print one line for each check, the worst findings, Spark's work, and the verdict with its reasons.

    `document` is the summary, `folder` the folder of the page. Recorded text is escaped by `plain`.
    """
    console = console or Console(highlight=False)

    def say(line: str, verdict: str = "") -> None:
        console.print(Text(verdict, STYLES.get(verdict, "")) + Text(plain(line)), soft_wrap=True)

    table = Table(box=None, pad_edge=False)
    for name in ("check", "verdict", *COUNTS):
        table.add_column(name, justify="right" if name in COUNTS else "left")
    for check in document["checks"]:
        counts = [check["judged"], check["broken"], check["possible"], sum(check["exempted"].values())]
        verdict = Text(check["verdict"], STYLES[check["verdict"]])
        table.add_row(plain(check["name"]), verdict, *(f"{count:,}" for count in counts))
    console.print(table)
    for check in document["checks"]:
        own = sentences.reasons(check, document)
        if own and check["verdict"] != "valid" and check["name"] not in document["silent"]:
            say(f"  {check['name']}: {' '.join(own)}")
        for sample in check["samples"][:MOST_FINDINGS]:
            say(f"  {check['name']}: {sample['text']}")
    for line in sentences.recording(document):
        say(line)
    say(sentences.ran(document["spark"]))
    stages = document["spark"]["stages"] if document["spark"] else ()
    for stage in sorted(stages, key=lambda stage: -stage["seconds"])[:MOST_STAGES]:
        say(f"  {stage['name']}: {duration(stage['seconds'])}, {stage['tasks']:,} task(s)")
    about = document["recording"]
    events = f"{about['events']:,} events by {len(about['recorders'])} recorder(s)"
    say(f": {sentences.headline(document)}; {events}", document["verdict"])
    if folder is not None:
        say(f"report: {folder / 'report.html'}")
