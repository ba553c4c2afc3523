"""Faults of answers to polls: handles that stand for something else, and messages that were not asked for."""

from __future__ import annotations

from functools import partial

from aiorocketmq_audit.generator.plants.registry import Accused, kind
from aiorocketmq_audit.generator.scene import NORMAL, ORDERED, PICKY, Mail, Row, Scene

_isolate = partial(kind, check="filters", invariant="INV-ISOLATE")
_handle = partial(kind, check="handles", invariant="INV-HANDLE")


def _one_handle(s: Scene, *, same: bool, ordered: bool = False) -> Accused:
    first = s.mail(0, ordered=ordered)
    second = first if same else s.mail(1, ordered=ordered)
    handle: Row = {"delivery": f"{s.topic}-H", "handle": f"{s.topic}-H"}
    given = s.deliver(first, 1, cells=handle)
    if not same:
        s.ack(given, 2)
    again = s.deliver(second, 2 + s.hold, 2 if same else 1, cells=handle)
    s.ack(again, again.at + 1)
    return second


@_handle("handle.two-messages")
def _(s: Scene) -> Accused:
    return _one_handle(s, same=False)


@_handle("handle.two-deliveries")
def _(s: Scene) -> Accused:
    return _one_handle(s, same=True)


@_handle("handle.ordered")
def _(s: Scene) -> Accused:
    return _one_handle(s, same=False, ordered=True)


@_handle("handle.seen-by-client", observer="client")
def _(s: Scene) -> Accused:
    return _one_handle(s, same=False)


@_handle("handle.settles-another")
def _(s: Scene) -> Accused:
    given = s.deliver(s.mail(0), 1)
    s.ack(given, 2)
    other = s.deliver(s.mail(1), 3)
    s.ack(other, 4)
    s.operation("ack", 5, cells=other.row | {"delivery": given.row["delivery"], "attempt": 1})
    return other.mail


def _answered(
    s: Scene, *mails: Mail, at: float = 1.0, asked: str | None = None, by: str = NORMAL, to: str = NORMAL
) -> Accused:
    """A poll of the topic `asked` for the group `by` brings the messages, all of them, to the group `to`."""
    batch = s.poll(at - 0.5, at, by, topic=asked)
    given = [s.deliver(mail, at, group=to, batch=batch, batch_pos=pos) for pos, mail in enumerate(mails)]
    for each in given:
        s.ack(each, at + 1)
    return mails[-1]


def _foreign(s: Scene, *, ordered: bool = False) -> Mail:
    return s.mail(name="foreign", topic=f"{s.topic}-other", ordered=ordered)


@_isolate("isolate.other-topic")
def _(s: Scene) -> Accused:
    return _answered(s, _foreign(s))


@_isolate("isolate.among-its-own")
def _(s: Scene) -> Accused:
    return _answered(s, s.mail(), _foreign(s))


@_isolate("isolate.again-and-again")
def _(s: Scene) -> Accused:
    """From ten topics: checks compare hashes, so one alone might be found by luck."""
    mails = [s.mail(name=str(number), topic=f"{s.topic}-{number}") for number in range(10)]
    for number, mail in enumerate(mails):
        _answered(s, s.mail(number), mail, at=1.0 + number)
    return tuple(mails)


@_isolate("isolate.ordered")
def _(s: Scene) -> Accused:
    return _answered(s, _foreign(s, ordered=True), by=ORDERED, to=ORDERED)


@_isolate("isolate.name-of-retry-topic")
def _(s: Scene) -> Accused:
    return _answered(s, s.mail(topic=f"%RETRY%{NORMAL}_{s.topic}"))


@_isolate("isolate.other-group")
def _(s: Scene) -> Accused:
    return _answered(s, s.mail(), by=PICKY)


@_isolate("isolate.when-it-came-again")
def _(s: Scene) -> Accused:
    mail = s.mail()
    first = s.deliver(mail, 1, batch=s.poll(0.5, 1))
    back = s.nack(first, 2)
    again = s.deliver(mail, back + 0.1, 2, batch=s.poll(back, back + 0.1, topic=f"{s.topic}-other"))
    s.ack(again, again.at + 1)
    return mail


@_isolate("isolate.seen-by-client", observer="client")
def _(s: Scene) -> Accused:
    return _answered(s, s.mail(), _foreign(s))
