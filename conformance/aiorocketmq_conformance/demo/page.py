"""The demonstration's page: one self-contained HTML file that shows a colleague what was done and what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import groupby

from aiorocketmq_conformance.demo.charts import ladder_chart, timeline
from aiorocketmq_conformance.demo.histories import Life, Rung, duration
from aiorocketmq_conformance.demo.shared_queues import Share

STYLE = files(__package__).joinpath("page.css").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Card:
    """One figure at the head of the page; `mood` is `good`, `bad`, `odd` or empty."""

    figure: str
    words: str
    mood: str = ""


@dataclass(frozen=True, slots=True)
class JudgedCase:
    """One cell of the matrix."""

    id: str
    claim: str
    verdict: str


@dataclass(frozen=True, slots=True)
class Shown:
    """All that the page shows."""

    cards: Sequence[Card]
    told: Life
    rungs: Sequence[Rung]
    shares: Sequence[Share]
    """The members of the group that shared queues."""
    other_lives: Sequence[Life]
    judged: Mapping[str, Sequence[JudgedCase]]
    """Cases by target."""
    audit: Sequence[tuple[str, str, str]]
    """Check, verdict, and what it found, in one sentence."""
    audit_page: str | None
    """Path of the audit's own page, relative to this one."""
    planted: str | None


def page(shown: Shown) -> str:
    """The whole page as one text; it loads nothing from anywhere."""
    return "".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>aiorocketmq demo</title><style>{STYLE}</style></head><body>",
            "<h1>One run, every promise checked</h1>",
            '<p class="lead">Producers, four kinds of consumers, one handler that always fails and one consumer ',
            "that was killed, against the embedded fake broker; hours of retries passed in virtual time.</p>",
            _planted(shown.planted),
            _cards(shown.cards),
            _one_message(shown.told),
            _retry_ladder(shown.rungs),
            _shared_queues(shown.shares),
            _matrix(shown.judged),
            _audit(shown),
            _others(shown.other_lives),
            "</body></html>",
        ]
    )


def _planted(kind: str | None) -> str:
    if kind is None:
        return ""
    return f"<p><b>A broken promise was planted: {escape(kind)}.</b> The audit below is meant to object.</p>"


def _cards(cards: Sequence[Card]) -> str:
    inner = "".join(
        f'<div class="card {card.mood}"><b>{escape(card.figure)}</b>{escape(card.words)}</div>'
        for card in cards
    )
    return f'<div class="cards">{inner}</div>'


def _one_message(told: Life) -> str:
    return (
        "<h2>What happened to one message</h2>"
        f'<p class="soft">Message <code>{escape(told.message_id)}</code> of topic '
        f"<code>{escape(told.topic)}</code>, whose handler in group <code>{escape(told.group)}</code> always fails.</p>"
        f"<figure>{timeline(told)}<figcaption>Time since it was stored, on a logarithmic axis. "
        "Point at a dot for its words.</figcaption></figure>"
        f"<details><summary>The same as a table</summary>{_steps(told)}</details>"
    )


def _steps(told: Life) -> str:
    rows = "".join(
        f'<tr><td class="n">{escape(duration(step.at))}</td><td>{step.moment.value}</td>'
        f"<td>{escape(step.detail)}</td></tr>"
        for step in told.steps
    )
    return f"<table><tr><th>after</th><th>moment</th><th>detail</th></tr>{rows}</table>"


def _retry_ladder(rungs: Sequence[Rung]) -> str:
    rows = "".join(
        f'<tr><td>retry {rung.attempt}</td><td class="n">{duration(rung.expected)}</td>'
        f'<td class="n">{duration(rung.seen)}</td><td class="n">{rung.seen - rung.expected:+.3f} s</td></tr>'
        for rung in rungs
    )
    return (
        "<h2>The retry ladder, expected and seen</h2>"
        '<p class="soft">Grey: the wait in the settings that the broker gave the group. '
        "Colour: the wait between two deliveries.</p>"
        f"<figure>{ladder_chart(rungs)}</figure>"
        "<details><summary>The same as a table</summary><table><tr><th></th><th>expected</th><th>seen</th>"
        f"<th>difference</th></tr>{rows}</table></details>"
    )


def _shared_queues(shares: Sequence[Share]) -> str:
    if not shares:
        return ""
    queues = sum(len(share.before) for share in shares)
    rows = "".join(
        f"<tr><td>{escape(share.name)}</td>{_owned(share.before, queues)}{_owned(share.after, queues)}"
        f'<td class="n">{share.read}</td></tr>'
        for share in shares
    )
    return (
        "<h2>Queues, shared by a group</h2>"
        f'<p class="soft">Four consumers of one group share {queues} queues over the remoting protocol, and one leaves '
        "while messages come. A queue belongs to one of them at a time.</p>"
        "<table><tr><th>consumer</th><th>queues of four</th><th>queues of three</th><th>messages read</th></tr>"
        f"{rows}</table>"
    )


def _owned(owned: Sequence[int], queues: int) -> str:
    cells = "".join(
        f'<i class="{"pass" if queue in owned else "na"}" title="queue {queue}"></i>'
        for queue in range(queues)
    )
    return f'<td><div class="cells">{cells}</div></td>'


def _matrix(judged: Mapping[str, Sequence[JudgedCase]]) -> str:
    if not judged:
        return ""
    parts = [
        "<h2>The conformance cases</h2>",
        '<p class="soft">One square for each case; point at it for its claim. Green passed, red failed, '
        "amber is a known deviation, grey does not apply.</p>",
    ]
    for target, cases in judged.items():
        passed = sum(case.verdict == "pass" for case in cases)
        parts.append(f"<h3><code>{escape(target)}</code>: {passed} of {len(cases)} passed</h3><table>")
        ordered = sorted(cases, key=lambda case: case.id)
        for group, members in groupby(ordered, key=lambda case: case.id.partition(".")[0]):
            cells = "".join(_cell(case) for case in members)
            parts.append(f'<tr><th>{escape(group)}</th><td><div class="cells">{cells}</div></td></tr>')
        parts.append("</table>")
    return "".join(parts)


def _cell(case: JudgedCase) -> str:
    words = escape(f"{case.id}: {case.verdict}. {case.claim}")
    return f'<i class="{escape(case.verdict.replace("/", ""))}" title="{words}"></i>'


def _audit(shown: Shown) -> str:
    rows = "".join(
        f"<tr><td>{escape(check)}</td><td><b>{escape(verdict)}</b></td><td>{escape(words)}</td></tr>"
        for check, verdict, words in shown.audit
    )
    link = (
        f'<p><a href="{escape(shown.audit_page)}">The audit\'s own page</a></p>' if shown.audit_page else ""
    )
    table = (
        f"<table><tr><th>check</th><th>verdict</th><th>found</th></tr>{rows}</table>"
        if rows
        else '<p class="soft">The audit did not run.</p>'
    )
    return f"<h2>What the audit says of the recording</h2>{table}{link}"


def _others(lives: Sequence[Life]) -> str:
    if not lives:
        return ""
    parts = ["<h2>Held by a consumer that was killed</h2>"]
    parts += [
        f"<figure>{timeline(told)}<figcaption><code>{escape(told.message_id)}</code>: its lease ended, and another "
        "consumer of the group got it as its next attempt.</figcaption></figure>"
        for told in lives
    ]
    return "".join(parts)
