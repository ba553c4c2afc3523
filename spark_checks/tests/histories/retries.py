"""When a message is redelivered, with which number, and when no more."""

from __future__ import annotations

from typing import Any

from spark_checks.tests.histories.book import History, history


@history("a retry comes when it was asked for")
def _(h: History) -> None:
    h.settle("change", h.deliver("/0", 0), 1, seconds=10, reason="retry")
    h.deliver("/0", 10.9, attempt=2)


@history("a retry must not come sooner", ("INV-EARLY", "broken"))
def _(h: History) -> None:
    h.settle("change", h.deliver("/0", 0), 1, seconds=10, reason="retry")
    h.deliver("/0", 10.899, attempt=2)


@history("a change by the group's own step is a retry, whoever saw it", ("INV-EARLY", "broken"))
def _(h: History) -> None:
    h.settle("change", h.deliver("/0", 0), 1, seconds=40)
    h.deliver("/0", 20, attempt=2)


@history("a message is late when a poll waits for it beyond the bound", ("INV-LATE", "broken"))
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.poll(9, 26)
    h.deliver("/0", 25.001, attempt=2)


@history("a poll with another filter does not wait for it")
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.poll(9, 26, filter="TAG:paid")
    h.deliver("/0", 25.001, attempt=2)


@history("a server need not wake a poll that was out already")
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.poll(10, 29)
    h.deliver("/0", 29, call=10, attempt=2)


@history("a poll that was out for longer than any server lets it wait is none", ("INV-LATE", "broken"))
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.poll(9, 39)
    h.deliver("/0", 39, call=9, attempt=2)


@history("without a poll over the whole bound nothing is late")
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.poll(9, 24)
    h.deliver("/0", 60, attempt=2)


@history("a message that never comes back is late as well", ("INV-LATE", "broken"))
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.poll(9, 40)


@history("after its last attempt a message need not come back")
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10, attempt=17)
    h.poll(9, 40)


@history("what may have been a message's last attempt need not come back")
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10, attempt=None)
    h.poll(9, 40)


@history("the same number again is wrong", ("INV-ATTEMPT", "broken"))
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10, attempt=2)
    h.deliver("/0", 10, attempt=2)


@history("one request answered twice has one number")
def _(h: History) -> None:
    h.deliver("/0", 0, receive_attempt="a")
    h.deliver("/0", 1, receive_attempt="a")


@history("what the broker could not write comes again under its number")
def _(h: History) -> None:
    h.settle("change", h.deliver("/0", 0), 0, seconds=0, reason="undelivered")
    h.deliver("/0", 0)


@history("what was given back without counting it comes again under its number")
def _(h: History) -> None:
    h.settle("change", h.deliver("/0", 0), 0, seconds=20, reason="suspend")
    h.deliver("/0", 20)


@history("a message that was given back is not suspended", ("INV-ATTEMPT", "broken"))
def _(h: History) -> None:
    h.settle("change", h.deliver("/0", 0), 0, seconds=20, reason="retry")
    h.deliver("/0", 20)


@history("what was given back without counting it comes no earlier", ("INV-EARLY", "broken"))
def _(h: History) -> None:
    h.settle("change", h.deliver("/0", 0), 0, seconds=20, reason="suspend")
    h.deliver("/0", 10)


@history("somebody who was not recorded may have had a number", ("INV-ATTEMPT", "possible"))
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.deliver("/0", 10, attempt=3)


@history("a broker knows all numbers", ("INV-ATTEMPT", "broken"))
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10, observer="broker")
    h.deliver("/0", 10, attempt=3, observer="broker")


@history("a lost answer explains one missing number (E7)", ("INV-ATTEMPT", "exempted"))
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.poll(10, 12, phase="info")
    h.deliver("/0", 40, attempt=3)


@history(
    "where whole queues are locked, numbers are those of the answer (E5)",
    ("INV-ATTEMPT", "exempted"),
    ordered=True,
)
def _(h: History) -> None:
    h.note("config", 0, group="g", cfg={"order_grain": "queue"})
    h.deliver("x/0", 0, hold=10)
    h.deliver("x/0", 10)


@history("a restarted server may count anew (E4)", ("INV-ATTEMPT", "exempted"))
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.note("fault", 5, fault={"kind": "restart", "state": "start"})
    h.deliver("/0", 10)


@history("no attempt is above the limit", ("INV-LIMIT", "broken"))
def _(h: History) -> None:
    h.deliver("/0", 0, attempt=18)


