"""What comes at all: as it was sent, asked for, and nothing left out."""

from __future__ import annotations

from functools import partial
from typing import Any

from spark_checks.tests.histories.book import START, History, Write, history


@history("a message comes as it was sent")
def _(h: History) -> None:
    h.send("/0", 0)
    h.deliver("/0", 1, body_sha="body")


@history("another body is another message", ("INV-CONTENT", "broken"))
def _(h: History) -> None:
    h.send("/0", 0)
    h.deliver("/0", 1, body_sha="bodY")


@history("what was refused does not come", ("INV-FAILED", "broken"))
def _(h: History) -> None:
    h.send("/0", 0, phase="fail")
    h.deliver("/0", 1, body_sha="body")


@history("what may have been stored may come")
def _(h: History) -> None:
    h.send("/0", 0, phase="fail")
    h.send("/0", 1, phase="info")
    h.deliver("/0", 2, body_sha="body")


@history("a client cannot know who else sends")
def _(h: History) -> None:
    h.send("/0", 0)
    h.deliver("/1", 1, store_us=1_700_000_000_500_000)


@history("a broker knows all sends", ("INV-ORIGIN", "broken"))
def _(h: History) -> None:
    h.rows[0]["observer"] = "broker"
    h.deliver("/1", 1, store_us=1_700_000_000_500_000, observer="broker")


@history("a broker may have stored it before its account began")
def _(h: History) -> None:
    h.rows[0]["observer"] = "broker"
    h.deliver("/1", 1, store_us=1_699_999_999_000_000, observer="broker")


@history("a tag that was asked for")
def _(h: History) -> None:
    h.deliver("/0", 0, tag="paid", filter="TAG:open || paid")
    h.deliver("/1", 0, tag="paid", filter="TAG:*")
    h.deliver("/2", 0, filter="TAG:")
    h.deliver("/3", 0, tag="paid", filter="SQL92:amount > 1")
    h.deliver("/4", 0, tag="paid", filter="TAG:\topen   ||\tpaid ")


@history("a tag that nobody asked for", ("INV-FILTER", "broken"))
def _(h: History) -> None:
    h.deliver("/0", 0, tag="pai", filter="TAG:open || paid")


@history("no tag where one was asked for", ("INV-FILTER", "broken"))
def _(h: History) -> None:
    h.deliver("/0", 0, filter="TAG:open")


def passing(
    h: History, *, observer: str = "broker", wanted: str = "TAG:*", last: int = 2, **more: Any
) -> None:
    """Three messages are stored; the first and the last one are delivered."""
    for offset in range(3):
        h.send(f"/{offset}", 0, observer=observer, broker="b", queue=0, offset=offset, **more)
    for offset in {0, last}:
        h.deliver(f"/{offset}", 1, observer=observer, body_sha="body", filter=wanted)


@history("what was passed over is lost", ("INV-LOSS-MID", "broken"))
def _(h: History) -> None:
    passing(h)


@history("a client may have been passed by another one", ("INV-LOSS-MID", "possible"))
def _(h: History) -> None:
    passing(h, observer="client")


def beginning(h: History, *, sent: float, second: str = "TAG:*") -> None:
    """A queue is read from 1 s on; of a message group that comes later, only the second message is delivered."""
    send = partial(h.send, observer="broker", broker="b", queue=0)
    send("x/0", 0, offset=0)
    h.deliver("x/0", 1, observer="broker", body_sha="body")
    for offset, at in ((1, sent), (2, 3)):
        send(f"y/{offset}", at, offset=offset)
    h.deliver("y/2", 4, observer="broker", body_sha="body", filter=second)


@history("a message group begins behind its first message", ("INV-LOSS-MID", "broken"), ordered=True)
def _(h: History) -> None:
    beginning(h, sent=2)


@history("a message group may have begun before its group read the queue", ordered=True)
def _(h: History) -> None:
    beginning(h, sent=0.5)


@history("under another filter the begin of a message group may be passed over", ordered=True)
def _(h: History) -> None:
    beginning(h, sent=2, second="TAG:paid||")


def also_asked(h: History, wanted: str | None, **more: Any) -> None:
    """What was passed over, by a group of which another member got nothing."""
    passing(h)
    h.poll(1, 2, observer="broker", filter=wanted, **more)


