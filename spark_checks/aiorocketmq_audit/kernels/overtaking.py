"""INV-ORD and INV-ORD-FIRST over numbers, for a few message groups: what `ordering.suspects` finds.

`borders` finds the message groups by less: it knows of no clocks that are apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aiorocketmq_audit.kernels.blocks import begins_of
from aiorocketmq_audit.kernels.events import NONE, Mask
from aiorocketmq_audit.kernels.histories import Histories
from aiorocketmq_audit.kernels.texts import mixed


@dataclass(frozen=True, slots=True)
class Overtaking:
    """A first delivery that broke the order, unless there is an excuse."""

    is_late: bool
    """It came after a later one; or else before an earlier one was over."""
    earlier: int
    """The other delivery, which came before it, by its place among all."""
    later: int


class _Open(NamedTuple):
    """A delivery that may stand in the way of others: of several, the last to be over does."""

    end: int
    offset: int
    hi: int
    which: int


class _First(NamedTuple):
    """A first delivery: of several, that with the highest offset was passed over, if any was."""

    offset: int
    hi: int
    which: int


def by_one_clock(rows: Histories) -> Mask:
    """Whether one recorder told all that is known of each delivery's message."""
    mine, following = rows.given("recorder"), rows.next("recorder", 0)
    elsewhere = (following != 0) & (following != mine)
    elsewhere[rows.settles[rows.others("recorder") != mine[rows.settles]]] = True
    return np.asarray(rows.least(np.where(elsewhere, 0, NONE)) == NONE)


def overtakings(given: Mapping[str, NDArray[Any]], which: Mask) -> Iterator[Overtaking]:
    """What is out of order among `which` of these deliveries."""
    indices = np.flatnonzero(which)
    seq, hi, place, lane = (given[name][indices] for name in ("seq", "hi", "place", "lane"))
    key = mixed(lane, place)
    order = np.lexsort((seq, hi, key))
    for one in np.split(indices[order], np.flatnonzero(begins_of(key[order]))[1:]):
        yield from _in_one(given, one)


def _in_one(given: Mapping[str, NDArray[Any]], indices: NDArray[np.intp]) -> Iterator[Overtaking]:
    """Of one message group and queue, in the order of time."""
    names = ("offset", "hi", "end", "answer", "recorder", "apart", "number", "attempt")
    columns = (given[name][indices].tolist() for name in names)
    recorders, answers, by_one = (given[name] for name in ("recorder", "answer", "one_clock"))
    opened: _Open | None = None
    in_front: _Open | None = None
    passed: _First | None = None
    before = None
    for index, offset, hi, end, answer, recorder, apart, number, attempt in zip(
        indices.tolist(), *columns, strict=True
    ):
        # The messages of one answer do not wait for each other; what stood before the first of them did for all.
        if answer != before:
            before, in_front = answer, opened or in_front
        if number == 1:
            # With a higher number it is not the first one, though nobody told of those before.
            if (
                passed
                and attempt in (NONE, 1)
                and passed.offset > offset
                and passed.hi <= hi - (0 if recorders[passed.which] == recorder else apart)
            ):
                yield Overtaking(True, passed.which, index)
            elif in_front and in_front.offset < offset and answers[in_front.which] != answer:
                is_one = by_one[in_front.which] and recorders[in_front.which] == recorder
                if in_front.end > hi + (0 if is_one else apart):
                    yield Overtaking(False, in_front.which, index)
            first = _First(offset, hi, index)
            passed = max(passed, first) if passed else first
        one = _Open(end, offset, hi, index)
        opened = max(opened, one) if opened else one
