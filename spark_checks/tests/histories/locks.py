"""Locks of queues: who holds them, and who works without them."""

from __future__ import annotations

from typing import Any

from spark_checks.tests.histories.book import history
from spark_checks.tests.histories.history import START, History
from spark_checks.tests.histories.queues import pulled, pushed

_HANDLER: dict[str, Any] = {
    "topic": "t",
    "group": "g",
    "broker": "b",
    "queue": 0,
    "offset": 0,
    "message_id": "/0",
    "client_id": "c1",
    "role": "push",
    "epoch": 1,
    "attempt": 1,
}


def asked(
    h: History, kind: str, at: float, *, call: float | None = None, phase: str = "ok", **more: Any
) -> None:
    """A call about the lock of a queue, and its answer."""
    began = at if call is None else call
    cells: dict[str, Any] = {
        "role": "push",
        "group": "g",
        "topic": "t",
        "broker": "b",
        "queue": 0,
        "epoch": 1,
    }
    cells |= {"client_id": "c1", "op_id": f"op{len(h.rows)}", **more}
    number = h.note(kind, began, phase="invoke", **cells)
    h.note(kind, at, phase=phase, invoked_us=START + round(began * 1e6), invoked_seq=number, **cells)


def lock(h: History, at: float, client: str = "c1", **more: Any) -> None:
    asked(h, "lock", at, client_id=client, **more)


def unlock(h: History, at: float, client: str = "c1", **more: Any) -> None:
    asked(h, "unlock", at, client_id=client, **more)


def beside(h: History, clock: str = "x") -> dict[str, str]:
    """Another recorder."""
    return {"recorder": h.rows[0]["recorder"] + clock}


@history("a lock changes hands")
def _(h: History) -> None:
    lock(h, 1)
    lock(h, 2, "c2", phase="fail")
    lock(h, 21)
    unlock(h, 30)
    lock(h, 30, "c2")


@history("two hold one lock", ("INV-LOCK", "broken"))
def _(h: History) -> None:
    lock(h, 1)
    lock(h, 2, "c2")


@history("a lock was renewed", ("INV-LOCK", "broken"))
def _(h: History) -> None:
    for at in (1, 21, 41):
        lock(h, at)
    lock(h, 100.9, "c2")


@history("a lock ends by itself")
def _(h: History) -> None:
    lock(h, 1)
    lock(h, 61, "c2")


@history("a lock is held for a minute from its call on")
def _(h: History) -> None:
    lock(h, 3, call=1)
    lock(h, 61.5, "c2")


@history("a lock is granted when it is about to end", ("INV-LOCK", "broken"))
def _(h: History) -> None:
    lock(h, 1)
    lock(h, 60.999, "c2", call=60)


@history("a lock is asked for when it is about to end")
def _(h: History) -> None:
    lock(h, 1)
    lock(h, 61.5, "c2", call=60)


@history("a lock is asked for before it is known to be another's")
def _(h: History) -> None:
    lock(h, 3, call=1)
    lock(h, 4, "c2", call=2.9)


@history("a lock is asked for as soon as it is known to be another's", ("INV-LOCK", "broken"))
def _(h: History) -> None:
    lock(h, 3, call=1)
    lock(h, 4, "c2", call=3)


@history("a lock is released by who asks for that")
def _(h: History) -> None:
    lock(h, 1)
    unlock(h, 5, call=2)
    lock(h, 4, "c2", call=3)


@history("a lock is granted just before its release is asked for", ("INV-LOCK", "broken"))
def _(h: History) -> None:
    lock(h, 1)
    lock(h, 2, "c2")
    unlock(h, 5, call=2.001)


@history("who is refused a lock holds it no more")
def _(h: History) -> None:
    lock(h, 1)
    lock(h, 2, phase="fail", call=1.5)
    lock(h, 2, "c2")


@history("what another one is refused, or releases, ends nothing", ("INV-LOCK", "broken"))
def _(h: History) -> None:
    lock(h, 1)
    lock(h, 2, "c2", phase="fail")
    unlock(h, 3, "c2")
    lock(h, 4, "c3")


