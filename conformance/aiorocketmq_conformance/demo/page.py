"""The demonstration's page: one self-contained HTML file with everything that was run and found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import groupby

from aiorocketmq_conformance.demo.charts import retry_chart, timeline
from aiorocketmq_conformance.demo.histories import History, Retry, duration
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
class PageContent:
    """All that the page shows."""

    cards: Sequence[Card]
    history: History
    retries: Sequence[Retry]
    shares: Sequence[Share]
    """The members of the group that shared queues."""
    leased_histories: Sequence[History]
    judged: Mapping[str, Sequence[JudgedCase]]
    """Cases by target."""
    audit: Sequence[tuple[str, str, str]]
    """Check, verdict and finding, in one sentence."""
    audit_page: str | None
    """Path of the audit's own page, relative to this one."""
    planted: str | None


def page(shown: PageContent) -> str:
    """Return the whole page as text; it loads no other resources."""
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
            _one_message(shown.history),
            _retry_ladder(shown.retries),
            _shared_queues(shown.shares),
            _matrix(shown.judged),
            _audit(shown),
            _others(shown.leased_histories),
            "</body></html>",
        ]
    )


def _planted(kind: str | None) -> str:
    if kind is None:
        return ""
    return f"<p><b>A fault was injected: {escape(kind)}.</b> The audit below must report it.</p>"


def _cards(cards: Sequence[Card]) -> str:
    inner = "".join(
        f'<div class="card {card.mood}"><b>{escape(card.figure)}</b>{escape(card.words)}</div>'
        for card in cards
    )
    return f'<div class="cards">{inner}</div>'


def _one_message(history: History) -> str:
    return (
        "<h2>What happened to one message</h2>"
        f'<p class="soft">Message <code>{escape(history.message_id)}</code> of topic '
        f"<code>{escape(history.topic)}</code>, whose handler in group "
        f"<code>{escape(history.group)}</code> always fails.</p>"
        f"<figure>{timeline(history)}<figcaption>Time since it was stored, on a logarithmic axis. "
        "Point at a dot for its words.</figcaption></figure>"
        f"<details><summary>The same as a table</summary>{_events(history)}</details>"
    )


def _events(history: History) -> str:
    rows = "".join(
        f'<tr><td class="n">{escape(duration(event.at))}</td><td>{event.kind.value}</td>'
        f"<td>{escape(event.detail)}</td></tr>"
        for event in history.events
    )
    return f"<table><tr><th>after</th><th>kind</th><th>detail</th></tr>{rows}</table>"


def _retry_ladder(retries: Sequence[Retry]) -> str:
    rows = "".join(
        f'<tr><td>retry {retry.attempt}</td><td class="n">{duration(retry.expected)}</td>'
        f'<td class="n">{duration(retry.observed)}</td><td class="n">{retry.observed - retry.expected:+.3f} s</td></tr>'
        for retry in retries
    )
    return (
        "<h2>The retry ladder, expected and observed</h2>"
        '<p class="soft">Grey: the wait in the settings that the broker gave the group. '
        "Colour: the wait between two deliveries.</p>"
        f"<figure>{retry_chart(retries)}</figure>"
        "<details><summary>The same as a table</summary><table><tr><th></th><th>expected</th><th>observed</th>"
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
        "under traffic. A queue belongs to one of them at a time.</p>"
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


def _audit(shown: PageContent) -> str:
    rows = "".join(
        f"<tr><td>{escape(check)}</td><td><b>{escape(verdict)}</b></td><td>{escape(words)}</td></tr>"
        for check, verdict, words in shown.audit
    )
    link = (
        f'<p><a href="{escape(shown.audit_page)}">The audit\'s own page</a></p>' if shown.audit_page else ""
    )
    table = (
        f"<table><tr><th>check</th><th>verdict</th><th>finding</th></tr>{rows}</table>"
        if rows
        else '<p class="soft">The audit did not run.</p>'
    )
    return f"<h2>Audit of the recording</h2>{table}{link}"


def _others(histories: Sequence[History]) -> str:
    if not histories:
        return ""
    parts = ["<h2>Leased by a consumer that was killed</h2>"]
    parts += [
        f"<figure>{timeline(history)}<figcaption><code>{escape(history.message_id)}</code>: its lease expired, and "
        "another consumer of the group received the next attempt.</figcaption></figure>"
        for history in histories
    ]
    return "".join(parts)
