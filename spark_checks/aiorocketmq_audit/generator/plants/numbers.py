"""Faults of numbers: attempts that do not count up, go beyond the limit, and dead letters that should not be."""

from __future__ import annotations

from functools import partial

from aiorocketmq_audit.generator.plants.registry import Accused, kind
from aiorocketmq_audit.generator.scene import ORDERED, Scene

_attempt = partial(kind, check="attempts", invariant="INV-ATTEMPT")
_limit = partial(kind, check="attempts", invariant="INV-LIMIT")
_dlq = partial(kind, check="dead letters", invariant="INV-DLQ")


def _numbered(s: Scene, *numbers: int, ordered: bool = False) -> Accused:
    """Deliveries with these numbers, each after the lease of the one before; the last is accused."""
    mail = s.mail(ordered=ordered)
    at = 1.0
    for number in numbers:
        given = s.deliver(mail, at, number)
        at += s.hold + 0.5
    s.ack(given, given.at + 1)
    return given


@_attempt("attempt.same-again")
def _(s: Scene) -> Accused:
    return _numbered(s, 1, 1)


@_attempt("attempt.falls")
def _(s: Scene) -> Accused:
    return _numbered(s, 1, 2, 3, 2)


@_attempt("attempt.begins-anew")
def _(s: Scene) -> Accused:
    return _numbered(s, 1, 2, 3, 1)


@_attempt("attempt.skips-one")
def _(s: Scene) -> Accused:
    return _numbered(s, 1, 3)


@_attempt("attempt.skips-three")
def _(s: Scene) -> Accused:
    return _numbered(s, 1, 2, 6)


@_attempt("attempt.ordered")
def _(s: Scene) -> Accused:
    return _numbered(s, 1, 1, ordered=True)


@_attempt("attempt.seen-by-client", observer="client")
def _(s: Scene) -> Accused:
    return _numbered(s, 1, 1)


def _beyond(s: Scene, more: int) -> Accused:
    mail = s.mail()
    given = s.climb(mail, 1, s.shape.max_attempts)
    above = []
    for number in range(1, more + 1):
        back = s.nack(given, given.at + 0.1)
        given = s.deliver(mail, back + 0.1, s.shape.max_attempts + number)
        above.append(given)
    s.ack(given, given.at + 1)
    return tuple(above)


@_limit("limit.one-above")
def _(s: Scene) -> Accused:
    return _beyond(s, 1)


@_limit("limit.three-above")
def _(s: Scene) -> Accused:
    return _beyond(s, 3)


@_limit("limit.seen-by-client", observer="client")
def _(s: Scene) -> Accused:
    return _beyond(s, 1)


@_limit("limit.nought")
def _(s: Scene) -> Accused:
    given = s.deliver(s.mail(), 1, 0)
    s.ack(given, 2)
    return given


@_limit("limit.below-nought")
def _(s: Scene) -> Accused:
    given = s.deliver(s.mail(ordered=True), 1, -1)
    s.ack(given, 2)
    return given


@_dlq("dlq.twice")
def _(s: Scene) -> Accused:
    given = s.climb(s.mail(), 1, s.shape.max_attempts)
    s.bury(given, given.at + s.hold)
    s.bury(given, given.at + s.hold + 1)
    return given.mail


@_dlq("dlq.twice-hours-later")
def _(s: Scene) -> Accused:
    given = s.climb(s.mail(ordered=True), 1, s.shape.max_attempts)
    s.bury(given, given.at + s.hold)
    s.bury(given, given.at + s.hold + 7_200)
    return given.mail


@_dlq("dlq.first-attempt")
def _(s: Scene) -> Accused:
    given = s.deliver(s.mail(), 1)
    s.bury(given, 1 + s.hold)
    return given.mail


@_dlq("dlq.last-but-one")
def _(s: Scene) -> Accused:
    given = s.climb(s.mail(), 1, s.shape.max_attempts - 1)
    s.bury(given, given.at + s.hold)
    return given.mail


@_dlq("dlq.ordered-too-soon")
def _(s: Scene) -> Accused:
    given = s.deliver(s.mail(ordered=True), 1)
    s.bury(given, 1 + s.hold)
    return given.mail


@_dlq("dlq.comes-again")
def _(s: Scene) -> Accused:
    mail = s.mail(ordered=True)
    given = s.climb(mail, 1, s.shape.max_attempts, group=ORDERED)
    s.bury(given, given.at + s.hold)
    again = s.deliver(mail, given.at + 2 * s.hold, s.shape.max_attempts + 1)
    s.ack(again, again.at + 1)
    return again
