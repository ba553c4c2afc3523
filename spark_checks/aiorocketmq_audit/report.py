"""The report as one page: no script, nothing fetched, light and dark, a table beside every picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

from aiorocketmq_audit import svg
from aiorocketmq_audit.bars import latency_histogram, latency_names, letters_over_time, slice_names
from aiorocketmq_audit.checks import CHECKS
from aiorocketmq_audit.figures import Step, Subject
from aiorocketmq_audit.groups_section import HEADS, RULE_HEADS, rows_of_groups, rows_of_rules
from aiorocketmq_audit.lanes import lane_chart
from aiorocketmq_audit.plots import bucket_names, lateness_histogram, ordering_strip, retry_ladder
from aiorocketmq_audit.printing import conserved, sentence
from aiorocketmq_audit.run import Audit
from aiorocketmq_audit.verdicts import CheckResult

MOST_LADDERS = 6
MOST_PICTURES = 6
"""Messages, and message groups, that are drawn; the events of the others are told in tables."""
MOST_ROWS = 200


def write(audit: Audit, folder: Path) -> Path:
    """Write `report.html` and each of its pictures as `plots/NAME.svg`; returns the page's path."""
    pictures = plots(audit)
    (folder / "plots").mkdir(parents=True, exist_ok=True)
    for old in (folder / "plots").glob("*.svg"):
        old.unlink()
    for name, picture in pictures.items():
        (folder / "plots" / f"{name}.svg").write_text(picture, encoding="utf-8")
    page = folder / "report.html"
    page.write_text(html(audit, pictures), encoding="utf-8")
    return page


def plots(audit: Audit) -> dict[str, str]:
    """All pictures by name: `ladder-N`, `lateness`, `message-N`, `order-N`; those without data are left out."""
    numbers, pictures = audit.numbers, {}
    for index, steps in enumerate(_ladders(numbers.ladder), start=1):
        pictures[f"ladder-{index}"] = retry_ladder(steps)
    if any(any(counts) for counts in numbers.lateness.values()):
        pictures["lateness"] = lateness_histogram(numbers.lateness)
    if any(map(any, audit.overview.latency.values())):
        pictures["latency"] = latency_histogram(audit.overview.latency)
    if any(map(any, audit.overview.letters.values())):
        pictures["letters"] = letters_over_time(audit.overview.letters, audit.overview.slice_s)
    suspects = _suspects(audit)
    for index, subject in enumerate(audit.subjects[:MOST_PICTURES], start=1):
        rows = _events_of(audit, subject, whole_group=False)
        if any(row["kind"] == "deliver" for row in rows):
            pictures[f"message-{index}"] = lane_chart(rows, suspects)
    for index, subject in enumerate(_message_groups(audit.subjects)[:MOST_PICTURES], start=1):
        rows = [row for row in _events_of(audit, subject, whole_group=True) if row["kind"] == "deliver"]
        if len(rows) > 1:
            pictures[f"order-{index}"] = ordering_strip(rows, _suspects(audit, "ordering"))
    return pictures


def html(audit: Audit, pictures: Mapping[str, str]) -> str:
    """The page as text."""
    style = (files("aiorocketmq_audit") / "report.css").read_text("utf-8")
    title = f"Audit: {audit.verdict.value}"
    body = [
        _header(audit),
        _section("Verdicts", _cards(audit.checks)),
        _rules_and_groups(audit),
        _findings(audit),
        *_message_sections(audit, pictures),
        *_ladder_sections(audit, pictures),
        _lateness(audit, pictures),
        _latency(audit, pictures),
        _letters(audit, pictures),
        _causes(audit),
        _about(audit),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{title}</title><style>{style}</style></head><body>"
        '<a class="skip" href="#findings">To the findings</a>'
        f"<main>{''.join(body)}</main></body></html>\n"
    )


def _header(audit: Audit) -> str:
    gates = audit.gates
    span = ""
    if gates.started_us is not None and gates.ended_us is not None:
        began = datetime.fromtimestamp(gates.started_us / 1e6, UTC)
        span = (
            f", {began:%Y-%m-%d %H:%M:%S} UTC, {svg.duration((gates.ended_us - gates.started_us) / 1e6)} long"
        )
    word = audit.verdict.value
    return (
        f'<header><p class="kicker">aiorocketmq delivery audit</p><h1 class="{word}">{word}</h1>'
        f"<p>{gates.events:,} events by {len(gates.recorders)} recorder(s){span}<br>"
        f"<code>{escape(', '.join(audit.recording))}</code></p></header>"
    )