@history("ordered groups are given up by their consumers", ordered=True)
def _(h: History) -> None:
    h.deliver("x/0", 0, attempt=18)


@history("a delayed message may come when it is due, by the server's rounding")
def _(h: History) -> None:
    h.deliver("/0", 9.9, due_us=1_700_000_010_000_000)


@history("a delayed message must not come before", ("INV-EARLY", "broken"))
def _(h: History) -> None:
    h.deliver("/0", 9.899, due_us=1_700_000_010_000_000)


@history("a message is given up after its last attempt")
def _(h: History) -> None:
    h.bury(h.deliver("/0", 0, hold=10, attempt=17, observer="broker"), 10, observer="broker")


@history("a message is not given up before", ("INV-DLQ", "broken"))
def _(h: History) -> None:
    h.bury(h.deliver("/0", 0, hold=10, attempt=16, observer="broker"), 10, observer="broker")


@history("a message that was forwarded is given up at once")
def _(h: History) -> None:
    given = h.deliver("/0", 0, observer="broker")
    h.settle("forward", given, 1, observer="broker")
    h.bury(given, 1, observer="broker")


@history("a message is given up once", ("INV-DLQ", "broken"))
def _(h: History) -> None:
    given = h.deliver("/0", 0, hold=10, attempt=17, observer="broker")
    h.bury(given, 10, observer="broker")
    h.bury(given, 11, observer="broker")


@history("two copies of one message are two dead letters", ("INV-DLQ", "exempted"))
def _(h: History) -> None:
    given = h.deliver("/0", 0, hold=10, attempt=17, observer="broker")
    h.bury(given, 10, observer="broker")
    h.bury(given, 11, observer="broker", offset=7)


@history("a dead letter does not come again", ("INV-DLQ", "broken"))
def _(h: History) -> None:
    given = h.deliver("/0", 0, hold=10, observer="broker")
    h.settle("forward", given, 1, observer="broker")
    h.bury(given, 1, observer="broker")
    h.deliver("/0", 12, attempt=2, observer="broker")


@history("a retry that was requested counts no more after an ack", ("INV-ACKED", "broken"))
def _(h: History) -> None:
    given = h.deliver("/0", 0)
    h.settle("change", given, 1, seconds=10, reason="retry")
    h.settle("ack", given, 2)
    h.deliver("/0", 5, attempt=2)


@history("one request that was answered again after a retry was requested is one delivery (E6)")
def _(h: History) -> None:
    h.settle("change", h.deliver("/0", 0, receive_attempt="a"), 1, seconds=10, reason="retry")
    h.deliver("/0", 5, receive_attempt="a")


@history("a retry whose answer comes late may have been requested for later", ("INV-EARLY", "possible"))
def _(h: History) -> None:
    h.settle("change", h.deliver("/0", 0), 5, call=1, seconds=10, reason="retry")
    h.deliver("/0", 12, attempt=2)


@history("a retry comes before it was asked for, whenever that was", ("INV-EARLY", "broken"))
def _(h: History) -> None:
    given = h.deliver("/0", 0)
    h.settle("change", given, 6, call=1, seconds=10, reason="retry")
    h.deliver("/0", 5, attempt=2)


@history("a retry that was asked for when the lease may have been over need not be heeded")
def _(h: History) -> None:
    given = h.deliver("/0", 0, hold=8)
    h.settle("change", given, 12, call=1, seconds=20, reason="retry")
    h.deliver("/0", 11, attempt=2)


@history("a restart long after an ack exempts no retry that is early", ("INV-EARLY", "possible"))
def _(h: History) -> None:
    given = h.deliver("/0", 0)
    h.settle("change", given, 20, call=1, seconds=30, reason="retry")
    h.settle("ack", given, 32)
    h.note("fault", 39, fault={"kind": "restart"})
    h.deliver("/0", 40, attempt=2)


@history(
    "two copies of a message do not wait for each other",
    ("INV-EARLY", "exempted"),
    ("INV-ATTEMPT", "exempted"),
)
def _(h: History) -> None:
    h.settle("change", h.deliver("/0", 0), 1, seconds=10, reason="retry")
    h.deliver("/0", 2, offset=9)


@history("at the bound a message is not yet late")
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.poll(9, 26)
    h.deliver("/0", 25, attempt=2)


@history("what came again in time, and was never settled, was not late")
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.poll(9, 26)
    h.deliver("/0", 12, attempt=2)


@history("a message that is leased for years is not late")
def _(h: History) -> None:
    h.deliver("/0", 0, hold=80_000_000)


