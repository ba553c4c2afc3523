"""Histories of messages in a group: the attempts of each, how they end, and when the next one begins.

Times are in ticks from the first delivery. All histories of a group are drawn at once, attempt by attempt: each round
contains the messages that are redelivered.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aiorocketmq_audit.generator.columns import Bools, Ints
from aiorocketmq_audit.generator.shape import Shape

TICK_US = 10_000
"""Deliveries are at whole ticks, settlements between them."""

ACK, EXTENDED, ACK_LOST, ACK_IN_VAIN, NACK, EXPIRED, SLOW, UNSEEN, CRASHED, FORGOTTEN, FORWARDED, BURIED = (
    range(12)
)
"""Outcomes of an attempt. ACK_LOST took effect, ACK_IN_VAIN did not; UNSEEN never reached its consumer; FORGOTTEN was
acknowledged just before a restart; FORWARDED and BURIED are last attempts, in ordered and normal groups."""

COMES_AGAIN = (ACK_IN_VAIN, NACK, EXPIRED, SLOW, UNSEEN, CRASHED, FORGOTTEN)


@dataclass(frozen=True, slots=True)
class Histories:
    """One row per attempt, and the length of each history."""

    history: Ints
    number: Ints
    begin: Ints
    """Ticks from the first attempt."""
    work: Ints
    """Ticks from delivery to settlement."""
    outcome: Ints
    wait: Ints
    """Milliseconds requested by a NACK (or before being BURIED), else -1."""
    length: Ints
    """Per history: ticks from its first delivery to its end."""


def histories(
    chance: np.random.Generator,
    shape: Shape,
    dead: Bools,
    *,
    ordered: bool,
    crashes: Ints,
    restarts: Ints,
) -> Histories:
    """Draw a history for each entry of `dead`, which is true for messages that fail always.

    `crashes` and `restarts` are the histories with a first delivery that ends in this way.
    """
    hold = shape.hold_ms * 1000 // TICK_US
    steps = np.array(shape.steps_ms[:1] if ordered else shape.steps_ms, np.int64)
    active, begin = np.arange(len(dead)), np.zeros(len(dead), np.int64)
    over = np.zeros(len(dead), np.int64)
    rounds: list[tuple[Ints, ...]] = []
    for number in range(1, shape.max_attempts + 1):
        count = len(active)
        if not count and rounds:
            break
        outcome = _outcomes(chance, shape, dead[active], number, ordered=ordered)
        if number == 1:
            outcome[crashes], outcome[restarts] = CRASHED, FORGOTTEN
        work = 1 + chance.geometric(0.6, count)
        wait = np.where(np.isin(outcome, (NACK, BURIED)), steps[min(number, len(steps)) - 1], -1)
        settled = begin + work
        pause = wait * 1000 // TICK_US
        later = 1 + chance.integers(0, 100, count)
        again = begin + hold + later
        again[outcome == NACK] = (settled + pause + later)[outcome == NACK]
        again[outcome == CRASHED] = (begin + 100 + later)[outcome == CRASHED]
        again[outcome == FORGOTTEN] = (settled + 100 + later)[outcome == FORGOTTEN]
        over[active] = np.where(outcome == BURIED, settled + pause, settled)
        rounds.append((active, np.full(count, number), begin, work, outcome, wait))
        goes_on = np.isin(outcome, COMES_AGAIN)
        active, begin = active[goes_on], again[goes_on]
    history, attempt, began, worked, ended, waited = (
        np.concatenate(parts) for parts in zip(*rounds, strict=True)
    )
    return Histories(history, attempt, began, worked, ended, waited, over)


def _outcomes(chance: np.random.Generator, shape: Shape, dead: Bools, number: int, *, ordered: bool) -> Ints:
    drawn = chance.random(len(dead))
    last = number == shape.max_attempts
    outcome = np.full(len(dead), ACK, np.int64)
    edge = 0.0
    shares = {
        EXTENDED: shape.extended,
        ACK_LOST: shape.lost / 2,
        ACK_IN_VAIN: 0.0 if last else shape.lost / 2,
        UNSEEN: 0.0 if last else shape.lost,
        EXPIRED: 0.0 if last else shape.expiries,
        SLOW: 0.0 if last else shape.slow,
        NACK: 0.0 if last else shape.retries,
    }
    for ending, share in shares.items():
        outcome[(drawn >= edge) & (drawn < edge + share)] = ending
        edge += share
    outcome[dead] = (FORWARDED if ordered else BURIED) if last else NACK
    return outcome


def one_after_the_other(ready: Ints, length: Ints, lane: Ints, busy: Ints) -> Ints:
    """Return the begin of each history if those of one lane run one by one, in this order; updates `busy` by lane.

    The begin is a running maximum of the time at which the history is ready, and of the end of the one before it.
    """
    order = np.argsort(lane, kind="stable")
    lane_of, wants, takes = lane[order], ready[order], length[order]
    first = np.r_[True, lane_of[1:] != lane_of[:-1]] if len(order) else np.zeros(0, bool)
    segment = np.cumsum(first) - 1
    wants = np.where(first, np.maximum(wants, busy[lane_of]), wants)
    total = np.cumsum(takes) - takes
    before = total - total[first][segment]
    far = np.int64(1) << 40
    begins = np.maximum.accumulate(wants - before + segment * far) - segment * far + before
    busy[lane_of] = begins + takes
    placed: Ints = np.empty(len(begins), np.int64)
    placed[order] = begins
    return placed
