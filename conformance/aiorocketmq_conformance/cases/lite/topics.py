"""Lite topics: inventory 4.6, second half."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import EXTENSION, case
from aiorocketmq_conformance.consumer import Consumer, Sent
from aiorocketmq_conformance.fixture import FORGOTTEN, Fixture, once_each
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_of
from aiorocketmq_conformance.probe.telemetry import StreamEnded
from aiorocketmq_conformance.tolerances import PROMPT, expiry_window

NEEDS = ("type.lite",)
ADD = pb.LiteSubscriptionAction.PARTIAL_ADD
REMOVE = pb.LiteSubscriptionAction.PARTIAL_REMOVE
REPLACE = pb.LiteSubscriptionAction.COMPLETE_ADD
LEASE = 10.0


class LiteFixture:
    """A parent topic with one bound group."""

    def __init__(self, fixture: Fixture, topic: str, group: str) -> None:
        self.fixture = fixture
        self.topic = topic
        self.group = group

    async def consumer(self, *names: str, kind: int = pb.ClientType.LITE_PUSH_CONSUMER) -> Consumer:
        """Return another lite consumer of the group, subscribed to some names."""
        consumer = await self.fixture.consumer(self.topic, group=self.group, prime=False, kind=kind)
        if names:
            assert await self.sync(consumer, ADD, *names) == "OK"
        return consumer

    async def sync(
        self,
        consumer: Consumer,
        action: int,
        *names: str,
        start: pb.OffsetOption | None = None,
        **fields: Any,
    ) -> str:
        """Change a consumer's lite subscriptions; return the response's code."""
        request = pb.SyncLiteSubscriptionRequest(
            action=action,  # type: ignore[arg-type]  # wrong numbers allowed
            topic=requests.resource(fields.get("topic", self.topic)),
            group=requests.resource(fields.get("group", self.group)),
            lite_topic_set=names,
        )
        if start is not None:
            request.offset_option.CopyFrom(start)
        reply = await consumer.client.unary("SyncLiteSubscription", request)
        return code_of(reply)

    async def send(self, name: str, *bodies: str) -> list[Sent]:
        """Send messages to one lite topic."""
        return [await self.fixture.send_message(self.message(name, body)) for body in bodies]

    def message(self, name: str, body: str) -> pb.Message:
        """A message to a lite topic."""
        message = self.fixture.message(self.topic, body, kind=pb.MessageType.LITE)
        message.system_properties.lite_topic = name
        return message

    async def deliveries_within(self, consumer: Consumer, seconds: float = 8.0) -> list[Any]:
        """Return what is delivered within `seconds`, closed by a message to a lite topic that is added for it."""
        deliveries = await consumer.receive_for(seconds, settle=True)
        assert await self.sync(consumer, ADD, "sentinel") == "OK"
        (sentinel,) = await self.send("sentinel", "sentinel")
        while True:
            (delivery,) = await consumer.take(1, batch=1)
            if delivery.id == sentinel.id:
                return deliveries
            deliveries.append(delivery)


async def open_lite(fixture: Fixture, *, quota: int = 0, exclusive: bool = False) -> LiteFixture:
    """Return a fresh parent topic and a fresh group that is bound to it."""
    topic = await fixture.topic(1, type="LITE")
    return LiteFixture(
        fixture, topic, await fixture.group(lite_topic=topic, lite_quota=quota, lite_exclusive=exclusive)
    )


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


@case("lite.per-consumer-sets", rules=("R4.32",), level=EXTENSION, needs=NEEDS)
async def per_consumer_sets(fixture: Fixture) -> None:
    """Two consumers of one group with different lite subscriptions each receive their own messages."""
    lite = await open_lite(fixture)
    one, two = await lite.consumer("l1"), await lite.consumer("l2")
    first, second = await lite.send("l1", "1"), await lite.send("l2", "2")
    once_each(first, await one.receive_for(5.0, settle=True))
    once_each(second, await two.receive_for(5.0, settle=True))


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


@case("lite.partial-add-remove", rules=("R4.33",), level=EXTENSION, needs=NEEDS)
async def partial_add_remove(fixture: Fixture) -> None:
    """Removing one of two lite subscriptions keeps the other."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("l1", "l2")
    assert await lite.sync(consumer, REMOVE, "l1") == "OK"
    await lite.send("l1", "gone")
    sent = await lite.send("l2", "stays")
    once_each(sent, await lite.deliveries_within(consumer))


