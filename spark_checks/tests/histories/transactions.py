"""Transactions, and recalled messages."""

from __future__ import annotations

from typing import Any

from spark_checks.tests.histories.book import SECOND, START, History, history


def decide(h: History, at: float, resolution: str = "commit", *, phase: str = "ok", **more: Any) -> None:
    h.note("tx.end", at, phase=phase, topic="t", tx_id="T", resolution=resolution, **more)


def asked_again(h: History, at: float, **more: Any) -> None:
    h.send("/0", 0, tx_id="T", **more)
    decide(h, 1, **more)
    h.note("tx.check", at, topic="t", tx_id="T", **more)


@history("a message comes when it was committed")
def _(h: History) -> None:
    h.send("/0", 0, tx_id="T")
    decide(h, 1)
    h.deliver("/0", 2, tx_id="T")


@history("a message comes while its commit is under way")
def _(h: History) -> None:
    h.send("/0", 0, tx_id="T")
    decide(h, 3, invoked_us=START + SECOND)
    h.deliver("/0", 2, tx_id="T")


@history("a commit without an answer may have had its effect")
def _(h: History) -> None:
    h.send("/0", 0, tx_id="T")
    decide(h, 1, phase="info")
    h.deliver("/0", 2, tx_id="T")


@history("a message comes before its commit", ("INV-TX", "broken"))
def _(h: History) -> None:
    h.send("/0", 0, tx_id="T")
    h.deliver("/0", 2, tx_id="T")
    decide(h, 3)


@history("a commit that was refused has no effect", ("INV-TX", "broken"))
def _(h: History) -> None:
    h.send("/0", 0, tx_id="T", observer="broker")
    decide(h, 1, phase="fail", observer="broker")
    h.deliver("/0", 2, tx_id="T", observer="broker")


@history("what was rolled back comes", ("INV-TX", "broken"))
def _(h: History) -> None:
    h.send("/0", 0, tx_id="T")
    decide(h, 1, "rollback")
    h.deliver("/0", 2, tx_id="T")


@history("another producer may have committed unseen", ("INV-TX", "possible"))
def _(h: History) -> None:
    h.send("/0", 0, tx_id="T")
    h.deliver("/0", 2, tx_id="T")


@history("asked again and again", ("INV-TX-CHECK", "broken"))
def _(h: History) -> None:
    asked_again(h, 32.1, observer="broker")


@history("asked again and again while the broker tells of one half message", ("INV-TX-CHECK", "broken"))
def _(h: History) -> None:
    h.send("/0", 0, tx_id="T", observer="broker")
    asked_again(h, 32.1)


@history("asked about what may be a second half message of one transaction", ("INV-TX-CHECK", "possible"))
def _(h: History) -> None:
    asked_again(h, 32.1)


@history("a killed server may ask about what it was told last (E4)", ("INV-TX-CHECK", "exempted"))
def _(h: History) -> None:
    h.note("fault", 6.9, fault={"kind": "crash"})
    asked_again(h, 32.1, observer="broker")


@history("a killed server knows what it was told long before", ("INV-TX-CHECK", "broken"))
def _(h: History) -> None:
    h.note("fault", 7.1, fault={"kind": "crash"})
    asked_again(h, 32.1, observer="broker")


@history("asked about the second half message of one transaction")
def _(h: History) -> None:
    h.send("/0", 0.1, tx_id="T", observer="broker")
    asked_again(h, 32.1, observer="broker")


@history("the broker tells of the second half message that a client is asked about")
def _(h: History) -> None:
    h.send("/0", 0, tx_id="T", observer="broker")
    h.send("/0", 0.1, tx_id="T", observer="broker")
    asked_again(h, 32.1)


@history("a check that was under way when the decision came")
def _(h: History) -> None:
    asked_again(h, 32)


def recalled(h: History, at: float, *, phase: str = "ok") -> None:
    due = START + 10 * SECOND
    h.send("/0", 0, due_us=due)
    h.note("recall", at, phase=phase, topic="t", message_id="/0")
    h.deliver("/0", 10, due_us=due)


@history("taken back in time", ("INV-RECALL", "broken"))
def _(h: History) -> None:
    recalled(h, 8.9)


@history("taken back too late")
def _(h: History) -> None:
    recalled(h, 9)


@history("not taken back")
def _(h: History) -> None:
    recalled(h, 5, phase="fail")


@history("a message comes at the instant of its commit")
def _(h: History) -> None:
    h.send("/0", 0, tx_id="T")
    decide(h, 2)
    h.deliver("/0", 2, tx_id="T")


@history("asked about what was never decided")
def _(h: History) -> None:
    h.send("/0", 0, tx_id="T", observer="broker")
    for at in (30, 60, 90):
        h.note("tx.check", at, topic="t", tx_id="T", observer="broker")
