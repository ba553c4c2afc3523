"""How long each delivery was held, and what came next, over numbers: what `deliveries.with_hold` says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiorocketmq_audit.deliveries import EXTEND, NO_LADDER, RETRY
from aiorocketmq_audit.kernels.events import NONE, Mask, Numbers
from aiorocketmq_audit.kernels.histories import Histories
from aiorocketmq_audit.kernels.nullable import is_below, least, plus
from aiorocketmq_audit.kernels.question import Settings
from aiorocketmq_audit.kernels.settled import Settled
from aiorocketmq_audit.screen import NEVER


@dataclass(frozen=True, slots=True)
class Group:
    """What is known of the group of each delivery."""

    ordered: Numbers
    told_by_broker: Mask
    max_attempts: Numbers
    early: Numbers
    late: Numbers
    step: Numbers
    """The group's own wait after this attempt, in microseconds."""


def groups(settings: Settings, rows: Histories) -> Group:
    """The settings of each delivery's group; tolerances are the usual ones where nothing is said."""
    which = rows.given("settings")
    return Group(
        settings.ordered[which],
        settings.told_by_broker[which],
        settings.max_attempts[which],
        settings.early[which],
        settings.late[which],
        _steps(settings, which, rows.given("attempt")),
    )


@dataclass(frozen=True, slots=True)
class Next:
    """The next delivery of each one's message; NONE after the last."""

    lo: Numbers
    hi: Numbers
    hold: Numbers
    attempt: Numbers
    again: NDArray[np.uint64]


def followed(rows: Histories) -> Next:
    """Look at what came next."""
    lo, hi, hold, attempt = (rows.next(name, NONE) for name in ("lo", "hi", "hold", "attempt"))
    return Next(lo, hi, hold, attempt, rows.next("again", 0))


@dataclass(frozen=True, slots=True)
class Hold:
    """Of each delivery: until when it was held, and how that ended."""

    until_lo: Numbers
    until_hi: Numbers
    unsure: Mask
    """A change of the lease may have taken effect, or not."""
    asked: Mask
    """The wait was asked for by a retry."""
    asked_hi: Numbers
    wait: Numbers
    done_lo: Numbers
    """When the message was over, at the earliest."""
    end: Numbers
    """When it stood in nobody's way any more, as far as this delivery goes."""


def held(rows: Histories, after: Next, done: Settled, group: Group) -> Hold:
    """Bound the ends of holds."""
    lo, hi, hold, attempt = (rows.given(name) for name in ("lo", "hi", "hold", "attempt"))
    base_lo, base_hi = plus(lo, hold), plus(hi, hold)
    moved_lo, moved_hi = plus(done.change_lo, done.change_hold), plus(done.change_hi, done.change_hold)
    # A change whose answer came after the next delivery may have taken effect on either side of it.
    crossing = done.is_changed & (after.hi != NONE) & (done.change_hi > after.hi)
    last_lo = np.where(crossing, least(base_lo, moved_lo), moved_lo)
    last_hi = np.where(crossing, np.maximum(base_hi, moved_hi), moved_hi)
    is_held, is_unsure = (hold != NONE) | done.is_changed, done.unsure_lo != NONE
    until_lo = least(np.where(done.is_changed, last_lo, base_lo), done.unsure_lo)
    until_hi = np.maximum(np.where(done.is_changed, last_hi, base_hi), done.unsure_hi)
    until_lo, until_hi = (np.where(is_held, until, NONE) for until in (until_lo, until_hi))
    on_ladder = (done.change_hold == group.step) & (group.step != NONE) & (done.reason != NO_LADDER)
    is_told = (done.reason == RETRY) | (done.reason == EXTEND)
    by_sight = on_ladder | is_below(moved_lo, base_lo)
    asked = done.is_changed & np.where(is_told, done.reason == RETRY, by_sight)
    most = np.where(group.max_attempts == NONE, 1, group.max_attempts)
    exhausted = (after.hi == NONE) & (attempt != NONE) & (attempt >= most)
    ended = least(done.ended_lo, np.where(exhausted, np.where(until_lo == NONE, lo, until_lo), NONE))
    done_lo = rows.least(ended)
    end = least(after.hi, done_lo)
    return Hold(
        until_lo=until_lo,
        until_hi=until_hi,
        unsure=is_unsure | crossing,
        asked=asked & ~is_unsure,
        asked_hi=np.where(asked, done.change_hi, NONE),
        wait=np.where(asked, done.change_hold, NONE),
        done_lo=done_lo,
        end=np.where(end == NONE, NEVER, end),
    )


def _steps(settings: Settings, group: NDArray[Any], attempt: Numbers) -> Numbers:
    """The group's own wait after this attempt, in microseconds; the last step repeats."""
    longest = max((len(steps) for steps in settings.steps), default=0)
    if not longest:
        return np.full(len(group), NONE, np.int64)
    ladder = np.full((len(settings.steps) + 1, longest), NONE, np.int64)
    for row, steps in enumerate(settings.steps):
        if steps:
            ladder[row] = [1000 * steps[min(index, len(steps) - 1)] for index in range(longest)]
    found: Numbers = ladder[group, np.clip(attempt, 1, longest) - 1]
    return np.where(attempt >= 1, found, NONE)
