"""What drains prove."""

from __future__ import annotations

from typing import Any

from spark_checks.tests.histories.book import SECOND, START, History, Write, history
from spark_checks.tests.histories.transactions import decide


def drained(h: History, at: float = 100) -> None:
    h.note("drain.ok", at, group="g", topic="t", observer="broker")


def stored(h: History, *, done: str | None, **more: Any) -> None:
    h.poll(0, 1, observer="broker")
    h.send("/0", 2, observer="broker", **more)
    delivery = h.deliver("/0", 3, observer="broker", hold=10, attempt=17 if done == "dlq.deliver" else 1)
    if done == "dlq.deliver":
        h.bury(delivery, 13, observer="broker")
    elif done is not None:
        h.settle(done, delivery, 4, observer="broker")
    drained(h)


@history("after a drain all is acked")
def _(h: History) -> None:
    stored(h, done="ack")


@history("after a drain all is acked or given up")
def _(h: History) -> None:
    stored(h, done="dlq.deliver")


@history("after a drain something is left", ("INV-LOSS", "broken"))
def _(h: History) -> None:
    stored(h, done=None)


@history("after a drain something is left, which another member did not want")
def _(h: History) -> None:
    h.poll(0, 1, observer="broker", filter="TAG:paid")
    stored(h, done=None)


@history("what is due later may be left", ("INV-TX", "broken"))
def _(h: History) -> None:
    stored(h, done=None, due_us=START + 101 * SECOND)
    h.send("/1", 5, tx_id="T", observer="broker")
    h.deliver("/1", 6, tx_id="T", observer="broker")
    decide(h, 50, "rollback", observer="broker")


@history("what was committed is lost", ("INV-LOSS", "broken"))
def _(h: History) -> None:
    h.poll(0, 1, observer="broker")
    h.send("/0", 2, tx_id="T", observer="broker")
    decide(h, 3, observer="broker")
    drained(h)


@history("what was never committed is not lost")
def _(h: History) -> None:
    h.poll(0, 1, observer="broker")
    h.send("/0", 2, tx_id="T", observer="broker")
    drained(h)


@history("what was sent before anybody asked is not the group's")
def _(h: History) -> None:
    h.send("/0", 0, observer="broker")
    h.poll(1, 2, observer="broker")
    drained(h)


def exhausted(h: History, *, buried: bool, until: float = 100) -> None:
    delivery = h.deliver("/0", 3, observer="broker", hold=10, attempt=17)
    if buried:
        h.bury(delivery, 13, observer="broker")
    drained(h, until)


@history("what used up its attempts is a dead letter")
def _(h: History) -> None:
    exhausted(h, buried=True)


@history("what used up its attempts is nowhere", ("INV-DLQ-LIVE", "broken"))
def _(h: History) -> None:
    exhausted(h, buried=False)


@history("the last attempt is not over")
def _(h: History) -> None:
    exhausted(h, buried=False, until=13)


def seen_by_a_client(h: History, *, sent: float = 2, attempt: int = 1, acked: bool = False) -> None:
    """One message, and a drain at 100 whose oldest poll was asked at 40."""
    h.poll(0, 1)
    h.send("/0", sent)
    delivery = h.deliver("/0", sent + 1, hold=10, attempt=attempt)
    if acked:
        h.settle("ack", delivery, sent + 2)
    h.note("drain.ok", 100, group="g", topic="t", invoked_us=START + 40 * SECOND)


@history("a client has settled all before its drain")
def _(h: History) -> None:
    seen_by_a_client(h, acked=True)


@history("what no client settled before a drain may be lost", ("INV-LOSS", "possible"))
def _(h: History) -> None:
    seen_by_a_client(h)


@history("what a client has not settled is for the broker's account to judge", attested=True)
def _(h: History) -> None:
    seen_by_a_client(h)


@history("what was sent while a client's last polls were out may have come too late")
def _(h: History) -> None:
    seen_by_a_client(h, sent=41)


@history("what used up its attempts before a client's eyes is a dead letter")
def _(h: History) -> None:
    seen_by_a_client(h, attempt=17)


@history("what has one attempt left is no dead letter to a client", ("INV-LOSS", "possible"))
def _(h: History) -> None:
    seen_by_a_client(h, attempt=16)


@history("ordered groups are given up by their consumers, drained or not", ordered=True)
def _(h: History) -> None:
    exhausted(h, buried=False)


@history("groups without a limit give nothing up")
def _(h: History) -> None:
    h.rows[-1]["cfg"]["max_attempts"] = "0"
    exhausted(h, buried=False)


@history("what comes once too often is a dead letter then", ("INV-LIMIT", "broken"))
def _(h: History) -> None:
    h.deliver("/0", 3, observer="broker", hold=10, attempt=17)
    h.bury(h.deliver("/0", 13, observer="broker", hold=10, attempt=18), 23, observer="broker")
    drained(h)


def acked_at_last(phase: str, *, is_buried: bool = False) -> Write:
    def write(h: History) -> None:
        delivery = h.deliver("/0", 3, observer="broker", hold=10, attempt=17)
        h.settle("ack", delivery, 4, phase=phase, observer="broker")
        if is_buried:
            h.bury(delivery, 13, observer="broker")
        drained(h)

    return write


for phase in ("ok", "info", "invoke"):
    history(f"the last attempt ends with an ack: {phase}")(acked_at_last(phase))


history("the last attempt ends with an ack without an answer, and a dead letter")(
    acked_at_last("info", is_buried=True)
)


@history("a change of unknown effect may have put the end of the last attempt off")
def _(h: History) -> None:
    given = h.deliver("/0", 3, observer="broker", hold=10, attempt=17)
    h.settle("change", given, 4, seconds=200, phase="info", observer="broker")
    drained(h)


@history("of a group that was reset nothing need be settled after a drain")
def _(h: History) -> None:
    stored(h, done=None)
    h.note("reset", 50, observer="broker", group="g", topic="t")


@history("a client sees copies of dead letters")
def _(h: History) -> None:
    given = h.deliver("/0", 0, hold=10, attempt=17)
    for at in (11, 12):
        h.bury(given, at)
