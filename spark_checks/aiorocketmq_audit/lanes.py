"""The way of one message: who held it, from when to when, and how each hold ended."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiorocketmq_audit import svg

LEFT, RIGHT, TOP, LANE = 148.0, 28.0, 52.0, 46.0
NARROW, WIDE = 14.0, 74.0
"""Least and greatest width of the gap between two instants: time is drawn by its logarithm, so that a ladder
of hours fits."""

SHORTEST = 820.0
"""Least width of the picture."""

MOST_INSTANTS = 120
"""A picture ends after so many instants; the table beside it goes on."""

_MARKS = {
    "ack": ("ack", svg.GOOD, "✓"),
    "change": ("change", svg.WARN, "↻"),
    "forward": ("forward", svg.SECOND, "»"),
    "dlq.deliver": ("dead letter", svg.BAD, "✕"),
    "send": ("send", svg.ACCENT, "●"),
    "expire": ("lease ended", svg.INK, "○"),
}


@dataclass(frozen=True, slots=True)
class _Hold:
    """From a delivery to what ended it."""

    client: str
    begin: int
    end: int
    row: Mapping[str, Any]
    is_bad: bool


def lane_chart(
    events: Sequence[Mapping[str, Any]], suspects: frozenset[tuple[str, int]] = frozenset()
) -> str:
    """Draw the events of one message as one account saw them; `suspects` are (recorder, seq) of accused deliveries.

    A lane for each client, a bar for each hold, a mark for each thing that was done. Where two bars share an instant,
    two clients held the message at once.
    """
    rows = [row for row in events if not (row["phase"] == "invoke" or row["kind"].startswith("handle"))][
        :MOST_INSTANTS
    ]
    holds = [_hold(row, rows, suspects) for row in rows if row["kind"] == "deliver"]
    instants = sorted({row["t_wall_us"] for row in rows} | {hold.end for hold in holds})
    x, width = _scale(instants)
    clients = list(dict.fromkeys(_lane_of(row) for row in rows))
    height = TOP + LANE * len(clients) + 44
    parts = [_legend()]
    for index, client in enumerate(clients):
        middle = TOP + LANE * (index + 0.5)
        parts.append(svg.line(LEFT - 8, middle, width - RIGHT + 8, middle))
        parts.append(svg.element("g", svg.tip(client) + svg.text(8, middle + 4, _short(client))))
    parts += [_bar(hold, x, TOP + LANE * (clients.index(hold.client) + 0.5)) for hold in holds]
    parts += [
        _mark(row, x, TOP + LANE * (clients.index(_lane_of(row)) + 0.5))
        for row in rows
        if row["kind"] in _MARKS
    ]
    parts += _axis(instants, x, TOP + LANE * len(clients))
    last = max((row["attempt"] or 0 for row in rows), default=0)
    return svg.drawing(
        width,
        height,
        parts,
        title="The way of one message",
        description=f"{len(holds)} deliveries to {len({h.client for h in holds})} client(s), {last} attempt(s).",
    )


def _hold(
    row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], suspects: frozenset[tuple[str, int]]
) -> _Hold:
    begin, client = row["t_wall_us"], _lane_of(row)
    end = begin + (row["invisible_ms"] or 0) * 1000
    later = [other for other in rows if (other["t_wall_us"], other["seq"]) > (begin, row["seq"])]
    for other in later:
        if other["kind"] == "deliver" and _lane_of(other) == client:
            break
        is_own = other["kind"] == "dlq.deliver" or _lane_of(other) == client
        if is_own and other["kind"] in ("ack", "forward", "dlq.deliver") and other["phase"] != "fail":
            end = min(end, other["t_wall_us"])
            break
        if other["kind"] == "change" and other["phase"] == "ok" and _lane_of(other) == client:
            end = other["t_wall_us"] + (other["invisible_ms"] or 0) * 1000
    return _Hold(client, begin, max(begin, end), row, (row["recorder"], row["seq"]) in suspects)


def _lane_of(row: Mapping[str, Any]) -> str:
    return row["client_id"] or ("broker" if row["kind"] == "dlq.deliver" else "?")


def _scale(instants: Sequence[int]) -> tuple[dict[int, float], float]:
    """Place each instant; gaps grow with their logarithm."""
    places: dict[int, float] = {}
    x, before = LEFT + 14, None
    for instant in instants:
        if before is not None:
            gap = (instant - before) / 1e6
            x += NARROW + min(WIDE - NARROW, 14 * math.log10(1 + gap * 20))
        places[instant] = x
        before = instant
    # A short story fills the width that a long one has.
    stretch = min(3.0, max(1.0, (SHORTEST - LEFT - RIGHT - 28) / max(x - LEFT - 14, 1.0)))
    places = {instant: LEFT + 14 + (place - LEFT - 14) * stretch for instant, place in places.items()}
    return places, max(SHORTEST, places[instants[-1]] + RIGHT + 14) if instants else SHORTEST


def _bar(hold: _Hold, x: Mapping[int, float], y: float) -> str:
    colour = svg.BAD if hold.is_bad else svg.ACCENT
    length = svg.duration((hold.end - hold.begin) / 1e6)
    note = f"attempt {hold.row['attempt']} to {hold.client}, held for {length}"
    bar = svg.element(
        "rect",
        svg.tip(note),
        x=x[hold.begin],
        y=y - 11,
        width=max(5.0, x[hold.end] - x[hold.begin]),
        height=22,
        rx=4,
        fill=colour,
        fill_opacity=0.22,
        stroke=colour,
        stroke_width=2 if hold.is_bad else 1.2,
    )
    return bar + svg.text(
        x[hold.begin] + 5, y + 4, str(hold.row["attempt"] or ""), size=10, font_weight="bold"
    )


def _mark(row: Mapping[str, Any], x: Mapping[int, float], y: float) -> str:
    name, colour, sign = _MARKS[row["kind"]]
    if row["kind"] == "change" and row["invisible_ms"] is not None:
        name = f"{row['reason'] or 'change'}: {svg.duration(row['invisible_ms'] / 1000)}"
    outcome = f" ({row['phase']})" if row["phase"] in ("fail", "info") else ""
    place = x[row["t_wall_us"]]
    ring = svg.element(
        "circle", svg.tip(name + outcome), cx=place, cy=y - 15, r=7.5, fill=colour, fill_opacity=0.18
    )
    return ring + svg.text(
        place, y - 11, sign, anchor="middle", size=11, style=f"fill:{colour}", font_weight="bold"
    )


def _legend() -> str:
    names = [(svg.ACCENT, "hold, with its attempt"), (svg.BAD, "broken promise")]
    signs = "   ".join(f"{sign} {name}" for name, _, sign in _MARKS.values())
    return svg.legend(8, 18, names) + svg.text(8, 38, signs, fill_opacity=0.75)


def _axis(instants: Sequence[int], x: Mapping[int, float], y: float) -> list[str]:
    parts, free = [], 0.0
    for instant in instants:
        parts.append(svg.line(x[instant], TOP - 4, x[instant], y + 6))
        if x[instant] >= free:
            label = "+" + svg.duration((instant - instants[0]) / 1e6)
            parts.append(svg.text(x[instant], y + 22, label, anchor="middle", size=10, fill_opacity=0.75))
            free = x[instant] + 52
    return parts


def _short(client: str) -> str:
    return client if len(client) <= 22 else f"{client[:9]}…{client[-11:]}"
