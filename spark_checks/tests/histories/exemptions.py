"""What happens between the two events of a violation: for each invariant, what exempts it, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from spark_checks.tests.histories.book import START, Write, history
from spark_checks.tests.histories.handlers import handled
from spark_checks.tests.histories.history import SECOND, History
from spark_checks.tests.histories.queues import assign, committed, pulled, sent
from spark_checks.tests.histories.transactions import decide

Mark = Callable[[History], Any]
Violate = Callable[[History, Mark], Any]
"""Writes a violation whose first event is at 10 s, calls for the mark, and writes the second event after 12 s."""

KNOWN: dict[str, Any] = {"store_us": START + 5 * SECOND}
"""Stored long before it was delivered."""


def noted(kind: str, at: float, **cells: Any) -> Mark:
    return lambda h: h.note(kind, at, **cells)


MARKS: dict[str, Mark] = {
    "a reset": noted("reset", 12, group="g", topic="t"),
    "a reset of another group": noted("reset", 12, group="another", topic="t"),
    "a seek": noted("seek", 12, group="g", topic="t"),
    "its client's stop": noted("client.stop", 12, client_id="c1"),
    "its client's crash": noted("client.crash", 12, client_id="c1"),
    "another client's stop": noted("client.stop", 12, client_id="c9"),
    "an assignment": lambda h: assign(h, "c1", 12, 7),
    "a restart": noted("fault", 12, fault={"kind": "restart"}),
    "a crash": noted("fault", 12, fault={"kind": "crash"}),
    "a pause": noted("fault", 12, fault={"kind": "pause"}),
}

RESETS, GONE = ("a reset", "a seek"), ("its client's stop", "its client's crash")
RESTARTS = ("a restart", "a crash")


def violated(h: History, mark: Mark, *, ends: str | None = None, **then: Any) -> None:
    """A message is delivered, and delivered again."""
    delivery = h.deliver("/0", 10, hold=then.pop("hold", 30), **KNOWN)
    if ends == "ack":
        h.settle("ack", delivery, 11)
    elif ends == "change":
        h.settle("change", delivery, 11, seconds=10, reason="retry")
    elif ends == "dlq.deliver":
        for row in (delivery, h.settle("forward", delivery, 11), h.bury(delivery, 11)):
            h.rows[row]["observer"] = "broker"
        then["observer"] = "broker"
    mark(h)
    h.deliver("/0", then.pop("at", 13), **KNOWN | {"attempt": 2} | then)


def late(h: History, mark: Mark) -> None:
    h.poll(10.5, 30)
    violated(h, mark, hold=1, at=60)


def out_of_order(h: History, mark: Mark, first: str, second: str, *, acked: bool) -> None:
    delivery = h.deliver(first, 10)
    if acked:
        h.settle("ack", delivery, 11)
    mark(h)
    h.deliver(second, 13)


def side_by_side(h: History, mark: Mark) -> None:
    handled(h, "x/0", 10, 15, batch="b")
    mark(h)
    handled(h, "x/1", 13, 16, batch="b")


def asked_again(h: History, mark: Mark) -> None:
    h.send("/0", 9, tx_id="T", observer="broker")
    decide(h, 10, observer="broker")
    mark(h)
    h.note("tx.check", 50, topic="t", tx_id="T", observer="broker")


def placed_twice(h: History, mark: Mark) -> None:
    sent(h, "/0", 10, 0)
    h.deliver("/0", 10)
    mark(h)
    h.deliver("/1", 13, offset=0)


def sent_back(h: History, mark: Mark) -> None:
    sent(h, "/0", 10, 4)
    mark(h)
    sent(h, "/1", 13, 3)


def pulled_back(h: History, mark: Mark) -> None:
    pulled(h, "/5", 10)
    mark(h)
    pulled(h, "/4", 13)


def committed_back(h: History, mark: Mark) -> None:
    committed(h, 4, 10)
    mark(h)
    committed(h, 3, 13)


VIOLATIONS: dict[str, tuple[Violate, tuple[str, ...]]] = {
    "INV-ACKED": (partial(violated, ends="ack"), (*RESETS, *GONE, *RESTARTS)),
    "INV-EXCL": (violated, (*RESETS, *GONE, *RESTARTS)),
    "INV-EARLY": (partial(violated, ends="change"), (*RESETS, *GONE, *RESTARTS)),
    "INV-ATTEMPT": (partial(violated, hold=1, attempt=1), (*RESETS, *GONE, *RESTARTS)),
    "INV-DLQ": (partial(violated, ends="dlq.deliver", hold=1), (*RESETS, *GONE, *RESTARTS)),
    "INV-LATE": (late, RESTARTS),
    "INV-ORD": (partial(out_of_order, first="x/0", second="x/1", acked=False), (*RESETS, *RESTARTS)),
    "INV-ORD-FIRST": (partial(out_of_order, first="x/1", second="x/0", acked=True), (*RESETS, *RESTARTS)),
    "INV-ORD-HANDLE": (side_by_side, (*RESETS, *GONE, *RESTARTS)),
    "INV-TX-CHECK": (asked_again, RESTARTS),
    "INV-OFFSET": (placed_twice, RESTARTS),
    "INV-OFFSET-ORD": (sent_back, RESTARTS),
    "INV-PULL-ORD": (pulled_back, (*RESETS, *GONE, "an assignment", *RESTARTS)),
    "INV-COMMIT": (committed_back, (*RESETS, *RESTARTS)),
}
"""By invariant, with what exempts it."""

STORED_BEFORE = ("INV-ACKED", "INV-EXCL", "INV-EARLY", "INV-ATTEMPT", "INV-DLQ", "INV-LATE")
"""A restart exempts these also if it was before the first event, and the message was stored before it."""


def _write(violate: Violate, mark: Mark) -> Write:
    return lambda h: violate(h, mark)


def _early(violate: Violate) -> Write:
    def write(h: History) -> None:
        h.note("fault", 8, fault={"kind": "restart"})
        violate(h, lambda _: None)

    return write


for invariant, (violate, exempting) in VIOLATIONS.items():
    is_ordered = invariant.startswith("INV-ORD")
    for name, mark in MARKS.items():
        verdict = "exempted" if name in exempting else "broken"
        history(f"{invariant} and {name}", (invariant, verdict), ordered=is_ordered)(_write(violate, mark))
    verdict = "exempted" if invariant in STORED_BEFORE else "broken"
    history(f"{invariant} and a restart before", (invariant, verdict), ordered=is_ordered)(_early(violate))
