"""Faults of content: what comes too early, was never sent, was sent otherwise, was not asked for, or never comes."""

from __future__ import annotations

from functools import partial

from aiorocketmq_audit.generator.plants.registry import Accused, kind
from aiorocketmq_audit.generator.scene import NORMAL, ORDERED, PICKY, Mail, Scene

_delay = partial(kind, check="delay", invariant="INV-EARLY")
_content = partial(kind, check="origin", invariant="INV-CONTENT")
_failed = partial(kind, check="origin", invariant="INV-FAILED")
_origin = partial(kind, check="origin", invariant="INV-ORIGIN")
_filter = partial(kind, check="filters", invariant="INV-FILTER")
_loss = partial(kind, check="loss", invariant="INV-LOSS-MID")


def _got(s: Scene, mail: Mail, at: float, *, group: str | None = None, **cells: object) -> Accused:
    """One delivery, acknowledged."""
    given = s.deliver(mail, at, group=group, cells=cells)
    s.ack(given, at + 0.5)
    return given


@_delay("delay.at-once")
def _(s: Scene) -> Accused:
    return _got(s, s.mail(due=60), 0.1)


@_delay("delay.half")
def _(s: Scene) -> Accused:
    return _got(s, s.mail(due=60), 30)


@_delay("delay.barely")
def _(s: Scene) -> Accused:
    return _got(s, s.mail(due=60), 59.85)


@_delay("delay.seen-by-client", observer="client")
def _(s: Scene) -> Accused:
    return _got(s, s.mail(due=60), 30)


@_delay("delay.other-group")
def _(s: Scene) -> Accused:
    mail = s.mail(due=60)
    early = _got(s, mail, 59, group=PICKY)
    _got(s, mail, 60.1)
    return early


@_content("content.other-body")
def _(s: Scene) -> Accused:
    return _got(s, s.mail(), 1, body_sha="another")


@_content("content.seen-by-client", observer="client")
def _(s: Scene) -> Accused:
    return _got(s, s.mail(), 1, body_sha="another")


@_content("content.one-group")
def _(s: Scene) -> Accused:
    mail = s.mail()
    _got(s, mail, 1, group=NORMAL)
    _got(s, mail, 2, group=PICKY, body_sha="another")
    return mail


@_content("content.second-attempt")
def _(s: Scene) -> Accused:
    mail = s.mail()
    back = s.nack(s.deliver(mail, 1), 2)
    s.ack(s.deliver(mail, back + 0.1, 2, body_sha="another"), back + 1)
    return mail


@_content("content.ordered")
def _(s: Scene) -> Accused:
    return _got(s, s.mail(ordered=True), 1, body_sha="another")


@_content("content.other-properties")
def _(s: Scene) -> Accused:
    return _got(s, s.mail(), 1, props_sha="others")


@_content("content.properties-of-a-retry", observer="client")
def _(s: Scene) -> Accused:
    mail = s.mail()
    back = s.nack(s.deliver(mail, 1), 2)
    s.ack(s.deliver(mail, back + 0.1, 2, props_sha="others"), back + 1)
    return mail


def _refused(s: Scene, *, times: int = 1, at: float = 1.0, ordered: bool = False) -> Accused:
    mail = s.mail(ordered=ordered, sent=None)
    for again in range(times):
        s.send(mail, again / 10, phase="fail")
    _got(s, mail, at)
    return mail


@_failed("failed.once", observer="client")
def _(s: Scene) -> Accused:
    return _refused(s)


@_failed("failed.twice", observer="client")
def _(s: Scene) -> Accused:
    return _refused(s, times=2)


@_failed("failed.hours-later", observer="client")
def _(s: Scene) -> Accused:
    return _refused(s, at=7_200)


@_failed("failed.ordered", observer="client")
def _(s: Scene) -> Accused:
    return _refused(s, ordered=True)


@_failed("failed.known-to-the-broker")
def _(s: Scene) -> Accused:
    return _refused(s)


