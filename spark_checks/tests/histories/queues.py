"""Queues: who owns them, what has which place in them, how far groups are, and whether they progress; and handles."""

from __future__ import annotations

from typing import Any

from spark_checks.tests.histories.book import SECOND, START, History, history


def assign(h: History, client: str, at: float, *queues: int, **more: Any) -> None:
    owned = [{"broker": "b", "queue": queue} for queue in queues]
    cells = {"role": "pull", "group": "g", "topic": "t", "client_id": client, "epoch": 1, "queues": owned}
    h.note("assign", at, **(cells | more))


def shared(grain: str = "queue") -> dict[str, Any]:
    """An assignment of a push consumer."""
    return {"role": "push", "cfg": {"grain": grain}}


@history("a queue changes hands in a rebalance")
def _(h: History) -> None:
    assign(h, "c1", 0, 0, 1)
    assign(h, "c2", 10, 1)
    assign(h, "c1", 40, 0)
    h.note("receive", 100)


@history("two own one queue", ("INV-ASSIGN", "broken"))
def _(h: History) -> None:
    assign(h, "c1", 0, 0, 1)
    assign(h, "c2", 10, 1)
    assign(h, "c1", 40.1, 0)


@history("two own one queue through many assignments", ("INV-ASSIGN", "broken"))
def _(h: History) -> None:
    for at in (0, 20, 40, 60):
        assign(h, "c1", at, 0, 1)
    assign(h, "c2", 10, 1)
    assign(h, "c2", 30, 1, 2)
    assign(h, "c1", 61, 0)


@history("who has stopped owns nothing")
def _(h: History) -> None:
    assign(h, "c1", 0, 0)
    h.note("client.stop", 5, client_id="c1", epoch=1, group="g", role="pull")
    assign(h, "c2", 6, 0)
    h.note("receive", 100)


@history("two push consumers own one queue", ("INV-ASSIGN", "broken"))
def _(h: History) -> None:
    assign(h, "c1", 0, 0, 1, **shared())
    assign(h, "c2", 10, 1, **shared())
    assign(h, "c1", 40.1, 0, **shared())


@history("who is handed messages owns no queue, nor does who reads all of them")
def _(h: History) -> None:
    for queue, grain in enumerate(("message", "broadcast")):
        for client in ("c1", "c2"):
            assign(h, client, 0, queue, **shared(grain))
    assign(h, "c1", 0, 2, role="push")
    assign(h, "c2", 0, 2, role="push")
    h.note("receive", 100)


@history("the queues of one topic are owned while those of another one move", ("INV-ASSIGN", "broken"))
def _(h: History) -> None:
    assign(h, "c1", 0, 0, **shared())
    assign(h, "c2", 5, 0, **shared())
    assign(h, "c1", 10, 0, topic="u", **shared())
    assign(h, "c1", 36, **shared())
    assign(h, "c2", 50, **shared())


@history("an assignment that names no topic ends those of all topics")
def _(h: History) -> None:
    assign(h, "c1", 0, 0)
    assign(h, "c1", 5, 0, 0, topic=None)
    assign(h, "c2", 6, 0)
    h.note("receive", 100)


def pulled(h: History, message: str, at: float, **more: Any) -> None:
    h.deliver(message, at, role="pull", epoch=1, hold=None, **more)


@history("a queue is read in order")
def _(h: History) -> None:
    for offset in (0, 1, 5):
        pulled(h, f"/{offset}", offset)


@history("a queue is read out of order", ("INV-PULL-ORD", "broken"))
def _(h: History) -> None:
    for at, offset in enumerate((0, 2, 1)):
        pulled(h, f"/{offset}", at)


@history("who went back reads again", ("INV-PULL-ORD", "exempted"))
def _(h: History) -> None:
    pulled(h, "/5", 0)
    h.note("seek", 1, group="g", topic="t", broker="b", queue=0, commit_offset=0, client_id="c1")
    pulled(h, "/0", 2)


@history("who was assigned anew reads again", ("INV-PULL-ORD", "exempted"))
def _(h: History) -> None:
    pulled(h, "/5", 0)
    assign(h, "c1", 1, 0)
    pulled(h, "/4", 2)


def pushed(h: History, message: str, at: float, **more: Any) -> None:
    """A delivery from a queue to a push consumer."""
    h.deliver(message, at, **{"role": "push", "epoch": 1, "hold": None, "delivery": None, **more})


@history("a push consumer reads a queue out of order", ("INV-PULL-ORD", "broken"))
def _(h: History) -> None:
    for at, offset in enumerate((0, 2, 1)):
        pushed(h, f"/{offset}", at)


