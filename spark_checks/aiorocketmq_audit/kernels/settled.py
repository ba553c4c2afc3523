"""What was done about each delivery before its message came again, over numbers: what `deliveries` folds together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiorocketmq_audit.deliveries import ACK, CHANGE, DEAD, FAILED, FORWARD, INVOKED, OK, UNKNOWN
from aiorocketmq_audit.kernels.blocks import folded
from aiorocketmq_audit.kernels.events import NONE, Mask, Numbers
from aiorocketmq_audit.kernels.histories import Histories
from aiorocketmq_audit.kernels.nullable import least, plus

CALLED = 8
"""Added to the phase of an answer whose call is not among the rows."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Of each delivery: the last change of its lease, and how it ended; NONE for what nobody told."""

    is_changed: Mask
    change_lo: Numbers
    change_hi: Numbers
    change_hold: Numbers
    reason: NDArray[np.uint8]
    """Of the change; 0 for none."""
    unsure_lo: Numbers
    """The earliest and the latest end of the hold by changes whose effect nobody knows."""
    unsure_hi: Numbers
    acked_hi: Numbers
    dead_hi: Numbers
    ended_lo: Numbers
    ack_unsure: Mask


def settled(rows: Histories) -> Settled:
    """Fold what was done into one row for each delivery."""
    kind, told, lo, hi = (rows.others(name) for name in ("kind", "phase", "lo", "hi"))
    phase, is_called = told % CALLED, told >= CALLED
    given, handle = rows.handles()[rows.settles], rows.others("delivery")
    own = (handle == 0) | (given == 0) | (handle == given)
    answered = (phase == OK) | (phase == FAILED) | (phase == UNKNOWN)
    changed, terminal, acked = own & (kind == CHANGE), np.isin(kind, (ACK, FORWARD)), kind == ACK
    from_lo, from_hi = (plus(at, rows.others("hold")) for at in (lo, hi))

    def of(by: np.ufunc, values: Numbers, where: Mask) -> Numbers:
        where = where & (values != NONE)
        return np.asarray(folded(by, values[where], rows.settles[where], len(rows), NONE))

    def count(where: Mask) -> NDArray[np.int64]:
        return np.bincount(rows.settles[where], minlength=len(rows))

    def is_open(which: Mask) -> Mask:
        return np.asarray(count(which & (phase == INVOKED)) > count(which & answered))

    sure = changed & (phase == OK)
    last = _last(rows.settles, sure, len(rows))
    change = _picked(rows.others, last)
    call, unknown = changed & ((phase == INVOKED) | is_called), changed & (phase == UNKNOWN)
    is_unsure = (count(unknown) > 0) | is_open(changed)
    unsure_lo = of(np.minimum, from_lo, call | unknown)
    # A call was seen when it was made, an answer when it came.
    unsure_hi = np.maximum(
        of(np.maximum, from_hi, unknown | (changed & (phase == INVOKED))),
        of(np.maximum, from_lo, changed & is_called),
    )
    open_end = is_open(terminal)
    ended = of(np.minimum, lo, (terminal & ((phase == OK) | (phase == UNKNOWN))) | (kind == DEAD))
    called = of(np.minimum, lo, terminal & (phase == INVOKED))
    return Settled(
        is_changed=last >= 0,
        change_lo=change("lo", NONE),
        change_hi=change("hi", NONE),
        change_hold=change("hold", NONE),
        reason=change("reason", 0),
        unsure_lo=np.where(is_unsure, unsure_lo, NONE),
        unsure_hi=np.where(is_unsure, unsure_hi, NONE),
        acked_hi=of(np.minimum, hi, own & acked & (phase == OK)),
        dead_hi=of(np.minimum, hi, kind == DEAD),
        ended_lo=least(ended, np.where(open_end, called, NONE)),
        ack_unsure=(count(acked & (phase == UNKNOWN)) > 0) | open_end,
    )


def _last(settles: NDArray[np.intp], where: Mask, count: int) -> NDArray[np.intp]:
    """Of each delivery the last of these rows; -1 without any."""
    return np.asarray(folded(np.maximum, np.flatnonzero(where), settles[where], count, -1))


def _picked(
    others: Callable[[str], NDArray[Any]], which: NDArray[np.intp]
) -> Callable[[str, int], NDArray[Any]]:
    def column(name: str, missing: int) -> NDArray[Any]:
        values = others(name)
        found = np.full(len(which), missing, values.dtype)
        found[which >= 0] = values[which[which >= 0]]
        return found

    return column
