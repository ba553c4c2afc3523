"""Receives: streams, long polls, batches, and visibility of messages: inventory 4.8, first half."""

from __future__ import annotations

import asyncio
import time

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import SHOULD, case
from aiorocketmq_conformance.consumer import LEASE, SHORT_POLL, Consumer
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import Delivery, code_name, code_of
from aiorocketmq_conformance.tolerances import (
    PROMPT,
    QUIET_WINDOW,
    empty_poll_window,
    expiry_window,
    wake_window,
)


def _bodies(count: int) -> list[str]:
    return [f"m{n}" for n in range(count)]


@case(
    "simple.receive-ack",
    rules=("R6.5", "R6.8"),
    params={"ss": (False, False), "as": (True, False), "sa": (False, True), "aa": (True, True)},
    timeout=90.0,
)
async def receive_ack(fixture: Fixture, concurrent: tuple[bool, bool]) -> None:
    """Messages that were acked are never redelivered; receives and acks one by one or in batches ({})."""
    receives_at_once, acks_at_once = concurrent
    topic, consumer = await fixture.subscribed()
    sent = await fixture.send(topic, *_bodies(20))
    deliveries: list[Delivery] = []
    end = fixture.clock.now() + 30.0
    while len(deliveries) < 20 and fixture.clock.now() < end:
        asks = (consumer.receive(batch=4, invisible=10.0) for _ in range(3 if receives_at_once else 1))
        fresh = [one for answer in await asyncio.gather(*asks) for one in answer.deliveries]
        deliveries += fresh
        if acks_at_once:
            await asyncio.gather(*(consumer.ack(one) for one in fresh))
        else:
            for one in fresh:
                await consumer.ack(one)
    deliveries += await fixture.deliveries_within(consumer, 10.0 + QUIET_WINDOW)
    once_each(sent, deliveries)


@case("simple.stream-shape", rules=("R5.5",))
async def stream_shape(fixture: Fixture) -> None:
    """The stream of a receive is one status, messages, and one time stamp, that of the delivery."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, *_bodies(3))
    before = fixture.clock.wall()
    full = await consumer.receive(batch=32)
    after = fixture.clock.wall()
    empty = await consumer.receive()
    assert full.error is None
    assert empty.error is None
    assert full.code == pb.Code.OK
    assert empty.code in {pb.Code.OK, pb.Code.MESSAGE_NOT_FOUND}
    assert full.kinds == ("status", *["message"] * len(full.deliveries), "delivery_timestamp")
    assert full.delivered_at is not None
    assert before - 0.1 <= full.delivered_at <= after + 0.1, "another time of delivery"
    assert 1 <= len(full.deliveries) <= 3
    if len(full.deliveries) == 3:
        assert empty.kinds == ("status", "delivery_timestamp")
    await consumer.ack(*full.deliveries)


@case(
    "simple.error-shape",
    rules=("R5.5", "R1.7"),
    params={
        "topic": ("no spaces!", None, LEASE),
        "group": (None, "no spaces!", LEASE),
        "lease": (None, None, -1.0),
    },
)
async def error_shape(fixture: Fixture, wrong: tuple[str | None, str | None, float]) -> None:
    """A refused receive (illegal {}) is one status that is not OK, and no message."""
    bad_topic, bad_group, lease = wrong
    topic, consumer = await fixture.subscribed(prime=False)
    await fixture.send(topic, "m")
    answer = await consumer.client.receive(bad_topic or topic, bad_group or consumer.group, invisible=lease)
    assert answer.error is None
    expected = (
        "ILLEGAL_TOPIC" if bad_topic else "ILLEGAL_CONSUMER_GROUP" if bad_group else "ILLEGAL_INVISIBLE_TIME"
    )
    assert code_name(answer.code) == expected
    assert answer.kinds[0] == "status"
    assert "message" not in answer.kinds


@case("simple.empty-await", rules=("R5.17", "R5.19"), params={"5": 5.0, "10": 10.0})
async def empty_await(fixture: Fixture, poll: float) -> None:
    """A receive with a poll time of {} s on an empty topic is answered as empty after that time."""
    _, consumer = await fixture.subscribed()
    answer = await consumer.receive(poll=poll)
    assert answer.error is None
    assert answer.code in {pb.Code.OK, pb.Code.MESSAGE_NOT_FOUND}
    assert not answer.deliveries
    fixture.note("took", round(answer.took, 3))
    empty_poll_window(fixture.target, poll).check(answer.took, "an empty receive ended")


@case("simple.poll-from-deadline", rules=("5.1 row 3",), level=SHOULD, timeout=90.0)
async def poll_from_deadline(fixture: Fixture) -> None:
    """Without a poll time a receive waits until half of the client's request timeout before its deadline."""
    _, consumer = await fixture.subscribed()
    kind = pb.ClientType.SIMPLE_CONSUMER
    settings = requests.consumer_settings(consumer.group, {consumer.topic: "*"}, kind)
    for timeout, deadline in ((4.0, 12.0), (12.0, 14.0)):
        requests.duration(settings.request_timeout, timeout)
        await consumer.client.send_settings(settings)
        began, wait = time.monotonic(), deadline - timeout / 2
        answer = await consumer.receive(poll=None, deadline=deadline)
        assert answer.error is None
        took, spent = answer.took, time.monotonic() - began
        # Deadlines are real: where the clock is virtual, the server is told one that the way to it has shortened.
        if spent < wait / 2:
            took = max(took, min(took + spent, wait))
        empty_poll_window(fixture.target, wait).check(took, "an empty receive ended")