@history("who gets no answer may hold the lock, and may not", ("INV-LOCK", "broken"))
def _(h: History) -> None:
    lock(h, 1)
    lock(h, 2, phase="info")
    lock(h, 3, "c2")
    lock(h, 4, "c3", phase="info")


@history("locks of other queues, topics and groups")
def _(h: History) -> None:
    lock(h, 1)
    lock(h, 2, "c2", queue=1)
    lock(h, 2, "c2", broker="b2")
    lock(h, 2, "c2", topic="u")
    lock(h, 2, "c2", group="another")


@history("one holder asks again and again")
def _(h: History) -> None:
    for at in (1, 2, 3):
        lock(h, at)


@history("two clocks tell of two holders", ("INV-LOCK", "broken"))
def _(h: History) -> None:
    lock(h, 1)
    lock(h, 2, "c2", call=1.1, **beside(h))


@history("two clocks may be apart when a lock is asked for")
def _(h: History) -> None:
    lock(h, 1)
    lock(h, 2, "c2", call=1.099, **beside(h))


@history("two clocks may be apart when a lock ends")
def _(h: History) -> None:
    lock(h, 1)
    lock(h, 60.9, "c2", **beside(h))


@history("a lock does not end by two clocks", ("INV-LOCK", "broken"))
def _(h: History) -> None:
    lock(h, 1)
    lock(h, 60.899, "c2", **beside(h))


@history("a broker that was restarted grants a lock again", ("INV-LOCK", "exempted"))
def _(h: History) -> None:
    lock(h, 1)
    h.note("fault", 2, fault={"kind": "restart"})
    lock(h, 3, "c2")


@history("a broker's own account of locks", ("INV-LOCK", "broken"))
def _(h: History) -> None:
    for at, client in ((1, "c1"), (2, "c2")):
        cells = {"group": "g", "topic": "t", "broker": "b", "queue": 0, "client_id": client}
        h.note("lock", at, phase="ok", observer="broker", **cells)


@history("a broker that was started again has no locks")
def _(h: History) -> None:
    for at, client in ((1, "c1"), (2, "c2")):
        cells = {"group": "g", "topic": "t", "broker": "b", "queue": 0, "client_id": client}
        h.note("lock", at, phase="ok", observer="broker", boot=f"boot-{at}", **cells)


def worked(h: History, message: str, begin: float, end: float | None, **more: Any) -> None:
    """By a handler of a push consumer that reads queues in order."""
    about = _HANDLER | {"offset": int(message[1:]), "message_id": message} | more
    h.note("handle.start", begin, **about)
    if end is not None:
        h.note("handle.end", end, **about, result="success")


@history("handlers work while their lock is held")
def _(h: History) -> None:
    lock(h, 1)
    pushed(h, "/0", 2)
    worked(h, "/0", 3, 5)
    lock(h, 21)
    worked(h, "/1", 22, None)
    unlock(h, 30)


@history("a handler begins before its lock is held", ("INV-LOCK-WORK", "broken"))
def _(h: History) -> None:
    worked(h, "/0", 0, 2)
    lock(h, 3)


@history("a handler begins after its lock was released", ("INV-LOCK-WORK", "broken"))
def _(h: History) -> None:
    lock(h, 1)
    unlock(h, 2)
    worked(h, "/0", 3, 4)


@history("a handler begins after its lock was refused", ("INV-LOCK-WORK", "broken"))
def _(h: History) -> None:
    lock(h, 1)
    lock(h, 21, phase="fail")
    worked(h, "/0", 22, 23)


@history("a handler goes on after the release of its lock", ("INV-LOCK-WORK", "broken"))
def _(h: History) -> None:
    lock(h, 1)
    h.note("handle.start", 2, **_HANDLER)
    unlock(h, 4)
    h.note("handle.end", 5, **_HANDLER)


