"""How handlers of push consumers begin and end."""

from __future__ import annotations

from typing import Any

from spark_checks.tests.histories.book import History, history

_BROKEN = (("INV-ORD-HANDLE", "broken"), ("INV-ORD", "broken"))
"""Messages are settled when their handlers end, so that who begins too soon was delivered too soon."""


def handled(
    h: History,
    message: str,
    begin: float,
    end: float | None,
    *,
    hold: float = 30,
    clock: str = "",
    **delivered: Any,
) -> None:
    """By a consumer whose recorder is named by its `clock`; acked when the handler ends."""
    whose = {"role": "push", "recorder": h.rows[0]["recorder"] + clock, "client_id": f"c{clock or 1}"}
    number = h.deliver(message, begin, hold=hold, **whose, **delivered)
    same = ("topic", "group", "broker", "queue", "offset", "message_id", "message_group", "attempt")
    about = {name: h.rows[number][name] for name in same}
    h.note("handle.start", begin, **about, **whose)
    if end is not None:
        h.note("handle.end", end, **about, **whose)
        h.settle("ack", number, end, **whose)


@history("handlers of a message group come one after the other", ordered=True)
def _(h: History) -> None:
    handled(h, "x/0", 0, 5)
    handled(h, "x/1", 5, 6)


@history("handlers of a message group are beside each other", *_BROKEN, ordered=True)
def _(h: History) -> None:
    handled(h, "x/0", 0, 5)
    handled(h, "x/1", 4.999, 6)


@history("handlers of other message groups are nobody's business", ordered=True)
def _(h: History) -> None:
    handled(h, "x/0", 0, 5)
    handled(h, "y/1", 1, 6)


@history("a handler goes on without its message", ordered=True)
def _(h: History) -> None:
    handled(h, "x/0", 0, 9, hold=5, attempt=17)
    handled(h, "x/1", 5, 6)


@history("a handler never ends, and holds its message", *_BROKEN, ordered=True)
def _(h: History) -> None:
    handled(h, "x/0", 0, None, hold=5, attempt=17)
    handled(h, "x/1", 4.999, 6)


@history("of two clocks, one may be ahead where a handler ends", ordered=True)
def _(h: History) -> None:
    handled(h, "x/0", 0, 5.1, clock="a")
    handled(h, "x/1", 5, 6, clock="b")


@history("no clock is ahead as far as a handler goes on", *_BROKEN, ordered=True)
def _(h: History) -> None:
    handled(h, "x/0", 0, 5.101, clock="a")
    handled(h, "x/1", 5, 6, clock="b")


@history("of two clocks, the one that is behind tells first of what came second", ordered=True)
def _(h: History) -> None:
    handled(h, "x/1", 0, 5, clock="a")
    handled(h, "x/0", 0.05, 0.1, clock="b")


@history("two handlers are longer than clocks are apart", _BROKEN[0], ordered=True)
def _(h: History) -> None:
    handled(h, "x/1", 0, 5, clock="a")
    handled(h, "x/0", 0.05, 0.101, clock="b")


@history("a client that renews its leases never told when its handler ended", _BROKEN[0], ordered=True)
def _(h: History) -> None:
    handled(h, "x/0", 0, 5, batch="b")
    handled(h, "x/1", 0, None, batch="b", auto_renew=True)


@history("whoever renews its leases and is gone holds nothing for ever", ordered=True)
def _(h: History) -> None:
    handled(h, "x/0", 0, None, auto_renew=True, attempt=17)
    handled(h, "x/1", 50, 51)


@history("without order handlers of a message group may be beside each other")
def _(h: History) -> None:
    handled(h, "x/0", 0, 5)
    handled(h, "x/1", 1, 6)
