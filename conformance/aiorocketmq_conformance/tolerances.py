"""Tolerances: what "in time" means, from the numbers that the target declares.

Lower bounds hold on every machine; upper bounds are above those measured on an overloaded machine
(live-broker-consumption.md section 12).
"""

from __future__ import annotations

from dataclasses import dataclass

from aiorocketmq_conformance.probe.answers import Delivery
from aiorocketmq_conformance.target import Target

# Seconds within which something without waits in the broker has to happen, on a busy machine.
PROMPT = 10.0
# Seconds of a quiet window; longer than one revive period (expiry + 2…5 s).
QUIET_WINDOW = 15.0


@dataclass(frozen=True, slots=True)
class Window:
    """The time, in seconds from the start of an interval, within which something has to happen."""

    low: float
    high: float

    def check(self, seconds: float, event: str) -> None:
        """Assert that `seconds` is inside; `event` is what happened."""
        assert seconds >= self.low, f"{event} after {seconds:.3f} s, {self.low - seconds:.3f} s too early"
        assert seconds <= self.high, f"{event} after {seconds:.3f} s, {seconds - self.high:.3f} s too late"

    def check_return(self, first: Delivery, second: Delivery) -> None:
        """Assert that a message was redelivered within this window, counted from its receive.

        The lease began between the request and the arrival of the message: "too early" is counted from the one
        and "too late" from the other, so that a busy machine cannot make a server appear early.
        """
        soonest, latest = second.at - first.at, second.at - first.asked_at
        assert latest >= self.low, (
            f"{second} was redelivered after {latest:.3f} s, {self.low - latest:.3f} s too early"
        )
        assert soonest <= self.high, (
            f"{second} was redelivered after {soonest:.3f} s, {soonest - self.high:.3f} s too late"
        )


def lag(target: Target) -> float:
    """Return the extra delay allowed because server and machine are busy, as observed in this case."""
    return target.clock.traffic.slowest_answer()


def wake_window(target: Target) -> Window:
    """Return when a parked poll has to be completed, counted from the response to its cause (R5.19)."""
    return Window(-PROMPT, target.number("wake.high") + lag(target))


def expiry_window(target: Target, lease: float, *, ordered: bool = False) -> Window:
    """Return when a message whose lease of `lease` seconds expired has to be redelivered (rules R7.1, R8.12)."""
    return _redelivery_window(target, "revive", lease, ordered=ordered)


def nack_window(target: Target, seconds: float, *, ordered: bool = False) -> Window:
    """Return when a message changed to `seconds` has to be redelivered, counted from the call (rule R6.10)."""
    return _redelivery_window(target, "nack", seconds, ordered=ordered)


def _redelivery_window(target: Target, name: str, seconds: float, *, ordered: bool) -> Window:
    if ordered:
        low, high = 0.0, target.number("revive.ordered.high")
    else:
        low, high = target.number(f"{name}.low"), target.number(f"{name}.high")
    return Window(seconds + low - target.number("early"), seconds + high + lag(target))


def empty_poll_window(target: Target, poll: float) -> Window:
    """Return how long an empty poll of `poll` seconds may take (rules R5.17, R5.19)."""
    return Window(poll - 0.2, poll + target.number("poll.late") + lag(target))
