"""Scenes just inside of what is allowed, and just outside: excuses that hold, excuses that do not, and tolerances."""

from __future__ import annotations

from functools import partial

from aiorocketmq_audit.generator.plants.registry import Accused, kind
from aiorocketmq_audit.generator.scene import NORMAL, ORDERED, Scene

_alone = partial(kind, alone=True)


def _came_again(s: Scene, at: float, *, acked: float | None = None, ordered: bool = False) -> Accused:
    mail = s.mail(ordered=ordered)
    first = s.deliver(mail, 1)
    if acked is not None:
        s.ack(first, acked)
    again = s.deliver(mail, at, 2, client="b")
    s.ack(again, at + 1)
    return again


@_alone("excused.reset")
def _(s: Scene) -> Accused:
    s.note("reset", 5, group=NORMAL, topic=s.topic)
    _came_again(s, 6)
    return ()


@kind("excused.crash")
def _(s: Scene) -> Accused:
    s.note("client.crash", 3, client_id=s.client("a"), group=NORMAL)
    _came_again(s, 6)
    return ()


@_alone("excused.restart")
def _(s: Scene) -> Accused:
    s.note("fault", 4, fault={"kind": "restart"})
    _came_again(s, 10, acked=2)
    return ()


@_alone("excused.crash-two-lives")
def _(s: Scene) -> Accused:
    mail = s.mail()
    s.deliver(mail, 1)
    s.note("fault", 4, fault={"kind": "crash"})
    s.ack(s.deliver(mail, 2 + s.hold, 2), 3 + s.hold)
    s.ack(s.deliver(mail, 10 + s.hold, 2, client="b"), 11 + s.hold)
    return ()


@_alone("excused.late-after-a-restart")
def _(s: Scene) -> Accused:
    s.note("fault", 1.5, fault={"kind": "restart"})
    return _late(s, 40, polled=50)


@_alone("excused.queue-locked")
def _(s: Scene) -> Accused:
    s.note("config", 0, group=ORDERED, cfg={"order_grain": "queue"})
    mails = [s.mail(offset, ordered=True) for offset in range(2)]
    first, second = (s.deliver(mail, 1, batch="B", batch_pos=place) for place, mail in enumerate(mails))
    s.ack(second, 2)
    again = [s.deliver(mail, 1.5 + s.hold, 2, batch="C") for mail in mails]
    for given in again:
        s.ack(given, given.at + 1)
    del first
    return ()


@kind("excused.answered-twice")
def _(s: Scene) -> Accused:
    mail = s.mail()
    cells = {"receive_attempt": f"{s.topic}-once", "batch_pos": 0}
    s.deliver(mail, 1, cells=cells)
    s.ack(s.deliver(mail, 2, cells=cells), 3)
    return ()


@_alone("excused.answer-lost", observer="client")
def _(s: Scene) -> Accused:
    mail = s.mail()
    s.deliver(mail, 1)
    s.operation("receive", 1.5 + s.hold, "info", topic=s.topic, group=NORMAL)
    s.ack(s.deliver(mail, 2 + 2 * s.hold, 3), 3 + 2 * s.hold)
    return ()


@kind("excused.resent")
def _(s: Scene) -> Accused:
    mail = s.mail()
    s.ack(s.deliver(mail, 1), 2)
    s.ack(s.deliver(mail, 3, cells={"queue": 1}), 4)
    return ()


@kind("acked.another-crashed", "double delivery", "INV-ACKED")
def _(s: Scene) -> Accused:
    s.note("client.crash", 3, client_id=s.client("c"), group=NORMAL)
    return _came_again(s, 6, acked=2)


@kind("acked.crashed-before", "double delivery", "INV-ACKED")
def _(s: Scene) -> Accused:
    s.note("client.crash", 0.5, client_id=s.client("a"), group=NORMAL)
    return _came_again(s, 6, acked=2)


@_alone("acked.stored-after-the-restart", "double delivery", "INV-ACKED")
def _(s: Scene) -> Accused:
    s.note("fault", -1, fault={"kind": "crash"})
    return _came_again(s, 6, acked=2)


@_alone("acked.restart-long-after", "double delivery", "INV-ACKED")
def _(s: Scene) -> Accused:
    s.note("fault", 20, fault={"kind": "restart"})
    return _came_again(s, 60, acked=2)


@kind("allowed.barely-over")
def _(s: Scene) -> Accused:
    _came_again(s, 1 + s.hold - 0.05)
    return ()


@kind("allowed.retry-barely-over")
def _(s: Scene) -> Accused:
    mail = s.mail()
    back = s.nack(s.deliver(mail, 1), 2)
    s.ack(s.deliver(mail, back - 0.05, 2), back + 1)
    return ()


@kind("allowed.acked-too-late")
def _(s: Scene) -> Accused:
    _came_again(s, 20 + s.hold, acked=10 + s.hold)
    return ()


@kind("allowed.ack-of-unknown-effect", observer="client")
def _(s: Scene) -> Accused:
    mail = s.mail()
    s.ack(s.deliver(mail, 1), 2, "info")
    s.ack(s.deliver(mail, 2 + s.hold, 2), 3 + s.hold)
    return ()


