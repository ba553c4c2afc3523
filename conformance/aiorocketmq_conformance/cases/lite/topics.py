"""Lite topics: creation, delivery, expiry, and what is refused; inventory 4.6."""

from __future__ import annotations

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import EXTENSION, case
from aiorocketmq_conformance.cases.shared.lite import (
    ADD,
    FROM_BEGINNING,
    LEASE,
    NEEDS,
    LiteFixture,
    open_lite,
)
from aiorocketmq_conformance.consumer import Sent
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_of
from aiorocketmq_conformance.probe.telemetry import StreamEnded
from aiorocketmq_conformance.tolerances import expiry_window


@case("lite.auto-create", rules=("R4.31",), level=EXTENSION, needs=NEEDS)
async def auto_create(fixture: Fixture) -> None:
    """A lite topic is created by its first message, which has type LITE, the lite topic's name, and its parent's."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("fresh")
    (sent,) = await lite.send("fresh", "m")
    (delivery,) = await consumer.take(1)
    once_each([sent], [delivery])
    system = delivery.message.system_properties
    assert (delivery.topic, system.lite_topic, system.message_type) == (
        lite.topic,
        "fresh",
        pb.MessageType.LITE,
    )
    assert (delivery.queue, delivery.offset, delivery.attempt) == (0, 0, 1)


@case("lite.only-subscribed", rules=("R4.32",), level=EXTENSION, needs=NEEDS)
async def only_subscribed(fixture: Fixture) -> None:
    """A consumer receives the messages of the lite topics it subscribed to, and no others."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("l1")
    await lite.send("l2", "other")
    sent = await lite.send("l1", "own")
    once_each(sent, await lite.deliveries_within(consumer))


@case("lite.order", rules=("R4.32",), level=EXTENSION, needs=NEEDS, timeout=180.0)
async def order(fixture: Fixture) -> None:
    """Fifty messages of one lite topic are delivered in the order of their sends."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("l1")
    sent = await lite.send("l1", *map(str, range(50)))
    # Servers may check only every ten seconds whether a lite topic has more messages.
    deliveries = await consumer.take(50, within=120.0, batch=8)
    assert [one.id for one in deliveries] == [one.id for one in sent]


@case("lite.names-independent", rules=("R4.32",), level=EXTENSION, needs=NEEDS)
async def names_independent(fixture: Fixture) -> None:
    """An un-acked message blocks its own lite topic and no other."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("l1", "l2")
    blocking = await lite.send("l1", "1", "1b")
    first = await consumer.one(invisible=60.0)
    assert first.id == blocking[0].id
    flowing = await lite.send("l2", "2")
    once_each(flowing, await consumer.receive_for(5.0, settle=True))


@case("lite.redelivery", rules=("R4.32",), level=EXTENSION, needs=NEEDS)
async def redelivery(fixture: Fixture) -> None:
    """A message that is not acked is redelivered as attempt 2 when its lease expires."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("l1")
    (sent,) = await lite.send("l1", "m")
    first = await consumer.one(invisible=LEASE)
    redelivery = await consumer.find(sent)
    assert (first.attempt, redelivery.attempt) == (1, 2)
    expiry_window(fixture.target, LEASE, ordered=True).check_return(first, redelivery)


@case("lite.suspend", rules=("R6.15", "R4.32"), level=EXTENSION, needs=NEEDS)
async def suspend(fixture: Fixture) -> None:
    """A message that is suspended for three seconds is redelivered then, with the same attempt."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("l1")
    (sent,) = await lite.send("l1", "m")
    first = await consumer.one(invisible=30.0)
    suspended_at = fixture.clock.now()
    reply = await consumer.client.change_invisible(first, 3.0, suspend=True)
    assert code_of(reply) == "OK"
    redelivery = await consumer.find(sent)
    assert redelivery.at - suspended_at >= 3.0 - fixture.number("early"), (
        f"redelivered after {redelivery.at - suspended_at:.1f} s"
    )
    assert redelivery.attempt == first.attempt, (
        f"the attempt went from {first.attempt} to {redelivery.attempt}"
    )


