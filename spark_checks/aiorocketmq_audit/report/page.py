"""The report as one page: no scripts, no external resources, light and dark theme, a table for every drawing."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from aiorocketmq_audit.report import sentences
from aiorocketmq_audit.report.charts import bars, message_order, retry_ladder
from aiorocketmq_audit.report.drawing import Drawing
from aiorocketmq_audit.report.timeline import Event, timeline
from aiorocketmq_audit.text import duration, instant, plain

if TYPE_CHECKING:
    from aiorocketmq_audit.audit import Audit
    from aiorocketmq_audit.evidence import Subject

MOST_LADDERS = MOST_ORDERS = 6
MOST_ROWS = 200
"""Most rows of a table; `summary.json` and `violations/` have more."""
SUBJECT = ("run_id", "case_id", "observer", "topic", "group", "message_id")
COLUMNS = (
    "time",
    "kind",
    "outcome",
    "client_id",
    "message_id",
    "offset",
    "attempt",
    "lease",
    "reason",
    "finding",
)
"""Columns of a table of events."""
SubjectEvents = Sequence[tuple["Subject", Sequence[Event]]]
"""Subjects with their events; `finding` of an event contains the rules that it violates."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing, if there is anything to draw, and the same data as a table; `name` is its file name and anchor."""

    name: str
    title: str
    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[object]]
    drawing: Drawing | None = None


def files(audit: Audit, document: Mapping[str, Any]) -> dict[str, str]:
    """Return texts by file name: `summary.json`, which is `document`, `report.html`, and drawings `plots/NAME.svg`."""
    rules = _rules(document)
    events = [{**row, "finding": ", ".join(rules[row["recorder"], row["seq"]])} for row in audit.events]
    subjects = [(of, [row for row in events if _is_about(of, row)]) for of in audit.subjects]
    histories = dict(_histories(subjects))
    figures = {
        "histories": list(histories.values()),
        "orders": list(_orders(subjects))[:MOST_ORDERS],
        "ladders": list(_ladders(audit)),
        "times": list(_times(document)),
    }

    def history(finding: Mapping[str, Any]) -> str | None:
        account = tuple(finding[name] for name in SUBJECT[:-1])
        places = ((*account, finding[name]) for name in ("message_id", "other_message_id"))
        return next((histories[place].name for place in places if place in histories), None)

    context = {"audit": document, "sentences": sentences, "history": history, "most": MOST_ROWS}
    page = templates().get_template("page.html").render(context | figures)
    draw: Any = templates().get_template("drawing.svg").module
    drawn = {f"plots/{one.name}.svg": one.drawing for several in figures.values() for one in several}
    pictures = {name: f"{draw.draw(drawing, True)}\n" for name, drawing in drawn.items() if drawing}
    return {"summary.json": json.dumps(document, indent=2) + "\n", "report.html": page, **pictures}


