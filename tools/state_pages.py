"""State diagrams as SVG, drawn from the tables that the code itself follows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from aiorocketmq._core import stop_states
from aiorocketmq_fake.core.values import message_states

_PAGE = """# States

Written by `python -m tools.pages` from the code's own tables (do not edit).

## A message in one group

![States of a message in one group](states-message.svg)

Each arrow is an event of the fake broker (`broker.events`); the recorder writes the same ones. The tests follow every
message of random histories along these arrows: an event that has none fails them. Dashed arrows exist where an ordered
group blocks whole queues, as on Apache's servers: what lies behind a gap comes again, though it was settled.

{message}
## A push consumer of the client

![States of a push consumer](states-consumer.svg)

Stopping is asked by the user, by leaving the block, or by cancellation.

{consumer}"""

_WIDTH, _HEIGHT, _BOX, _TALL = 860, 520, 118, 34
Arrow = tuple[str, str, str, bool]
"""From, to, event, and whether only some brokers have it."""


def page() -> str:
    """The page's text."""
    return _PAGE.format(message=_table(_message()), consumer=_table(_consumer()))


def drawings() -> dict[str, str]:
    """The page's pictures by file name."""
    return {
        "states-message.svg": _draw([state.value for state in message_states.MessageState], _message()),
        "states-consumer.svg": _draw([state.name for state in stop_states.ConsumerState], _consumer()),
    }


def _message() -> list[Arrow]:
    always = [(a.value, b.value, kind.__name__, False) for (a, kind), b in message_states.TRANSITIONS.items()]
    by_queue = [
        (a.value, b.value, kind.__name__, True) for (a, kind), b in message_states.QUEUE_GRAIN.items()
    ]
    return always + by_queue


def _consumer() -> list[Arrow]:
    return [(a.name, b.name, event.name, False) for (a, event), b in stop_states.TRANSITIONS.items()]


def _table(arrows: Sequence[Arrow]) -> str:
    rows = [
        f"| {before} | {event}{' (order by queue)' if some else ''} | {after} |"
        for before, after, event, some in arrows
    ]
    return "\n".join(["| from | event | to |", "| --- | --- | --- |", *rows, ""])


def _draw(states: Sequence[str], arrows: Sequence[Arrow]) -> str:
    places = {
        state: (
            _WIDTH / 2 - 300 * math.cos(2 * math.pi * number / len(states)),
            _HEIGHT / 2 - 200 * math.sin(2 * math.pi * number / len(states)),
        )
        for number, state in enumerate(states)
    }
    merged: dict[tuple[str, str, bool], list[str]] = {}
    for before, after, event, some in arrows:
        merged.setdefault((before, after, some), []).append(event)
    parts = [_arrow(places, *ends, ", ".join(events)) for ends, events in merged.items()]
    parts += [_state(name, *place) for name, place in places.items()]
    return _FRAME.format(width=_WIDTH, height=_HEIGHT, parts="\n".join(parts))


_FRAME = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"
 font-family="sans-serif" font-size="12">
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">
<path d="M0 0 8 4 0 8z" fill="#456"/></marker></defs>
<rect width="{width}" height="{height}" fill="#fff"/>
{parts}
</svg>
"""


def _state(name: str, x: float, y: float) -> str:
    corner = f'x="{x - _BOX / 2:.0f}" y="{y - _TALL / 2:.0f}"'
    return (
        f'<rect {corner} width="{_BOX}" height="{_TALL}" rx="8" fill="#eef4fa" stroke="#456"/>'
        f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle" font-weight="bold">{escape(name)}</text>'
    )


def _arrow(places: dict[str, tuple[float, float]], before: str, after: str, some: bool, label: str) -> str:
    (x1, y1), (x2, y2) = places[before], places[after]
    dash = ' stroke-dasharray="5 4"' if some else ""
    style = f'fill="none" stroke="#456" marker-end="url(#tip)"{dash}'
    if before == after:
        side = -1 if y1 <= _HEIGHT / 2 else 1
        top = y1 + side * _TALL / 2
        if some:
            x1 += 40
        far = top + side * 40
        path = f"M{x1 - 20:.0f} {top:.0f} C{x1 - 34:.0f} {far:.0f} {x1 + 34:.0f} {far:.0f} {x1 + 20:.0f} {top:.0f}"
        return f'<path d="{path}" {style}/>' + _text(x1, top + side * (52 if some else 38) + 4, label)
    length = math.hypot(x2 - x1, y2 - y1)
    # Bent to its left, so that two arrows between the same states do not cover each other.
    bend = 70 if some else 30
    mx, my = (x1 + x2) / 2 + (y2 - y1) / length * bend, (y1 + y2) / 2 - (x2 - x1) / length * bend
    sx, sy = _edge(x1, y1, mx, my)
    ex, ey = _edge(x2, y2, mx, my)
    tx, ty = (sx + 2 * mx + ex) / 4, (sy + 2 * my + ey) / 4
    return f'<path d="M{sx:.0f} {sy:.0f} Q{mx:.0f} {my:.0f} {ex:.0f} {ey:.0f}" {style}/>' + _text(
        tx, ty - 3, label
    )


def _edge(x: float, y: float, towards_x: float, towards_y: float) -> tuple[float, float]:
    """Where the line from a box's middle towards a point leaves the box."""
    dx, dy = towards_x - x, towards_y - y
    share = min(
        _BOX / 2 / abs(dx) if dx else math.inf,
        _TALL / 2 / abs(dy) if dy else math.inf,
    )
    return x + dx * share, y + dy * share


def _text(x: float, y: float, label: str) -> str:
    halo = 'paint-order="stroke" stroke="#fff" stroke-width="4"'
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="middle" fill="#234" {halo}>{escape(label)}</text>'
