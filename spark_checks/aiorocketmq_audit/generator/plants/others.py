"""Faults of transactions, recalls, queues and their owners, progress, standstills, handles, and after a drain."""

from __future__ import annotations

from functools import partial

from aiorocketmq_audit.generator.plants.registry import Accused, kind
from aiorocketmq_audit.generator.scene import NORMAL, ORDERED, PICKY, Mail, Row, Scene

_tx = partial(kind, check="transactions", invariant="INV-TX")
_asked = partial(kind, check="transactions", invariant="INV-TX-CHECK")
_recall = partial(kind, check="recall", invariant="INV-RECALL")
_assign = partial(kind, check="queues", invariant="INV-ASSIGN", observer="client")
_pull = partial(kind, check="queues", invariant="INV-PULL-ORD", observer="client")
_offset = partial(kind, check="offsets", invariant="INV-OFFSET")
_serial = partial(kind, check="offsets", invariant="INV-OFFSET-ORD")
_commit = partial(kind, check="commits", invariant="INV-COMMIT", observer="client")
_fair = partial(kind, check="fairness", invariant="INV-FAIR")
_handle = partial(kind, check="handles", invariant="INV-HANDLE")
_loss = partial(kind, check="loss", invariant="INV-LOSS")
_live = partial(kind, check="dead letters", invariant="INV-DLQ-LIVE")


def _half(s: Scene) -> Mail:
    """A message that waits for the end of its transaction."""
    mail = s.mail(sent=None)
    s.send(mail, 0, tx_id="T", broker=None, queue=None, offset=None, store_us=None)
    return mail


def _end(s: Scene, mail: Mail, at: float, resolution: str = "commit", phase: str = "ok") -> None:
    s.operation("tx.end", at, phase, topic=mail.topic, tx_id="T", resolution=resolution)


def _comes(s: Scene, mail: Mail, at: float) -> Mail:
    s.ack(s.deliver(mail, at, tx_id="T"), at + 0.5)
    return mail


@_tx("tx.before-commit")
def _(s: Scene) -> Accused:
    mail = _half(s)
    _comes(s, mail, 2)
    _end(s, mail, 3)
    return mail


@_tx("tx.never-ended")
def _(s: Scene) -> Accused:
    return _comes(s, _half(s), 2)


@_tx("tx.rolled-back")
def _(s: Scene) -> Accused:
    mail = _half(s)
    _end(s, mail, 1, "rollback")
    return _comes(s, mail, 2)


@_tx("tx.commit-refused")
def _(s: Scene) -> Accused:
    mail = _half(s)
    _end(s, mail, 1, phase="fail")
    return _comes(s, mail, 2)


@_tx("tx.still-unknown")
def _(s: Scene) -> Accused:
    mail = _half(s)
    _end(s, mail, 1, "unknown")
    return _comes(s, mail, 2)


@_tx("tx.rolled-back-seen-by-client", observer="client")
def _(s: Scene) -> Accused:
    mail = _half(s)
    _end(s, mail, 1, "rollback")
    return _comes(s, mail, 2)


def _asked_at(s: Scene, at: float, resolution: str = "commit", *, times: int = 1) -> Accused:
    mail = _half(s)
    _end(s, mail, 1, resolution)
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


@_asked("tx-check.seen-by-client", observer="client")
def _(s: Scene) -> Accused:
    return _asked_at(s, 61)


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


def _owns(s: Scene, mail: Mail, client: str, at: float, *queues: int) -> None:
    owned = [{"broker": "broker-0", "queue": queue} for queue in queues]
    who = {"role": "pull", "client_id": s.client(client), "epoch": 1, "group": "pullers", "topic": mail.topic}
    s.note("assign", at, **who, queues=owned)


@_assign("assign.two-owners")
def _(s: Scene) -> Accused:
    mail = s.mail(sent=None)
    _owns(s, mail, "a", 0, 0, 1)
    _owns(s, mail, "b", 10, 1)
    _owns(s, mail, "a", 100, 0)
    _owns(s, mail, "b", 101)
    return mail


@_assign("assign.barely-too-long")
def _(s: Scene) -> Accused:
    mail = s.mail(sent=None)
    _owns(s, mail, "a", 0, 0)
    _owns(s, mail, "b", 10, 0)
    _owns(s, mail, "a", 40.1)
    _owns(s, mail, "b", 50)
    return mail


@_assign("assign.through-many")
def _(s: Scene) -> Accused:
    mail = s.mail(sent=None)
    for at in (0, 20, 40, 60):
        _owns(s, mail, "a", at, 0, 1)
    _owns(s, mail, "b", 5, 1)
    _owns(s, mail, "a", 61, 0)
    _owns(s, mail, "b", 62)
    return mail


@_assign("assign.both-from-the-start")
def _(s: Scene) -> Accused:
    mail = s.mail(sent=None)
    for client in "ab":
        _owns(s, mail, client, 0, 3)
        _owns(s, mail, client, 200)
    return mail


@_assign("assign.three-owners")
def _(s: Scene) -> Accused:
    mail = s.mail(sent=None)
    for at, client in enumerate("abc"):
        _owns(s, mail, client, 10 * at, 0)
        _owns(s, mail, client, 100 + at)
    return mail, mail


def _reads(s: Scene, *offsets: int, client: str = "a", at: float = 1.0, **cells: object) -> list[Mail]:
    mails = {offset: s.mail(offset, sent=None) for offset in sorted(set(offsets))}
    for place, offset in enumerate(offsets):
        mine = {"role": "pull", "epoch": 1, "invisible_ms": None, "group": "pullers"} | cells
        s.deliver(mails[offset], at + place, client=client, cells=mine)
    return [mails[offset] for offset in offsets]


