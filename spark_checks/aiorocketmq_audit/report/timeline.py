"""The history of one message as a drawing: its leases by client, and how each ended."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from aiorocketmq_audit.report.drawing import WIDTH, Drawing, Shape, box, dot, legend, line, text
from aiorocketmq_audit.text import duration

Event = Mapping[str, Any]

LEFT, RIGHT, TOP, LANE = 156.0, 32.0, 52.0, 50.0
NARROW, WIDE = 14.0, 74.0
"""Least and greatest gap between two instants: gaps are logarithmic, so that retries over hours fit."""
MOST_EVENTS = 120
"""Most events in one drawing; the table has more."""
SIGNS = {
    "send": ("●", "accent", "send"),
    "ack": ("✓", "good", "ack"),
    "change": ("↻", "warn", "lease changed"),
    "forward": ("»", "second", "forwarded"),
    "dlq.deliver": ("✕", "second", "dead letter"),
    "expire": ("○", "warn", "lease expired"),
}


def timeline(events: Sequence[Event]) -> Drawing:
    """Draw the events of one message, oldest first; `finding` of an event contains the rules that it violates.

    There is a row for each client, a bar for each lease, a symbol for each operation. If two bars overlap, two clients
    leased the message at the same time.
    """
    rows = [row for row in events if row["phase"] != "invoke" and row["kind"] in ("deliver", *SIGNS)]
    rows = rows[:MOST_EVENTS]
    ends = {id(row): _end(row, rows) for row in rows if row["kind"] == "deliver"}
    instants = sorted({row["t_wall_us"] for row in rows} | set(ends.values()))
    x, width = _scale(instants)
    y = {client: TOP + LANE * (n + 0.5) for n, client in enumerate(dict.fromkeys(map(_client, rows)))}
    bottom = TOP + LANE * len(y)
    kinds = {row["kind"] for row in rows}
    signs = [f"{sign} {name}" for kind, (sign, _, name) in SIGNS.items() if kind in kinds]
    shapes = legend(LEFT, 18, [("lease accent", "lease: attempt, length"), ("lease bad", "finding")])
    shapes += [text(LEFT, 36, " · ".join(signs), "soft"), *_axis(instants, x, bottom)]
    for client, at in y.items():
        short = client if len(client) <= 22 else f"{client[:9]}…{client[-11:]}"
        shapes += [line(LEFT - 8, at, width - RIGHT + 8, at), text(LEFT - 16, at + 4, short, "end", client)]
    # Symbols are drawn above all leases.
    for row in sorted(rows, key=lambda row: row["kind"] != "deliver"):
        begin, at, end = x[row["t_wall_us"]], y[_client(row)], ends.get(id(row))
        shapes += _sign(row, begin, at) if end is None else _lease(row, end, begin, x[end], at)
        look = "small bad end" if begin > width - 2 * RIGHT else "small bad"
        shapes += [text(begin, at + 23, row["finding"], look)] if row["finding"] else []
    attempts = max((row["attempt"] or 0 for row in rows), default=0)
    description = f"{len(ends)} deliveries, {attempts} attempt(s), {len(y)} client(s)."
    return Drawing("History of one message", description, width, bottom + 36, shapes)


def _client(row: Event) -> str:
    return row["client_id"] or ("broker" if row["kind"] == "dlq.deliver" else "(unknown)")


def _end(lease: Event, rows: Sequence[Event]) -> int:
    """Return when this lease ended: settled, changed, expired, or at the client's next delivery of the message."""
    begin, client = lease["t_wall_us"], _client(lease)
    end: int = begin + (lease["invisible_ms"] or 0) * 1000
    for row in rows:
        kind, is_own = row["kind"], _client(row) == client
        if (row["t_wall_us"], row["seq"]) <= (begin, lease["seq"]):
            continue
        if is_own and kind == "deliver":
            break
        if kind == "dlq.deliver" or (is_own and kind in ("ack", "forward") and row["phase"] != "fail"):
            end = min(end, row["t_wall_us"])
            break
        if is_own and kind == "change" and row["phase"] == "ok":
            end = row["t_wall_us"] + (row["invisible_ms"] or 0) * 1000
    return max(end, int(begin))


def _scale(instants: Sequence[int]) -> tuple[dict[int, float], float]:
    """Return the x coordinate of each instant, and the drawing's width."""
    gaps = [NARROW + min(WIDE - NARROW, 14 * math.log10(1 + (b - a) / 5e4)) for a, b in pairwise(instants)]
    # A short history is stretched to the full width.
    stretch = min(3.0, max(1.0, (WIDTH - LEFT - RIGHT) / max(sum(gaps), 1.0)))
    places, at = {}, LEFT
    for instant, gap in zip(instants, [0.0, *gaps], strict=False):
        at += gap * stretch
        places[instant] = at
    return places, max(WIDTH, at + RIGHT)


def _lease(row: Event, end_us: int, begin: float, end: float, y: float) -> list[Shape]:
    length, size = duration((end_us - row["t_wall_us"]) / 1e6), max(5.0, end - begin)
    attempt = "?" if row["attempt"] is None else row["attempt"]
    tip = f"attempt {attempt} to {_client(row)}, leased for {length} {row['finding']}"
    name = f"{attempt} · {length}" if size > 70 else f"{attempt}"
    look = "lease bad" if row["finding"] else "lease accent"
    return [box(look, begin, y - 11, size, 22, tip), text(begin + 5, y + 4, name, "small strong")]


def _sign(row: Event, x: float, y: float) -> list[Shape]:
    sign, look, name = SIGNS[row["kind"]]
    if row["kind"] == "change" and row["invisible_ms"] is not None:
        name = f"{row['reason'] or name}: {duration(row['invisible_ms'] / 1000)}"
    look, tip = "bad" if row["finding"] else look, f"{name} {row['phase'] or ''} {row['finding']}"
    return [dot(f"{look} pale", x, y - 16, 8, tip), text(x, y - 12, sign, f"middle strong {look}", tip)]


def _axis(instants: Sequence[int], x: Mapping[int, float], bottom: float) -> list[Shape]:
    shapes, free = [], 0.0
    for instant in instants:
        if x[instant] >= free:
            label = "+" + duration((instant - instants[0]) / 1e6)
            shapes.append(line(x[instant], TOP - 4, x[instant], bottom + 6))
            shapes.append(text(x[instant], bottom + 22, label, "middle small soft"))
            free = x[instant] + 52
    return shapes