@history("who wanted less may have passed over it")
def _(h: History) -> None:
    also_asked(h, "TAG:paid")


@history("who wanted the same did not", ("INV-LOSS-MID", "broken"))
def _(h: History) -> None:
    also_asked(h, "TAG:*")


@history("a poll that tells no filter excuses nothing", ("INV-LOSS-MID", "broken"))
def _(h: History) -> None:
    also_asked(h, None)


@history("who wanted less in another topic or group", ("INV-LOSS-MID", "broken"))
def _(h: History) -> None:
    also_asked(h, "TAG:paid", topic="u")
    h.poll(1, 2, observer="broker", filter="TAG:paid", group="f")


@history("who wanted less in another queue may have asked here, too")
def _(h: History) -> None:
    passing(h)
    h.send("/9", 0, observer="broker", broker="b", queue=1, offset=9, tag="paid")
    h.deliver("/9", 1, observer="broker", body_sha="body", queue=1, tag="paid", filter="TAG:paid")


@history("a suspended message comes from a place of its own, and what lies before it is not passed over")
def _(h: History) -> None:
    passing(h, last=0)
    given = h.deliver("/9", 1, observer="broker", queue=1)
    h.settle("change", given, 2, observer="broker", seconds=20, reason="suspend")
    h.deliver("/9", 22, observer="broker", offset=2)


@history("what lies behind may yet come")
def _(h: History) -> None:
    passing(h, last=0)


@history("who wants another tag does not miss it")
def _(h: History) -> None:
    for offset, tag in enumerate(("paid", "open", "paid")):
        h.send(f"/{offset}", 0, observer="broker", broker="b", queue=0, offset=offset, tag=tag)
    for offset in (0, 2):
        h.deliver(f"/{offset}", 1, observer="broker", body_sha="body", tag="paid", filter="TAG:paid")


@history("nobody knows what an SQL filter lets through")
def _(h: History) -> None:
    passing(h, wanted="SQL92:amount > 1")


@history("what was deleted in its time is not lost")
def _(h: History) -> None:
    h.note("trim", 0, observer="broker", topic="t", broker="b", queue=0, commit_offset=2)
    passing(h)


@history("a group that was reset may pass what it likes")
def _(h: History) -> None:
    h.note("reset", 0, observer="broker", group="g", topic="t")
    passing(h)


@history("a delayed message has its place from when it is due")
def _(h: History) -> None:
    passing(h, due_us=1_700_000_000_000_000)


@history("sends of one message that differ say nothing")
def _(h: History) -> None:
    for body in ("one", "two"):
        h.send("/0", 0, body=body, props_sha=body)
    h.deliver("/0", 1, body_sha="three", props_sha="three")


def again(part: str, sent: str, other: str) -> Write:
    def write(h: History) -> None:
        h.send("/0", 0, **{"body_sha": "same", "props_sha": "same"} | {part: sent})
        for attempt, text in ((1, sent), (2, other)):
            cells: dict[str, Any] = {"body_sha": "same", "props_sha": "same", part: text}
            h.deliver("/0", attempt * 10, hold=5, attempt=attempt, **cells)

    return write


for part in ("body_sha", "props_sha"):
    # One way round the hash of what was sent is the greater one.
    for sent, other in (("one", "other"), ("other", "one")):
        history(f"a message comes again with another {part} than {sent}", ("INV-CONTENT", "broken"))(
            again(part, sent, other)
        )


@history("a refused message comes with another body", ("INV-CONTENT", "broken"))
def _(h: History) -> None:
    h.send("/0", 0, phase="fail")
    h.deliver("/0", 1, body_sha="another")


@history("a send that was called again without an answer may have been stored")
def _(h: History) -> None:
    h.send("/0", 0, phase="invoke", op_id="a")
    h.send("/0", 1, phase="invoke", op_id="b")
    h.send("/0", 1, phase="fail", op_id="b")
    h.deliver("/0", 2, body_sha="body")


@history("a broker may have stored it when its account began")
def _(h: History) -> None:
    h.rows[0]["observer"] = "broker"
    h.deliver("/1", 1, store_us=START, observer="broker")


@history("a filter without a tag lets every tag through")
def _(h: History) -> None:
    h.deliver("/0", 0, tag="paid", filter="TAG:")
