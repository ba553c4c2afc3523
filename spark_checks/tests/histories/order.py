"""What comes in which order to ordered groups."""

from __future__ import annotations

from spark_checks.tests.histories.book import History, history


@history("ordered messages come one after the other", ordered=True)
def _(h: History) -> None:
    h.settle("ack", h.deliver("x/0", 0), 5)
    h.deliver("x/1", 5)


@history("an ordered message waits for the one before it", ("INV-ORD", "broken"), ordered=True)
def _(h: History) -> None:
    h.settle("ack", h.deliver("x/0", 0), 5)
    h.deliver("x/1", 4.999)


def differing(h: History, wanted: str = "TAG:*") -> None:
    h.deliver("x/1", 0)
    h.deliver("x/2", 1)
    h.deliver("x/0", 2)
    h.poll(0, 3, filter=wanted)


@history(
    "a member with another filter may have passed over them (E9)",
    ("INV-ORD", "exempted"),
    ("INV-ORD-FIRST", "exempted"),
    ordered=True,
)
def _(h: History) -> None:
    differing(h, "TAG:paid")


@history(
    "order of those that want the same", ("INV-ORD", "broken"), ("INV-ORD-FIRST", "broken"), ordered=True
)
def _(h: History) -> None:
    differing(h)
    h.poll(0, 3, topic="u", group="f", filter="TAG:paid")


@history("other message groups do not wait", ordered=True)
def _(h: History) -> None:
    h.deliver("x/0", 0)
    h.deliver("y/1", 1)


@history("messages of one answer may come together", ordered=True)
def _(h: History) -> None:
    h.deliver("x/0", 0, batch="b")
    h.deliver("x/1", 0, batch="b")


@history("within one answer the order counts too", ("INV-ORD-FIRST", "broken"), ordered=True)
def _(h: History) -> None:
    h.deliver("x/1", 0, batch="b")
    h.deliver("x/0", 0, batch="b")


@history(
    "an ack in between does not hide an earlier message that is open", ("INV-ORD", "broken"), ordered=True
)
def _(h: History) -> None:
    h.deliver("x/0", 0, batch="b")
    h.settle("ack", h.deliver("x/1", 0, batch="b"), 1)
    h.deliver("x/2", 2)


@history("an ordered message that was forwarded is settled", ordered=True)
def _(h: History) -> None:
    h.settle("forward", h.deliver("x/0", 0), 5)
    h.deliver("x/1", 6)


@history("after its last attempt the server gives an ordered message up", ordered=True)
def _(h: History) -> None:
    h.deliver("x/0", 0, hold=10, attempt=17)
    h.deliver("x/1", 10)


@history("a redelivery is no first delivery, though nobody told of those before", ordered=True)
def _(h: History) -> None:
    h.settle("ack", h.deliver("x/1", 0), 1)
    h.deliver("x/0", 5, attempt=2)


def ended_elsewhere(h: History, ahead: float) -> None:
    """The first message is redelivered and settled by a clock that is `ahead` of the one that records the second."""
    other = {"recorder": h.rows[0]["recorder"] + "'", "client_id": "c2"}
    h.deliver("x/0", 0)
    again = h.deliver("x/0", 40 + ahead, attempt=2, **other)
    h.settle("ack", again, 40.001 + ahead, **other)
    h.deliver("x/1", 40.002)


@history("who ended a message may have told so by a clock that is ahead", ordered=True)
def _(h: History) -> None:
    ended_elsewhere(h, 0.1)


@history("no clock is ahead that far", ("INV-ORD", "broken"), ordered=True)
def _(h: History) -> None:
    ended_elsewhere(h, 0.103)


@history("a reset starts the order anew", ("INV-ORD-FIRST", "exempted"), ordered=True)
def _(h: History) -> None:
    h.settle("ack", h.deliver("x/5", 0), 1)
    h.note("reset", 2, group="g", topic="t")
    h.deliver("x/4", 3)


@history(
    "followers come back behind a gap where whole queues are locked (E5)",
    ("INV-ACKED", "exempted"),
    ordered=True,
)
def _(h: History) -> None:
    h.rows[-1]["cfg"]["order_grain"] = "queue"
    h.deliver("x/0", 0, batch="b", hold=10)
    h.settle("ack", h.deliver("x/1", 0, batch="b", hold=10), 1)
    h.deliver("x/0", 11, batch="c", attempt=2)
    h.deliver("x/1", 11, batch="c", attempt=2)


