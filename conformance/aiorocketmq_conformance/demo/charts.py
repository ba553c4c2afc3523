"""Charts of the demonstration's page: SVG in the page's colours, without scripts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from aiorocketmq_conformance.demo.histories import EventKind, History, Retry, duration

WIDTH = 960
LEFT, RIGHT = 110, 24

CSS_CLASS = {
    EventKind.STORED: "stored",
    EventKind.DELIVERED: "delivered",
    EventKind.NACKED: "retry",
    EventKind.LEASE_EXPIRED: "ended",
    EventKind.ACKED: "acked",
    EventKind.DEAD_LETTER: "dead",
}
LANES = tuple(CSS_CLASS)


class LogScale:
    """A logarithmic x axis that shows one second and ten hours."""

    def __init__(self, longest: float) -> None:
        self._span = math.log1p(max(longest, 1.0))

    def x(self, seconds: float) -> float:
        """Return the position of a time, in units of the chart."""
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log1p(max(seconds, 0.0)) / self._span

    def ticks(self, longest: float) -> list[float]:
        """Return round times within the axis."""
        return [tick for tick in (0, 1, 10, 60, 600, 3600, 4 * 3600, 12 * 3600, 48 * 3600) if tick <= longest]


def timeline(history: History) -> str:
    """Return a chart with a row for each kind of event, on a logarithmic time axis."""
    height = 40 + 30 * len(LANES)
    longest = max(event.at for event in history.events)
    scale = LogScale(longest)
    parts = [
        _open(
            height, f"Time line of message {history.message_id}", "Events of one message, by kind and time."
        )
    ]
    for tick in scale.ticks(longest):
        x = scale.x(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="10" y2="{height - 26}"/>')
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{height - 8}" text-anchor="middle">{duration(tick)}</text>'
        )
    for lane, kind in enumerate(LANES):
        y = 24 + 30 * lane
        parts.append(f'<text class="lane" x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{kind.value}</text>')
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts += [
            f'<circle class="{CSS_CLASS[kind]}" cx="{scale.x(event.at):.1f}" cy="{y}" r="7">'
            f"<title>{escape(f'{duration(event.at)}: {kind.value}, {event.detail}')}</title></circle>"
            for event in history.events
            if event.kind is kind
        ]
    return "".join([*parts, "</svg>"])


def retry_chart(retries: Sequence[Retry]) -> str:
    """Return a chart of the expected and the observed wait of every retry, on a logarithmic axis."""
    row = 24
    height = 44 + row * len(retries)
    longest = max(max(retry.expected, retry.observed) for retry in retries)
    scale = LogScale(longest)
    parts = [
        _open(
            height,
            "Retries, expected and observed",
            "Two bars for each retry: the table's wait and the real one.",
        )
    ]
    for tick in scale.ticks(longest):
        x = scale.x(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="10" y2="{height - 26}"/>')
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{height - 8}" text-anchor="middle">{duration(tick)}</text>'
        )
    for place, retry in enumerate(retries):
        y = 12 + row * place
        words = escape(
            f"retry {retry.attempt}: expected {duration(retry.expected)}, observed {duration(retry.observed)}"
        )
        parts.append(
            f'<text class="lane" x="{LEFT - 12}" y="{y + 14}" text-anchor="end">retry {retry.attempt}</text>'
        )
        for offset, name, value in ((0, "expected", retry.expected), (9, "observed", retry.observed)):
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
