"""Faults of order: messages of a message group that overtake each other."""

from __future__ import annotations

from functools import partial

from aiorocketmq_audit.generator.plants.registry import Accused, kind
from aiorocketmq_audit.generator.scene import Handed, Scene

_ord = partial(kind, check="ordering", invariant="INV-ORD")
_handled = partial(kind, check="ordering", invariant="INV-ORD-HANDLE", observer="client")
_first = partial(kind, check="ordering", invariant="INV-ORD-FIRST")


def _overtaken(s: Scene, *, client: str = "a", before: int = 0) -> Accused:
    """The second message comes while the first one is being handled."""
    for offset in range(before):
        s.ack(s.deliver(s.mail(offset, ordered=True), offset + 1), offset + 1.5)
    at = before + 1.0
    first = s.deliver(s.mail(before, ordered=True), at)
    second = s.deliver(s.mail(before + 1, ordered=True), at + 1, client=client)
    s.ack(first, at + 2)
    s.ack(second, at + 3)
    return second


@_ord("ord.overtaken")
def _(s: Scene) -> Accused:
    return _overtaken(s)


@_ord("ord.other-consumer")
def _(s: Scene) -> Accused:
    return _overtaken(s, client="b")


@_ord("ord.later")
def _(s: Scene) -> Accused:
    return _overtaken(s, before=3)


@_ord("ord.seen-by-client", observer="client")
def _(s: Scene) -> Accused:
    return _overtaken(s)


@_ord("ord.behind-a-failed-one")
def _(s: Scene) -> Accused:
    first, second = (s.mail(offset, ordered=True) for offset in range(2))
    back = s.nack(s.deliver(first, 1), 2)
    early = s.deliver(second, (2 + back) / 2)
    s.ack(early, (2 + back) / 2 + 0.1)
    s.ack(s.deliver(first, back + 0.1, 2), back + 1)
    return early


@_ord("ord.behind-an-expired-one")
def _(s: Scene) -> Accused:
    first, second = (s.mail(offset, ordered=True) for offset in range(2))
    s.deliver(first, 1)
    early = s.deliver(second, 2 + s.hold)
    s.ack(early, 2.1 + s.hold)
    s.ack(s.deliver(first, 3 + s.hold, 2), 4 + s.hold)
    return early


@_ord("ord.two-at-once")
def _(s: Scene) -> Accused:
    given = [s.deliver(s.mail(offset, ordered=True), offset + 1) for offset in range(3)]
    for handed in given:
        s.ack(handed, handed.at + 5)
    return given[1], given[2]


def _in_this_order(s: Scene, *offsets: int, apart: float = 1.0, clients: str = "a") -> dict[int, Handed]:
    mails = [s.mail(offset, ordered=True) for offset in range(len(offsets))]
    given = {}
    for place, offset in enumerate(offsets):
        at = 1 + place * apart
        given[offset] = s.deliver(mails[offset], at, client=clients[place % len(clients)])
        s.ack(given[offset], at + 0.5)
    return given


@_first("ord-first.swapped")
def _(s: Scene) -> Accused:
    return _in_this_order(s, 1, 0)[0]


@_first("ord-first.in-the-middle")
def _(s: Scene) -> Accused:
    return _in_this_order(s, 0, 2, 1, 3)[1]


@_first("ord-first.reversed")
def _(s: Scene) -> Accused:
    given = _in_this_order(s, 2, 1, 0)
    return given[1], given[0]


@_first("ord-first.last-of-all")
def _(s: Scene) -> Accused:
    return _in_this_order(s, 1, 2, 3, 0)[0]


@_first("ord-first.other-consumer")
def _(s: Scene) -> Accused:
    return _in_this_order(s, 1, 0, clients="ab")[0]


@_first("ord-first.hours-later")
def _(s: Scene) -> Accused:
    return _in_this_order(s, 1, 0, apart=7_200)[0]


@_first("ord-first.seen-by-client", observer="client")
def _(s: Scene) -> Accused:
    return _in_this_order(s, 1, 0)[0]


def _handled_at(
    s: Scene, *spans: tuple[float, float | None], extended: float = 0.0, at: float = 1.0
) -> list[Handed]:
    """Messages of one answer, each handled from and to these seconds, and acknowledged when all are through."""
    given = [
        s.deliver(s.mail(offset, ordered=True), at, batch=f"answer-{s.topic}", batch_pos=offset)
        for offset in range(len(spans))
    ]
    if extended:
        for handed in given:
            s.extend(handed, at + 0.5, extended)
    for handed, (begin, end) in zip(given, spans, strict=True):
        s.handle(handed, begin, end)
    through = max(end for _, end in spans if end is not None)
    for handed, (_, end) in zip(given, spans, strict=True):
        if end is not None:
            s.ack(handed, through + 0.1 + handed.mail.offset / 100)
    return given


@_handled("ord-handle.two-at-once")
def _(s: Scene) -> Accused:
    return _handled_at(s, (2, 4), (3, 5))[1]


@_handled("ord-handle.three-at-once")
def _(s: Scene) -> Accused:
    given = _handled_at(s, (2, 5), (3, 6), (4, 7))
    return given[1], given[2]


@_handled("ord-handle.later-one-first")
def _(s: Scene) -> Accused:
    return _handled_at(s, (3, 4), (2, 5))[0]


@_handled("ord-handle.after-some-in-turn")
def _(s: Scene) -> Accused:
    return _handled_at(s, (2, 3), (3, 4), (4, 5), (4.5, 6))[3]


@_handled("ord-handle.beside-one-that-hangs")
def _(s: Scene) -> Accused:
    return _handled_at(s, (2, None), (3, 4))[1]


@_handled("ord-handle.held-on-by-an-extension")
def _(s: Scene) -> Accused:
    late = s.hold + 5
    return _handled_at(s, (2, late + 2), (late, late + 1), extended=2 * s.hold)[1]
