"""The pictures of the demonstration's page: hand-made SVG in the page's own colours, readable without a script."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from aiorocketmq_conformance.demo.histories import Life, Moment, Rung, duration

WIDTH = 960
LEFT, RIGHT = 110, 24

CSS_CLASS = {
    Moment.STORED: "stored",
    Moment.DELIVERED: "delivered",
    Moment.RETRY_ASKED: "retry",
    Moment.LEASE_ENDED: "ended",
    Moment.ACKED: "acked",
    Moment.DEAD_LETTER: "dead",
}
LANES = tuple(CSS_CLASS)


class LogScale:
    """Places seconds on the x axis so that one second and ten hours are both to be seen."""

    def __init__(self, longest: float) -> None:
        self._span = math.log1p(max(longest, 1.0))

    def x(self, seconds: float) -> float:
        """The place of a time, in the picture's own units."""
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log1p(max(seconds, 0.0)) / self._span

    def ticks(self, longest: float) -> list[float]:
        """Round times that fit."""
        return [tick for tick in (0, 1, 10, 60, 600, 3600, 4 * 3600, 12 * 3600, 48 * 3600) if tick <= longest]


def timeline(told: Life) -> str:
    """One lane for each kind of moment, time from left to right on a logarithmic axis."""
    height = 40 + 30 * len(LANES)
    longest = max(step.at for step in told.steps)
    scale = LogScale(longest)
    parts = [
        _open(height, f"Time line of message {told.message_id}", "Moments of one message, by kind and time.")
    ]
    for tick in scale.ticks(longest):
        x = scale.x(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="10" y2="{height - 26}"/>')
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{height - 8}" text-anchor="middle">{duration(tick)}</text>'
        )
    for lane, moment in enumerate(LANES):
        y = 24 + 30 * lane
        parts.append(
            f'<text class="lane" x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{moment.value}</text>'
        )
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts += [
            f'<circle class="{CSS_CLASS[moment]}" cx="{scale.x(step.at):.1f}" cy="{y}" r="7">'
            f"<title>{escape(f'{duration(step.at)}: {moment.value}, {step.detail}')}</title></circle>"
            for step in told.steps
            if step.moment is moment
        ]
    return "".join([*parts, "</svg>"])


def ladder_chart(rungs: Sequence[Rung]) -> str:
    """Expected and seen wait of every rung, side by side, on a logarithmic axis."""
    row = 24
    height = 44 + row * len(rungs)
    longest = max(max(rung.expected, rung.seen) for rung in rungs)
    scale = LogScale(longest)
    parts = [
        _open(
            height,
            "Retry ladder, expected and seen",
            "Two bars for each retry: the table's wait and the real one.",
        )
    ]
    for tick in scale.ticks(longest):
        x = scale.x(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="10" y2="{height - 26}"/>')
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{height - 8}" text-anchor="middle">{duration(tick)}</text>'
        )
    for place, rung in enumerate(rungs):
        y = 12 + row * place
        words = escape(
            f"retry {rung.attempt}: expected {duration(rung.expected)}, seen {duration(rung.seen)}"
        )
        parts.append(
            f'<text class="lane" x="{LEFT - 12}" y="{y + 14}" text-anchor="end">retry {rung.attempt}</text>'
        )
        for offset, name, value in ((0, "expected", rung.expected), (9, "seen", rung.seen)):
            parts.append(
                f'<rect class="{name}" x="{LEFT}" y="{y + offset}" height="8" width="{scale.x(value) - LEFT:.1f}">'
                f"<title>{words}</title></rect>"
            )
    return "".join([*parts, "</svg>"])


def _open(height: int, title: str, description: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"
    )
