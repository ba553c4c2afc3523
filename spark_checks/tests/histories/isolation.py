"""What comes in the answer to a poll, and to whom a lite topic comes."""

from __future__ import annotations

from typing import Any

from spark_checks.tests.histories.book import SECOND, START, History, history


def answered(h: History, *, topic: str = "t", batch: str | None = "P", **delivered: Any) -> None:
    h.poll(0, 1, op_id="P", topic=topic)
    h.deliver("/0", 1, batch=batch, **delivered)


@history("a poll brings what it asked for")
def _(h: History) -> None:
    answered(h)


@history("a poll brings a message of another topic", ("INV-ISOLATE", "broken"))
def _(h: History) -> None:
    answered(h, topic="u")


@history("one message among others is of another topic", ("INV-ISOLATE", "broken"))
def _(h: History) -> None:
    answered(h)
    h.deliver("/1", 1, batch="P", topic="u")


@history("a poll brings a message for another group", ("INV-ISOLATE", "broken"))
def _(h: History) -> None:
    answered(h, group="another")


@history("a poll that nobody told of may have asked for anything")
def _(h: History) -> None:
    answered(h, topic="u", batch="another")


@history("an owner of queues tells no polls")
def _(h: History) -> None:
    answered(h, topic="u", batch=None, role="pull")


@history("two polls of one id say nothing")
def _(h: History) -> None:
    h.poll(0, 1, op_id="P", topic="u")
    answered(h)


@history("numbers of polls begin anew with the process")
def _(h: History) -> None:
    h.poll(0, 1, op_id="P", topic="u", boot="before")
    answered(h)


@history("a poll without an answer brought what it brought", ("INV-ISOLATE", "broken"))
def _(h: History) -> None:
    h.poll(0, 1, op_id="P", topic="u", phase="info")
    h.deliver("/0", 1, batch="P")


def listed(
    h: History,
    at: float,
    what: str,
    *names: str,
    phase: str | None = "ok",
    call: float | None = None,
    **more: Any,
) -> int:
    """A list of lite topics that a client sent; returns the number of its last row."""
    cells = {"topic": "t", "group": "g", "client_id": "c1", "cfg": {what: ",".join(names)}} | more
    if phase is None or cells.get("observer") == "broker":
        return h.note("lite.sync", at, phase=phase, invoked_us=START + round(at * SECOND), **cells)
    name = f"list-{len(h.rows)}"
    called = h.note("lite.sync", at if call is None else call, phase="invoke", op_id=name, **cells)
    if phase == "invoke":
        return called
    return h.note("lite.sync", at, phase=phase, op_id=name, invoked_seq=called, **cells)


def brought(h: History, at: float, lite_topic: str, *, poll: int | None = None, **more: Any) -> int:
    """A delivery of a lite topic, in answer to a poll of just before, or of row `poll`."""
    if poll is None:
        poll = h.poll(at - 0.5, at - 0.5, phase="invoke", op_id=f"poll-{len(h.rows)}")
    return h.deliver(f"/{len(h.rows)}", at, lite_topic=lite_topic, invoked_seq=poll, **more)


@history("lite topics of the list come")
def _(h: History) -> None:
    listed(h, 1, "all", "ann", "bob")
    brought(h, 2, "ann")
    brought(h, 3, "bob")


@history("a lite topic comes that is not in the list", ("INV-ISOLATE", "broken"))
def _(h: History) -> None:
    listed(h, 1, "all", "ann", "bob")
    brought(h, 2, "carol")


@history("a lite topic comes to a client without any", ("INV-ISOLATE", "broken"))
def _(h: History) -> None:
    listed(h, 1, "all", phase=None)
    brought(h, 2, "ann")


@history("a lite topic was added")
def _(h: History) -> None:
    listed(h, 1, "all", "ann")
    listed(h, 2, "add", "bob")
    brought(h, 3, "bob")


@history("a lite topic comes before it was added", ("INV-ISOLATE", "broken"))
def _(h: History) -> None:
    listed(h, 1, "all", "ann")
    brought(h, 2, "bob")
    listed(h, 3, "add", "bob")


@history("a lite topic is added while a poll is out")
def _(h: History) -> None:
    listed(h, 1, "all", "ann")
    poll = h.poll(1, 1, phase="invoke", op_id="P")
    listed(h, 4, "add", "bob", phase="invoke")
    brought(h, 3, "bob", poll=poll)


@history("a list that was refused has no effect", ("INV-ISOLATE", "broken"))
def _(h: History) -> None:
    listed(h, 1, "all", "ann")
    listed(h, 2, "add", "bob", phase="fail")
    brought(h, 3, "bob")


