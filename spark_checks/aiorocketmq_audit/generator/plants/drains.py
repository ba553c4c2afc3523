"""Faults that a drain shows: what was lost, and what was not buried."""

from __future__ import annotations

from functools import partial

from aiorocketmq_audit.generator.plants.registry import Accused, kind
from aiorocketmq_audit.generator.plants.transactions import end, half
from aiorocketmq_audit.generator.scene import NORMAL, ORDERED, PICKY, Mail, Scene

_loss = partial(kind, check="loss", invariant="INV-LOSS")
_live = partial(kind, check="dead letters", invariant="INV-DLQ-LIVE")


def _empties(s: Scene, mail: Mail, at: float, group: str = NORMAL) -> None:
    """The group has polled empty for long enough."""
    s.note("drain.ok", at, topic=mail.topic, group=group)


@_loss("loss.never-came")
def _(s: Scene) -> Accused:
    s.poll(0.1, 0.2)
    mail = s.mail(sent=1.0)
    _empties(s, mail, 500)
    return mail


@_loss("loss.tail")
def _(s: Scene) -> Accused:
    mails = [s.mail(offset, sent=1.0 + offset) for offset in range(4)]
    s.poll(0.1, 0.2)
    for mail in mails[:2]:
        s.ack(s.deliver(mail, 10 + mail.offset), 11 + mail.offset)
    _empties(s, mails[0], 500)
    return mails[2], mails[3]


@_loss("loss.delayed")
def _(s: Scene) -> Accused:
    mail = s.mail(sent=1.0, due=60)
    s.poll(0.1, 0.2)
    _empties(s, mail, 500)
    return mail


@_loss("loss.ordered")
def _(s: Scene) -> Accused:
    mail = s.mail(sent=1.0, ordered=True)
    s.poll(0.1, 0.2, ORDERED)
    _empties(s, mail, 500, ORDERED)
    return mail


@_loss("loss.given-and-forgotten")
def _(s: Scene) -> Accused:
    mail = s.mail(sent=1.0)
    s.poll(0.1, 0.2)
    s.deliver(mail, 2)
    _empties(s, mail, 500)
    return mail


@_loss("loss.committed")
def _(s: Scene) -> Accused:
    s.poll(-2, -1)
    mail = half(s)
    end(s, mail, 1)
    _empties(s, mail, 500)
    return mail


def _exhausted(s: Scene, *, waits: float | None = None, group: str = NORMAL, count: int = 1) -> Accused:
    """The last attempt is over, whether by its lease or as was asked for, and no dead letter is made."""
    mails = [s.mail(offset) for offset in range(count)]
    given = [s.climb(mail, 1, s.shape.max_attempts, group=group) for mail in mails]
    if waits is not None:
        for handed in given:
            s.nack(handed, handed.at + 1, waits)
    _empties(s, mails[0], given[0].at + 10 * s.hold + (waits or 0), group)
    return tuple(mails)


@_live("dlq-live.lease-ended")
def _(s: Scene) -> Accused:
    return _exhausted(s)


@_live("dlq-live.failed")
def _(s: Scene) -> Accused:
    return _exhausted(s, waits=1)


@_live("dlq-live.failed-long-ago")
def _(s: Scene) -> Accused:
    return _exhausted(s, waits=3_600)


@_live("dlq-live.by-tags")
def _(s: Scene) -> Accused:
    return _exhausted(s, group=PICKY)


@_live("dlq-live.three")
def _(s: Scene) -> Accused:
    return _exhausted(s, count=3)