@case("lite.ack-scope", rules=("R6.5", "R4.34"), level=EXTENSION, needs=NEEDS)
async def ack_scope(fixture: Fixture) -> None:
    """Acking the message of one lite topic does not affect that of another at the same offset."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("l1", "l2")
    (one,), (two,) = await lite.send("l1", "1"), await lite.send("l2", "2")
    taken = {delivery.id: delivery for delivery in await consumer.take(2, settle=False, invisible=LEASE)}
    await consumer.ack(taken[one.id])
    redelivery = await consumer.find(two)
    assert redelivery.attempt == 2
    await consumer.ack(redelivery)
    assert not [each for each in await consumer.receive_for(LEASE + 3.0) if each.id == one.id]


@case("lite.parent-readers", rules=("R4.31",), level=EXTENSION, needs=NEEDS)
async def parent_readers(fixture: Fixture) -> None:
    """An ordinary consumer of the parent topic receives the messages of all its lite topics."""
    lite = await open_lite(fixture)
    ordinary = await fixture.consumer(lite.topic)
    sent = [*await lite.send("l1", "1"), *await lite.send("l2", "2")]
    once_each(sent, await ordinary.take(2))


@case("lite.ttl", rules=("R4.30",), level=EXTENSION, needs=(*NEEDS, "@lite-life"), timeout=400.0)
async def ttl(fixture: Fixture) -> None:
    """A lite topic without new messages expires with its messages; its name and its part of the quota are free
    again."""
    lite = await open_lite(fixture)
    await fixture.target.privileged.bound_lite_topics(lite.topic, seconds=60.0, count=1)
    await lite.send("l1", "old")
    await fixture.clock.sleep(50.0)
    await lite.send("l1", "keeps it alive")
    await fixture.clock.sleep(50.0)
    assert await _refused(lite, "l2"), "a lite topic expired after 60 s although it was written to 50 s ago"
    await fixture.clock.sleep(15.0 + fixture.number("lite.scan"))
    consumer = await lite.consumer()
    assert await lite.sync(consumer, ADD, "l1", start=FROM_BEGINNING) == "OK"
    sent = await lite.send("l1", "new")
    once_each(sent, await consumer.receive_for(5.0, settle=True))


@case(
    "lite.ttl-of-one", rules=("R4.30", "R4.32"), level=EXTENSION, needs=(*NEEDS, "@lite-life"), timeout=400.0
)
async def ttl_of_one(fixture: Fixture) -> None:
    """After one of several lite topics has expired, each of the others, and a new one, has its own messages."""
    lite = await open_lite(fixture)
    await fixture.target.privileged.bound_lite_topics(lite.topic, seconds=60.0)
    await lite.send("l1", "expires")
    end, kept = fixture.clock.now() + 65.0 + fixture.number("lite.scan"), list[Sent]()
    while fixture.clock.now() < end:
        kept += await lite.send("l2", "kept")
        await fixture.clock.sleep(30.0)
    old, new = await lite.consumer("l2"), await lite.consumer("l3")
    once_each(kept, await old.receive_for(5.0, settle=True))
    sent = await lite.send("l3", "new", "newer")
    more = await lite.send("l2", "more")
    once_each(sent, await new.receive_for(5.0, settle=True))
    once_each(more, await old.receive_for(5.0, settle=True))


async def _refused(lite: LiteFixture, name: str) -> bool:
    producer = await lite.fixture.producer(lite.topic)
    reply = await producer.send(lite.message(name, "m"))
    return code_of(reply) == "LITE_TOPIC_QUOTA_EXCEEDED"


@case("lite.topic-quota", rules=("R4.34",), level=EXTENSION, needs=(*NEEDS, "@lite-life"))
async def topic_quota(fixture: Fixture) -> None:
    """One lite topic more than the parent's limit is refused and not created; existing ones accept messages."""
    lite = await open_lite(fixture)
    await fixture.target.privileged.bound_lite_topics(lite.topic, count=2)
    consumer = await lite.consumer("l1", "l2", "l3")
    sent = [*await lite.send("l1", "1"), *await lite.send("l2", "2")]
    assert await _refused(lite, "l3"), "a third lite topic was created beyond a limit of two"
    sent += await lite.send("l1", "1b")
    once_each(sent, await consumer.receive_for(5.0, settle=True))


@case(
    "lite.wrong-topic",
    rules=("R4.5", "R4.6"),
    level=EXTENSION,
    needs=(*NEEDS, "type.check"),
    params={"NORMAL": "NORMAL", "FIFO": "FIFO", "PRIORITY": "PRIORITY"},
)
async def wrong_topic(fixture: Fixture, kind: str) -> None:
    """A {} topic has no lite topics: messages and subscriptions to one are refused."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer()
    other = await fixture.topic(1, type=kind)
    producer = await fixture.producer(other)
    message = fixture.message(other, "m", kind=pb.MessageType.LITE)
    message.system_properties.lite_topic = "l1"
    reply = await producer.send(message)
    assert code_of(reply) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"
    assert await lite.sync(consumer, ADD, "l1", topic=other) != "OK"


@case("lite.unbound-group", rules=("R4.30",), level=EXTENSION, needs=NEEDS)
async def unbound_group(fixture: Fixture) -> None:
    """A group that is not bound to the topic can neither subscribe nor send settings of a lite consumer."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer()
    stranger = await fixture.group()
    assert await lite.sync(consumer, ADD, "l1", group=stranger) != "OK"
    client = await fixture.client()
    try:
        await client.send_settings(
            requests.consumer_settings(stranger, {lite.topic: "*"}, pb.ClientType.LITE_PUSH_CONSUMER)
        )
    except StreamEnded:
        return
    raise AssertionError("settings of a lite consumer were accepted for a group that is not bound")


@case("lite.simple-consumer", rules=("R4.32",), level=EXTENSION, needs=NEEDS)
async def simple_consumer(fixture: Fixture) -> None:
    """A simple consumer of lite topics receives and acks, and acked messages are not redelivered."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("l1", kind=pb.ClientType.LITE_SIMPLE_CONSUMER)
    sent = await lite.send("l1", *map(str, range(5)))
    once_each(sent, await consumer.take(5, invisible=LEASE))
    assert not await lite.deliveries_within(consumer, LEASE + 3.0)