def _cards(checks: Iterable[CheckResult]) -> str:
    cards = []
    for check in checks:
        tally = check.tally
        numbers = {
            "judged": tally.judged,
            "broken": tally.broken,
            "possible": tally.possible,
            "excused": sum(tally.exempted.values()),
        }
        cells = "".join(f"<div><dt>{name}</dt><dd>{count:,}</dd></div>" for name, count in numbers.items())
        reasons = "".join(f"<li>{escape(reason)}</li>" for reason in check.reasons)
        word = check.verdict.value
        cards.append(
            f'<article class="card {word}"><h3>{escape(check.name)}<span class="badge">{word}</span></h3>'
            f"<p>{escape(CHECKS[check.name].promise)}</p><dl>{cells}</dl><ul>{reasons}</ul></article>"
        )
    return f'<div class="cards">{"".join(cards)}</div>'


def _findings(audit: Audit) -> str:
    rows = [
        (
            check,
            sample["invariant"],
            sample["verdict"],
            sentence(sample),
            f"{sample['first_recorder']}#{sample['first_seq']}",
            f"{sample['second_recorder']}#{sample['second_seq']}" if sample["second_seq"] is not None else "",
        )
        for check, samples in audit.samples.items()
        for sample in samples
    ]
    if not rows:
        return ""
    heads = ("check", "rule", "verdict", "what happened", "first event", "second event")
    note = "<p>The worst first; all of them, with the events that prove them, are in <code>violations/</code>.</p>"
    return _section("Findings", note + _table(heads, rows[:MOST_ROWS]) + _histories(audit), name="findings")


def _histories(audit: Audit) -> str:
    """All that happened to the messages of findings, one fold each."""
    folds = []
    for subject in audit.subjects:
        rows = _events_of(audit, subject, whole_group=False)
        if rows and audit.samples:
            name = f"All that happened to {subject.message_id} ({subject.topic}, {subject.group})"
            folds.append(f"<details><summary>{escape(name)}</summary>{_table(*_event_rows(rows))}</details>")
    return "".join(folds)


def _rules_and_groups(audit: Audit) -> str:
    rules = _table(RULE_HEADS, rows_of_rules(audit.checks))
    groups = rows_of_groups(audit.overview.groups)
    by_group = f"<h3>By group</h3>{_table(HEADS, groups)}" if groups else ""
    return _section("By rule and group", rules + by_group)


def _message_sections(audit: Audit, pictures: Mapping[str, str]) -> Iterable[str]:
    for index, subject in enumerate(audit.subjects, start=1):
        if (picture := pictures.get(f"message-{index}")) is not None:
            rows = _events_of(audit, subject, whole_group=False)
            where = f"Topic {subject.topic}, group {subject.group}, as seen by the {subject.observer}."
            table = _table(*_event_rows(rows))
            yield _figure(f"The way of message {subject.message_id}", where, picture, table)
    for index, subject in enumerate(_message_groups(audit.subjects), start=1):
        if (picture := pictures.get(f"order-{index}")) is not None:
            rows = [row for row in _events_of(audit, subject, whole_group=True) if row["kind"] == "deliver"]
            where = f"Topic {subject.topic}, group {subject.group}, as seen by the {subject.observer}."
            table = _table(*_event_rows(rows))
            yield _figure(f"Order of message group {subject.message_group}", where, picture, table)