@history(
    "followers stay away behind a gap where message groups are locked", ("INV-ACKED", "broken"), ordered=True
)
def _(h: History) -> None:
    h.deliver("x/0", 0, batch="b", hold=10)
    h.settle("ack", h.deliver("x/1", 0, batch="b", hold=10), 1)
    h.deliver("x/0", 11, batch="c", attempt=2)
    h.deliver("x/1", 11, batch="c", attempt=2)


@history("groups without order get the messages of a message group in any order")
def _(h: History) -> None:
    for message in ("x/1", "x/0"):
        h.deliver(message, 0)


@history("a message whose place is unknown has no order", ordered=True)
def _(h: History) -> None:
    h.deliver("x/1", 0)
    h.deliver("x/0", 1, offset=None)


@history("two messages of one place have no order", ("INV-OFFSET", "broken"), ordered=True)
def _(h: History) -> None:
    h.deliver("x/0", 0)
    h.deliver("x/1", 1, offset=0)


@history(
    "what was passed by a later message need not wait for an earlier one, too",
    ("INV-ORD-FIRST", "broken"),
    ordered=True,
)
def _(h: History) -> None:
    h.deliver("x/0", 0, batch="b")
    h.settle("ack", h.deliver("x/2", 0, batch="b"), 1)
    h.deliver("x/1", 2)


@history("messages of one answer may come together though another answer is between them", ordered=True)
def _(h: History) -> None:
    h.deliver("x/0", 0, hold=5)
    h.deliver("x/1", 10, batch="b")
    h.settle("ack", h.deliver("x/0", 10, attempt=2), 10)
    h.deliver("x/2", 10, batch="b")


@history(
    "followers come back before their time behind a gap where whole queues are locked (E5)",
    ("INV-EXCL", "exempted"),
    ordered=True,
)
def _(h: History) -> None:
    h.rows[-1]["cfg"]["order_grain"] = "queue"
    h.deliver("x/0", 0, batch="b", hold=10)
    h.deliver("x/1", 0, batch="b", hold=30)
    h.deliver("x/0", 11, batch="c", attempt=2)
    h.deliver("x/1", 11, batch="c", attempt=2)


@history("an ordered group has each copy of a message from its own place", ordered=True)
def _(h: History) -> None:
    h.settle("ack", h.deliver("x/0", 0), 3)
    h.deliver("x/0", 5, offset=1)


@history(
    "a follower waits for another answer's message, though one of its own answer is open for longer",
    ("INV-ORD", "broken"),
    ordered=True,
)
def _(h: History) -> None:
    first = h.deliver("x/0", 0, batch="b")
    h.deliver("x/1", 0, batch="b", hold=3)
    h.deliver("x/1", 5, batch="c", attempt=2)
    h.deliver("x/2", 5, batch="c")
    h.settle("ack", first, 8)


@history("a message that comes again with its follower does not hold it up", ordered=True)
def _(h: History) -> None:
    h.deliver("x/0", 0, batch="b", hold=10)
    h.deliver("x/0", 20, batch="c", attempt=2)
    h.deliver("x/1", 20, batch="c")


@history(
    "an earlier message comes first after a later one that another clock saw again",
    ("INV-ORD-FIRST", "broken"),
    ordered=True,
)
def _(h: History) -> None:
    h.deliver("x/1", 0, hold=10)
    h.deliver("x/1", 20, attempt=2, recorder=h.rows[0]["recorder"] + "'", client_id="c2")
    h.deliver("x/0", 20.01)


@history("a message group that moves to another queue begins anew", ordered=True)
def _(h: History) -> None:
    h.settle("ack", h.deliver("x/5", 0), 1)
    h.deliver("x/0", 2, queue=1)


@history("where observers disagree about order nobody judges it", ordered=True)
def _(h: History) -> None:
    h.note("config", 0, group="g", cfg={"ordered": "false"})
    h.deliver("x/1", 0)
    h.deliver("x/0", 1)
    # Nor whether it has a limit of attempts.
    h.deliver("y/2", 2, attempt=18)


@history(
    "a reset at the instant of a delivery counts if it is told of behind it",
    ("INV-ORD-FIRST", "exempted"),
    ordered=True,
)
def _(h: History) -> None:
    h.settle("ack", h.deliver("x/5", 2), 2)
    h.note("reset", 2, group="g", topic="t")
    h.deliver("x/4", 3)


@history("acked messages lock no queue", ("INV-ACKED", "broken"), ordered=True)
def _(h: History) -> None:
    h.rows[-1]["cfg"]["order_grain"] = "queue"
    for message in ("x/0", "x/1"):
        h.settle("ack", h.deliver(message, 0, batch="b"), 1)
    h.deliver("x/1", 11, batch="c", attempt=2)
