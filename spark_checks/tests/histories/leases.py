"""Who may lease a message when, and what exempts another lease."""

from __future__ import annotations

from typing import Any

from spark_checks.tests.histories.book import SECOND, START, History, history


@history("a message may come back when its lease has ended")
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.deliver("/0", 9.9, attempt=2)


@history("a message must not come back while its lease lasts", ("INV-EXCL", "broken"))
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.deliver("/0", 9.899, attempt=2)


@history(
    "a long poll leaves open when its message was handed out, and doubt is no proof", ("INV-EXCL", "possible")
)
def _(h: History) -> None:
    h.deliver("/0", 20, call=0, hold=30)
    h.deliver("/0", 40, attempt=2)


@history("a server may write its answer long after it took the message out", ("INV-EXCL", "possible"))
def _(h: History) -> None:
    h.deliver("/0", 11.4, call=10, hold=10, server_deliver_us=1_700_000_011_350_000)
    h.deliver("/0", 20.1, attempt=2)


@history("nothing is handed out before it was stored", ("INV-EXCL", "broken"))
def _(h: History) -> None:
    h.deliver("/0", 11.4, call=0, hold=10, store_us=1_700_000_011_300_000)
    h.deliver("/0", 20.1, attempt=2)


@history("an extension keeps a message away for longer", ("INV-EXCL", "broken"))
def _(h: History) -> None:
    h.settle("change", h.deliver("/0", 0, hold=10), 5, seconds=10, reason="extend")
    h.deliver("/0", 12, attempt=2)


@history("a change whose outcome nobody knows excuses an early return")
def _(h: History) -> None:
    h.settle("change", h.deliver("/0", 0, hold=30), 1, seconds=5, reason="extend", phase="info")
    h.deliver("/0", 7, attempt=2)


@history("a change that was refused excuses nothing", ("INV-EXCL", "broken"))
def _(h: History) -> None:
    h.settle("change", h.deliver("/0", 0, hold=30), 1, seconds=5, reason="retry", phase="fail")
    h.deliver("/0", 7, attempt=2)


@history("a change of another delivery's lease does not count", ("INV-EXCL", "broken"))
def _(h: History) -> None:
    first = h.deliver("/0", 0, hold=10)
    h.deliver("/0", 11, hold=30, attempt=2)
    h.settle("change", first, 12, seconds=0, reason="retry")
    h.deliver("/0", 15, attempt=3)


@history("an acked message never comes back", ("INV-ACKED", "broken"))
def _(h: History) -> None:
    h.settle("ack", h.deliver("/0", 0, hold=10), 5)
    h.deliver("/0", 60, attempt=2)


@history("an ack after the lease's end may be without effect")
def _(h: History) -> None:
    h.settle("ack", h.deliver("/0", 0, hold=10), 11)
    h.deliver("/0", 12, attempt=2)


@history("an ack without an answer proves nothing")
def _(h: History) -> None:
    h.settle("ack", h.deliver("/0", 0, hold=10), 5, phase="info")
    h.deliver("/0", 12, attempt=2)


@history("one request that was answered twice is one delivery (E6)")
def _(h: History) -> None:
    h.deliver("/0", 0, receive_attempt="a")
    h.deliver("/0", 1, receive_attempt="a")


@history("a reset brings messages back (E2)", ("INV-ACKED", "exempted"), ("INV-ATTEMPT", "exempted"))
def _(h: History) -> None:
    h.settle("ack", h.deliver("/0", 0), 1)
    h.note("reset", 2, group="g", topic="t")
    h.deliver("/0", 3, attempt=1)


@history("a client that is gone holds nothing (E3)", ("INV-EXCL", "exempted"))
def _(h: History) -> None:
    h.deliver("/0", 0)
    h.note("client.stop", 2, client_id="c1")
    h.deliver("/0", 5, client_id="c2", attempt=2)


@history("a client's end at the same instant, but later, is no excuse", ("INV-EXCL", "broken"))
def _(h: History) -> None:
    h.deliver("/0", 0)
    h.deliver("/0", 5, client_id="c2", attempt=2)
    h.note("client.stop", 5, client_id="c1")


@history("another client's end is no excuse", ("INV-EXCL", "broken"))
def _(h: History) -> None:
    h.deliver("/0", 0)
    h.note("client.stop", 2, client_id="c3")
    h.deliver("/0", 5, client_id="c2", attempt=2)