@case("simple.many-waiters", rules=("R5.18", "R5.20"))
async def many_waiters(fixture: Fixture) -> None:
    """Of several polls of a group that wait, each message completes one, and the others go on waiting."""
    topic, consumer = await fixture.subscribed(1)
    others = [await fixture.consumer(topic, group=consumer.group, prime=False) for _ in range(2)]
    polls = [fixture.background(each.receive(batch=4, poll=19.0)) for each in (consumer, *others)]
    await fixture.clock.sleep(2.0)
    for count in range(3):
        assert sum(poll.done() for poll in polls) == count, "a poll ended without a message"
        (sent,) = await fixture.send(topic, f"m{count}")
        await fixture.clock.sleep(2.0)
        ended = [one for poll in polls if poll.done() for one in poll.result().deliveries]
        assert len({one.id for one in ended}) == len(ended) == count + 1, (
            f"after {count + 1} messages: {ended}"
        )
        (delivery,) = (one for one in ended if one.id == sent.id)
        wake_window(fixture.target).check(delivery.at - sent.acked_at, "a waiting poll was answered")


@case("simple.await-wakes", rules=("R5.18", "R5.20"))
async def await_wakes(fixture: Fixture) -> None:
    """A message that arrives during a long poll completes it at once."""
    topic, consumer = await fixture.subscribed()
    waiting = fixture.background(consumer.receive(poll=15.0))
    await fixture.clock.sleep(3.0)
    assert not waiting.done(), "the poll ended before anything was sent"
    (sent,) = await fixture.send(topic, "wake")
    answer = await waiting
    assert [one.id for one in answer.deliveries] == [sent.id]
    woken = answer.deliveries[0].at - sent.acked_at
    fixture.note("woken", round(woken, 4))
    wake_window(fixture.target).check(woken, "the parked poll was answered")
    await consumer.ack(*answer.deliveries)


@case("simple.batch-cap", rules=("R5.3",), timeout=120.0)
async def batch_cap(fixture: Fixture) -> None:
    """No response contains more than the advertised batch, whatever is requested, and 300 messages are delivered once
    each."""
    topic, consumer = await fixture.subscribed(2)
    sent = await fixture.send_all(topic, _bodies(300), concurrency=16)
    largest = int(fixture.number("batch.max"))
    deliveries: list[Delivery] = []
    while len(deliveries) < 300:
        answer = await consumer.receive(batch=50)
        assert len(answer.deliveries) <= largest, f"{len(answer.deliveries)} messages in one answer"
        assert answer.deliveries, f"{len(deliveries)} of 300, then an empty answer"
        deliveries += answer.deliveries
        await consumer.ack(*answer.deliveries)
    once_each(sent, deliveries)


