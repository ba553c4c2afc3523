"""The report's pictures: numbers in, SVG out. Pure functions, usable on any page that wants them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from aiorocketmq_audit import svg
from aiorocketmq_audit.figures import BUCKETS_S, Step

WIDTH = 860.0

TICKS_S = (0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 36_000.0, 360_000.0)
"""Where a logarithmic axis of durations has lines: at numbers that people use."""


def retry_ladder(steps: Sequence[Step]) -> str:
    """One group's ladder: the wait that was asked for after each attempt, and the wait that was seen."""
    left, right, top, bottom, height = 64.0, 16.0, 44.0, 40.0, 300.0
    low = min((min(s.asked_s, s.seen_least_s) for s in steps), default=1.0)
    high = max((max(s.asked_most_s, s.seen_most_s) for s in steps), default=10.0)
    floor = math.floor(math.log10(max(low, 0.01)))
    ceiling = max(math.ceil(math.log10(max(high, 0.02))), floor + 1)

    def y(seconds: float) -> float:
        share = (math.log10(max(seconds, 10**floor)) - floor) / (ceiling - floor)
        return height - bottom - share * (height - top - bottom)

    slot = min(90.0, (WIDTH - left - right) / max(len(steps), 1))
    width = max(520.0, left + right + slot * len(steps))
    parts = [
        svg.legend(left, 20, [(svg.ACCENT, "asked for"), (svg.GOOD, "seen"), (svg.BAD, "seen too early")])
    ]
    for tick in TICKS_S:
        if 10**floor <= tick <= 10**ceiling:
            parts.append(svg.line(left, y(tick), width - right, y(tick)))
            parts.append(svg.text(left - 8, y(tick) + 4, svg.duration(tick), anchor="end"))
    for index, step in enumerate(steps):
        parts.append(_ladder_step(step, left + slot * (index + 0.5), slot, y))
        parts.append(
            svg.text(left + slot * (index + 0.5), height - bottom + 18, str(step.attempt), anchor="middle")
        )
    parts.append(
        svg.text((left + width) / 2, height - 6, "attempt that failed", anchor="middle", fill_opacity=0.7)
    )
    told = "; ".join(
        f"attempt {s.attempt}: {svg.duration(s.asked_s)}, {svg.duration(s.seen_s)}" for s in steps
    )
    return svg.drawing(
        width,
        height,
        parts,
        title="Retry ladder",
        description=f"Wait asked for and wait seen, by attempt. {told}.",
    )


def _ladder_step(step: Step, x: float, slot: float, y: Any) -> str:
    half = slot * 0.36
    early = step.seen_least_s < step.asked_s * 0.98 - 0.1
    colour = svg.BAD if early else svg.GOOD
    note = (
        f"attempt {step.attempt}: asked for {svg.duration(step.asked_s)}, seen {svg.duration(step.seen_s)} on average "
        f"({svg.duration(step.seen_least_s)} to {svg.duration(step.seen_most_s)}), {step.retries} retries"
    )
    asked = svg.line(
        x - half,
        y(step.asked_s),
        x + half,
        y(step.asked_s),
        stroke=svg.ACCENT,
        stroke_opacity=1,
        stroke_width=3,
    )
    body = svg.element(
        "rect",
        x=x - half,
        y=y(step.asked_s),
        width=2 * half,
        height=max(0.0, y(0) - y(step.asked_s)),
        fill=svg.ACCENT,
        fill_opacity=0.1,
    )
    span = svg.line(
        x, y(step.seen_least_s), x, y(step.seen_most_s), stroke=colour, stroke_opacity=0.6, stroke_width=5
    )
    dot = svg.element("circle", cx=x, cy=y(step.seen_s), r=5.5, fill=colour)
    return svg.element("g", svg.tip(note) + body + asked + span + dot)


