"""Faults of queues: their owners, their places, progress in them, and standstills."""

from __future__ import annotations

from functools import partial

from aiorocketmq_audit.generator.plants.registry import Accused, kind
from aiorocketmq_audit.generator.scene import NORMAL, PICKY, Mail, Scene

_assign = partial(kind, check="queues", invariant="INV-ASSIGN", observer="client")
_pull = partial(kind, check="queues", invariant="INV-PULL-ORD", observer="client")
_offset = partial(kind, check="offsets", invariant="INV-OFFSET")
_serial = partial(kind, check="offsets", invariant="INV-OFFSET-ORD")
_commit = partial(kind, check="commits", invariant="INV-COMMIT", observer="client")
_fair = partial(kind, check="fairness", invariant="INV-FAIR")


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