@_failed("failed.second-attempt", observer="client")
def _(s: Scene) -> Accused:
    mail = s.mail(sent=None)
    s.send(mail, 0, phase="fail")
    back = s.nack(s.deliver(mail, 1), 2)
    s.ack(s.deliver(mail, back + 0.1, 2), back + 1)
    return mail


def _unsent(
    s: Scene, *, ordered: bool = False, due: float | None = None, group: str | None = None
) -> Accused:
    mail = s.mail(sent=None, ordered=ordered, due=due)
    _got(s, mail, 61, group=group, store_us=s.instant(0.5))
    return mail


@_origin("origin.unsent")
def _(s: Scene) -> Accused:
    return _unsent(s)


@_origin("origin.ordered")
def _(s: Scene) -> Accused:
    return _unsent(s, ordered=True)


@_origin("origin.delayed")
def _(s: Scene) -> Accused:
    return _unsent(s, due=60)


@_origin("origin.by-tags")
def _(s: Scene) -> Accused:
    return _unsent(s, group=PICKY)


@_origin("origin.two-groups")
def _(s: Scene) -> Accused:
    mail = s.mail(sent=None)
    for group in (NORMAL, PICKY):
        _got(s, mail, 2, group=group, store_us=s.instant(0.5))
    return mail


@_filter("filter.other-tag")
def _(s: Scene) -> Accused:
    return _got(s, s.mail(tag="blue"), 1, group=PICKY)


@_filter("filter.upper-case")
def _(s: Scene) -> Accused:
    return _got(s, s.mail(tag="Red"), 1, group=PICKY)


@_filter("filter.no-tag")
def _(s: Scene) -> Accused:
    return _got(s, s.mail(), 1, group=PICKY, tag=None)


@_filter("filter.seen-by-client", observer="client")
def _(s: Scene) -> Accused:
    return _got(s, s.mail(tag="blue"), 1, group=PICKY)


@_filter("filter.part-of-a-tag")
def _(s: Scene) -> Accused:
    return _got(s, s.mail(tag="re"), 1, group=PICKY)


@_filter("filter.one-tag")
def _(s: Scene) -> Accused:
    return _got(s, s.mail(tag="red", ordered=True), 1, group=ORDERED, filter="TAG:green")


def _passed_over(
    s: Scene, lost: set[int], *, count: int = 4, ordered: bool = False, group: str = NORMAL
) -> Accused:
    """All messages of a queue come but `lost` ones."""
    mails = [s.mail(offset, ordered=ordered, sent=offset / 10) for offset in range(count)]
    for place, mail in enumerate(mails):
        if place not in lost:
            _got(s, mail, 1 + place, group=group)
    return tuple(mails[place] for place in sorted(lost))


@_loss("loss-mid.one")
def _(s: Scene) -> Accused:
    return _passed_over(s, {2})


@_loss("loss-mid.two")
def _(s: Scene) -> Accused:
    return _passed_over(s, {1, 2})


@_loss("loss-mid.all-between")
def _(s: Scene) -> Accused:
    return _passed_over(s, {1, 2, 3, 4}, count=6)


@_loss("loss-mid.ordered")
def _(s: Scene) -> Accused:
    return _passed_over(s, {1}, ordered=True, group=ORDERED)


@_loss("loss-mid.by-tags")
def _(s: Scene) -> Accused:
    return _passed_over(s, {1}, group=PICKY)


@_loss("loss-mid.one-group-of-two")
def _(s: Scene) -> Accused:
    mails = [s.mail(offset) for offset in range(3)]
    for place, mail in enumerate(mails):
        _got(s, mail, 1 + place, group=NORMAL)
        if place != 1:
            _got(s, mail, 2 + place, group=PICKY)
    return mails[1]


@_loss("loss-mid.head-of-a-message-group")
def _(s: Scene) -> Accused:
    """The group read the queue already when a message group began, and got its second message alone."""
    _got(s, s.mail(0, ordered=True, lane="-before"), 1, group=ORDERED)
    mails = [s.mail(offset, ordered=True, sent=2.0 + offset) for offset in (1, 2)]
    _got(s, mails[1], 6, group=ORDERED)
    return mails[0]