@history("retries come from other queues, and leased messages in any order")
def _(h: History) -> None:
    for at, offset in enumerate((4, 2, 5)):
        pushed(h, f"/{offset}", at, attempt=2 if offset == 2 else 1)
    for at, offset in enumerate((9, 8)):
        pushed(h, f"/{offset}", at, delivery=f"H{at}", queue=1)


@history("a push consumer that was assigned anew reads again", ("INV-PULL-ORD", "exempted"))
def _(h: History) -> None:
    pushed(h, "/5", 0)
    assign(h, "c1", 1, 0, **shared())
    pushed(h, "/4", 2)


@history("a member of a broadcast that was assigned anew reads again", ("INV-PULL-ORD", "exempted"))
def _(h: History) -> None:
    pushed(h, "/5", 0)
    assign(h, "c1", 1, 0, **shared("broadcast"))
    pushed(h, "/4", 2)


def sent(h: History, message: str, at: float, offset: int, **more: Any) -> None:
    h.send(message, at, broker="b", queue=0, offset=offset, **more)


@history("each place has its message")
def _(h: History) -> None:
    for offset in range(3):
        sent(h, f"/{offset}", offset, offset)
        h.deliver(f"/{offset}", offset + 0.5)


@history("one place has two messages", ("INV-OFFSET", "broken"))
def _(h: History) -> None:
    sent(h, "/0", 0, 0)
    h.deliver("/0", 0.5)
    h.deliver("/1", 1, offset=0)


@history("a retry comes from another queue's places")
def _(h: History) -> None:
    sent(h, "/0", 0, 0)
    h.deliver("/1", 1, offset=0, attempt=2)


@history("what a lost answer had taken comes again from another queue's places")
def _(h: History) -> None:
    sent(h, "/0", 0, 0)
    h.deliver("/0", 0.5)
    h.note("receive", 1, phase="info", group="g", client_id="c1", observer="client")
    h.deliver("/1", 40, offset=0, observer="client")


@history("a lost answer of another group excuses nothing", ("INV-OFFSET", "broken"))
def _(h: History) -> None:
    sent(h, "/0", 0, 0)
    h.deliver("/0", 0.5)
    h.note("receive", 1, phase="info", group="other", client_id="c1", observer="client")
    h.deliver("/1", 40, offset=0, observer="client")


@history("a server that crashed gives places again", ("INV-OFFSET", "exempted"))
def _(h: History) -> None:
    sent(h, "/0", 0, 0, client_id="a")
    h.note("fault", 1, fault={"kind": "crash"})
    sent(h, "/1", 2, 0, client_id="b")


@history("serial sends go back", ("INV-OFFSET-ORD", "broken"))
def _(h: History) -> None:
    sent(h, "/0", 0, 4)
    sent(h, "/1", 1, 3)


@history("sends at once may overtake each other")
def _(h: History) -> None:
    sent(h, "/0", 1, 4)
    sent(h, "/1", 2, 3, invoked_us=START)


def committed(h: History, offset: int, at: float) -> None:
    h.note("commit", at, group="g", topic="t", broker="b", queue=0, commit_offset=offset)


@history("progress goes on")
def _(h: History) -> None:
    pulled(h, "/4", 0)
    for at, offset in enumerate((3, 3, 5)):
        committed(h, offset, at)


@history("progress falls", ("INV-COMMIT", "broken"))
def _(h: History) -> None:
    committed(h, 4, 0)
    committed(h, 3, 1)


@history("progress falls after a reset", ("INV-COMMIT", "exempted"))
def _(h: History) -> None:
    committed(h, 4, 0)
    h.note("reset", 1, group="g", topic="t")
    committed(h, 3, 2)


@history("progress is ahead", ("INV-COMMIT", "broken"))
def _(h: History) -> None:
    pulled(h, "/4", 0)
    committed(h, 6, 1)


@history("progress goes over what a filter left out")
def _(h: History) -> None:
    pulled(h, "/4", 0, filter="TAG:paid", tag="paid")
    committed(h, 6, 1)


@history("a push consumer's progress is ahead", ("INV-COMMIT", "broken"))
def _(h: History) -> None:
    pushed(h, "/4", 0)
    committed(h, 6, 1)


@history("a retry tells nothing of how far its queue was read", ("INV-COMMIT", "broken"))
def _(h: History) -> None:
    pushed(h, "/4", 0)
    pushed(h, "/9", 1, attempt=2)
    committed(h, 6, 2)


def suspended(h: History, **to: Any) -> None:
    """A group suspends a message; then it, or another group, is delivered it where another message is."""
    given = h.deliver("/0", 0, queue=0)
    h.settle("change", given, 1, seconds=20, reason="suspend")
    h.deliver("/5", 2, queue=1)
    h.deliver("/0", 21, queue=1, offset=5, **to)


@history("a suspended message comes from a place of its own")
def _(h: History) -> None:
    suspended(h)


