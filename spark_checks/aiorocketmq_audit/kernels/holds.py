"""How each hold ended, and what came next, over numbers: what `screen` and `deliveries.with_hold` say of a delivery."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiorocketmq_audit.deliveries import ACK, CHANGE, DEAD, DELIVER, EXTEND, FORWARD, NO_LADDER, OK, RETRY
from aiorocketmq_audit.kernels.events import NONE, Mask, Numbers
from aiorocketmq_audit.kernels.histories import Histories
from aiorocketmq_audit.kernels.nullable import is_below, least, plus
from aiorocketmq_audit.kernels.question import Settings
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
    """The settings of each delivery's group; without any, nothing is tolerated."""
    which = rows.given("settings")
    return Group(
        np.append(settings.ordered, NONE)[which],
        np.append(settings.told_by_broker, False)[which],
        np.append(settings.max_attempts, NONE)[which],
        np.append(settings.early, 0)[which],
        np.append(settings.late, 0)[which],
        _steps(settings, which, rows.given("attempt")),
    )


@dataclass(frozen=True, slots=True)
class Next:
    """What came after each delivery: the row that settled it, and the next delivery."""

    kind: NDArray[np.uint8]
    """Of the next row; 0 without one."""
    settles: Mask
    """That row ended the hold, or moved its end."""
    is_simple: Mask
    """There is nothing else before the next delivery."""
    settled_lo: Numbers
    settled_hi: Numbers
    lo: Numbers
    hi: Numbers
    hold: Numbers
    attempt: Numbers
    again: NDArray[np.uint64]

    def settled_by(self, kind: int) -> Mask:
        """Whether the hold was ended, or changed, by this."""
        return np.asarray(self.settles & (self.kind == kind))


def followed(rows: Histories) -> Next:
    """Look at the next two rows of each delivery."""
    kind, second_kind = rows.after(1, rows.kind, 0), rows.after(2, rows.kind, 0)
    mine, other = rows.given("delivery"), rows.after(1, rows.rows("delivery"), 0)
    own = ((mine == 0) | (other == 0) | (mine == other)) & (rows.after(1, rows.rows("phase"), 0) == OK)
    settles = (np.isin(kind, (ACK, FORWARD, CHANGE)) & own) | (kind == DEAD)
    second = settles & (second_kind == DELIVER)

    def following(name: str, missing: int) -> NDArray[Any]:
        column = rows.rows(name, missing)
        later = np.where(second, rows.after(2, column, missing), missing)
        return np.where(kind == DELIVER, rows.after(1, column, missing), later)

    return Next(
        kind=kind,
        settles=settles,
        is_simple=(kind == 0) | (kind == DELIVER) | (settles & ((second_kind == 0) | second)),
        settled_lo=rows.after(1, rows.rows("lo"), NONE),
        settled_hi=rows.after(1, rows.rows("hi"), NONE),
        lo=following("lo", NONE),
        hi=following("hi", NONE),
        hold=following("hold", NONE),
        attempt=following("attempt", NONE),
        again=following("again", 0),
    )


@dataclass(frozen=True, slots=True)
class Hold:
    """Of each delivery: until when it was held, and how that ended."""

    until_lo: Numbers
    until_hi: Numbers
    is_crossing: Mask
    """A change of the lease was answered after the next delivery."""
    asked: Mask
    """The wait was asked for by a retry."""
    asked_hi: Numbers
    wait: Numbers
    reason: NDArray[np.uint8]
    acked_hi: Numbers
    dead_hi: Numbers
    end_lo: Numbers


def held(rows: Histories, after: Next, group: Group) -> Hold:
    """Bound the ends of holds."""
    lo, hi, hold, attempt = (rows.given(name) for name in ("lo", "hi", "hold", "attempt"))
    changed = after.settled_by(CHANGE)
    change_hold = np.where(changed, rows.after(1, rows.rows("hold"), NONE), NONE)
    base_lo, base_hi = plus(lo, hold), plus(hi, hold)
    moved_lo, moved_hi = plus(after.settled_lo, change_hold), plus(after.settled_hi, change_hold)
    crossing = changed & (after.hi != NONE) & (after.settled_hi > after.hi)
    last_lo = np.where(crossing, least(base_lo, moved_lo), moved_lo)
    last_hi = np.where(crossing, np.maximum(base_hi, moved_hi), moved_hi)
    is_held = (hold != NONE) | changed
    until_lo = np.where(is_held, np.where(changed, last_lo, base_lo), NONE)
    reason = np.where(changed, rows.after(1, rows.rows("reason"), 0), 0)
    on_ladder = (change_hold == group.step) & (group.step != NONE) & (reason != NO_LADDER)
    is_told = (reason == RETRY) | (reason == EXTEND)
    asked = changed & np.where(is_told, reason == RETRY, on_ladder | is_below(moved_lo, base_lo))
    ended_lo = np.where(after.settles & ~changed, after.settled_lo, NONE)
    most = np.where(group.max_attempts == NONE, 1, group.max_attempts)
    exhausted = (after.hi == NONE) & (attempt != NONE) & (attempt >= most)
    return Hold(
        until_lo=until_lo,
        until_hi=np.where(is_held, np.where(changed, last_hi, base_hi), NONE),
        is_crossing=crossing,
        asked=asked,
        asked_hi=np.where(asked, after.settled_hi, NONE),
        wait=np.where(asked, change_hold, NONE),
        reason=reason,
        acked_hi=np.where(after.settled_by(ACK), after.settled_hi, NONE),
        dead_hi=np.where(after.settled_by(DEAD), after.settled_hi, NONE),
        end_lo=least(ended_lo, np.where(exhausted, np.where(until_lo == NONE, lo, until_lo), NONE)),
    )


@dataclass(frozen=True, slots=True)
class End:
    """When the message of each delivery was over, for the order of its message group and for whoever waits."""

    is_odd: Mask
    """Its way is not so simple: the exact pass has to look."""
    done_lo: Numbers
    end: Numbers


def ended(rows: Histories, after: Next, hold: Hold) -> End:
    """Look at all rows of each message."""
    head = rows.head()
    odd_row = ~after.is_simple | (head != DELIVER) | rows.has_copies()
    told, is_last = rows.ended(), after.hi == NONE
    # An end that is too late only makes suspicious, so odd messages need not be understood.
    used_up = np.where(~odd_row & is_last, hold.end_lo, NONE)
    known = least(least(rows.came_again(), told), used_up)
    return End(
        is_odd=rows.in_message(odd_row),
        done_lo=least(told, np.where(is_last, hold.end_lo, NONE)),
        end=np.where((head == DELIVER) & (known != NONE), known, NEVER),
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