@history("a message whose attempt is unknown may have had its last one")
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10, attempt=None)
    h.poll(9, 40)


def late(h: History, given: int, **more: Any) -> None:
    """The message of this delivery comes after the bound, while a poll is open."""
    h.poll(9, 40)
    h.deliver("/0", 36, **{"attempt": 2} | more)


@history("what may have been acked too late need not come again soon")
def _(h: History) -> None:
    given = h.deliver("/0", 0, hold=10)
    h.settle("ack", given, 12)
    late(h, given)


@history("a change of unknown effect may put off what would come again")
def _(h: History) -> None:
    given = h.deliver("/0", 0, hold=10)
    h.settle("change", given, 1, seconds=5, reason="extend", phase="info")
    late(h, given)


@history("a copy comes when it comes", ("INV-ATTEMPT", "exempted"))
def _(h: History) -> None:
    late(h, h.deliver("/0", 0, hold=10), attempt=1, offset=9)


@history("the broker's account knows who had a number", attested=True)
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.deliver("/0", 10, attempt=3)


@history("where whole queues are locked no number is missing", ("INV-ATTEMPT", "broken"), ordered=True)
def _(h: History) -> None:
    h.rows[-1]["cfg"]["order_grain"] = "queue"
    h.deliver("x/0", 0, hold=10, observer="broker")
    h.deliver("x/0", 10, attempt=3, observer="broker")


@history("a lost answer explains one missing number, and not two", ("INV-ATTEMPT", "possible"))
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.poll(10, 12, phase="info")
    h.deliver("/0", 40, attempt=4)


@history("groups may have no limit")
def _(h: History) -> None:
    h.rows[-1]["cfg"]["max_attempts"] = "0"
    h.deliver("/0", 0, attempt=18)


def given_up(h: History, *, at: float) -> int:
    delivery = h.deliver("/0", 0, hold=10, observer="broker")
    h.settle("forward", delivery, 1, observer="broker")
    h.bury(delivery, at, observer="broker")
    return delivery


@history("what comes at the instant at which it is given up may have come before")
def _(h: History) -> None:
    given_up(h, at=12)
    h.deliver("/0", 12, attempt=2, observer="broker")


@history("one of two copies is a dead letter", ("INV-DLQ", "exempted"), ("INV-ATTEMPT", "exempted"))
def _(h: History) -> None:
    given_up(h, at=1)
    h.deliver("/0", 12, offset=9, observer="broker")


@history(
    "a restart forgets no ack of long ago of a dead letter", ("INV-ACKED", "broken"), ("INV-DLQ", "broken")
)
def _(h: History) -> None:
    h.settle("ack", given_up(h, at=1), 2, observer="broker")
    h.note("fault", 20, fault={"kind": "restart"})
    h.deliver("/0", 21, attempt=2, observer="broker")


@history("two copies of one message are given up too soon", ("INV-DLQ", "broken"))
def _(h: History) -> None:
    given = h.deliver("/0", 0, hold=10, attempt=16, observer="broker")
    h.bury(given, 10, observer="broker")
    h.bury(given, 11, observer="broker", offset=7)


@history(
    "a simple consumer's change is no retry, though it is as long as the group's step", ("INV-EXCL", "broken")
)
def _(h: History) -> None:
    h.settle("change", h.deliver("/0", 0, role="simple"), 1, seconds=40, role="simple")
    h.deliver("/0", 20, attempt=2, role="simple")


@history("a change to less than was left is a retry", ("INV-EARLY", "broken"))
def _(h: History) -> None:
    h.settle("change", h.deliver("/0", 0), 1, seconds=5)
    h.deliver("/0", 3, attempt=2)


@history("each attempt has its own step", ("INV-EARLY", "broken"))
def _(h: History) -> None:
    cfg = {"ordered": "false", "max_attempts": "17", "steps_ms": "10000,40000"}
    h.note("config", 0, group="h", cfg=cfg)
    h.settle("change", h.deliver("/0", 0, group="h", attempt=2), 1, seconds=40)
    h.deliver("/0", 20, group="h", attempt=3)


@history("an answer that was lost later explains no missing number", ("INV-ATTEMPT", "possible"))
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.deliver("/0", 12, attempt=3)
    h.poll(20, 22, phase="info")


@history("a poll that began behind the lease does not show that a message is late")
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.poll(11, 40)
    h.deliver("/0", 40, attempt=2)


@history("a poll of another queue does not show that a message is late")
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.poll(9, 26, queue=3)
    h.deliver("/0", 25.001, attempt=2)
