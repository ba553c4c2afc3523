"""Faults of transactions and recalls."""

from __future__ import annotations

from functools import partial

from aiorocketmq_audit.generator.plants.registry import Accused, kind
from aiorocketmq_audit.generator.scene import NORMAL, PICKY, Mail, Scene

_tx = partial(kind, check="transactions", invariant="INV-TX")
_asked = partial(kind, check="transactions", invariant="INV-TX-CHECK")
_recall = partial(kind, check="recall", invariant="INV-RECALL")


def half(s: Scene) -> Mail:
    """A message that waits for the end of its transaction."""
    mail = s.mail(sent=None)
    s.send(mail, 0, tx_id="T", broker=None, queue=None, offset=None, store_us=None)
    return mail


def end(s: Scene, mail: Mail, at: float, resolution: str = "commit", phase: str = "ok") -> None:
    """The transaction of the message ends."""
    s.operation("tx.end", at, phase, topic=mail.topic, tx_id="T", resolution=resolution)


def _comes(s: Scene, mail: Mail, at: float) -> Mail:
    s.ack(s.deliver(mail, at, tx_id="T"), at + 0.5)
    return mail


@_tx("tx.before-commit")
def _(s: Scene) -> Accused:
    mail = half(s)
    _comes(s, mail, 2)
    end(s, mail, 3)
    return mail


@_tx("tx.never-ended")
def _(s: Scene) -> Accused:
    return _comes(s, half(s), 2)


@_tx("tx.rolled-back")
def _(s: Scene) -> Accused:
    mail = half(s)
    end(s, mail, 1, "rollback")
    return _comes(s, mail, 2)


@_tx("tx.commit-refused")
def _(s: Scene) -> Accused:
    mail = half(s)
    end(s, mail, 1, phase="fail")
    return _comes(s, mail, 2)


@_tx("tx.still-unknown")
def _(s: Scene) -> Accused:
    mail = half(s)
    end(s, mail, 1, "unknown")
    return _comes(s, mail, 2)


@_tx("tx.rolled-back-seen-by-client", observer="client")
def _(s: Scene) -> Accused:
    mail = half(s)
    end(s, mail, 1, "rollback")
    return _comes(s, mail, 2)


def _asked_at(
    s: Scene, at: float, resolution: str = "commit", *, decided: int = 1, times: int = 1
) -> Accused:
    mail = half(s)
    for second in range(1, decided + 1):
        end(s, mail, second, resolution)
    for again in range(times):
        s.note("tx.check", at + 30 * again, topic=mail.topic, tx_id="T", message_id=mail.id)
    return mail


@_asked("tx-check.after-commit")
def _(s: Scene) -> Accused:
    return _asked_at(s, 61)


@_asked("tx-check.after-rollback")
def _(s: Scene) -> Accused:
    return _asked_at(s, 61, "rollback")


@_asked("tx-check.barely")
def _(s: Scene) -> Accused:
    return _asked_at(s, 32.1)


@_asked("tx-check.again-and-again")
def _(s: Scene) -> Accused:
    return _asked_at(s, 40, times=5)


@_asked("tx-check.decided-twice")
def _(s: Scene) -> Accused:
    return _asked_at(s, 61, decided=2)


@kind("allowed.second-half")
def _(s: Scene) -> Accused:
    """The network repeats a send: the server may ask about the half message that is left."""
    mail = half(s)
    s.send(mail, 0.1, tx_id="T", broker=None, queue=None, offset=None, store_us=None)
    end(s, mail, 1)
    s.note("tx.check", 61, topic=mail.topic, tx_id="T", message_id=mail.id)
    return ()


def _taken_back(
    s: Scene, at: float, comes: float = 60.1, *, group: str = NORMAL, attempts: int = 1
) -> Accused:
    mail = s.mail(due=60)
    s.operation("recall", at, topic=mail.topic, message_id=mail.id)
    given = s.deliver(mail, comes, group=group)
    for attempt in range(2, attempts + 1):
        given = s.deliver(mail, s.nack(given, given.at + 0.1) + 0.1, attempt, group=group)
    s.ack(given, given.at + 0.5)
    return mail


@_recall("recall.long-before")
def _(s: Scene) -> Accused:
    return _taken_back(s, 1)


@_recall("recall.in-time")
def _(s: Scene) -> Accused:
    return _taken_back(s, 58.9)


@_recall("recall.comes-much-later")
def _(s: Scene) -> Accused:
    return _taken_back(s, 10, 3_600)


@_recall("recall.other-group")
def _(s: Scene) -> Accused:
    return _taken_back(s, 10, group=PICKY)


@_recall("recall.retried")
def _(s: Scene) -> Accused:
    return _taken_back(s, 10, attempts=2)


@_recall("recall.seen-by-client", observer="client")
def _(s: Scene) -> Accused:
    return _taken_back(s, 10)