def lateness_histogram(lateness: Mapping[str, Sequence[int]]) -> str:
    """How long after the end of its hold a message came again; left of the middle is too early."""
    left, right, top, bottom, height = 56.0, 16.0, 44.0, 52.0, 280.0
    colours = dict(zip(lateness, (svg.ACCENT, svg.SECOND), strict=False))
    most = max((sum(pair) for pair in zip(*lateness.values(), strict=True)), default=0) or 1
    slot = (WIDTH - left - right) / (len(BUCKETS_S) + 1)
    parts = [svg.legend(left, 20, [(colours[name], name) for name in lateness])]
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = height - bottom - share * (height - top - bottom)
        parts.append(svg.line(left, y, WIDTH - right, y))
        parts.append(svg.text(left - 8, y + 4, f"{most * share:,.0f}", anchor="end"))
    for index, name in enumerate(bucket_names()):
        x, y = left + slot * index, height - bottom
        early = index < len(BUCKETS_S) and BUCKETS_S[index] <= 0 and index < 3
        for series, counts in lateness.items():
            if counts[index]:
                size = max(2.0, counts[index] / most * (height - top - bottom))
                y -= size
                note = svg.tip(f"{counts[index]:,} times {series}, {name}")
                colour = svg.BAD if early else colours[series]
                parts.append(
                    svg.element("rect", note, x=x + 4, y=y, width=slot - 8, height=size, rx=2, fill=colour)
                )
        if index < len(BUCKETS_S):
            border = svg.duration(BUCKETS_S[index]).replace("-", "\N{MINUS SIGN}")
            parts.append(
                svg.line(x + slot, height - bottom, x + slot, height - bottom + 5, stroke_opacity=0.6)
            )
            parts.append(svg.text(x + slot, height - bottom + 18, border, anchor="middle"))
    edge = left + slot * 3
    parts.append(svg.line(edge, top - 8, edge, height - bottom, stroke_opacity=0.6, stroke_dasharray="3 3"))
    parts.append(svg.text(edge - 6, top - 2, "too early", anchor="end", fill_opacity=0.7))
    parts.append(svg.text(edge + 6, top - 2, "on time, then late", fill_opacity=0.7))
    parts.append(
        svg.text(
            (left + WIDTH) / 2,
            height - 10,
            "seen after the end of the hold",
            anchor="middle",
            fill_opacity=0.7,
        )
    )
    told = "; ".join(f"{name}: {sum(counts):,}" for name, counts in lateness.items())
    return svg.drawing(
        WIDTH, height, parts, title="Lateness of redeliveries", description=f"Redeliveries by delay. {told}."
    )


def bucket_names() -> list[str]:
    """The names of the lateness buckets, in order."""

    def name(border: float) -> str:
        return svg.duration(border).replace("-", "\N{MINUS SIGN}")

    middle = [f"{name(a)} … {name(b)}" for a, b in pairwise(BUCKETS_S)]
    return [f"< {name(BUCKETS_S[0])}", *middle, f"≥ {name(BUCKETS_S[-1])}"]


def ordering_strip(
    deliveries: Sequence[Mapping[str, Any]], suspects: frozenset[tuple[str, int]] = frozenset()
) -> str:
    """A message group's deliveries in the order seen: each step to the right is one delivery, up is the offset.

    An ordered group climbs; `suspects` are (recorder, seq) of deliveries that broke the order.
    """
    left, right, top, bottom, height = 64.0, 16.0, 44.0, 36.0, 300.0
    offsets = sorted({row["offset"] for row in deliveries if row["offset"] is not None})
    rank = {offset: place for place, offset in enumerate(offsets)}
    rows = [row for row in deliveries if row["offset"] is not None]
    step_x = (WIDTH - left - right) / max(len(rows), 1)
    step_y = (height - top - bottom) / max(len(offsets) - 1, 1)
    seen: set[object] = set()
    points, path = [], []
    for index, row in enumerate(rows):
        x, y = left + step_x * (index + 0.5), height - bottom - rank[row["offset"]] * step_y
        is_bad, is_first = (row["recorder"], row["seq"]) in suspects, row["message_id"] not in seen
        seen.add(row["message_id"])
        note = svg.tip(
            f"offset {row['offset']}, attempt {row['attempt']}, {row['message_id']}, to {row['client_id']}"
        )
        size = max(2.5, min(6.0, step_x * 0.4))
        colour = svg.BAD if is_bad else svg.ACCENT
        points.append(
            svg.element(
                "circle",
                note,
                cx=x,
                cy=y,
                r=size * (1.5 if is_bad else 1),
                fill=colour if is_first or is_bad else "none",
                stroke=colour,
                stroke_width=1.5,
            )
        )
        path.append(f"{x:.1f},{y:.1f}")
    parts = [
        svg.legend(left, 20, [(svg.ACCENT, "first delivery (hollow: again)"), (svg.BAD, "out of order")])
    ]
    for place in sorted({0, len(offsets) // 2, len(offsets) - 1} & set(range(len(offsets)))):
        y = height - bottom - place * step_y
        parts.append(svg.line(left, y, WIDTH - right, y))
        parts.append(svg.text(left - 8, y + 4, str(offsets[place]), anchor="end"))
    line = svg.element("polyline", points=" ".join(path), fill="none", stroke=svg.ACCENT, stroke_opacity=0.35)
    parts += [line, *points]
    parts.append(
        svg.text(
            (left + WIDTH) / 2,
            height - 8,
            "deliveries in the order seen →",
            anchor="middle",
            fill_opacity=0.7,
        )
    )
    parts.append(svg.text(left - 8, top - 10, "offset", anchor="end", fill_opacity=0.7))
    return svg.drawing(
        WIDTH,
        height,
        parts,
        title="Order of a message group",
        description=f"{len(rows)} deliveries of {len(offsets)} messages; {len(suspects)} out of order.",
    )
