"""What the checks suspect, over numbers: their predicates on the columns that `deliveries` has."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiorocketmq_audit.deliveries import TAKEN_BACK
from aiorocketmq_audit.figures import BUCKETS_S, MOST_ATTEMPTS
from aiorocketmq_audit.kernels.events import NONE, Mask, Numbers
from aiorocketmq_audit.kernels.histories import Histories
from aiorocketmq_audit.kernels.holds import Group, Hold, Next
from aiorocketmq_audit.kernels.nullable import bucket, is_below, plus
from aiorocketmq_audit.kernels.question import Polls
from aiorocketmq_audit.kernels.settled import Settled

CAUSES = (
    *(None, "answer repeated", "sent twice", "none", "retry asked for", "change of unknown effect"),
    *("ack of unknown effect", "hold not recorded", "lease ended"),
)
"""What `double_delivery.cause` says."""
_FIRST, _REPEATED, _TWICE, _WRONG, _ASKED, _UNSURE, _ACK_UNSURE, _NO_HOLD, _ENDED = range(len(CAUSES))


def suspected(
    rows: Histories,
    after: Next,
    done: Settled,
    hold: Hold,
    group: Group,
    *,
    copies: Mask,
    by_broker: Mask,
    ended_us: int,
    polls: Polls | None,
) -> dict[str, NDArray[Any]]:
    """By check, which deliveries it would look into, with the cause of the next one and its lateness."""
    hi, attempt, due = (rows.given(name) for name in ("hi", "attempt", "due"))
    is_again, attested = after.hi != NONE, group.told_by_broker & ~by_broker
    repeated = (rows.given("again") == after.again) & (after.again != 0)
    acked_in_time = (done.acked_hi != NONE) & ((hold.until_lo == NONE) | (done.acked_hi <= hold.until_lo))
    early_lo, early_hi = (
        is_below(after.hi, plus(until, -group.early)) for until in (hold.until_lo, hold.until_hi)
    )
    looks_early = early_lo | (early_hi & ~attested)
    early_retry = hold.asked & is_again & looks_early & ~acked_in_time & ~repeated
    other_way_round = (after.lo != NONE) & (after.hold != NONE) & (after.lo + after.hold <= hi + group.early)
    cause = np.select(
        [
            ~is_again,
            repeated,
            copies,
            acked_in_time | (early_lo & ~other_way_round),
            hold.asked,
            hold.unsure,
            done.ack_unsure,
            hold.until_lo == NONE,
        ],
        [_FIRST, _REPEATED, _TWICE, _WRONG, _ASKED, _UNSURE, _ACK_UNSURE, _NO_HOLD],
        _ENDED,
    ).astype(np.uint8)
    is_timed = np.isin(cause, (_ASKED, _ENDED, _WRONG)) & is_again & (hold.until_hi != NONE)
    late = _is_late(rows, after, done, hold, group, ended_us) & ~copies
    if polls is not None:
        first, queue = rows.given("poll")[late], rows.given("queue")[late]
        free, bound = hold.until_hi[late], hold.until_hi[late] + group.late[late]
        late[late] = polls.cover(first, queue, free, bound)
    known = attempt != NONE
    stays = known & (after.attempt != NONE) & (after.attempt <= attempt) & ~repeated
    stays &= done.reason != TAKEN_BACK
    skips = known & (after.attempt > attempt + 1) & ~attested
    above = (group.max_attempts > 0) & (attempt > group.max_attempts) & (group.ordered == 0)
    above |= known & (attempt < 1)
    return {
        "cause": cause,
        "bucket": bucket(after.hi - hold.until_hi, is_timed, BUCKETS_S),
        "doubled": is_again & (acked_in_time | (looks_early & ~hold.asked)) & ~repeated,
        "acked_in_time": acked_in_time,
        "too_early": early_lo,
        "other_way_round": other_way_round,
        "mistimed": early_retry | late,
        "early_retry": early_retry,
        "late": late,
        "misnumbered": stays | skips | above,
        "stays": stays,
        "skips": skips,
        "above": above,
        "hurried": is_below(hi, plus(due, -group.early)),
        "buried": (done.dead_hi != NONE) & (after.lo != NONE) & (done.dead_hi < after.lo),
    }


def _is_late(rows: Histories, after: Next, done: Settled, hold: Hold, group: Group, ended_us: int) -> Mask:
    """`retry_timing.is_suspiciously_late`."""
    bound = plus(hold.until_hi, group.late)
    is_open = (
        (after.hi == NONE) & (hold.done_lo == NONE) & is_below(rows.given("attempt"), group.max_attempts)
    )
    waited = (bound != NONE) & ((after.hi > bound) | (is_open & (ended_us > bound)))
    return np.asarray(waited & (group.ordered != 1) & (done.acked_hi == NONE) & ~hold.unsure)


def is_not_buried(
    rows: Histories,
    after: Next,
    done: Settled,
    hold: Hold,
    group: Group,
    *,
    by_broker: Mask,
    drained: Numbers,
) -> tuple[Mask, Mask]:
    """`drained.not_buried`: what had used up its attempts when its group was `drained`, and what of it is no dead
    letter."""
    used_up = (
        (after.hi == NONE)
        & (group.max_attempts > 0)
        & ~is_below(rows.given("attempt"), group.max_attempts)
        & (rows.given("attempt") != NONE)
    )
    free = used_up & by_broker & (group.ordered == 0) & ~done.ack_unsure
    over = free & is_below(hold.until_hi, drained) & ((done.dead_hi != NONE) | (done.ended_lo == NONE))
    return over, over & (done.dead_hi == NONE)


def attempts_of(rows: Histories) -> Numbers:
    """The attempt by which each delivery is counted."""
    attempt = rows.given("attempt")
    return np.where(attempt == NONE, MOST_ATTEMPTS, np.minimum(attempt, MOST_ATTEMPTS))
