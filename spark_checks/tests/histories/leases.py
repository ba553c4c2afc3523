"""Who may hold a message when, and what excuses that somebody else does."""

from __future__ import annotations

from typing import Any

from spark_checks.tests.histories.book import CHECKED as history


@history("a message may come back when its lease has ended")
def _(h: Any) -> None:
    h.deliver("/0", 0, hold=10)
    h.deliver("/0", 9.9, attempt=2)


@history("a message must not come back while its lease lasts", ("INV-EXCL", "broken"))
def _(h: Any) -> None:
    h.deliver("/0", 0, hold=10)
    h.deliver("/0", 9.899, attempt=2)


@history(
    "a long poll leaves open when its message was handed out, and doubt is no proof", ("INV-EXCL", "possible")
)
def _(h: Any) -> None:
    h.deliver("/0", 20, call=0, hold=30)
    h.deliver("/0", 40, attempt=2)


@history("a server may write its answer long after it took the message out", ("INV-EXCL", "possible"))
def _(h: Any) -> None:
    h.deliver("/0", 11.4, call=10, hold=10, server_deliver_us=1_700_000_011_350_000)
    h.deliver("/0", 20.1, attempt=2)


@history("nothing is handed out before it was stored", ("INV-EXCL", "broken"))
def _(h: Any) -> None:
    h.deliver("/0", 11.4, call=0, hold=10, store_us=1_700_000_011_300_000)
    h.deliver("/0", 20.1, attempt=2)


@history("an extension keeps a message away for longer", ("INV-EXCL", "broken"))
def _(h: Any) -> None:
    h.settle("change", h.deliver("/0", 0, hold=10), 5, seconds=10, reason="extend")
    h.deliver("/0", 12, attempt=2)


@history("a change whose outcome nobody knows excuses an early return")
def _(h: Any) -> None:
    h.settle("change", h.deliver("/0", 0, hold=30), 1, seconds=5, reason="extend", phase="info")
    h.deliver("/0", 7, attempt=2)


@history("a change that was refused excuses nothing", ("INV-EXCL", "broken"))
def _(h: Any) -> None:
    h.settle("change", h.deliver("/0", 0, hold=30), 1, seconds=5, reason="retry", phase="fail")
    h.deliver("/0", 7, attempt=2)


@history("a change of another delivery's lease does not count", ("INV-EXCL", "broken"))
def _(h: Any) -> None:
    first = h.deliver("/0", 0, hold=10)
    h.deliver("/0", 11, hold=30, attempt=2)
    h.settle("change", first, 12, seconds=0, reason="retry")
    h.deliver("/0", 15, attempt=3)


@history("an acked message never comes back", ("INV-ACKED", "broken"))
def _(h: Any) -> None:
    h.settle("ack", h.deliver("/0", 0, hold=10), 5)
    h.deliver("/0", 60, attempt=2)


@history("an ack after the lease's end may be without effect")
def _(h: Any) -> None:
    h.settle("ack", h.deliver("/0", 0, hold=10), 11)
    h.deliver("/0", 12, attempt=2)


@history("an ack without an answer proves nothing")
def _(h: Any) -> None:
    h.settle("ack", h.deliver("/0", 0, hold=10), 5, phase="info")
    h.deliver("/0", 12, attempt=2)


@history("one request that was answered twice is one delivery (E6)")
def _(h: Any) -> None:
    h.deliver("/0", 0, receive_attempt="a")
    h.deliver("/0", 1, receive_attempt="a")


@history("a reset brings messages back (E2)", ("INV-ACKED", "excused"), ("INV-ATTEMPT", "excused"))
def _(h: Any) -> None:
    h.settle("ack", h.deliver("/0", 0), 1)
    h.note("reset", 2, group="g", topic="t")
    h.deliver("/0", 3, attempt=1)


@history("a client that is gone holds nothing (E3)", ("INV-EXCL", "excused"))
def _(h: Any) -> None:
    h.deliver("/0", 0)
    h.note("client.stop", 2, client_id="c1")
    h.deliver("/0", 5, client_id="c2", attempt=2)


@history("a client's end at the same instant, but later, is no excuse", ("INV-EXCL", "broken"))
def _(h: Any) -> None:
    h.deliver("/0", 0)
    h.deliver("/0", 5, client_id="c2", attempt=2)
    h.note("client.stop", 5, client_id="c1")


@history("another client's end is no excuse", ("INV-EXCL", "broken"))
def _(h: Any) -> None:
    h.deliver("/0", 0)
    h.note("client.stop", 2, client_id="c3")
    h.deliver("/0", 5, client_id="c2", attempt=2)


@history("a restart may forget the last acks (E4)", ("INV-ACKED", "excused"), ("INV-ATTEMPT", "excused"))
def _(h: Any) -> None:
    h.settle("ack", h.deliver("/0", 0), 5)
    h.note("fault", 8, fault={"kind": "restart"})
    h.deliver("/0", 9, attempt=1)


@history("a restart forgets no ack of long ago", ("INV-ACKED", "broken"))
def _(h: Any) -> None:
    h.settle("ack", h.deliver("/0", 0), 5)
    h.note("fault", 20, fault={"kind": "restart"})
    h.deliver("/0", 21, attempt=2)


@history(
    "a message that was sent twice is two messages", ("INV-ACKED", "excused"), ("INV-ATTEMPT", "excused")
)
def _(h: Any) -> None:
    h.settle("ack", h.deliver("/0", 0), 1)
    h.deliver("/0", 2, offset=9)


@history("two accounts of one delivery are not two deliveries")
def _(h: Any) -> None:
    h.deliver("/0", 0)
    h.deliver("/0", 0.001, observer="broker", recorder="other")