@history("a lite topic comes after it was removed", ("INV-ISOLATE", "broken"))
def _(h: History) -> None:
    listed(h, 1, "all", "ann", "bob")
    listed(h, 2, "remove", "bob")
    brought(h, 3, "ann")
    brought(h, 4, "bob")


@history("a poll that was out when the lite topic was removed")
def _(h: History) -> None:
    listed(h, 1, "all", "ann", "bob")
    poll = h.poll(1, 1, phase="invoke", op_id="P")
    listed(h, 2, "remove", "bob")
    brought(h, 3, "bob", poll=poll)


@history("a lite topic whose removal was not confirmed")
def _(h: History) -> None:
    listed(h, 1, "all", "ann", "bob")
    listed(h, 2, "remove", "bob", phase="info")
    listed(h, 3, "remove", "ann", phase="fail")
    brought(h, 4, "bob")
    brought(h, 5, "ann")


@history("a lite topic that was removed and added again")
def _(h: History) -> None:
    listed(h, 1, "all", "ann", "bob")
    listed(h, 2, "remove", "bob")
    listed(h, 3, "add", "bob")
    brought(h, 4, "bob")


@history("a lite topic that the next whole list leaves out", ("INV-ISOLATE", "broken"))
def _(h: History) -> None:
    listed(h, 1, "all", "ann", "bob")
    listed(h, 2, "all", "ann")
    brought(h, 3, "bob")


@history("a list without an answer may come to its effect at any time")
def _(h: History) -> None:
    listed(h, 1, "all", "ann")
    listed(h, 2, "add", "bob", phase="info")
    listed(h, 3, "add", "carol", phase="invoke")
    listed(h, 4, "all", "ann")
    brought(h, 5, "bob")
    brought(h, 6, "carol")


@history("a list that was under way when another one was begun may be the later one")
def _(h: History) -> None:
    called = listed(h, 1, "all", "ann", phase="invoke")
    listed(h, 2, "remove", "ann")
    cells = {"topic": "t", "group": "g", "client_id": "c1", "cfg": {"all": "ann"}}
    name = h.rows[called]["op_id"]
    h.note("lite.sync", 3, phase="ok", op_id=name, invoked_seq=called, **cells)
    brought(h, 4, "ann")


@history("what the server took away may have been asked for once more meanwhile")
def _(h: History) -> None:
    listed(h, 1, "all", "ann")
    listed(h, 2, "taken", "ann", phase=None)
    brought(h, 3, "ann")


@history("what the server took away is over with the next list", ("INV-ISOLATE", "broken"))
def _(h: History) -> None:
    listed(h, 1, "all", "ann", "bob")
    listed(h, 2, "taken", "ann", phase=None)
    listed(h, 3, "all", "bob")
    brought(h, 4, "ann")


@history("a consumer of the parent topic gets all its lite topics")
def _(h: History) -> None:
    listed(h, 1, "all", "ann", client_id="c2")
    brought(h, 2, "bob")


@history("before a whole list was told nobody knows what a client wants")
def _(h: History) -> None:
    listed(h, 1, "add", "ann")
    brought(h, 2, "bob")
    listed(h, 3, "all", "ann")


@history("of a delivery whose poll is not known nothing is said of lite topics")
def _(h: History) -> None:
    listed(h, 1, "all", "ann")
    h.deliver("/0", 2, lite_topic="bob")


_SEEN: dict[str, Any] = {"observer": "broker", "role": "lite"}


@history("a broker hands out a lite topic that nobody asked for", ("INV-ISOLATE", "broken"))
def _(h: History) -> None:
    listed(h, 1, "all", "ann", **_SEEN)
    h.poll(2, 3, op_id="P", **_SEEN)
    brought(h, 3, "bob", batch="P", poll=0, **_SEEN)


@history("a broker hands out by a poll of before the end")
def _(h: History) -> None:
    listed(h, 1, "all", "ann", **_SEEN)
    h.poll(2, 4, op_id="P", **_SEEN)
    listed(h, 3, "all", **_SEEN)
    brought(h, 4, "ann", batch="P", poll=0, **_SEEN)


@history("a broker hands out by a poll of after the end", ("INV-ISOLATE", "broken"))
def _(h: History) -> None:
    listed(h, 1, "all", "ann", **_SEEN)
    listed(h, 3, "all", **_SEEN)
    h.poll(3.5, 4, op_id="P", **_SEEN)
    brought(h, 4, "ann", batch="P", poll=0, **_SEEN)


@history("a broker has ordinary consumers beside those of lite topics")
def _(h: History) -> None:
    listed(h, 1, "all", "ann", observer="broker", role="simple")
    h.poll(2, 3, op_id="P", observer="broker", role="simple")
    brought(h, 3, "bob", batch="P", poll=0, observer="broker", role="simple")
