"""What `sides` judge, from transactions and answers to handles and drains: each promise kept, or just broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import pytest
from aiorocketmq_audit import excuses, reading
from aiorocketmq_audit.deliveries import deliveries
from aiorocketmq_audit.findings import counted, tally
from aiorocketmq_audit.sides import SIDES, Sources
from pyspark.sql import DataFrame, functions as F

pytestmark = pytest.mark.spark

START = 1_700_000_000_000_000
SECOND = 1_000_000

Write = Callable[[Any], None]
HISTORIES: dict[str, tuple[Write, bool, set[tuple[str, str]]]] = {}
BY_CLIENTS_ALONE: set[str] = set()
"""Histories in which no broker has told of the group."""


def history(
    name: str, *found: tuple[str, str], ordered: bool = False, by_clients: bool = False
) -> Callable[[Write], Write]:
    """Register a history under its claim, with the (invariant, verdict) pairs that must come out."""

    def register(write: Write) -> Write:
        HISTORIES[name] = (write, ordered, set(found))
        if by_clients:
            BY_CLIENTS_ALONE.add(name)
        return write

    return register


def decide(h: Any, at: float, resolution: str = "commit", *, phase: str = "ok", **more: Any) -> None:
    h.note("tx.end", at, phase=phase, topic="t", tx_id="T", resolution=resolution, **more)


@history("a message comes when it was committed")
def _(h: Any) -> None:
    h.send("/0", 0, tx_id="T")
    decide(h, 1)
    h.deliver("/0", 2, tx_id="T")


@history("a message comes while its commit is under way")
def _(h: Any) -> None:
    h.send("/0", 0, tx_id="T")
    decide(h, 3, invoked_us=START + SECOND)
    h.deliver("/0", 2, tx_id="T")


@history("a commit without an answer may have had its effect")
def _(h: Any) -> None:
    h.send("/0", 0, tx_id="T")
    decide(h, 1, phase="info")
    h.deliver("/0", 2, tx_id="T")


@history("a message comes before its commit", ("INV-TX", "broken"))
def _(h: Any) -> None:
    h.send("/0", 0, tx_id="T")
    h.deliver("/0", 2, tx_id="T")
    decide(h, 3)


@history("a commit that was refused has no effect", ("INV-TX", "broken"))
def _(h: Any) -> None:
    h.send("/0", 0, tx_id="T", observer="broker")
    decide(h, 1, phase="fail", observer="broker")
    h.deliver("/0", 2, tx_id="T", observer="broker")


@history("what was rolled back comes", ("INV-TX", "broken"))
def _(h: Any) -> None:
    h.send("/0", 0, tx_id="T")
    decide(h, 1, "rollback")
    h.deliver("/0", 2, tx_id="T")


@history("another producer may have committed unseen", ("INV-TX", "possible"))
def _(h: Any) -> None:
    h.send("/0", 0, tx_id="T")
    h.deliver("/0", 2, tx_id="T")


@history("a check that was under way when the decision came")
def _(h: Any) -> None:
    h.send("/0", 0, tx_id="T")
    decide(h, 1)
    h.note("tx.check", 32, topic="t", tx_id="T")


@history("asked again and again", ("INV-TX-CHECK", "broken"))
def _(h: Any) -> None:
    h.send("/0", 0, tx_id="T")
    decide(h, 1)
    h.note("tx.check", 32.1, topic="t", tx_id="T")


def recalled(h: Any, at: float, *, phase: str = "ok") -> None:
    due = START + 10 * SECOND
    h.send("/0", 0, due_us=due)
    h.note("recall", at, phase=phase, topic="t", message_id="/0")
    h.deliver("/0", 10, due_us=due)


@history("taken back in time", ("INV-RECALL", "broken"))
def _(h: Any) -> None:
    recalled(h, 8.9)


@history("taken back too late")
def _(h: Any) -> None:
    recalled(h, 9)


@history("not taken back")
def _(h: Any) -> None:
    recalled(h, 5, phase="fail")


def assign(h: Any, client: str, at: float, *queues: int) -> None:
    owned = [{"broker": "b", "queue": queue} for queue in queues]
    h.note("assign", at, role="pull", group="g", topic="t", client_id=client, epoch=1, queues=owned)


@history("a queue changes hands in a rebalance")
def _(h: Any) -> None:
    assign(h, "c1", 0, 0, 1)
    assign(h, "c2", 10, 1)
    assign(h, "c1", 40, 0)
    h.note("receive", 100)


@history("two own one queue", ("INV-ASSIGN", "broken"))
def _(h: Any) -> None:
    assign(h, "c1", 0, 0, 1)
    assign(h, "c2", 10, 1)
    assign(h, "c1", 40.1, 0)


@history("two own one queue through many assignments", ("INV-ASSIGN", "broken"))
def _(h: Any) -> None:
    for at in (0, 20, 40, 60):
        assign(h, "c1", at, 0, 1)
    assign(h, "c2", 10, 1)
    assign(h, "c2", 30, 1, 2)
    assign(h, "c1", 61, 0)


@history("who has stopped owns nothing")
def _(h: Any) -> None:
    assign(h, "c1", 0, 0)
    h.note("client.stop", 5, client_id="c1", epoch=1, group="g", role="pull")
    assign(h, "c2", 6, 0)
    h.note("receive", 100)


def pulled(h: Any, message: str, at: float, **more: Any) -> None:
    h.deliver(message, at, role="pull", epoch=1, hold=None, **more)


@history("a queue is read in order")
def _(h: Any) -> None:
    for offset in (0, 1, 5):
        pulled(h, f"/{offset}", offset)


@history("a queue is read out of order", ("INV-PULL-ORD", "broken"))
def _(h: Any) -> None:
    for at, offset in enumerate((0, 2, 1)):
        pulled(h, f"/{offset}", at)


@history("who went back reads again", ("INV-PULL-ORD", "excused"))
def _(h: Any) -> None:
    pulled(h, "/5", 0)
    h.note("seek", 1, group="g", topic="t", broker="b", queue=0, commit_offset=0, client_id="c1")
    pulled(h, "/0", 2)


@history("who was assigned anew reads again", ("INV-PULL-ORD", "excused"))
def _(h: Any) -> None:
    pulled(h, "/5", 0)
    assign(h, "c1", 1, 0)
    pulled(h, "/4", 2)


def sent(h: Any, message: str, at: float, offset: int, **more: Any) -> None:
    h.send(message, at, broker="b", queue=0, offset=offset, **more)


@history("each place has its message")
def _(h: Any) -> None:
    for offset in range(3):
        sent(h, f"/{offset}", offset, offset)
        h.deliver(f"/{offset}", offset + 0.5)


@history("one place has two messages", ("INV-OFFSET", "broken"))
def _(h: Any) -> None:
    sent(h, "/0", 0, 0)
    h.deliver("/1", 1, offset=0)


@history("a retry comes from another queue's places")
def _(h: Any) -> None:
    sent(h, "/0", 0, 0)
    h.deliver("/1", 1, offset=0, attempt=2)


@history("what a lost answer had taken comes again from another queue's places")
def _(h: Any) -> None:
    sent(h, "/0", 0, 0)
    h.note("receive", 1, phase="info", group="g", client_id="c1", observer="client")
    h.deliver("/1", 40, offset=0, observer="client")


@history("a lost answer of another group excuses nothing", ("INV-OFFSET", "broken"))
def _(h: Any) -> None:
    sent(h, "/0", 0, 0)
    h.note("receive", 1, phase="info", group="other", client_id="c1", observer="client")
    h.deliver("/1", 40, offset=0, observer="client")


@history("a server that crashed gives places again", ("INV-OFFSET", "excused"))
def _(h: Any) -> None:
    sent(h, "/0", 0, 0, client_id="a")
    h.note("fault", 1, fault={"kind": "crash"})
    sent(h, "/1", 2, 0, client_id="b")


@history("serial sends go back", ("INV-OFFSET-ORD", "broken"))
def _(h: Any) -> None:
    sent(h, "/0", 0, 4)
    sent(h, "/1", 1, 3)


@history("sends at once may overtake each other")
def _(h: Any) -> None:
    sent(h, "/0", 1, 4)
    sent(h, "/1", 2, 3, invoked_us=START)


def committed(h: Any, offset: int, at: float) -> None:
    h.note("commit", at, group="g", topic="t", broker="b", queue=0, commit_offset=offset)


@history("progress goes on")
def _(h: Any) -> None:
    pulled(h, "/4", 0)
    for at, offset in enumerate((3, 3, 5)):
        committed(h, offset, at)


@history("progress falls", ("INV-COMMIT", "broken"))
def _(h: Any) -> None:
    committed(h, 4, 0)
    committed(h, 3, 1)


@history("progress falls after a reset", ("INV-COMMIT", "excused"))
def _(h: Any) -> None:
    committed(h, 4, 0)
    h.note("reset", 1, group="g", topic="t")
    committed(h, 3, 2)


@history("progress is ahead", ("INV-COMMIT", "broken"))
def _(h: Any) -> None:
    pulled(h, "/4", 0)
    committed(h, 6, 1)


@history("progress goes over what a filter left out")
def _(h: Any) -> None:
    pulled(h, "/4", 0, filter="TAG:paid", tag="paid")
    committed(h, 6, 1)


def standing(
    h: Any, until: float, *, polled: bool = True, stored: float = 1, observer: str = "broker"
) -> None:
    for offset, at, since in ((0, 0, 0), (1, until, stored)):
        h.deliver(f"/{offset}", at, store_us=START + round(since * SECOND), observer=observer)
    if polled:
        h.poll(20, 40, observer=observer)


@history("a queue stands still", ("INV-FAIR", "broken"))
def _(h: Any) -> None:
    standing(h, 61)


@history("a queue stands still, for all that a client knows", ("INV-FAIR", "possible"))
def _(h: Any) -> None:
    standing(h, 61, observer="client")


@history("a queue is served within a minute")
def _(h: Any) -> None:
    standing(h, 60.9)


@history("a queue that nobody asks")
def _(h: Any) -> None:
    standing(h, 61, polled=False)


@history("a queue in which nothing waits")
def _(h: Any) -> None:
    standing(h, 100, stored=60)


@history("an ordered group waits for itself", ordered=True)
def _(h: Any) -> None:
    standing(h, 61)


@history("one handle for two messages", ("INV-HANDLE", "broken"))
def _(h: Any) -> None:
    h.deliver("/0", 0, delivery="H")
    h.deliver("/1", 0, delivery="H")


@history("one handle for two deliveries of a message", ("INV-HANDLE", "broken"))
def _(h: Any) -> None:
    h.deliver("/0", 0, delivery="H", hold=5)
    h.deliver("/0", 10, delivery="H", attempt=2)


@history("an answer that came twice brings its handles twice")
def _(h: Any) -> None:
    for at in (0, 1):
        h.deliver("/0", at, delivery="H", receive_attempt="a", batch_pos=0)


def answered(h: Any, *, topic: str = "t", batch: str | None = "P", **delivered: Any) -> None:
    h.poll(0, 1, op_id="P", topic=topic)
    h.deliver("/0", 1, batch=batch, **delivered)


@history("a poll brings what it asked for")
def _(h: Any) -> None:
    answered(h)


@history("a poll brings a message of another topic", ("INV-ISOLATE", "broken"))
def _(h: Any) -> None:
    answered(h, topic="u")


@history("one message among others is of another topic", ("INV-ISOLATE", "broken"))
def _(h: Any) -> None:
    answered(h)
    h.deliver("/1", 1, batch="P", topic="u")


@history("a poll brings a message for another group", ("INV-ISOLATE", "broken"))
def _(h: Any) -> None:
    answered(h, group="another")


@history("a poll that nobody told of may have asked for anything")
def _(h: Any) -> None:
    answered(h, topic="u", batch="another")


@history("an owner of queues tells no polls")
def _(h: Any) -> None:
    answered(h, topic="u", batch=None, role="pull")


@history("two polls of one id say nothing")
def _(h: Any) -> None:
    h.poll(0, 1, op_id="P", topic="u")
    answered(h)


@history("numbers of polls begin anew with the process")
def _(h: Any) -> None:
    h.poll(0, 1, op_id="P", topic="u", boot="before")
    answered(h)


@history("a poll without an answer brought what it brought", ("INV-ISOLATE", "broken"))
def _(h: Any) -> None:
    h.poll(0, 1, op_id="P", topic="u", phase="info")
    h.deliver("/0", 1, batch="P")


@history("an ack settles another message", ("INV-HANDLE", "broken"))
def _(h: Any) -> None:
    given = h.deliver("/0", 0, delivery="H")
    h.settle("ack", given, 1, message_id="/1")


def drained(h: Any, at: float = 100) -> None:
    h.note("drain.ok", at, group="g", topic="t", observer="broker")


def stored(h: Any, *, done: str | None, **more: Any) -> None:
    h.poll(0, 1, observer="broker")
    h.send("/0", 2, observer="broker", **more)
    given = h.deliver("/0", 3, observer="broker", hold=10)
    if done == "dlq.deliver":
        h.bury(given, 13, observer="broker")
    elif done is not None:
        h.settle(done, given, 4, observer="broker")
    drained(h)


@history("after a drain all is acked")
def _(h: Any) -> None:
    stored(h, done="ack")


@history("after a drain all is acked or given up")
def _(h: Any) -> None:
    stored(h, done="dlq.deliver")


@history("after a drain something is left", ("INV-LOSS", "broken"))
def _(h: Any) -> None:
    stored(h, done=None)


@history("what is due later may be left", ("INV-TX", "broken"))
def _(h: Any) -> None:
    stored(h, done=None, due_us=START + 101 * SECOND)
    h.send("/1", 5, tx_id="T", observer="broker")
    h.deliver("/1", 6, tx_id="T", observer="broker")
    decide(h, 50, "rollback", observer="broker")


@history("what was committed is lost", ("INV-LOSS", "broken"))
def _(h: Any) -> None:
    h.poll(0, 1, observer="broker")
    h.send("/0", 2, tx_id="T", observer="broker")
    decide(h, 3, observer="broker")
    drained(h)


@history("what was never committed is not lost")
def _(h: Any) -> None:
    h.poll(0, 1, observer="broker")
    h.send("/0", 2, tx_id="T", observer="broker")
    drained(h)


@history("what was sent before anybody asked is not the group's")
def _(h: Any) -> None:
    h.send("/0", 0, observer="broker")
    h.poll(1, 2, observer="broker")
    drained(h)


def exhausted(h: Any, *, buried: bool, until: float = 100) -> None:
    given = h.deliver("/0", 3, observer="broker", hold=10, attempt=17)
    if buried:
        h.bury(given, 13, observer="broker")
    drained(h, until)


@history("what used up its attempts is a dead letter")
def _(h: Any) -> None:
    exhausted(h, buried=True)


@history("what used up its attempts is nowhere", ("INV-DLQ-LIVE", "broken"))
def _(h: Any) -> None:
    exhausted(h, buried=False)


@history("the last attempt is not over")
def _(h: Any) -> None:
    exhausted(h, buried=False, until=12)


def seen_by_a_client(h: Any, *, sent: float = 2, attempt: int = 1, acked: bool = False) -> None:
    """One message, and a drain at 100 whose oldest poll was asked at 40."""
    h.poll(0, 1)
    h.send("/0", sent)
    given = h.deliver("/0", sent + 1, hold=10, attempt=attempt)
    if acked:
        h.settle("ack", given, sent + 2)
    h.note("drain.ok", 100, group="g", topic="t", invoked_us=START + 40 * SECOND)


@history("a client has settled all before its drain", by_clients=True)
def _(h: Any) -> None:
    seen_by_a_client(h, acked=True)


@history("what no client settled before a drain may be lost", ("INV-LOSS", "possible"), by_clients=True)
def _(h: Any) -> None:
    seen_by_a_client(h)


@history("what a client has not settled is for the broker's account to judge")
def _(h: Any) -> None:
    seen_by_a_client(h)


@history("what was sent while a client's last polls were out may have come too late", by_clients=True)
def _(h: Any) -> None:
    seen_by_a_client(h, sent=41)


@history("what used up its attempts before a client's eyes is a dead letter", by_clients=True)
def _(h: Any) -> None:
    seen_by_a_client(h, attempt=17)


@history("what has one attempt left is no dead letter to a client", ("INV-LOSS", "possible"), by_clients=True)
def _(h: Any) -> None:
    seen_by_a_client(h, attempt=16)


@pytest.fixture(scope="module")
def sources(request: pytest.FixtureRequest) -> Iterator[Sources]:
    """All histories in one frame."""
    from aiorocketmq_audit.schema import COLUMNS, RECORDING
    from pyspark.sql import SparkSession

    spark: SparkSession = request.getfixturevalue("spark")
    builder = request.getfixturevalue("history_type")
    rows = []
    for name, (write, ordered, _) in HISTORIES.items():
        made = builder(name)
        made.config(ordered=ordered, max_attempts=17, steps_ms="40000")
        write(made)
        rows += [tuple(row[column] for column in COLUMNS) for row in made.end().rows]
    events = spark.createDataFrame(rows, RECORDING)
    told = ~F.col("case_id").isin(*BY_CLIENTS_ALONE)
    settings = reading.settings(events).withColumn("told_by_broker", told)
    given = deliveries(events, settings, cut_at={}, clocks_agree=True).cache()
    yield Sources(events, settings, given, excuses.marks(events), START + 1000 * SECOND)
    given.unpersist()


@pytest.fixture(scope="module")
def results(sources: Sources) -> dict[str, set[tuple[str, str]]]:
    """What the checks find in each history."""
    found = reduce(DataFrame.unionByName, (side.facts(sources) for side in SIDES.values()))
    names = sources.events.select(F.xxhash64("recorder").alias("key"), "case_id").distinct()
    pairs = found.where("verdict is not null").join(names, F.col("second_recorder") == F.col("key"))
    collected: dict[str, set[tuple[str, str]]] = {name: set() for name in HISTORIES}
    for row in pairs.select("case_id", "invariant", "verdict").collect():
        collected[row.case_id].add((row.invariant, row.verdict))
    return collected


@pytest.mark.parametrize("name", HISTORIES)
def test_history(name: str, results: dict[str, set[tuple[str, str]]]) -> None:
    assert results[name] == HISTORIES[name][2]


def test_what_is_told_without_its_proof_is_what_is_found_with_it(sources: Sources) -> None:
    quick = {name: side for name, side in SIDES.items() if side.judged is not None}
    told = [
        tally(name, side.judged(sources), judged=F.lit(True), found=F.col("wrong"))
        for name, side in quick.items()
        if side.judged is not None
    ]
    is_found = F.col("verdict").isNotNull()
    found = [
        tally(name, side.facts(sources), judged=F.lit(True), found=is_found) for name, side in quick.items()
    ]
    assert counted(told) == counted(found)
    assert all(0 < wrong < facts for facts, wrong in counted(told).values())