@kind("allowed.change-of-unknown-effect", observer="client")
def _(s: Scene) -> Accused:
    mail = s.mail()
    s.nack(s.deliver(mail, 1), 2, 5, "info")
    s.ack(s.deliver(mail, 8, 2), 9)
    return ()


@kind("allowed.one-answer")
def _(s: Scene) -> Accused:
    given = [
        s.deliver(s.mail(place, ordered=True), 1, batch=f"{s.topic}-B", batch_pos=place) for place in range(3)
    ]
    for handed in given:
        s.ack(handed, 2 + handed.mail.offset)
    return ()


@kind("allowed.at-one-instant")
def _(s: Scene) -> Accused:
    """As with a clock that is moved by hand: only the numbers of the rows tell what came first."""
    for offset in range(3):
        s.ack(s.deliver(s.mail(offset, ordered=True), 1), 1)
    return ()


def _late(s: Scene, comes: float, *, polled: float | None, ordered: bool = False) -> Accused:
    mail = s.mail(ordered=ordered)
    back = s.nack(s.deliver(mail, 1), 2)
    if polled is not None:
        s.poll(back - 1, back + polled, ORDERED if ordered else NORMAL)
    s.ack(s.deliver(mail, back + comes, 2), back + comes + 1)
    return ()


@kind("allowed.barely-in-time")
def _(s: Scene) -> Accused:
    return _late(s, 14.9, polled=30)


@kind("allowed.nobody-asked")
def _(s: Scene) -> Accused:
    return _late(s, 3_600, polled=None)


@kind("allowed.asked-for-too-short")
def _(s: Scene) -> Accused:
    return _late(s, 40, polled=10)


@kind("allowed.poll-was-out")
def _(s: Scene) -> Accused:
    mail = s.mail()
    back = s.nack(s.deliver(mail, 1), 2)
    s.poll(back - 1, back + 19, NORMAL)
    s.ack(s.deliver(mail, back + 19, 2, invoked_us=s.instant(back - 1)), back + 20)
    return ()


@kind("allowed.ordered-waits")
def _(s: Scene) -> Accused:
    return _late(s, 40, polled=50, ordered=True)


@kind("allowed.delay-barely-over")
def _(s: Scene) -> Accused:
    s.ack(s.deliver(s.mail(due=60), 59.95), 61)
    return ()


@kind("allowed.ordered-beyond-the-limit")
def _(s: Scene) -> Accused:
    given = s.climb(s.mail(ordered=True), 1, s.shape.max_attempts + 1)
    s.ack(given, given.at + 1)
    return ()


@kind("allowed.last-attempt")
def _(s: Scene) -> Accused:
    given = s.climb(s.mail(), 1, s.shape.max_attempts)
    s.ack(given, given.at + 1)
    return ()


@kind("allowed.forwarded-early")
def _(s: Scene) -> Accused:
    given = s.deliver(s.mail(ordered=True), 1)
    s.operation("forward", 2, cells=given.row | {"attempt": 1})
    s.bury(given, 2)
    return ()


@kind("allowed.refused-then-sent", observer="client")
def _(s: Scene) -> Accused:
    mail = s.mail(sent=None)
    s.send(mail, 0, phase="fail")
    s.send(mail, 0.5)
    s.ack(s.deliver(mail, 1), 2)
    return ()


@kind("allowed.sent-before-the-recording")
def _(s: Scene) -> Accused:
    s.ack(s.deliver(s.mail(sent=None), 1, store_us=s.instant(-100_000)), 2)
    return ()


@kind("allowed.still-to-come")
def _(s: Scene) -> Accused:
    mails = [s.mail(offset, sent=offset / 10) for offset in range(4)]
    for mail in mails[:2]:
        s.ack(s.deliver(mail, 1 + mail.offset), 2 + mail.offset)
    return ()


@kind("allowed.sent-at-once", observer="client")
def _(s: Scene) -> Accused:
    """The answer of the first send comes after the call of the second one, which was stored before it."""
    first, second = s.mail(1, sent=None), s.mail(0, sent=None)
    s.send(first, 1, invoked_us=s.instant(0.5))
    s.send(second, 1.1, invoked_us=s.instant(0.9))
    return ()


@kind("allowed.sent-before-the-group-began")
def _(s: Scene) -> Accused:
    mails = [s.mail(offset, sent=offset * 5.0) for offset in range(2)]
    s.poll(2, 3)
    s.ack(s.deliver(mails[1], 6), 7)
    s.note("drain.ok", 500, topic=s.topic, group=NORMAL)
    return ()


@kind("allowed.others-go-on")
def _(s: Scene) -> Accused:
    """A message group that waits for a held message holds up no other, though they share a queue."""
    mails = [s.mail(offset, ordered=True, lane="ab"[offset % 2], sent=offset / 10) for offset in range(6)]
    s.deliver(mails[0], 1)
    for mail in (mails[1], mails[3], mails[5]):
        s.ack(s.deliver(mail, 2 + mail.offset), 2.5 + mail.offset)
    return ()