@_pull("pull.back-by-one")
def _(s: Scene) -> Accused:
    return _reads(s, 0, 2, 1)[2]


@_pull("pull.same-again")
def _(s: Scene) -> Accused:
    return _reads(s, 0, 1, 1)[2]


@_pull("pull.from-the-start")
def _(s: Scene) -> Accused:
    return _reads(s, 5, 6, 7, 0, 8)[3]


@_pull("pull.twice")
def _(s: Scene) -> Accused:
    mails = _reads(s, 3, 2, 5, 4)
    return mails[1], mails[3]


@_pull("pull.second-owner")
def _(s: Scene) -> Accused:
    _reads(s, 0, 1)
    return _reads(s, 4, 3, client="b", at=10)[1]


def _two_at_one_place(s: Scene, *, receipts: bool, deliveries: bool, ordered: bool = False) -> Accused:
    first, second = (s.mail(7, ordered=ordered, name=name, sent=None) for name in "ab")
    for at, mail in enumerate((first, second)):
        if receipts:
            s.send(mail, at, client_id=f"producer@{at}")
        else:
            s.send(mail, at, phase="info")
    for at, mail in enumerate((first, second)):
        if deliveries:
            s.ack(s.deliver(mail, 5 + at), 5.5 + at)
    return second


@_offset("offset.two-receipts")
def _(s: Scene) -> Accused:
    return _two_at_one_place(s, receipts=True, deliveries=False)


@_offset("offset.two-deliveries")
def _(s: Scene) -> Accused:
    return _two_at_one_place(s, receipts=False, deliveries=True)


@_offset("offset.both")
def _(s: Scene) -> Accused:
    return _two_at_one_place(s, receipts=True, deliveries=True)


@_offset("offset.seen-by-client", observer="client")
def _(s: Scene) -> Accused:
    return _two_at_one_place(s, receipts=True, deliveries=False)


@_offset("offset.receipt-and-other-delivery")
def _(s: Scene) -> Accused:
    first, second = s.mail(7, name="a"), s.mail(7, name="b", sent=None)
    s.send(second, 1, phase="info")
    for at, mail in enumerate((first, second)):
        s.ack(s.deliver(mail, 5 + at), 5.5 + at)
    return second


def _stored_at(s: Scene, *offsets: int, ordered: bool = False) -> list[Mail]:
    return [s.mail(offset, ordered=ordered, sent=float(at)) for at, offset in enumerate(offsets)]


@_serial("serial.back-by-one")
def _(s: Scene) -> Accused:
    return _stored_at(s, 4, 3)[1]


@_serial("serial.from-the-start")
def _(s: Scene) -> Accused:
    return _stored_at(s, 4, 5, 0)[2]


@_serial("serial.in-the-middle")
def _(s: Scene) -> Accused:
    return _stored_at(s, 1, 5, 3, 6)[2]


@_serial("serial.ordered")
def _(s: Scene) -> Accused:
    return _stored_at(s, 1, 0, ordered=True)[1]


@_serial("serial.seen-by-client", observer="client")
def _(s: Scene) -> Accused:
    return _stored_at(s, 1, 0)[1]


def _writes(s: Scene, mail: Mail, *offsets: int, at: float = 50.0) -> Accused:
    for place, offset in enumerate(offsets):
        s.note("commit", at + place, group="pullers", **s.place(mail), commit_offset=offset)
    return mail


@_commit("commit.falls")
def _(s: Scene) -> Accused:
    return _writes(s, s.mail(sent=None), 4, 3)


@_commit("commit.falls-to-nought")
def _(s: Scene) -> Accused:
    return _writes(s, s.mail(sent=None), 4, 5, 6, 0)


@_commit("commit.ahead")
def _(s: Scene) -> Accused:
    return _writes(s, _reads(s, 3, 4)[0], 6)


@_commit("commit.far-ahead")
def _(s: Scene) -> Accused:
    return _writes(s, _reads(s, 0)[0], 1, 1_000)


@_commit("commit.falls-after-reading")
def _(s: Scene) -> Accused:
    return _writes(s, _reads(s, 0, 1, 2)[0], 3, 1)


def _stands(s: Scene, until: float, *, group: str = NORMAL, before: int = 1, polls: int = 1) -> Accused:
    """A message waits while a poll of its group is asked and answered, and comes at `until`."""
    mails = [s.mail(offset, sent=offset / 10) for offset in range(before + 1)]
    for place, mail in enumerate(mails):
        at = until if place == before else 1 + place / 10
        s.ack(s.deliver(mail, at, group=group, store_us=s.instant(place / 10)), at + 0.5)
    for number in range(polls):
        s.poll(10 + number, 12 + number, group)
    return mails[-1]


@_fair("fair.two-minutes")
def _(s: Scene) -> Accused:
    return _stands(s, 121)


@_fair("fair.barely")
def _(s: Scene) -> Accused:
    return _stands(s, 61.1)


@_fair("fair.hours")
def _(s: Scene) -> Accused:
    return _stands(s, 7_200)


@_fair("fair.by-tags")
def _(s: Scene) -> Accused:
    return _stands(s, 121, group=PICKY)


@_fair("fair.many-polls")
def _(s: Scene) -> Accused:
    return _stands(s, 121, before=5, polls=20)


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
    mail = _half(s)
    _end(s, mail, 1)
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
