"""The figures of page and summary, summed over the cells of the frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import Row

from aiorocketmq_audit.engine import Evaluated
from aiorocketmq_audit.frames.deliveries import LATENESS_S


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a group's retry ladder: the requested and the observed waits after an attempt, in seconds."""

    observer: str
    group: str
    attempt: int
    retries: int
    asked_s: float
    """On average."""
    asked_most_s: float
    seen_least_s: float
    """From the answer of the request to the next delivery."""
    seen_s: float
    seen_most_s: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What was counted."""

    deliveries: int
    first_deliveries: int
    redeliveries: int
    dead_letters: int
    """As the broker recorded them."""
    traced: int
    """Delivered messages with a send that is, or should be, in the recording."""
    confirmed: int
    """Of these, messages with a send that was answered OK."""
    recovered: int
    """Of these, messages with a send of unknown outcome: the delivery proves that they were stored."""
    unknown_order: int
    """Deliveries with a message group to consumer groups for which it is unknown whether they are ordered."""
    causes: Mapping[str, int]
    attempts: Mapping[int, int]
    ladder: tuple[Step, ...]
    lateness: Mapping[str, tuple[int, ...]]
    """By what ended the lease ("retry requested", "lease ended"): counts in the buckets, from before the first on."""
    farthest: tuple[int, int] | None
    """Recorder (hash) and number of the last delivery of the message that was delivered most often."""


def figures(frames: Mapping[str, Evaluated], groups: Mapping[int, str]) -> Figures:
    """Sum the cells; `groups` are the names of consumer groups by their hash."""
    cells = frames["deliveries"].cells if "deliveries" in frames else ()
    sends = [row.asDict() for row in frames["messages"].cells] if "messages" in frames else []
    causes: Counter[str] = Counter()
    by_attempt: Counter[int] = Counter()
    late = {name: [0] * (len(LATENESS_S) + 1) for name in ("retry requested", "lease ended")}
    for cell in cells:
        if cell.cause:
            causes[cell.cause] += cell.redelivered
        if cell.cell_attempt is not None:
            by_attempt[cell.cell_attempt] += cell.n
        if cell.bucket is not None:
            late["retry requested" if cell.retry_requested else "lease ended"][cell.bucket] += (
                cell.redelivered
            )
    farthest = max(cells, key=lambda cell: cell.far_number, default=None)
    return Figures(
        deliveries=sum(cell.n for cell in cells),
        first_deliveries=sum(cell["first"] for cell in cells),
        redeliveries=sum(cell.redelivered for cell in cells),
        dead_letters=sum(cell.dead for cell in cells),
        traced=sum(row.get("judged origin") or 0 for row in sends),
        confirmed=sum(row["known"] for row in sends),
        recovered=sum(row["recovered"] for row in sends),
        unknown_order=sum(cell.unknown_order for cell in cells),
        causes=dict(sorted(causes.items())),
        attempts=dict(sorted(by_attempt.items())),
        ladder=tuple(_ladder(cells, groups)),
        lateness={name: tuple(counts) for name, counts in late.items()},
        farthest=(farthest.far_recorder, farthest.far_seq) if farthest is not None else None,
    )


def _ladder(cells: Iterable[Row], groups: Mapping[int, str]) -> Iterable[Step]:
    steps: dict[tuple[str, str, int], list[Row]] = {}
    for cell in cells:
        if cell.retry_requested and cell.redelivered and cell.cell_attempt:
            observer = "broker" if cell.by_broker else "client"
            steps.setdefault((observer, groups.get(cell.gid, ""), cell.cell_attempt), []).append(cell)
    for (observer, group, attempt), rows in sorted(steps.items()):
        retries = sum(row.redelivered for row in rows)
        yield Step(
            observer=observer,
            group=group,
            attempt=attempt,
            retries=retries,
            asked_s=sum(row.asked_us for row in rows) / retries / 1e6,
            asked_most_s=max(row.asked_most for row in rows) / 1e6,
            seen_least_s=min(row.seen_least for row in rows) / 1e6,
            seen_s=sum(row.seen_us for row in rows) / retries / 1e6,
            seen_most_s=max(row.seen_most for row in rows) / 1e6,
        )