@case("lite.complete-add", rules=("R4.33",), level=EXTENSION, needs=NEEDS)
async def complete_add(fixture: Fixture) -> None:
    """A complete list replaces the previous lite subscriptions."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("l1", "l2")
    assert await lite.sync(consumer, REPLACE, "l3") == "OK"
    await lite.send("l1", "1")
    await lite.send("l2", "2")
    sent = await lite.send("l3", "3")
    once_each(sent, await lite.deliveries_within(consumer))


@case("lite.quota", rules=("R4.34",), level=EXTENSION, needs=NEEDS)
async def quota(fixture: Fixture) -> None:
    """The settings contain the quota; one name more is refused, and existing subscriptions still work."""
    lite = await open_lite(fixture, quota=3)
    consumer = await lite.consumer("l1", "l2", "l3")
    settings = consumer.client.settings
    assert settings is not None
    assert settings.subscription.lite_subscription_quota == 3
    assert await lite.sync(consumer, ADD, "l4") == "LITE_SUBSCRIPTION_QUOTA_EXCEEDED"
    sent = await lite.send("l3", "m")
    once_each(sent, await consumer.take(1))


@case(
    "lite.name-limits",
    rules=("R4.31",),
    level=EXTENSION,
    needs=NEEDS,
    params={"blank": " ", "65": "a" * 65, "dot": "a.b", "space": "a b", "accent": "é"},
)
async def name_limits(fixture: Fixture, name: str) -> None:
    """An illegal lite topic name ({}) is refused in subscriptions and sends; 64 characters are legal."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer()
    assert await lite.sync(consumer, ADD, name) == "ILLEGAL_LITE_TOPIC"
    producer = await fixture.producer(lite.topic)
    reply = await producer.send(lite.message(name, "m"))
    assert code_of(reply) == "ILLEGAL_LITE_TOPIC"
    assert await lite.sync(consumer, ADD, "a" * 64) == "OK"


_STARTS: dict[str, tuple[pb.OffsetOption, Sequence[int]]] = {
    "min": (pb.OffsetOption(policy=pb.OffsetOption.MIN), range(10)),
    "max": (pb.OffsetOption(policy=pb.OffsetOption.MAX), ()),
    "offset-7": (pb.OffsetOption(offset=7), range(7, 10)),
    "tail-3": (pb.OffsetOption(tail_n=3), range(7, 10)),
}


@case("lite.offset", rules=("R4.33",), level=EXTENSION, needs=NEEDS, params=_STARTS)
async def offset(fixture: Fixture, asked: tuple[pb.OffsetOption, Sequence[int]]) -> None:
    """A new subscriber that starts at {} receives the later ones of ten stored messages, and all new ones."""
    start, expected = asked
    lite = await open_lite(fixture)
    sent = await lite.send("l1", *map(str, range(10)))
    consumer = await lite.consumer()
    assert await lite.sync(consumer, ADD, "l1", start=start) == "OK"
    later = await lite.send("l1", "later")
    deliveries = await consumer.receive_for(5.0, settle=True)
    once_each([*(sent[n] for n in expected), *later], deliveries)


