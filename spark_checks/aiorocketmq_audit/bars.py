"""Pictures of counts: how long first deliveries took, and when messages became dead letters. Numbers in, SVG out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from aiorocketmq_audit import svg
from aiorocketmq_audit.overview import LATENCY_S
from aiorocketmq_audit.plots import WIDTH

_LEFT, _RIGHT, _TOP, _BOTTOM, _HEIGHT = 60.0, 16.0, 44.0, 52.0, 260.0
_COLOURS = (svg.ACCENT, svg.SECOND, svg.WARN)


def latency_names() -> list[str]:
    """The names of the latency buckets, in order."""
    middle = [f"{svg.duration(a)} … {svg.duration(b)}" for a, b in pairwise(LATENCY_S)]
    return [f"< {svg.duration(LATENCY_S[0])}", *middle, f"≥ {svg.duration(LATENCY_S[-1])}"]


def slice_names(slices: int, slice_s: float) -> list[str]:
    """When each slice of time begins, from the recording's beginning."""
    return [f"+{svg.duration(index * slice_s)}" for index in range(slices)]


def latency_histogram(latency: Mapping[str, Sequence[int]]) -> str:
    """How long it took from the moment that a message could be had to its first delivery."""
    borders = [(index + 1, svg.duration(border)) for index, border in enumerate(LATENCY_S)]
    return _bars(
        latency,
        latency_names(),
        borders,
        title="Delivery latency",
        axis="from store (or due) to first delivery",
        unit="first deliveries",
    )


def letters_over_time(letters: Mapping[str, Sequence[int]], slice_s: float) -> str:
    """How many messages became dead letters in each slice of time."""
    slices = max((len(counts) for counts in letters.values()), default=1)
    marks = [
        (index, f"+{svg.duration(index * slice_s)}") for index in range(0, slices + 1, max(1, slices // 6))
    ]
    return _bars(
        letters,
        slice_names(slices, slice_s),
        marks,
        title="Dead letters over time",
        axis="since the recording began",
        unit="dead letters",
    )


def _bars(
    series: Mapping[str, Sequence[int]],
    names: Sequence[str],
    marks: Sequence[tuple[int, str]],
    *,
    title: str,
    axis: str,
    unit: str,
) -> str:
    """Stacked bars, one for each name; `marks` label the border before a bar."""
    most = max((sum(stack) for stack in zip(*series.values(), strict=True)), default=0) or 1
    slot, floor = (WIDTH - _LEFT - _RIGHT) / len(names), _HEIGHT - _BOTTOM
    colours = {name: _COLOURS[index % len(_COLOURS)] for index, name in enumerate(series)}
    parts = [svg.legend(_LEFT, 20, [(colour, name) for name, colour in colours.items()])]
    for value in sorted({0, most // 2, most}):
        y = floor - value / most * (floor - _TOP)
        parts.append(svg.line(_LEFT, y, WIDTH - _RIGHT, y))
        parts.append(svg.text(_LEFT - 8, y + 4, f"{value:,}", anchor="end"))
    gap = min(4.0, slot * 0.1)
    for index, name in enumerate(names):
        y = floor
        for observer, counts in series.items():
            if counts[index]:
                size = max(2.0, counts[index] / most * (floor - _TOP))
                y -= size
                note = svg.tip(f"{counts[index]:,} {unit} seen by the {observer}, {name}")
                parts.append(
                    svg.element(
                        "rect",
                        note,
                        x=_LEFT + slot * index + gap,
                        y=y,
                        width=max(1.0, slot - 2 * gap),
                        height=size,
                        rx=2,
                        fill=colours[observer],
                    )
                )
    for index, label in marks:
        x = _LEFT + slot * index
        parts.append(svg.line(x, floor, x, floor + 5, stroke_opacity=0.6))
        parts.append(svg.text(x, floor + 18, label, anchor="middle"))
    middle = (_LEFT + WIDTH) / 2
    parts.append(svg.text(middle, _HEIGHT - 10, axis, anchor="middle", fill_opacity=0.7))
    told = "; ".join(f"{name}: {sum(counts):,}" for name, counts in series.items())
    return svg.drawing(WIDTH, _HEIGHT, parts, title=title, description=f"{unit} by {axis}. {told}.")