def _event_rows(rows: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    heads = ("time", "event", "outcome", "client", "message", "offset", "attempt", "hold", "why")
    start = rows[0]["t_wall_us"] if rows else 0
    body: list[tuple[object, ...]] = [
        (
            f"+{(row['t_wall_us'] - start) / 1e6:,.3f} s",
            row["kind"],
            row["phase"] or row["result"] or "",
            row["client_id"] or "",
            row["message_id"] or "",
            "" if row["offset"] is None else row["offset"],
            "" if row["attempt"] is None else row["attempt"],
            "" if row["invisible_ms"] is None else svg.duration(row["invisible_ms"] / 1000),
            row["reason"] or "",
        )
        for row in rows[:MOST_ROWS]
    ]
    return heads, body


def _ladder_sections(audit: Audit, pictures: Mapping[str, str]) -> Iterable[str]:
    heads = ("attempt that failed", "retries", "asked for", "seen: least", "mean", "most")
    for index, steps in enumerate(_ladders(audit.numbers.ladder), start=1):
        rows = [
            (
                step.attempt,
                step.retries,
                *(svg.duration(s) for s in (step.asked_s, step.seen_least_s, step.seen_s, step.seen_most_s)),
            )
            for step in steps
        ]
        where = f"Group {steps[0].group}, as seen by the {steps[0].observer}: the wait asked for, and the wait seen."
        yield _figure("Retry ladder", where, pictures[f"ladder-{index}"], _table(heads, rows))


def _lateness(audit: Audit, pictures: Mapping[str, str]) -> str:
    if "lateness" not in pictures:
        return ""
    series = audit.numbers.lateness
    rows = [(name, *counts) for name, *counts in zip(bucket_names(), *series.values(), strict=True)]
    table = _table(("after the end of the hold", *series), rows)
    where = "Time from the end of a hold to the next delivery, over all groups and observers."
    return _figure("Lateness of redeliveries", where, pictures["lateness"], table)


def _latency(audit: Audit, pictures: Mapping[str, str]) -> str:
    if "latency" not in pictures:
        return ""
    series = audit.overview.latency
    rows = [(name, *counts) for name, *counts in zip(latency_names(), *series.values(), strict=True)]
    where = (
        "Time from the moment a message could be had (stored, or due) to its first delivery, over all groups."
    )
    table = _table(("took", *(f"seen by the {name}" for name in series)), rows)
    return _figure("Delivery latency", where, pictures["latency"], table)


def _letters(audit: Audit, pictures: Mapping[str, str]) -> str:
    if "letters" not in pictures:
        return ""
    series, width = audit.overview.letters, audit.overview.slice_s
    names = slice_names(max(map(len, series.values())), width)
    rows = [(name, *counts) for name, *counts in zip(names, *series.values(), strict=True) if any(counts)]
    table = _table(("slice", *(f"seen by the {name}" for name in series)), rows)
    where = f"Messages that became dead letters, over all groups, in slices of {svg.duration(width)}."
    return _figure("Dead letters over time", where, pictures["letters"], table)


def _causes(audit: Audit) -> str:
    numbers = audit.numbers
    if not numbers.deliveries:
        return ""
    rows = [("first delivery", numbers.first_deliveries), *numbers.causes.items()]
    shown = [("no cause: a finding" if name == "none" else name, f"{count:,}") for name, count in rows]
    return _section("Why messages were delivered", _table(("cause", "deliveries"), shown))


def _about(audit: Audit) -> str:
    gates = audit.gates
    words = [*gates.missing, *gates.clocks] or ["The recording is whole and its clocks agree."]
    if gates.duplicated:
        words.append("Some rows occur twice; each was counted once.")
    if gates.unfinished_operations:
        words.append(
            f"{gates.unfinished_operations} call(s) were never answered; they may or may not have had an effect."
        )
    words += [f"{line}." for line in conserved(audit)]
    items = "".join(f"<li>{escape(word)}</li>" for word in words)
    recorders = "".join(f"<li><code>{escape(name)}</code></li>" for name in gates.recorders[:50])
    return _section(
        "The recording",
        f"<ul>{items}</ul><details><summary>Recorders</summary><ul>{recorders}</ul></details>",
    )


def _section(title: str, content: str, *, name: str | None = None) -> str:
    mark = f' id="{name}" tabindex="-1"' if name else ""
    return f"<section{mark}><h2>{escape(title)}</h2>{content}</section>"


def _figure(title: str, caption: str, picture: str, table: str) -> str:
    return _section(
        title,
        f"<figure><figcaption>{escape(caption)}</figcaption>"
        f'<div class="picture" tabindex="0" role="region" aria-label="{escape(title)}">{picture}</div>'
        f"<details><summary>The same as a table</summary>{table}</details></figure>",
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    # What scrolls must be reachable by keyboard.
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="table">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _ladders(ladder: Iterable[Step]) -> list[list[Step]]:
    """One ladder for each observer and group; the longest first."""
    groups = [list(steps) for _, steps in groupby(ladder, key=lambda step: (step.observer, step.group))]
    return sorted(groups, key=len, reverse=True)[:MOST_LADDERS]


def _message_groups(subjects: Iterable[Subject]) -> list[Subject]:
    """One subject for each message group."""
    found: dict[object, Subject] = {}
    for subject in subjects:
        if subject.message_group is not None:
            found.setdefault((subject.observer, subject.topic, subject.group, subject.message_group), subject)
    return list(found.values())


def _events_of(audit: Audit, subject: Subject, *, whole_group: bool) -> list[dict[str, Any]]:
    account = ("run_id", "case_id", "observer", "topic")
    rows = [
        row
        for row in audit.events
        if all(row[name] == getattr(subject, name) for name in account)
        and row["group"] in (None, subject.group)
    ]
    if whole_group:
        return [row for row in rows if row["message_group"] == subject.message_group]
    return [row for row in rows if row["message_id"] == subject.message_id]


def _suspects(audit: Audit, *checks: str) -> frozenset[tuple[str, int]]:
    return frozenset(
        (sample["second_recorder"], sample["second_seq"])
        for name, samples in audit.samples.items()
        if not checks or name in checks
        for sample in samples
        if sample["second_seq"] is not None
    )