@case("lite.offset-last", rules=("R4.33",), level=EXTENSION, needs=NEEDS)
async def offset_last(fixture: Fixture) -> None:
    """A group that consumed four of ten messages and left continues at the fifth when it returns."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("l1")
    sent = await lite.send("l1", *map(str, range(10)))
    once_each(sent[:4], await consumer.take(4, batch=4))
    assert await lite.sync(consumer, REMOVE, "l1") == "OK"
    last = pb.OffsetOption(policy=pb.OffsetOption.LAST)
    assert await lite.sync(consumer, ADD, "l1", start=last) == "OK"
    once_each(sent[4:], await consumer.receive_for(25.0, settle=True))


@case("lite.offset-timestamp", rules=("R4.33",), level=EXTENSION, needs=NEEDS)
async def offset_timestamp(fixture: Fixture) -> None:
    """A new subscriber that starts at a time receives what was stored from then on."""
    lite = await open_lite(fixture)
    await lite.send("l1", *map(str, range(5)))
    await fixture.clock.sleep(3.0)
    between = int(fixture.clock.wall() * 1000)
    await fixture.clock.sleep(3.0)
    sent = await lite.send("l1", *map(str, range(5, 10)))
    consumer = await lite.consumer()
    assert await lite.sync(consumer, ADD, "l1", start=pb.OffsetOption(timestamp=between)) == "OK"
    once_each(sent, await consumer.receive_for(5.0, settle=True))


@case("lite.suspend", rules=("R6.15", "R4.32"), level=EXTENSION, needs=NEEDS)
async def suspend(fixture: Fixture) -> None:
    """A message that is suspended for three seconds is redelivered then, with the same attempt."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("l1")
    (sent,) = await lite.send("l1", "m")
    first = await consumer.one(invisible=30.0)
    request = pb.ChangeInvisibleDurationRequest(
        group=requests.resource(lite.group),
        topic=requests.resource(lite.topic),
        receipt_handle=first.handle,
        message_id=first.id,
        lite_topic="l1",
        suspend=True,
    )
    requests.duration(request.invisible_duration, 3.0)
    suspended_at = fixture.clock.now()
    reply = await consumer.client.unary("ChangeInvisibleDuration", request)
    assert code_of(reply) == "OK"
    redelivery = await consumer.find(sent)
    assert redelivery.at - suspended_at >= 3.0 - fixture.number("early"), (
        f"redelivered after {redelivery.at - suspended_at:.1f} s"
    )
    assert redelivery.attempt == first.attempt, (
        f"the attempt went from {first.attempt} to {redelivery.attempt}"
    )


@case("lite.notify-unsubscribe", rules=("R4.34",), level=EXTENSION, needs=NEEDS)
async def notify_unsubscribe(fixture: Fixture) -> None:
    """If lite topics are exclusive, the former subscriber is notified, and receives nothing more."""
    lite = await open_lite(fixture, exclusive=True)
    first = await lite.consumer("l1", "l2")
    second = await lite.consumer("l1")
    stream = first.client.stream
    assert stream is not None
    evicted_from = ""
    with suppress(StreamEnded):
        while not evicted_from:
            command = await stream.next(2.0)
            evicted_from = command.notify_unsubscribe_lite_command.lite_topic
    assert evicted_from == "l1", "the evicted consumer was not notified"
    sent = await lite.send("l1", "m")
    assert not await first.receive_for(5.0)
    once_each(sent, await second.take(1))


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


@case("lite.expiry", rules=("R4.33",), level=EXTENSION, needs=NEEDS, timeout=800.0)
async def subscription_expiry(fixture: Fixture) -> None:
    """A lite subscription expires unless it is renewed; messages of its lite topic stay available."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("l1")
    life = fixture.number("lite.life")
    for _ in range(2):
        await consumer.receive_for(life * 0.6)
        assert await lite.sync(consumer, REPLACE, "l1") == "OK"
    once_each(await lite.send("l1", "alive"), await consumer.take(1))
    await consumer.receive_for(life + 125.0)
    sent = await lite.send("l1", "too late")
    assert not await consumer.receive_for(PROMPT), "delivered without a subscription"
    assert await lite.sync(consumer, ADD, "l1") == "OK"
    once_each(sent, await consumer.take(1))


@case("lite.resync", rules=("R4.33", "R12.7"), level=EXTENSION, needs=(*NEEDS, "@restart"), timeout=200.0)
async def resync(fixture: Fixture) -> None:
    """After a restart that lost the subscriptions a consumer that renews its own continues at its progress."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("l1")
    sent = await lite.send("l1", "1", "2")
    once_each(sent[:1], await consumer.take(1, batch=1))
    await fixture.clock.sleep(12.0)
    await consumer.client.vanish()
    await fixture.target.restart()
    successor = await lite.consumer()
    until = fixture.clock.now() + FORGOTTEN
    while (code := await lite.sync(successor, REPLACE, "l1")) != "OK" and fixture.clock.now() < until:
        await fixture.clock.sleep(1.0)
    assert code == "OK", f"answered with {code} for a minute after the restart"
    once_each(sent[1:], await successor.take(1, within=60.0))


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
    assert await _refused(lite, "l2"), "a lite topic that was written to 50 s ago has ended after 60 s"
    await fixture.clock.sleep(15.0 + fixture.number("lite.scan"))
    consumer = await lite.consumer()
    assert await lite.sync(consumer, ADD, "l1", start=_STARTS["min"][0]) == "OK"
    sent = await lite.send("l1", "new")
    once_each(sent, await consumer.receive_for(5.0, settle=True))


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
        await client.present(
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
