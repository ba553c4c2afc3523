"""One self-contained HTML page: the matrix of groups and targets, then every case with its result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from aiorocketmq.wire.plain_text import plain, plain_lines

from aiorocketmq_conformance.case import Case
from aiorocketmq_conformance.results import CaseResult, RunResult
from aiorocketmq_conformance.verdicts import Verdict


def html_page(runs: Sequence[RunResult]) -> str:
    """Return the page for `runs`, one column for each; it loads no other resources."""
    style = (files("aiorocketmq_conformance.reports") / "page.css").read_text(encoding="utf-8")
    cases = _cases(runs)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Conformance: {escape(', '.join(run.target for run in runs))}</title>"
        f"<style>{style}</style></head><body><main>"
        f"<h1>RocketMQ 5 conformance</h1>{''.join(map(_summary, runs))}"
        f"<h2>Matrix</h2>{matrix_table(runs)}"
        f"{''.join(map(_causes, runs))}"
        f"<h2>Cases</h2>{_legend()}{''.join(_group(name, cases, runs) for name in _groups(cases))}"
        "</main></body></html>\n"
    )


def matrix_table(runs: Sequence[RunResult]) -> str:
    """Return the table of groups and targets as HTML: passed of applicable, with other verdicts."""
    cases = _cases(runs)
    head = "".join(f"<th>{escape(run.target)}</th>" for run in runs)
    rows = "".join(
        f'<tr><th scope="row"><a href="#{escape(group)}">{escape(group)}</a></th>'
        + "".join(_cell([r for r in run.results if r.case.group == group]) for run in runs)
        + "</tr>"
        for group in _groups(cases)
    )
    return f'<table class="matrix"><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _cell(results: Sequence[CaseResult]) -> str:
    applicable = [result for result in results if result.verdict is not Verdict.NOT_APPLICABLE]
    if not applicable:
        return '<td class="none">n/a</td>'
    passed = sum(result.verdict is Verdict.PASS for result in applicable)
    others = [
        f"{count} {verdict.value}"
        for verdict in Verdict
        if verdict not in {Verdict.PASS, Verdict.NOT_APPLICABLE}
        and (count := sum(result.verdict is verdict for result in applicable))
    ]
    worst = "bad" if any(r.verdict.fails_the_run for r in applicable) else "part" if others else "good"
    remark = f"<small>{escape(', '.join(others))}</small>" if others else ""
    return f'<td class="{worst}">{passed}/{len(applicable)}{remark}</td>'


def _summary(run: RunResult) -> str:
    facts = f"{run.declaration.product} {run.declaration.version}"
    when = run.started.strftime("%Y-%m-%d %H:%M UTC")
    return (
        f"<p><b>{escape(run.target)}</b> ({escape(facts)}): {escape(run.headline)}. "
        f"{escape(when)}, {run.seconds:.1f} s, suite {escape(run.suite_version)}.</p>"
        + "".join(
            f'<p class="bad">{_text(reason)}: cases that need it are not judged.</p>'
            for reason in run.blocked
        )
    )


def _causes(run: RunResult) -> str:
    rows = "".join(
        f"<tr><td>{len(cause.cases)}</td><td>{_text(cause.detail)}"
        f"<small>{', '.join(f'<code>{escape(case)}</code>' for case in cause.cases)}</small></td></tr>"
        for cause in run.causes
    )
    if not rows:
        return ""
    return (
        f"<h2>Failures of {escape(run.target)} by cause</h2>"
        f'<table class="causes"><thead><tr><th>cases</th><th>cause</th></tr></thead><tbody>{rows}</tbody></table>'
    )


def _legend() -> str:
    return (
        '<p class="legend">Level M: any RocketMQ 5; S: what users rely on; X: where claimed; I: for information. '
        "xfail: a known deviation; xpass: a known deviation that did not happen; n/a: not claimed by the "
        "target; blocked: not judged, since something that the case needs does not work.</p>"
    )


def _group(name: str, cases: Sequence[Case], runs: Sequence[RunResult]) -> str:
    by_target = [{result.case.id: result for result in run.results} for run in runs]
    rows = "".join(
        _row(case, [results.get(case.id) for results in by_target]) for case in cases if case.group == name
    )
    head = "".join(f"<th>{escape(run.target)}</th>" for run in runs)
    return (
        f'<h3 id="{escape(name)}">{escape(name)}</h3><table class="cases"><thead><tr><th>case</th><th>level</th>'
        f"{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _row(case: Case, results: Sequence[CaseResult | None]) -> str:
    rules = f" <small>{escape(', '.join(case.rules))}</small>" if case.rules else ""
    cells = "".join(_verdict(result) for result in results)
    details = "".join(_details(result) for result in results if result is not None)
    return (
        f"<tr><td><code>{escape(case.id)}</code>{rules}<div>{escape(case.claim)}</div>{details}</td>"
        f"<td>{case.level.value}</td>{cells}</tr>"
    )


def _verdict(result: CaseResult | None) -> str:
    if result is None:
        return "<td></td>"
    kind = result.verdict.name.lower().replace("_", "-")
    return f'<td><span class="verdict {kind}">{result.verdict.value}</span><small>{result.seconds:.2f} s</small></td>'


def _details(result: CaseResult) -> str:
    lines = [result.detail] if result.detail else []
    lines += [f"{key} = {value}" for key, value in result.notes.items()]
    if not lines and not result.evidence:
        return ""
    evidence = f"<pre>{escape(plain_lines(result.evidence))}</pre>" if result.evidence else ""
    body = "".join(f"<p>{_text(line)}</p>" for line in lines)
    opened = " open" if result.verdict.fails_the_run else ""
    return f"<details{opened}><summary>{_text(lines[0] if lines else 'evidence')}</summary>{body}{evidence}</details>"


def _text(received: str) -> str:
    return escape(plain(received))


def _cases(runs: Iterable[RunResult]) -> list[Case]:
    return list({result.case.id: result.case for run in runs for result in run.results}.values())


def _groups(cases: Iterable[Case]) -> list[str]:
    return list(dict.fromkeys(case.group for case in cases))
