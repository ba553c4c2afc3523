"""The checks, promise by promise: each history is kept or broken by the smallest margin; all are judged in one go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import pytest
from aiorocketmq_audit import excuses, loss, origin, reading
from aiorocketmq_audit.checks import CHECKS, Material
from aiorocketmq_audit.deliveries import deliveries
from aiorocketmq_audit.double_delivery import cause
from pyspark.sql import DataFrame, functions as F

pytestmark = pytest.mark.spark

Write = Callable[[Any], None]
HISTORIES: dict[str, tuple[Write, bool, set[tuple[str, str]]]] = {}


def history(name: str, *found: tuple[str, str], ordered: bool = False) -> Callable[[Write], Write]:
    """Register a history under its claim, with the (invariant, verdict) pairs that must come out."""

    def register(write: Write) -> Write:
        HISTORIES[name] = (write, ordered, set(found))
        return write

    return register


@history("a message may come back when its lease has ended")
def _(h: Any) -> None:
    h.deliver("/0", 0, hold=10)
    h.deliver("/0", 9.9, attempt=2)


@history("a message must not come back while its lease lasts", ("INV-EXCL", "broken"))
def _(h: Any) -> None:
    h.deliver("/0", 0, hold=10)
    h.deliver("/0", 9.899, attempt=2)


@history(
    "a long poll leaves open when its message was handed out, and doubt is no proof", ("INV-EXCL", "possible")
)
def _(h: Any) -> None:
    h.deliver("/0", 20, call=0, hold=30)
    h.deliver("/0", 40, attempt=2)


@history("a server may write its answer long after it took the message out", ("INV-EXCL", "possible"))
def _(h: Any) -> None:
    h.deliver("/0", 11.4, call=10, hold=10, server_deliver_us=1_700_000_011_350_000)
    h.deliver("/0", 20.1, attempt=2)


@history("nothing is handed out before it was stored", ("INV-EXCL", "broken"))
def _(h: Any) -> None:
    h.deliver("/0", 11.4, call=0, hold=10, store_us=1_700_000_011_300_000)
    h.deliver("/0", 20.1, attempt=2)


@history("an extension keeps a message away for longer", ("INV-EXCL", "broken"))
def _(h: Any) -> None:
    h.settle("change", h.deliver("/0", 0, hold=10), 5, seconds=10, reason="extend")
    h.deliver("/0", 12, attempt=2)


@history("a change whose outcome nobody knows excuses an early return")
def _(h: Any) -> None:
    h.settle("change", h.deliver("/0", 0, hold=30), 1, seconds=5, reason="extend", phase="info")
    h.deliver("/0", 7, attempt=2)


@history("a change that was refused excuses nothing", ("INV-EXCL", "broken"))
def _(h: Any) -> None:
    h.settle("change", h.deliver("/0", 0, hold=30), 1, seconds=5, reason="retry", phase="fail")
    h.deliver("/0", 7, attempt=2)


@history("a change of another delivery's lease does not count", ("INV-EXCL", "broken"))
def _(h: Any) -> None:
    first = h.deliver("/0", 0, hold=10)
    h.deliver("/0", 11, hold=30, attempt=2)
    h.settle("change", first, 12, seconds=0, reason="retry")
    h.deliver("/0", 15, attempt=3)


@history("an acked message never comes back", ("INV-ACKED", "broken"))
def _(h: Any) -> None:
    h.settle("ack", h.deliver("/0", 0, hold=10), 5)
    h.deliver("/0", 60, attempt=2)


@history("an ack after the lease's end may be without effect")
def _(h: Any) -> None:
    h.settle("ack", h.deliver("/0", 0, hold=10), 11)
    h.deliver("/0", 12, attempt=2)


@history("an ack without an answer proves nothing")
def _(h: Any) -> None:
    h.settle("ack", h.deliver("/0", 0, hold=10), 5, phase="info")
    h.deliver("/0", 12, attempt=2)


@history("one request that was answered twice is one delivery (E6)")
def _(h: Any) -> None:
    h.deliver("/0", 0, receive_attempt="a")
    h.deliver("/0", 1, receive_attempt="a")


@history("a reset brings messages back (E2)", ("INV-ACKED", "excused"), ("INV-ATTEMPT", "excused"))
def _(h: Any) -> None:
    h.settle("ack", h.deliver("/0", 0), 1)
    h.note("reset", 2, group="g", topic="t")
    h.deliver("/0", 3, attempt=1)


@history("a client that is gone holds nothing (E3)", ("INV-EXCL", "excused"))
def _(h: Any) -> None:
    h.deliver("/0", 0)
    h.note("client.stop", 2, client_id="c1")
    h.deliver("/0", 5, client_id="c2", attempt=2)


@history("a client's end at the same instant, but later, is no excuse", ("INV-EXCL", "broken"))
def _(h: Any) -> None:
    h.deliver("/0", 0)
    h.deliver("/0", 5, client_id="c2", attempt=2)
    h.note("client.stop", 5, client_id="c1")


@history("another client's end is no excuse", ("INV-EXCL", "broken"))
def _(h: Any) -> None:
    h.deliver("/0", 0)
    h.note("client.stop", 2, client_id="c3")
    h.deliver("/0", 5, client_id="c2", attempt=2)


@history("a restart may forget the last acks (E4)", ("INV-ACKED", "excused"), ("INV-ATTEMPT", "excused"))
def _(h: Any) -> None:
    h.settle("ack", h.deliver("/0", 0), 5)
    h.note("fault", 8, fault={"kind": "restart"})
    h.deliver("/0", 9, attempt=1)


@history("a restart forgets no ack of long ago", ("INV-ACKED", "broken"))
def _(h: Any) -> None:
    h.settle("ack", h.deliver("/0", 0), 5)
    h.note("fault", 20, fault={"kind": "restart"})
    h.deliver("/0", 21, attempt=2)


@history(
    "a message that was sent twice is two messages", ("INV-ACKED", "excused"), ("INV-ATTEMPT", "excused")
)
def _(h: Any) -> None:
    h.settle("ack", h.deliver("/0", 0), 1)
    h.deliver("/0", 2, offset=9)


@history("a retry comes when it was asked for")
def _(h: Any) -> None:
    h.settle("change", h.deliver("/0", 0), 1, seconds=10, reason="retry")
    h.deliver("/0", 10.9, attempt=2)


@history("a retry must not come sooner", ("INV-EARLY", "broken"))
def _(h: Any) -> None:
    h.settle("change", h.deliver("/0", 0), 1, seconds=10, reason="retry")
    h.deliver("/0", 10.899, attempt=2)


@history("a change by the group's own step is a retry, whoever saw it", ("INV-EARLY", "broken"))
def _(h: Any) -> None:
    h.settle("change", h.deliver("/0", 0), 1, seconds=40)
    h.deliver("/0", 20, attempt=2)


@history("a message is late when a poll waits for it beyond the bound", ("INV-LATE", "broken"))
def _(h: Any) -> None:
    h.deliver("/0", 0, hold=10)
    h.poll(9, 26)
    h.deliver("/0", 25.001, attempt=2)


@history("without a poll over the whole bound nothing is late")
def _(h: Any) -> None:
    h.deliver("/0", 0, hold=10)
    h.poll(9, 24)
    h.deliver("/0", 60, attempt=2)


@history("a message that never comes back is late as well", ("INV-LATE", "broken"))
def _(h: Any) -> None:
    h.deliver("/0", 0, hold=10)
    h.poll(9, 40)


@history("after its last attempt a message need not come back")
def _(h: Any) -> None:
    h.deliver("/0", 0, hold=10, attempt=17)
    h.poll(9, 40)


@history("ordered messages come one after the other", ordered=True)
def _(h: Any) -> None:
    h.settle("ack", h.deliver("x/0", 0), 5)
    h.deliver("x/1", 5)


@history("an ordered message waits for the one before it", ("INV-ORD", "broken"), ordered=True)
def _(h: Any) -> None:
    h.settle("ack", h.deliver("x/0", 0), 5)
    h.deliver("x/1", 4.999)


@history("other message groups do not wait", ordered=True)
def _(h: Any) -> None:
    h.deliver("x/0", 0)
    h.deliver("y/1", 1)


@history("messages of one answer may come together", ordered=True)
def _(h: Any) -> None:
    h.deliver("x/0", 0, batch="b")
    h.deliver("x/1", 0, batch="b")


@history("within one answer the order counts too", ("INV-ORD-FIRST", "broken"), ordered=True)
def _(h: Any) -> None:
    h.deliver("x/1", 0, batch="b")
    h.deliver("x/0", 0, batch="b")


@history(
    "an ack in between does not hide an earlier message that is open", ("INV-ORD", "broken"), ordered=True
)
def _(h: Any) -> None:
    h.deliver("x/0", 0, batch="b")
    h.settle("ack", h.deliver("x/1", 0, batch="b"), 1)
    h.deliver("x/2", 2)


@history("an ordered message that was forwarded is settled", ordered=True)
def _(h: Any) -> None:
    h.settle("forward", h.deliver("x/0", 0), 5)
    h.deliver("x/1", 6)


@history("after its last attempt the server gives an ordered message up", ordered=True)
def _(h: Any) -> None:
    h.deliver("x/0", 0, hold=10, attempt=17)
    h.deliver("x/1", 10)


@history("a redelivery is no first delivery, though nobody told of those before", ordered=True)
def _(h: Any) -> None:
    h.settle("ack", h.deliver("x/1", 0), 1)
    h.deliver("x/0", 5, attempt=2)


@history("a reset starts the order anew", ("INV-ORD-FIRST", "excused"), ordered=True)
def _(h: Any) -> None:
    h.settle("ack", h.deliver("x/5", 0), 1)
    h.note("reset", 2, group="g", topic="t")
    h.deliver("x/4", 3)


@history(
    "followers come back behind a gap where whole queues are locked (E5)",
    ("INV-ACKED", "excused"),
    ordered=True,
)
def _(h: Any) -> None:
    h.rows[-1]["cfg"]["order_grain"] = "queue"
    h.deliver("x/0", 0, batch="b", hold=10)
    h.settle("ack", h.deliver("x/1", 0, batch="b", hold=10), 1)
    h.deliver("x/0", 11, batch="c", attempt=2)
    h.deliver("x/1", 11, batch="c", attempt=2)


@history(
    "followers stay away behind a gap where message groups are locked", ("INV-ACKED", "broken"), ordered=True
)
def _(h: Any) -> None:
    h.deliver("x/0", 0, batch="b", hold=10)
    h.settle("ack", h.deliver("x/1", 0, batch="b", hold=10), 1)
    h.deliver("x/0", 11, batch="c", attempt=2)
    h.deliver("x/1", 11, batch="c", attempt=2)


@history("two accounts of one delivery are not two deliveries")
def _(h: Any) -> None:
    h.deliver("/0", 0)
    h.deliver("/0", 0.001, observer="broker", recorder="other")


@history("the same number again is wrong", ("INV-ATTEMPT", "broken"))
def _(h: Any) -> None:
    h.deliver("/0", 0, hold=10, attempt=2)
    h.deliver("/0", 10, attempt=2)


@history("one request answered twice has one number")
def _(h: Any) -> None:
    h.deliver("/0", 0, receive_attempt="a")
    h.deliver("/0", 1, receive_attempt="a")


@history("what the broker could not write comes again under its number")
def _(h: Any) -> None:
    h.settle("change", h.deliver("/0", 0), 0, seconds=0, reason="undelivered")
    h.deliver("/0", 0)


@history("somebody who was not recorded may have had a number", ("INV-ATTEMPT", "possible"))
def _(h: Any) -> None:
    h.deliver("/0", 0, hold=10)
    h.deliver("/0", 10, attempt=3)


@history("a broker knows all numbers", ("INV-ATTEMPT", "broken"))
def _(h: Any) -> None:
    h.deliver("/0", 0, hold=10, observer="broker")
    h.deliver("/0", 10, attempt=3, observer="broker")


@history("a lost answer explains one missing number (E7)", ("INV-ATTEMPT", "excused"))
def _(h: Any) -> None:
    h.deliver("/0", 0, hold=10)
    h.poll(10, 12, phase="info")
    h.deliver("/0", 40, attempt=3)


@history("a restarted server may count anew (E4)", ("INV-ATTEMPT", "excused"))
def _(h: Any) -> None:
    h.deliver("/0", 0, hold=10)
    h.note("fault", 5, fault={"kind": "restart", "state": "start"})
    h.deliver("/0", 10)


@history("no attempt is above the limit", ("INV-LIMIT", "broken"))
def _(h: Any) -> None:
    h.deliver("/0", 0, attempt=18)


@history("ordered groups are given up by their consumers", ordered=True)
def _(h: Any) -> None:
    h.deliver("x/0", 0, attempt=18)


@history("a delayed message may come when it is due, by the server's rounding")
def _(h: Any) -> None:
    h.deliver("/0", 9.9, due_us=1_700_000_010_000_000)


@history("a delayed message must not come before", ("INV-EARLY", "broken"))
def _(h: Any) -> None:
    h.deliver("/0", 9.899, due_us=1_700_000_010_000_000)


@history("a message is given up after its last attempt")
def _(h: Any) -> None:
    h.bury(h.deliver("/0", 0, hold=10, attempt=17, observer="broker"), 10, observer="broker")


@history("a message is not given up before", ("INV-DLQ", "broken"))
def _(h: Any) -> None:
    h.bury(h.deliver("/0", 0, hold=10, attempt=16, observer="broker"), 10, observer="broker")


@history("a message that was forwarded is given up at once")
def _(h: Any) -> None:
    given = h.deliver("/0", 0, observer="broker")
    h.settle("forward", given, 1, observer="broker")
    h.bury(given, 1, observer="broker")


@history("a message is given up once", ("INV-DLQ", "broken"))
def _(h: Any) -> None:
    given = h.deliver("/0", 0, hold=10, attempt=17, observer="broker")
    h.bury(given, 10, observer="broker")
    h.bury(given, 11, observer="broker")


@history("two copies of one message are two dead letters", ("INV-DLQ", "excused"))
def _(h: Any) -> None:
    given = h.deliver("/0", 0, hold=10, attempt=17, observer="broker")
    h.bury(given, 10, observer="broker")
    h.bury(given, 11, observer="broker", offset=7)


@history("a dead letter does not come again", ("INV-DLQ", "broken"))
def _(h: Any) -> None:
    given = h.deliver("/0", 0, hold=10, observer="broker")
    h.settle("forward", given, 1, observer="broker")
    h.bury(given, 1, observer="broker")
    h.deliver("/0", 12, attempt=2, observer="broker")


@history("a message comes as it was sent")
def _(h: Any) -> None:
    h.send("/0", 0)
    h.deliver("/0", 1, body_sha="body")


@history("another body is another message", ("INV-CONTENT", "broken"))
def _(h: Any) -> None:
    h.send("/0", 0)
    h.deliver("/0", 1, body_sha="bodY")


@history("what was refused does not come", ("INV-FAILED", "broken"))
def _(h: Any) -> None:
    h.send("/0", 0, phase="fail")
    h.deliver("/0", 1, body_sha="body")


@history("what may have been stored may come")
def _(h: Any) -> None:
    h.send("/0", 0, phase="fail")
    h.send("/0", 1, phase="info")
    h.deliver("/0", 2, body_sha="body")


@history("a client cannot know who else sends")
def _(h: Any) -> None:
    h.send("/0", 0)
    h.deliver("/1", 1, store_us=1_700_000_000_500_000)


@history("a broker knows all sends", ("INV-ORIGIN", "broken"))
def _(h: Any) -> None:
    h.rows[0]["observer"] = "broker"
    h.deliver("/1", 1, store_us=1_700_000_000_500_000, observer="broker")


@history("a broker may have stored it before its account began")
def _(h: Any) -> None:
    h.rows[0]["observer"] = "broker"
    h.deliver("/1", 1, store_us=1_699_999_999_000_000, observer="broker")


@history("a tag that was asked for")
def _(h: Any) -> None:
    h.deliver("/0", 0, tag="paid", filter="TAG:open || paid")
    h.deliver("/1", 0, tag="paid", filter="TAG:*")
    h.deliver("/2", 0, filter="TAG:")
    h.deliver("/3", 0, tag="paid", filter="SQL92:amount > 1")
    h.deliver("/4", 0, tag="paid", filter="TAG:\topen   ||\tpaid ")


@history("a tag that nobody asked for", ("INV-FILTER", "broken"))
def _(h: Any) -> None:
    h.deliver("/0", 0, tag="pai", filter="TAG:open || paid")


@history("no tag where one was asked for", ("INV-FILTER", "broken"))
def _(h: Any) -> None:
    h.deliver("/0", 0, filter="TAG:open")


def passing(h: Any, *, observer: str = "broker", wanted: str = "TAG:*", last: int = 2, **more: Any) -> None:
    """Three messages are stored; the first and the last one are handed out."""
    for offset in range(3):
        h.send(f"/{offset}", 0, observer=observer, broker="b", queue=0, offset=offset, **more)
    for offset in {0, last}:
        h.deliver(f"/{offset}", 1, observer=observer, body_sha="body", filter=wanted)


@history("what was passed over is lost", ("INV-LOSS-MID", "broken"))
def _(h: Any) -> None:
    passing(h)


@history("a client may have been passed by another one", ("INV-LOSS-MID", "possible"))
def _(h: Any) -> None:
    passing(h, observer="client")


def beginning(h: Any, *, sent: float, second: str = "TAG:*") -> None:
    """A queue is read from 1 s on; of a message group that comes later, only the second message is handed out."""
    where = {"observer": "broker", "broker": "b", "queue": 0}
    h.send("x/0", 0, offset=0, **where)
    h.deliver("x/0", 1, observer="broker", body_sha="body")
    for offset, at in ((1, sent), (2, 3)):
        h.send(f"y/{offset}", at, offset=offset, **where)
    h.deliver("y/2", 4, observer="broker", body_sha="body", filter=second)


@history("a message group begins behind its first message", ("INV-LOSS-MID", "broken"), ordered=True)
def _(h: Any) -> None:
    beginning(h, sent=2)


@history("a message group may have begun before its group read the queue", ordered=True)
def _(h: Any) -> None:
    beginning(h, sent=0.5)


@history("under another filter the begin of a message group may be passed over", ordered=True)
def _(h: Any) -> None:
    beginning(h, sent=2, second="TAG:paid||")


@history("what lies behind may yet come")
def _(h: Any) -> None:
    passing(h, last=0)


@history("who wants another tag does not miss it")
def _(h: Any) -> None:
    for offset, tag in enumerate(("paid", "open", "paid")):
        h.send(f"/{offset}", 0, observer="broker", broker="b", queue=0, offset=offset, tag=tag)
    for offset in (0, 2):
        h.deliver(f"/{offset}", 1, observer="broker", body_sha="body", tag="paid", filter="TAG:paid")


@history("nobody knows what an SQL filter lets through")
def _(h: Any) -> None:
    passing(h, wanted="SQL92:amount > 1")


@history("what was deleted in its time is not lost")
def _(h: Any) -> None:
    h.note("trim", 0, observer="broker", topic="t", broker="b", queue=0, commit_offset=2)
    passing(h)


@history("a group that was reset may pass what it likes")
def _(h: Any) -> None:
    h.note("reset", 0, observer="broker", group="g", topic="t")
    passing(h)


@history("a delayed message has its place from when it is due")
def _(h: Any) -> None:
    passing(h, due_us=1_700_000_000_000_000)


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> dict[str, set[tuple[str, str]]]:
    """What the checks find in each history, judged in one frame."""
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
    settings = reading.settings(events)
    given = deliveries(events, settings, cut_at={}, clocks_agree=True).cache()
    material = Material(
        events, settings, given, excuses.marks(events), origin.traces(events), loss.expected(events, settings)
    )
    found = reduce(DataFrame.unionByName, (check.find(material) for check in CHECKS.values() if check.find))
    names = events.select(F.xxhash64("recorder").alias("key"), "case_id").distinct()
    pairs = found.join(names, F.col("first_recorder") == F.col("key")).select(
        "case_id", "invariant", "verdict"
    )
    collected: dict[str, set[tuple[str, str]]] = {name: set() for name in HISTORIES}
    for row in pairs.collect():
        collected[row.case_id].add((row.invariant, row.verdict))
    given.unpersist()
    return collected


@pytest.mark.parametrize("name", HISTORIES)
def test_history(name: str, results: dict[str, set[tuple[str, str]]]) -> None:
    assert results[name] == HISTORIES[name][2]


def test_every_redelivery_has_a_cause(
    new_history: type[Any], frame: Callable[[Iterable[Any]], DataFrame]
) -> None:
    h = new_history()
    h.config(ordered=False, max_attempts=17)
    h.deliver("/0", 0, hold=10)
    h.settle("change", h.deliver("/0", 11, attempt=2), 12, seconds=5, reason="retry")
    h.settle("ack", h.deliver("/0", 17, attempt=3, hold=10), 18, phase="info")
    h.settle("ack", h.deliver("/0", 30, attempt=4), 31)
    h.deliver("/0", 32, attempt=5)
    events = frame([h.end()])
    given = deliveries(events, reading.settings(events), cut_at={}, clocks_agree=True)
    causes = [row.cause for row in given.orderBy("number").select(cause().alias("cause")).collect()]
    assert causes == ["lease ended", "retry asked for", "ack of unknown effect", "none", None]


def test_the_events_are_exchanged_once_and_read_in_few_columns(
    spark: Any, record: Any, clean: tuple[Any, Any]
) -> None:
    folder = record(*(history.end() for history in clean))
    from aiorocketmq_audit.schema import RECORDING

    events = spark.read.schema(RECORDING).parquet(str(folder))
    given = deliveries(events, reading.settings(events), cut_at={}, clocks_agree=True)
    plan = given._jdf.queryExecution().executedPlan().toString()
    main = [line for line in plan.splitlines() if "Exchange" in line and "Broadcast" not in line]
    # One for the events, one for the few settings beside them.
    assert len(main) == 2, plan
    assert "body_sha" not in plan