@cache
def templates() -> Environment:
    """Return the templates: all values are escaped for HTML, and recorded text by `plain`."""
    environment = Environment(
        loader=PackageLoader("aiorocketmq_audit.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # HTML fragments have a type of their own, Markup.
        finalize=lambda value: "" if value is None else plain(value) if type(value) is str else value,
    )
    environment.filters |= {"n": "{:,}".format, "duration": duration, "instant": instant}
    return environment


def _rules(document: Mapping[str, Any]) -> dict[tuple[str, int], dict[str, None]]:
    """Return the violated rules by recorder and sequence number of the event."""
    rules: dict[tuple[str, int], dict[str, None]] = defaultdict(dict)
    for finding in (sample for check in document["checks"] for sample in check["samples"]):
        # There is no second event if the one that should have followed never occurred.
        which = "first" if finding["second_seq"] is None else "second"
        rules[finding[f"{which}_recorder"], finding[f"{which}_seq"]][finding["invariant"]] = None
    return rules


def _is_about(subject: Subject, row: Event) -> bool:
    """Return whether the event is of the subject's observation: of its message or its message group."""
    is_same = all(row[name] == getattr(subject, name) for name in SUBJECT[:4])
    return is_same and row["group"] in (None, subject.group)


def _histories(subjects: SubjectEvents) -> Iterable[tuple[tuple[Any, ...], Figure]]:
    """Yield the recorded events of each subject, by SUBJECT."""
    for number, (subject, events) in enumerate(subjects, start=1):
        rows = [row for row in events if row["message_id"] == subject.message_id]
        if subject.message_id and rows:
            drawing = timeline(rows) if any(row["kind"] == "deliver" for row in rows) else None
            findings = dict.fromkeys(row["finding"] for row in rows if row["finding"])
            place = tuple(getattr(subject, name) for name in SUBJECT)
            where = ", ".join((_where(subject), *findings))
            yield place, Figure(f"message-{number}", subject.message_id, where, *_table(rows), drawing)


def _orders(subjects: SubjectEvents) -> Iterable[Figure]:
    """Yield message groups with more than one delivered message."""
    groups = {
        (of.observer, of.topic, of.group, of.message_group): (of, rows) for of, rows in reversed(subjects)
    }
    for number, (subject, events) in enumerate(reversed(groups.values()), start=1):
        rows = [row for row in events if row["kind"] == "deliver" and row["offset"] is not None]
        rows = [row for row in rows if row["message_group"] == subject.message_group]
        if subject.message_group and len({row["offset"] for row in rows}) > 1:
            table, drawing = _table(rows), message_order(rows)
            yield Figure(f"order-{number}", subject.message_group, _where(subject), *table, drawing)


def _where(subject: Subject) -> str:
    group = f", group {subject.group}" if subject.group else ""
    return f"topic {subject.topic}{group}, observed by the {subject.observer}"


def _table(events: Sequence[Event]) -> tuple[list[str], list[list[object]]]:
    """Return the events as headings and rows, without empty columns."""
    rows = [
        {
            **event,
            "time": f"+{(event['t_wall_us'] - events[0]['t_wall_us']) / 1e6:,.3f} s",
            "outcome": event["phase"] or event["result"],
            "lease": event["invisible_ms"] and duration(event["invisible_ms"] / 1000),
        }
        for event in events
    ]
    heads = [name for name in COLUMNS if any(row[name] not in (None, "") for row in rows)]
    return [name.removesuffix("_id") for name in heads], [[row[name] for name in heads] for row in rows]


def _ladders(audit: Audit) -> Iterable[Figure]:
    """Yield a retry ladder for each observer and group, the longest first."""
    heads = ("attempt", "retries", "requested", "observed: least", "mean", "most")
    by_group = groupby(audit.numbers.ladder, key=lambda step: (step.observer, step.group))
    ladders = sorted((list(steps) for _, steps in by_group), key=len, reverse=True)
    for number, steps in enumerate(ladders[:MOST_LADDERS], start=1):
        waits = [(of.asked_s, of.seen_least_s, of.seen_s, of.seen_most_s) for of in steps]
        rows = [(of.attempt, of.retries, *map(duration, wait)) for of, wait in zip(steps, waits, strict=True)]
        where = f"observed by the {steps[0].observer}"
        yield Figure(f"ladder-{number}", steps[0].group, where, heads, rows, retry_ladder(steps))


def _times(document: Mapping[str, Any]) -> Iterable[Figure]:
    """Yield histograms of waiting times, and dead letters over time."""
    late, latency, dead = document["lateness"], document["latency"], document["dead_letters"]
    early = sum(border < 0 for border in late["borders_s"])
    after_lease = "time from the end of a lease to the next delivery (red: too early)"
    after_store = "time from store (or due time) to the first delivery"
    yield from _bars("lateness", "Lateness of redeliveries", after_lease, late, is_stacked=True, early=early)
    yield from _bars("latency", "Delivery latency", after_store, latency)
    count = max(map(len, dead["counts"].values()), default=0)
    slices = {"borders_s": [dead["slice_s"] * place for place in range(1, count)], "counts": dead["counts"]}
    yield from _bars("letters", "Dead letters over time", "time since the recording began", slices)


def _bars(name: str, title: str, axis: str, counted: Mapping[str, Any], **options: Any) -> Iterable[Figure]:
    """Return a histogram with its table, if it is not empty."""
    series = counted["counts"]
    if any(map(any, series.values())):
        borders = [duration(border).replace("-", "\N{MINUS SIGN}") for border in counted["borders_s"]]
        middle = [f"{low} … {high}" for low, high in pairwise(borders)]
        names = [f"< {borders[0]}", *middle, f"≥ {borders[-1]}"] if borders else ["all"]
        drawing = bars(title, axis, series, list(zip(names, ["", *borders], strict=True)), **options)
        rows = [row for row in zip(names, *series.values(), strict=True) if any(row[1:])]
        yield Figure(name, title, axis, ("time", *series), rows, drawing)
