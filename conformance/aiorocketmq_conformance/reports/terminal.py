"""Output of a run on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from aiorocketmq.wire.plain_text import plain
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from aiorocketmq_conformance.results import CaseResult, RunResult
from aiorocketmq_conformance.verdicts import Verdict

_STYLE = {
    Verdict.PASS: "green",
    Verdict.FAIL: "bold red",
    Verdict.XFAIL: "yellow",
    Verdict.XPASS: "bold red",
    Verdict.NOT_APPLICABLE: "dim",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.ERROR: "bold red",
    Verdict.BLOCKED: "yellow",
    Verdict.NOT_RUN: "dim",
}
_NAMED = 5
"""Maximum number of cases listed for each cause."""


def print_result(console: Console, result: CaseResult) -> None:
    """Print one line for one case, with its reason unless it passed."""
    style = _STYLE[result.verdict]
    verdict = f"[{style}]{result.verdict.value:>12}[/]"
    console.print(
        f"{verdict}  {escape(result.case.id)}  [dim]{result.seconds:.2f} s[/]", highlight=False, emoji=False
    )
    if result.detail and result.verdict is not Verdict.NOT_APPLICABLE:
        console.print(f"{'':>14}{escape(plain(result.detail))}", style=style, highlight=False, emoji=False)


def print_blocked(console: Console, reasons: Sequence[str]) -> None:
    """Print one sentence for each step that fails on the target."""
    for reason in reasons:
        console.print(
            f"{escape(plain(reason))}: cases that need it are not judged",
            style="bold red",
            highlight=False,
            emoji=False,
        )


def print_causes(console: Console, run: RunResult) -> None:
    """Print every cause of failures once, with its cases; nothing if there is only one case."""
    if sum(len(cause.cases) for cause in run.causes) < 2:
        return
    console.print(f"[bold]{escape(run.target)}[/], by cause:", highlight=False, emoji=False)
    for cause in run.causes:
        more = len(cause.cases) - _NAMED
        named = ", ".join(cause.cases[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        console.print(f"{len(cause.cases):>5} x {escape(plain(cause.detail))}", highlight=False, emoji=False)
        console.print(f"{'':>8}{escape(named)}", style="dim", highlight=False, emoji=False)


def print_summary(console: Console, runs: Sequence[RunResult]) -> None:
    """Print the matrix of groups and targets; every verdict is counted."""
    verdicts = [verdict for verdict in Verdict if any(run.count(verdict) for run in runs)]
    for run in runs:
        console.print(f"[bold]{escape(run.target)}[/], {run.seconds:.1f} s", highlight=False)
        table = Table()
        table.add_column("group")
        for verdict in verdicts:
            table.add_column(verdict.value, justify="right", style=_STYLE[verdict])
        for group in dict.fromkeys(result.case.group for result in run.results):
            counts = [
                sum(r.verdict is verdict and r.case.group == group for r in run.results)
                for verdict in verdicts
            ]
            table.add_row(group, *(str(count) if count else "" for count in counts))
        console.print(table)
