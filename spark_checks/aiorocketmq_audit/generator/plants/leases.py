"""Faults of leases: messages that come while they are held, after they were acknowledged, too early, or never."""

from __future__ import annotations

from functools import partial

from aiorocketmq_audit.generator.plants.registry import Accused, kind
from aiorocketmq_audit.generator.scene import NORMAL, Handed, Scene

_excl = partial(kind, check="double delivery", invariant="INV-EXCL")
_acked = partial(kind, check="double delivery", invariant="INV-ACKED")
_early = partial(kind, check="retry timing", invariant="INV-EARLY")
_late = partial(kind, check="retry timing", invariant="INV-LATE")


def _again(s: Scene, at: float, *, ordered: bool = False, client: str = "b") -> Accused:
    """A first delivery, and a second one `at` seconds later, which is acknowledged."""
    mail = s.mail(ordered=ordered)
    s.deliver(mail, 1)
    second = s.deliver(mail, 1 + at, 2, client=client)
    s.ack(second, 1.5 + at)
    return second


@_excl("excl.other-consumer")
def _(s: Scene) -> Accused:
    return _again(s, 5)


@_excl("excl.same-consumer")
def _(s: Scene) -> Accused:
    return _again(s, 5, client="a")


@_excl("excl.last-moment")
def _(s: Scene) -> Accused:
    return _again(s, s.hold - 0.2)


@_excl("excl.ordered")
def _(s: Scene) -> Accused:
    return _again(s, 5, ordered=True)


@_excl("excl.seen-by-client", observer="client")
def _(s: Scene) -> Accused:
    return _again(s, 5)


@_excl("excl.prolonged")
def _(s: Scene) -> Accused:
    mail = s.mail()
    s.extend(s.deliver(mail, 1), 2, 2 * s.hold)
    second = s.deliver(mail, 1.5 + s.hold, 2)
    s.ack(second, 3 + s.hold)
    return second


@_excl("excl.third")
def _(s: Scene) -> Accused:
    mail = s.mail()
    s.deliver(mail, 1)
    s.deliver(mail, 1.5 + s.hold, 2)
    third = s.deliver(mail, 6 + s.hold, 3)
    s.ack(third, 7 + s.hold)
    return third


def _after_ack(s: Scene, later: float, *, ordered: bool = False, client: str = "a") -> Accused:
    mail = s.mail(ordered=ordered)
    s.ack(s.deliver(mail, 1), 2)
    second = s.deliver(mail, 2 + later, 2, client=client)
    s.ack(second, 3 + later)
    return second


@_acked("acked.soon")
def _(s: Scene) -> Accused:
    return _after_ack(s, 1)


@_acked("acked.long-ago")
def _(s: Scene) -> Accused:
    return _after_ack(s, 3_600)


@_acked("acked.other-consumer")
def _(s: Scene) -> Accused:
    return _after_ack(s, s.hold, client="b")


@_acked("acked.ordered")
def _(s: Scene) -> Accused:
    return _after_ack(s, 2 * s.hold, ordered=True)


@_acked("acked.seen-by-client", observer="client")
def _(s: Scene) -> Accused:
    return _after_ack(s, 2 * s.hold)


@_acked("acked.prolonged")
def _(s: Scene) -> Accused:
    mail = s.mail()
    given = s.deliver(mail, 1)
    s.extend(given, 2, 2 * s.hold)
    s.ack(given, 2 + 1.5 * s.hold)
    second = s.deliver(mail, 10 + 2 * s.hold, 2)
    s.ack(second, 11 + 2 * s.hold)
    return second


@_acked("acked.second")
def _(s: Scene) -> Accused:
    mail = s.mail()
    back = s.nack(s.deliver(mail, 1), 2)
    s.ack(s.deliver(mail, back + 0.1, 2), back + 1)
    third = s.deliver(mail, back + 2 * s.hold, 3)
    s.ack(third, back + 2 * s.hold + 1)
    return third


def _too_soon(s: Scene, share: float, *, ordered: bool = False, attempt: int = 1) -> Accused:
    """After a failed attempt, the next one when only a share of the wait is over."""
    mail = s.mail(ordered=ordered)
    given = s.climb(mail, 1, attempt)
    back = s.nack(given, given.at + 0.1)
    wait = back - given.at - 0.1
    again = s.deliver(mail, back - wait * (1 - share), attempt + 1, client="b")
    s.ack(again, again.at + 0.5)
    return again


@_early("early.half")
def _(s: Scene) -> Accused:
    return _too_soon(s, 0.5)


@_early("early.barely")
def _(s: Scene) -> Accused:
    return _too_soon(s, 1 - 0.15 / s.steps[0])


@_early("early.at-once")
def _(s: Scene) -> Accused:
    return _too_soon(s, 0.001)


@_early("early.second-step")
def _(s: Scene) -> Accused:
    return _too_soon(s, 0.5, attempt=2)


@_early("early.ordered")
def _(s: Scene) -> Accused:
    return _too_soon(s, 0.5, ordered=True)


@_early("early.seen-by-client", observer="client")
def _(s: Scene) -> Accused:
    return _too_soon(s, 0.5)


@_early("early.own-wait", observer="client")
def _(s: Scene) -> Accused:
    mail = s.mail()
    s.nack(s.deliver(mail, 1), 2, 120)
    again = s.deliver(mail, 100, 2)
    s.ack(again, 101)
    return again


_BOUND = 15.0


def _waited(s: Scene, given: Handed, free: float, *, comes: float | None) -> Accused:
    """A poll is open from before `given` is free again until well after the bound."""
    s.poll(free - 1, free + _BOUND + 10)
    if comes is None:
        return given
    again = s.deliver(given.mail, free + comes, given.attempt + 1)
    s.ack(again, again.at + 0.5)
    return again


@_late("late.never")
def _(s: Scene) -> Accused:
    given = s.deliver(s.mail(), 1)
    return _waited(s, given, s.nack(given, 2), comes=None)


@_late("late.lease-ended")
def _(s: Scene) -> Accused:
    given = s.deliver(s.mail(), 1)
    return _waited(s, given, 1 + s.hold, comes=None)


@_late("late.came")
def _(s: Scene) -> Accused:
    given = s.deliver(s.mail(), 1)
    return _waited(s, given, s.nack(given, 2), comes=_BOUND + 5)


@_late("late.barely")
def _(s: Scene) -> Accused:
    given = s.deliver(s.mail(), 1)
    return _waited(s, given, s.nack(given, 2), comes=_BOUND + 0.1)


@_late("late.second-step")
def _(s: Scene) -> Accused:
    given = s.climb(s.mail(), 1, 2)
    return _waited(s, given, s.nack(given, given.at + 1), comes=_BOUND + 5)


@_late("late.seen-by-client", observer="client")
def _(s: Scene) -> Accused:
    given = s.deliver(s.mail(), 1, group=NORMAL)
    return _waited(s, given, s.nack(given, 2), comes=_BOUND + 5)