@history("a restart may forget the last acks (E4)", ("INV-ACKED", "exempted"), ("INV-ATTEMPT", "exempted"))
def _(h: History) -> None:
    h.settle("ack", h.deliver("/0", 0), 5)
    h.note("fault", 8, fault={"kind": "restart"})
    h.deliver("/0", 9, attempt=1)


@history("a restart forgets no ack of long ago", ("INV-ACKED", "broken"))
def _(h: History) -> None:
    h.settle("ack", h.deliver("/0", 0), 5)
    h.note("fault", 20, fault={"kind": "restart"})
    h.deliver("/0", 21, attempt=2)


def acked_and_again(h: History, polled: float, **poll: Any) -> None:
    """A message is acked at 5 s, and is redelivered a second after the answer to a poll."""
    h.settle("ack", h.deliver("/0", 0), 5)
    h.poll(polled - 1, polled, **poll)
    h.deliver("/0", polled + 1, attempt=2)


@history("nobody could reach a server that may have forgotten an ack", ("INV-ACKED", "possible"))
def _(h: History) -> None:
    acked_and_again(h, 8, phase="fail", result="away")


@history("a server that fails by itself may have forgotten an ack", ("INV-ACKED", "possible"))
def _(h: History) -> None:
    acked_and_again(h, 8, phase="info", code=50_001, result="away")


@history("a server that refuses a poll has forgotten nothing", ("INV-ACKED", "broken"))
def _(h: History) -> None:
    acked_and_again(h, 8, phase="fail", code=42_900)


@history("a server that was away forgets no ack of long ago", ("INV-ACKED", "broken"))
def _(h: History) -> None:
    acked_and_again(h, 12, phase="fail", result="away")


@history("a server that was away before and afterwards has forgotten nothing", ("INV-EXCL", "broken"))
def _(h: History) -> None:
    h.poll(0, 1, phase="fail", result="away")
    h.deliver("/0", 112)
    h.deliver("/0", 121, attempt=2)
    h.poll(132, 133, phase="fail", result="away")


@history("a server that was away may go on with an old lease beside a new one", ("INV-EXCL", "possible"))
def _(h: History) -> None:
    h.poll(0, 1, phase="fail", result="away")
    h.deliver("/0", 111)
    h.deliver("/0", 120.9, attempt=2)


@history("a restarted server may go on with an old lease beside a new one (E4)", ("INV-ACKED", "exempted"))
def _(h: History) -> None:
    h.deliver("/0", 0)
    h.note("fault", 8, fault={"kind": "crash"})
    h.settle("ack", h.deliver("/0", 40, attempt=2), 41)
    h.deliver("/0", 50, attempt=3)


@history(
    "an answer that a crash swallowed comes again though another one was acked (E4)",
    ("INV-ACKED", "exempted"),
)
def _(h: History) -> None:
    h.note("fault", 8, fault={"kind": "crash"})
    h.settle("ack", h.deliver("/0", 40, store_us=START + 7 * SECOND), 41)
    h.deliver("/0", 50, attempt=2)


@history(
    "what is stored while a server goes down may come again when it is up (E4)", ("INV-ACKED", "exempted")
)
def _(h: History) -> None:
    h.note("fault", 8, fault={"kind": "restart", "target": "b", "state": "start"})
    h.settle("ack", h.deliver("/0", 10, store_us=START + 9 * SECOND), 11)
    h.deliver("/0", 30, attempt=2)
    h.note("fault", 40, fault={"kind": "restart", "target": "b", "state": "stop"})


@history("faults that stopped before excuse nothing", ("INV-ACKED", "broken"))
def _(h: History) -> None:
    for at, target, state in ((7, "b", "start"), (7.5, "c", "start"), (7.7, "c", "stop"), (8, "b", "stop")):
        h.note("fault", at, fault={"kind": "restart", "target": target, "state": state})
    h.settle("ack", h.deliver("/0", 10, store_us=START + 9 * SECOND), 11)
    h.deliver("/0", 30, attempt=2)


@history("a copy that is stored anew is as old as its message (E4)", ("INV-ACKED", "exempted"))
def _(h: History) -> None:
    h.note("fault", 8, fault={"kind": "crash"})
    again = {"store_us": START + 39 * SECOND, "born_us": START + 7 * SECOND}
    h.settle("ack", h.deliver("/0", 40, **again), 41)
    h.deliver("/0", 50, attempt=2, **again)