@case("simple.batch-exact", rules=("R5.3", "R5.15"), params={"1": 1, "5": 5, "32": 32})
async def batch_exact(fixture: Fixture, batch: int) -> None:
    """Of 64 available messages a receive of {} returns at least one and no more than that."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send_all(topic, _bodies(64), concurrency=16)
    answer = await consumer.receive(batch=batch)
    assert 1 <= len(answer.deliveries) <= batch, f"{len(answer.deliveries)} messages for a batch of {batch}"
    await consumer.ack(*answer.deliveries)


@case("simple.inflight-hidden", rules=("R5.12", "R6.10"), timeout=90.0)
async def inflight_hidden(fixture: Fixture) -> None:
    """Messages leased by one consumer are not delivered to others of its group until their leases expire."""
    topic = await fixture.topic(1)
    owner = await fixture.consumer(topic)
    others = [await fixture.consumer(topic, group=owner.group, prime=False) for _ in range(2)]
    sent = await fixture.send(topic, *_bodies(3))
    leased = await owner.take(3, invisible=QUIET_WINDOW + 2 * PROMPT, settle=False)
    deliveries = await asyncio.gather(*(other.receive_for(QUIET_WINDOW, settle=True) for other in others))
    other_deliveries = await fixture.sentinel(others[0])
    stolen = [
        one
        for one in [*deliveries[0], *deliveries[1], *other_deliveries]
        if one.id in {sent_one.id for sent_one in sent}
    ]
    assert not stolen, f"delivered to another consumer while in flight: {stolen}"
    await owner.ack(*leased)


@case("simple.expiry-redelivers", rules=("R7.1", "R7.2"), timeout=90.0)
async def expiry_redelivers(fixture: Fixture) -> None:
    """A message that is not acked is redelivered after its lease, not before, as attempt 2 with a new handle."""
    topic, consumer = await fixture.subscribed()
    # Sent some time before it is received: the lease is counted from the receive, not from the store.
    await fixture.send(topic, "m")
    await fixture.clock.sleep(4.0)
    first = await consumer.one(invisible=10.0)
    second = await consumer.one(within=40.0, invisible=LEASE, poll=20.0)
    assert second.id == first.id
    assert second.attempt == first.attempt + 1 == 2
    assert second.handle != first.handle
    fixture.note("after_lease", round(second.at - first.at - 10.0, 3))
    expiry_window(fixture.target, 10.0).check_return(first, second)
    await consumer.ack(second)


@case("simple.two-consumers-disjoint", rules=("R5.10", "R8.16"), timeout=120.0)
async def two_consumers_disjoint(fixture: Fixture) -> None:
    """Two consumers of one group receive 200 messages, each message once."""
    topic = await fixture.topic()
    one = await fixture.consumer(topic)
    two = await fixture.consumer(topic, group=one.group, prime=False)
    sent = await fixture.send_all(topic, _bodies(200), concurrency=16)
    await _receive_concurrently([one, two], 200)
    once_each(sent, one.deliveries + two.deliveries)


@case("simple.four-pollers", rules=("R5.10", "R5.13"), timeout=120.0)
async def four_pollers(fixture: Fixture) -> None:
    """Four concurrent receives of one consumer return each of 100 messages once."""
    topic, consumer = await fixture.subscribed()
    sent = await fixture.send_all(topic, _bodies(100), concurrency=16)
    await _receive_concurrently([consumer] * 4, 100)
    once_each(sent, consumer.deliveries)


async def _receive_concurrently(consumers: list[Consumer], count: int) -> None:
    """Let all `consumers` receive and ack concurrently until `count` messages were delivered or no more are."""
    total = 0

    async def drain(consumer: Consumer) -> None:
        nonlocal total
        empty = 0
        while total < count and empty < 2:
            # Small batches, so that every consumer gets some.
            answer = await consumer.receive(batch=8, poll=SHORT_POLL)
            total += len(answer.deliveries)
            empty = 0 if answer.deliveries else empty + 1
            await consumer.ack(*answer.deliveries)

    await asyncio.gather(*map(drain, consumers))


@case("simple.unknown-topic", rules=("R5.1",))
async def unknown_topic(fixture: Fixture) -> None:
    """A receive from a topic that does not exist is refused, and does not create it."""
    topic = await fixture.topic()
    consumer = await fixture.consumer(topic, prime=False)
    nowhere = fixture.fresh("nowhere")
    answer = await consumer.client.receive(nowhere, consumer.group)
    assert answer.error is None
    assert code_name(answer.code) == fixture.numbers["receive.unknown-topic"]
    assert not answer.deliveries
    route = await consumer.client.query_route(nowhere)
    assert code_of(route) == "TOPIC_NOT_FOUND", "a refused receive created the topic"


@case("simple.system-group", rules=("R10.2",))
async def system_group(fixture: Fixture) -> None:
    """A receive with the name of a system group is refused."""
    topic, consumer = await fixture.subscribed(prime=False)
    await fixture.send(topic, "m")
    answer = await consumer.client.receive(topic, "CID_RMQ_SYS_" + fixture.fresh("group"))
    assert answer.error is None
    assert answer.code not in {pb.Code.OK, pb.Code.MESSAGE_NOT_FOUND}, "answered like any group"
    assert not answer.deliveries


@case("simple.cancelled-receive", rules=("R5.7", "R7.2"), timeout=120.0)
async def cancelled_receive(fixture: Fixture) -> None:
    """When a receive of 32 is cancelled after its first message, the others are delivered to another consumer."""
    topic, consumer = await fixture.subscribed(1)
    other = await fixture.consumer(topic, group=consumer.group, prime=False)
    sent = await fixture.send_all(topic, _bodies(32), concurrency=16)
    began = fixture.clock.now()
    broken = await consumer.receive(invisible=10.0, stop_after=1)
    assert len(broken.deliveries) == 1
    # All messages leased by the cancelled call are redelivered when their leases expire, including the first: it was
    # not acked.
    within = 10.0 + fixture.number("revive.high") + 2 * PROMPT
    ids: set[str] = set()
    while len(ids) < 32 and fixture.clock.now() < began + within:
        answer = await other.receive(poll=SHORT_POLL)
        ids |= {one.id for one in answer.deliveries}
        await other.ack(*answer.deliveries)
    lost = {one.id for one in sent} - ids
    assert not lost, f"{len(lost)} of 32 lost with a cancelled receive"
