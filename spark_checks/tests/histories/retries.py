"""When a message comes again, with which number, and when it comes no more."""

from __future__ import annotations

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


@history("a server need not wake a poll that was out already")
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.poll(9, 29)
    h.deliver("/0", 29, call=9, attempt=2)


@history("a poll that was out for longer than any server lets it wait is none", ("INV-LATE", "broken"))
def _(h: History) -> None:
    h.deliver("/0", 0, hold=10)
    h.poll(9, 60)
    h.deliver("/0", 60, call=9, attempt=2)


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
