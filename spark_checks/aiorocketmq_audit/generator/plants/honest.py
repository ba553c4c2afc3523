"""Scenes in which nothing is broken, of what made-up recordings have none of: nobody must be accused of them."""

from __future__ import annotations

from aiorocketmq_audit.generator.plants.registry import Accused, kind
from aiorocketmq_audit.generator.scene import Scene

_honest = kind


def _transaction(s: Scene) -> Accused:
    mail = s.mail(sent=None)
    s.send(mail, 0, tx_id="T", broker=None, queue=None, offset=None, store_us=None)
    s.note("tx.check", 30, topic=s.topic, tx_id="T", message_id=mail.id)
    s.operation("tx.end", 31, topic=s.topic, tx_id="T", resolution="commit")
    s.ack(s.deliver(mail, 31.1, tx_id="T"), 32)
    return ()


@_honest("honest.transaction")
def _(s: Scene) -> Accused:
    return _transaction(s)


@_honest("honest.transaction-of-client", observer="client")
def _(s: Scene) -> Accused:
    return _transaction(s)


@_honest("honest.rollback")
def _(s: Scene) -> Accused:
    mail = s.mail(sent=None)
    s.send(mail, 0, tx_id="T", broker=None, queue=None, offset=None, store_us=None)
    s.operation("tx.end", 1, topic=s.topic, tx_id="T", resolution="rollback")
    return ()


@_honest("honest.recall")
def _(s: Scene) -> Accused:
    mail = s.mail(due=60)
    s.operation("recall", 10, topic=s.topic, message_id=mail.id)
    return ()


@_honest("honest.recall-too-late")
def _(s: Scene) -> Accused:
    mail = s.mail(due=60)
    s.operation("recall", 59.5, topic=s.topic, message_id=mail.id)
    s.ack(s.deliver(mail, 60.1), 61)
    return ()


@_honest("honest.pull", observer="client")
def _(s: Scene) -> Accused:
    """A queue changes hands in a rebalance, and the next owner goes on where the first one had written to."""
    who = {"role": "pull", "epoch": 1, "group": "pullers"}
    owned = [{"broker": "broker-0", "queue": 0}]
    mails = [s.mail(offset, sent=offset / 10) for offset in range(4)]
    s.note("assign", 1, **who, topic=s.topic, client_id=s.client("a"), queues=owned)
    for at, mail in enumerate(mails[:3]):
        s.deliver(mail, 2 + at, cells=who | {"invisible_ms": None})
    s.note("commit", 6, **s.place(mails[0]), group="pullers", commit_offset=2)
    s.note("assign", 10, **who, topic=s.topic, client_id=s.client("b"), queues=owned)
    s.note("assign", 20, **who, topic=s.topic, client_id=s.client("a"), queues=[])
    for at, mail in enumerate(mails[2:]):
        s.deliver(mail, 30 + at, client="b", cells=who | {"invisible_ms": None})
    s.note("commit", 40, **s.place(mails[0]), group="pullers", commit_offset=4)
    s.note("assign", 50, **who, topic=s.topic, client_id=s.client("b"), queues=[])
    return ()


@_honest("honest.drained")
def _(s: Scene) -> Accused:
    s.poll(0.1, 0.2)
    mails = [s.mail(offset, sent=1 + offset / 10) for offset in range(3)]
    for mail in mails:
        s.ack(s.deliver(mail, 2 + mail.offset), 2.5 + mail.offset)
    buried = s.mail(3, sent=2)
    given = s.climb(buried, 6, s.shape.max_attempts)
    s.bury(given, s.nack(given, given.at + 1))
    s.note("drain.ok", given.at + 10 * s.hold, topic=s.topic, group="group-0")
    return ()


@_honest("honest.redelivery-of-what-others-were-handed", observer="client")
def _(s: Scene) -> Accused:
    first, second = (s.mail(offset, ordered=True) for offset in range(2))
    s.ack(s.deliver(second, 1), 2)
    s.ack(s.deliver(first, 5, 2), 6)
    return ()


@_honest("honest.two-topics", observer="client")
def _(s: Scene) -> Accused:
    """One client polls two topics in turn."""
    for at, topic in enumerate((s.topic, f"{s.topic}-other", s.topic)):
        mail = s.mail(at, topic=topic, name=str(at))
        s.ack(s.deliver(mail, 1 + at, batch=s.poll(0.5 + at, 1 + at, topic=topic)), 1.2 + at)
    return ()