@history("a handler goes on after the release, and another one had ended before", ("INV-LOCK-WORK", "broken"))
def _(h: History) -> None:
    lock(h, 1)
    h.note("handle.start", 2, **_HANDLER)
    worked(h, "/1", 3, 4)
    unlock(h, 5)
    h.note("handle.end", 6, **_HANDLER)


@history("a handler goes on while its lock is lost and granted again", ("INV-LOCK-WORK", "broken"))
def _(h: History) -> None:
    lock(h, 1)
    h.note("handle.start", 2, **_HANDLER)
    unlock(h, 4)
    lock(h, 5)
    h.note("handle.end", 6, **_HANDLER)


@history("a handler ends when the release of its lock is asked for")
def _(h: History) -> None:
    lock(h, 1)
    worked(h, "/0", 2, 4)
    unlock(h, 5, call=4)


@history("a lock of unknown outcome changes nothing")
def _(h: History) -> None:
    lock(h, 1)
    lock(h, 21, phase="info")
    worked(h, "/0", 22, 23)


@history("a handler begins when its lock has ended by itself", ("INV-LOCK-WORK", "broken"))
def _(h: History) -> None:
    lock(h, 1)
    worked(h, "/0", 61.001, None)


@history("a handler begins just before its lock ends by itself")
def _(h: History) -> None:
    lock(h, 1)
    worked(h, "/0", 61, 61)


@history("a handler goes on when its lock has ended by itself", ("INV-LOCK-WORK", "broken"))
def _(h: History) -> None:
    lock(h, 1)
    worked(h, "/0", 2, 61.001)


@history("a handler goes on while its lock is renewed")
def _(h: History) -> None:
    lock(h, 1)
    h.note("handle.start", 2, **_HANDLER)
    lock(h, 61)
    lock(h, 121, call=120)
    h.note("handle.end", 181, **_HANDLER)


@history("a handler goes on through a time without a lock", ("INV-LOCK-WORK", "broken"))
def _(h: History) -> None:
    lock(h, 1)
    h.note("handle.start", 2, **_HANDLER)
    lock(h, 70)
    h.note("handle.end", 71, **_HANDLER)


@history("a lock that was granted late is a new one")
def _(h: History) -> None:
    lock(h, 1)
    lock(h, 70)
    worked(h, "/0", 71, 72)


@history("the locks of another queue, client and life", ("INV-LOCK-WORK", "broken"))
def _(h: History) -> None:
    lock(h, 1)
    worked(h, "/0", 2, 3)
    unlock(h, 4)
    lock(h, 5, queue=1)
    lock(h, 5, "c2")
    lock(h, 66, epoch=2)
    worked(h, "/1", 67, 68)


@history("who takes no locks needs none")
def _(h: History) -> None:
    lock(h, 1, queue=1)
    lock(h, 1, "c2", queue=2)
    lock(h, 1, queue=3, phase="fail")
    worked(h, "/0", 2, 3)
    worked(h, "/1", 2, 3, queue=2)
    worked(h, "/2", 2, 3, queue=3)


@history("retries come from a queue whose lock is another")
def _(h: History) -> None:
    lock(h, 1)
    unlock(h, 2)
    worked(h, "/0", 3, 4, attempt=2)


@history("a local run is no retry", ("INV-LOCK-WORK", "broken"))
def _(h: History) -> None:
    lock(h, 1)
    worked(h, "/0", 2, 3)
    unlock(h, 4)
    worked(h, "/0", 5, 6, attempt=2)


@history("a pull consumer reads what it has no lock of", ("INV-LOCK-WORK", "broken"))
def _(h: History) -> None:
    lock(h, 1, role="pull")
    pulled(h, "/0", 2)
    unlock(h, 3, role="pull")
    pulled(h, "/1", 4)


@history("a broker that was restarted has lost locks", ("INV-LOCK-WORK", "exempted"))
def _(h: History) -> None:
    lock(h, 1)
    h.note("handle.start", 2, **_HANDLER)
    h.note("fault", 3, fault={"kind": "crash"})
    lock(h, 21, phase="fail")
    h.note("handle.end", 22, **_HANDLER)