@history("what another group suspended comes from its place", ("INV-OFFSET", "broken"))
def _(h: History) -> None:
    suspended(h, group="other")


@history("members of a broadcast have progress of their own")
def _(h: History) -> None:
    for at, client in enumerate(("c1", "c2")):
        assign(h, client, at, 0, **shared("broadcast"))
    committed(h, 4, 2)
    committed(h, 3, 3)


def standing(
    h: History,
    until: float,
    *,
    polled: bool = True,
    stored: float = 1,
    observer: str = "broker",
    **more: Any,
) -> None:
    for offset, at, since in ((0, 0, 0), (1, until, stored)):
        h.deliver(f"/{offset}", at, store_us=START + round(since * SECOND), observer=observer, **more)
    if polled:
        h.poll(20, 40, observer=observer)


@history("a queue stands still", ("INV-FAIR", "broken"))
def _(h: History) -> None:
    standing(h, 61)


@history("a queue waits for a member that wants its messages")
def _(h: History) -> None:
    standing(h, 61, polled=False)
    h.poll(20, 40, observer="broker", filter="TAG:paid")


@history("a queue is not asked again while its answer is on its way")
def _(h: History) -> None:
    standing(h, 61, polled=False, stored=0)
    h.poll(0, 1, observer="broker")


@history("a queue stands still, for all that a client knows", ("INV-FAIR", "possible"))
def _(h: History) -> None:
    standing(h, 61, observer="client")


@history("a queue is served within a minute")
def _(h: History) -> None:
    standing(h, 60.9)


@history("a queue that nobody asks")
def _(h: History) -> None:
    standing(h, 61, polled=False)


@history("a queue in which nothing waits")
def _(h: History) -> None:
    standing(h, 100, stored=60)


@history("a lite topic waits for a client that wants it")
def _(h: History) -> None:
    standing(h, 61, lite_topic="ann")


@history("an ordered group waits for itself", ordered=True)
def _(h: History) -> None:
    standing(h, 61)


@history("one handle for two messages", ("INV-HANDLE", "broken"))
def _(h: History) -> None:
    h.deliver("/0", 0, delivery="H")
    h.deliver("/1", 0, delivery="H")


@history("one handle for two deliveries of a message", ("INV-HANDLE", "broken"))
def _(h: History) -> None:
    h.deliver("/0", 0, delivery="H", hold=5)
    h.deliver("/0", 10, delivery="H", attempt=2)


@history("an answer that came twice brings its handles twice")
def _(h: History) -> None:
    for at in (0, 1):
        h.deliver("/0", at, delivery="H", receive_attempt="a", batch_pos=0)


@history("an ack settles another message", ("INV-HANDLE", "broken"))
def _(h: History) -> None:
    given = h.deliver("/0", 0, delivery="H")
    h.settle("ack", given, 1, message_id="/1")


@history("serial sends take one place", ("INV-OFFSET", "broken"), ("INV-OFFSET-ORD", "broken"))
def _(h: History) -> None:
    sent(h, "/0", 0, 4)
    sent(h, "/1", 1, 4)


@history("who was assigned the queue goes on where somebody unseen had come to")
def _(h: History) -> None:
    pulled(h, "/4", 0)
    assign(h, "c1", 1, 0)
    committed(h, 9, 2)


@history("who was assigned the queue is ahead of what it was delivered", ("INV-COMMIT", "broken"))
def _(h: History) -> None:
    assign(h, "c1", 0, 0)
    pulled(h, "/4", 1)
    committed(h, 9, 2)


@history("a handle from before the recording stands for what nobody knows")
def _(h: History) -> None:
    for message in ("/0", "/1"):
        h.note("ack", 1, phase="ok", topic="t", group="g", message_id=message, delivery="H")


@history("one handle for two requests", ("INV-HANDLE", "broken"))
def _(h: History) -> None:
    for attempt, request in ((1, "a"), (2, "b")):
        h.deliver(
            "/0", 10 * attempt, hold=5, delivery="H", receive_attempt=request, attempt=attempt, batch_pos=0
        )


@history("a queue that nobody asks while something waits")
def _(h: History) -> None:
    standing(h, 161, stored=100)
    h.poll(162, 170, observer="broker")


@history("a refused ack settles nothing")
def _(h: History) -> None:
    h.settle("ack", h.deliver("/0", 0, delivery="H"), 1, phase="fail", message_id="/1")


@history("a push consumer's assignment begins no queue anew", ("INV-PULL-ORD", "broken"))
def _(h: History) -> None:
    pulled(h, "/4", 0)
    h.note(
        "assign", 1, role="push", group="g", topic="t", client_id="c1", queues=[{"broker": "b", "queue": 0}]
    )
    pulled(h, "/3", 2)