@history("what was stored after a restart is held as ever", ("INV-ACKED", "broken"))
def _(h: History) -> None:
    h.note("fault", 8, fault={"kind": "crash"})
    h.settle("ack", h.deliver("/0", 40, store_us=START + 9 * SECOND), 41)
    h.deliver("/0", 50, attempt=2)


@history("what another client's recorder saw of its server is no doubt", ("INV-EXCL", "broken"))
def _(h: History) -> None:
    h.deliver("/0", 0)
    h.poll(1, 2, phase="fail", result="away", recorder=h.rows[0]["recorder"] + "'")
    h.deliver("/0", 5, attempt=2)


@history("a restart long before excuses nothing that was there", ("INV-ACKED", "broken"))
def _(h: History) -> None:
    h.note("fault", 8, fault={"kind": "crash"})
    h.settle("ack", h.deliver("/0", 100, store_us=START + 7 * SECOND), 110)
    h.deliver("/0", 128.1, attempt=2)


@history("a server whose end is not told is up again within two minutes", ("INV-ACKED", "broken"))
def _(h: History) -> None:
    h.note("fault", 8, fault={"kind": "crash", "state": "start"})
    h.settle("ack", h.deliver("/0", 200, store_us=START + 129 * SECOND), 201)
    h.deliver("/0", 220, attempt=2)


@history("a restart may put off what would come again (E4)", ("INV-LATE", "exempted"))
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.note("fault", 5, fault={"kind": "restart"})
    h.poll(9, 26)
    h.deliver("/0", 40, attempt=2)


@history("a server that was away may put off what would come again", ("INV-LATE", "possible"))
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.poll(5, 6, phase="fail", result="away")
    h.poll(9, 26)
    h.deliver("/0", 40, attempt=2)


@history("a server that was away long before is late by itself", ("INV-LATE", "broken"))
def _(h: History) -> None:
    h.poll(5, 6, phase="fail", result="away")
    h.deliver("/0", 120, hold=10)
    h.poll(129, 146)
    h.deliver("/0", 160, attempt=2)


@history("a server that was away when a message was due leaves a doubt for ever", ("INV-LATE", "possible"))
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.poll(5, 6, phase="fail", result="away")
    h.poll(9, 26)
    h.poll(190, 200)


@history("a server that went away when all was late already is no doubt", ("INV-LATE", "broken"))
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.poll(9, 26)
    h.poll(28, 29, phase="fail", result="away")


@history("a body does not change because its server was away", ("INV-CONTENT", "broken"))
def _(h: History) -> None:
    h.send("/0", 0, body="mine")
    h.poll(1, 2, phase="fail", result="away")
    h.deliver("/0", 5, body_sha="other")


@history(
    "a message that was sent twice is two messages", ("INV-ACKED", "exempted"), ("INV-ATTEMPT", "exempted")
)
def _(h: History) -> None:
    h.settle("ack", h.deliver("/0", 0), 1)
    h.deliver("/0", 2, offset=9)


@history("two accounts of one delivery are not two deliveries")
def _(h: History) -> None:
    h.deliver("/0", 0)
    h.deliver("/0", 0.001, observer="broker", recorder=h.rows[0]["recorder"] + "'")


@history("a lease of unknown length ends at any time")
def _(h: History) -> None:
    h.deliver("/0", 0, hold=None)
    h.deliver("/0", 1, attempt=2)


@history("an ack ends a lease of unknown length for good", ("INV-ACKED", "broken"))
def _(h: History) -> None:
    h.settle("ack", h.deliver("/0", 0, hold=None), 5)
    h.deliver("/0", 60, attempt=2)


@history("nobody else gets a message of unknown lease while its ack is under way", ("INV-EXCL", "broken"))
def _(h: History) -> None:
    given = h.deliver("/0", 0, hold=None)
    h.settle("ack", given, 5, call=1)
    h.deliver("/0", 3, attempt=2)


@history("an ack at the very end of the lease is in time", ("INV-ACKED", "broken"))
def _(h: History) -> None:
    h.settle("ack", h.deliver("/0", 0, hold=10), 10)
    h.deliver("/0", 12, attempt=2)


