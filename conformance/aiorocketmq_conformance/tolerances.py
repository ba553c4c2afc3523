"""The one table of tolerances: what "in time" means, from the numbers that the target declares.

Lower bounds are hard on every machine; upper bounds are proposals above what an overloaded machine showed
(live-broker-consumption.md section 12).
"""

from __future__ import annotations

from dataclasses import dataclass

from aiorocketmq_conformance.probe.answers import Delivery
from aiorocketmq_conformance.target import Target

# Seconds in which something that needs no waiting in the broker has to come, on a machine that is busy.
PROMPT = 10.0
# Seconds of quiet that a case opens to see that nothing comes; longer than one revive round (end + 2…5 s).
QUIET_WINDOW = 15.0


@dataclass(frozen=True, slots=True)
class Window:
    """The span, in seconds from the start of an interval, in which something has to happen."""

    low: float
    high: float

    def check(self, seen: float, what: str) -> None:
        """AssertionError when `seen` lies outside."""
        assert seen >= self.low, f"{what} after {seen:.3f} s, {self.low - seen:.3f} s too early"
        assert seen <= self.high, f"{what} after {seen:.3f} s, {seen - self.high:.3f} s too late"

    def check_return(self, first: Delivery, second: Delivery) -> None:
        """AssertionError when a message came back before or after this window, counted from its receive.

        The lease began between the moment the receive was sent and the moment its message was here: so "too early" is
        counted from the one and "too late" from the other, and a busy machine cannot make a server look early.
        """
        soonest, latest = second.at - first.at, second.at - first.asked_at
        assert latest >= self.low, (
            f"{second} came back after {latest:.3f} s, {self.low - latest:.3f} s too early"
        )
        assert soonest <= self.high, (
            f"{second} came back after {soonest:.3f} s, {soonest - self.high:.3f} s too late"
        )


def lag(target: Target) -> float:
    """How much later than promised things may come because server and machine are busy, as seen in this case."""
    return target.clock.traffic.slowest_answer()


def wake(target: Target) -> Window:
    """When a parked poll has to be answered with what it waits for, counted from the answer to its cause (R5.19)."""
    return Window(-PROMPT, target.number("wake.high") + lag(target))


def expiry(target: Target, lease: float, *, ordered: bool = False) -> Window:
    """When a message whose lease of `lease` seconds ran out has to be delivered again (rules R7.1, R8.12)."""
    if ordered:
        return Window(
            lease - target.number("early"), lease + target.number("revive.ordered.high") + lag(target)
        )
    low, high = target.number("revive.low"), target.number("revive.high")
    return Window(lease + low - target.number("early"), lease + high + lag(target))


def nack(target: Target, asked: float, *, ordered: bool = False) -> Window:
    """When a message changed to `asked` seconds has to be delivered again, counted from the call (rule R6.10)."""
    if ordered:
        return Window(
            asked - target.number("early"), asked + target.number("revive.ordered.high") + lag(target)
        )
    low, high = target.number("nack.low"), target.number("nack.high")
    return Window(asked + low - target.number("early"), asked + high + lag(target))


def empty_poll(target: Target, poll: float) -> Window:
    """How long an empty poll of `poll` seconds may take (rules R5.17, R5.19)."""
    return Window(poll - 0.2, poll + target.number("poll.late") + lag(target))
