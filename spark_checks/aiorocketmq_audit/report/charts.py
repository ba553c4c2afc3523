"""Charts of waits, orders and counts: retry ladders, message groups, bars. Numbers in, shapes out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aiorocketmq_audit.report.drawing import WIDTH, Drawing, Shape, box, dot, legend, line, text
from aiorocketmq_audit.text import duration

if TYPE_CHECKING:
    from aiorocketmq_audit.figures import Step

TICKS_S = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 120, 600, 1800, 7200, 28_800, 86_400, 259_200)
"""Grid lines of a logarithmic axis of durations, at round numbers."""
Series = Mapping[str, Sequence[int]]
Slots = Sequence[tuple[str, str]]
LOOKS = ("accent", "second", "warn")
LEFT, RIGHT, TOP, FLOOR, HEIGHT = 60.0, 24.0, 44.0, 212.0, 260.0
"""Margins of a chart, its lower border, and its height including the labels below."""


def retry_ladder(steps: Sequence[Step]) -> Drawing:
    """Draw one group's retry ladder: the requested and the observed waits after each attempt."""
    width = WIDTH / 2 if len(steps) <= 8 else WIDTH
    low = max(min((min(s.asked_s, s.seen_least_s) for s in steps), default=1), 0.01) / 1.5
    high = max(max((max(s.asked_most_s, s.seen_most_s) for s in steps), default=10) * 1.5, low * 10)

    def y(seconds: float) -> float:
        return FLOOR - math.log(max(seconds, low) / low) / math.log(high / low) * (FLOOR - TOP)

    shapes = legend(LEFT, 20, [("accent", "requested"), ("good", "observed"), ("bad", "too early")])
    free = HEIGHT
    for tick in TICKS_S:
        if low <= tick <= high and y(tick) < free:
            shapes += _level(y(tick), duration(tick), width)
            free = y(tick) - 15
    slot = (width - LEFT - RIGHT) / max(len(steps), 1)
    for index, step in enumerate(steps):
        x, half, top = LEFT + slot * (index + 0.5), min(slot, 90) * 0.36, y(step.asked_s)
        look = "bad" if step.seen_least_s < step.asked_s * 0.98 - 0.1 else "good"
        observed = f"{duration(step.seen_s)} ({duration(step.seen_least_s)} to {duration(step.seen_most_s)})"
        tip = f"attempt {step.attempt}: {duration(step.asked_s)} requested, {observed} observed, {step.retries} times"
        shapes += [
            box("accent pale", x - half, top, 2 * half, FLOOR - top, tip),
            line(x - half, top, x + half, top, "edge accent"),
            line(x, y(step.seen_least_s), x, y(step.seen_most_s), f"span {look}"),
            dot(look, x, y(step.seen_s), 5, tip),
            text(x, FLOOR + 18, str(step.attempt), "middle"),
        ]
    shapes.append(text((LEFT + width - RIGHT) / 2, HEIGHT - 8, "attempt that failed", "middle soft"))
    waits = "; ".join(f"attempt {s.attempt}: {duration(s.asked_s)}, {duration(s.seen_s)}" for s in steps)
    return Drawing("Retry ladder", f"Wait requested and wait observed. {waits}.", width, HEIGHT, shapes)


def message_order(rows: Sequence[Mapping[str, Any]]) -> Drawing:
    """Draw deliveries of a message group in the order of observation (to the right), by offset (up).

    The line of an ordered group rises; `finding` of a delivery contains the rules that it violates.
    """
    offsets = sorted({row["offset"] for row in rows})
    slot = (WIDTH - LEFT - RIGHT) / max(len(rows), 1)
    rise = min(30.0, (FLOOR - TOP) / max(len(offsets) - 1, 1))
    floor = TOP + rise * (len(offsets) - 1)
    shapes = legend(LEFT, 20, [("accent", "first delivery (hollow: redelivery)"), ("bad", "finding")])
    for place in sorted({0, len(offsets) // 2, len(offsets) - 1} & set(range(len(offsets)))):
        shapes += _level(floor - place * rise, str(offsets[place]))
    points, offsets_drawn, dots = [], set[object](), []
    for index, row in enumerate(rows):
        x, y = LEFT + slot * (index + 0.5), floor - offsets.index(row["offset"]) * rise
        rule = row["finding"]
        look = "bad" if rule else "accent hollow" if row["message_id"] in offsets_drawn else "accent"
        offsets_drawn.add(row["message_id"])
        tip = f"offset {row['offset']}, attempt {row['attempt']}, {row['message_id']} to {row['client_id']} {rule}"
        dots.append(dot(look, x, y, max(2.5, min(6.0, slot * 0.4)) * (1.4 if rule else 1), tip))
        points.append(f"{x:.1f},{y:.1f}")
    shapes += [Shape("polyline", "path accent", {"points": " ".join(points)}), *dots]
    shapes.append(text((LEFT + WIDTH) / 2, floor + 32, "deliveries in the order observed →", "middle soft"))
    shapes.append(text(LEFT - 8, TOP - 12, "offset", "end soft"))
    description = f"{len(rows)} deliveries of {len(offsets)} messages."
    return Drawing("Order of a message group", description, WIDTH, floor + 40, shapes)


def bars(
    title: str, axis: str, series: Series, slots: Slots, *, is_stacked: bool = False, early: int = 0
) -> Drawing:
    """Draw counts as bars, several series grouped or stacked; the first `early` ones are marked as bad.

    `slots` are the names of the bars, and the labels at the left of each, if there is enough space.
    """
    columns = list(zip(*series.values(), strict=True))
    most = max([sum(column) if is_stacked else max(column) for column in columns], default=0) or 1
    slot = (WIDTH - LEFT - RIGHT) / len(slots)
    gap, width = slot * 0.08, slot * 0.84 / (1 if is_stacked else len(series))
    shapes = legend(LEFT, 20, zip(LOOKS, series, strict=False))
    step = next(s * 10**power for power in range(20) for s in (1, 2, 5) if most <= 4 * s * 10**power)
    for value in range(0, most + 1, step):
        shapes += _level(FLOOR - value / most * (FLOOR - TOP), f"{value:,}")
    for index, ((name, border), column) in enumerate(zip(slots, columns, strict=True)):
        x, y = LEFT + slot * index, FLOOR
        for place, (look, observer, count) in enumerate(zip(LOOKS, series, column, strict=False)):
            size = max(2.0, count / most * (FLOOR - TOP)) if count else 0.0
            y = (y if is_stacked else FLOOR) - size
            at = x + gap + (0 if is_stacked else place * width)
            if count:
                shapes.append(
                    box("bad" if index < early else look, at, y, width, size, f"{count:,} {observer}, {name}")
                )
        if index % math.ceil(len(slots) / 12) == 0:
            shapes.append(text(x, FLOOR + 18, border, "middle small"))
    shapes.append(text((LEFT + WIDTH) / 2, HEIGHT - 8, axis, "middle soft"))
    totals = "; ".join(f"{name}: {sum(counts):,}" for name, counts in series.items())
    return Drawing(title, f"{axis}. {totals}.", WIDTH, HEIGHT, shapes)


def _level(y: float, name: str, width: float = WIDTH) -> list[Shape]:
    return [line(LEFT, y, width - RIGHT, y), text(LEFT - 8, y + 4, name, "end")]