@history("what comes at the instant of an ack's answer comes too early, not too late", ("INV-EXCL", "broken"))
def _(h: History) -> None:
    h.settle("ack", h.deliver("/0", 0), 5, call=4)
    h.deliver("/0", 5, attempt=2)


@history("one request that was answered again after the ack is one delivery (E6)")
def _(h: History) -> None:
    h.settle("ack", h.deliver("/0", 0, receive_attempt="a"), 1)
    h.deliver("/0", 2, receive_attempt="a")


def unsure(h: History, given: int) -> None:
    """A change without an answer may have shortened the lease to 20 s."""
    at = (h.rows[given]["t_wall_us"] - START) / SECOND
    h.settle("change", given, at + 0.2, seconds=20, reason="extend", phase="info")


@history("an ack is final whatever a change of unknown effect did", ("INV-ACKED", "broken"))
def _(h: History) -> None:
    given = h.deliver("/0", 0)
    unsure(h, given)
    h.settle("ack", given, 5)
    h.deliver("/0", 10, attempt=2)


@history(
    "a message comes before any end that a change of unknown effect may have set", ("INV-EXCL", "broken")
)
def _(h: History) -> None:
    unsure(h, h.deliver("/0", 0))
    h.deliver("/0", 5, attempt=2)


def reversible(h: History, *, ends: str | None = None, doubt: bool = False) -> None:
    """The delivery that is seen second may have been the first, its lease being over by then."""
    delivery = h.deliver("/0", 20)
    if doubt:
        unsure(h, delivery)
    if ends == "change":
        h.settle("change", delivery, 20.5, seconds=30, reason="retry")
    elif ends is not None:
        h.settle(ends, delivery, 20.5)
    h.deliver("/0", 21, call=15.1, hold=5, attempt=2)


@history("two deliveries may have been the other way round", ("INV-EXCL", "possible"))
def _(h: History) -> None:
    reversible(h)


@history("a delivery that is seen after an ack may have been before", ("INV-ACKED", "possible"))
def _(h: History) -> None:
    reversible(h, ends="ack")


@history(
    "a delivery that is seen after a retry was requested may have been before", ("INV-EARLY", "possible")
)
def _(h: History) -> None:
    reversible(h, ends="change")


@history("of two deliveries in any order, and a change of unknown effect, nothing is said")
def _(h: History) -> None:
    reversible(h, doubt=True)


@history("of an ack before or after a delivery, and a change of unknown effect, nothing is said")
def _(h: History) -> None:
    reversible(h, ends="ack", doubt=True)


@history(
    "what surely comes too early the broker's account does not settle",
    ("INV-EXCL", "broken"),
    attested=True,
)
def _(h: History) -> None:
    h.deliver("/0", 0)
    h.deliver("/0", 5, attempt=2)


@history("what a client suspects the broker's account settles", attested=True)
def _(h: History) -> None:
    h.deliver("/0", 20, call=0, hold=30)
    h.deliver("/0", 40, attempt=2)


@history("two copies are delivered beside each other", ("INV-EXCL", "exempted"), ("INV-ATTEMPT", "exempted"))
def _(h: History) -> None:
    h.deliver("/0", 0)
    h.deliver("/0", 2, offset=9)


@history("a restart long after an ack of unknown use exempts nothing", ("INV-EXCL", "possible"))
def _(h: History) -> None:
    h.settle("ack", h.deliver("/0", 20, call=0), 31)
    h.note("fault", 38, fault={"kind": "restart"})
    h.deliver("/0", 40, attempt=2)


@history(
    "a restart forgets neither an ack of long ago nor its attempt",
    ("INV-ACKED", "broken"),
    ("INV-ATTEMPT", "broken"),
)
def _(h: History) -> None:
    h.settle("ack", h.deliver("/0", 0), 5)
    h.note("fault", 20, fault={"kind": "restart"})
    h.deliver("/0", 21)


@history("a change without an answer may have shortened the lease")
def _(h: History) -> None:
    h.settle("change", h.deliver("/0", 0), 1, seconds=10, phase="invoke")
    h.deliver("/0", 15, attempt=2)


@history("from another place a message comes again while it is held", ("INV-EXCL", "broken"))
def _(h: History) -> None:
    h.deliver("/0", 0)
    h.deliver("/0", 5, attempt=2, offset=7)
