"""What lite topics promise: inventory 4.6, second half."""

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
from aiorocketmq_conformance.tolerances import PROMPT, expiry

NEEDS = ("type.lite",)
ADD = pb.LiteSubscriptionAction.PARTIAL_ADD
REMOVE = pb.LiteSubscriptionAction.PARTIAL_REMOVE
REPLACE = pb.LiteSubscriptionAction.COMPLETE_ADD
LEASE = 10.0


class Floor:
    """A parent topic with one bound group."""

    def __init__(self, fixture: Fixture, topic: str, group: str) -> None:
        self.fixture = fixture
        self.topic = topic
        self.group = group

    async def consumer(self, *names: str, kind: int = pb.ClientType.LITE_PUSH_CONSUMER) -> Consumer:
        """One more lite consumer of the group, subscribed to some names."""
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
        """Change what a consumer wants; the name of the answer's code."""
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
        message = requests.message(
            self.topic, body, kind=pb.MessageType.LITE, born_at=self.fixture.clock.wall()
        )
        message.system_properties.lite_topic = name
        return message

    async def deliveries_within(self, consumer: Consumer, seconds: float = 8.0) -> list[Any]:
        """What comes within `seconds`, closed by a message to a lite topic that is added for it."""
        seen = await consumer.watch(seconds, settle=True)
        assert await self.sync(consumer, ADD, "sentinel") == "OK"
        (sentinel,) = await self.send("sentinel", "sentinel")
        while True:
            (delivery,) = await consumer.take(1, batch=1)
            if delivery.id == sentinel.id:
                return seen
            seen.append(delivery)


async def open_floor(fixture: Fixture, *, quota: int = 0, exclusive: bool = False) -> Floor:
    """A fresh parent topic and a fresh group that is bound to it."""
    topic = await fixture.topic(1, type="LITE")
    return Floor(
        fixture, topic, await fixture.target.create_lite_group(topic, quota=quota, exclusive=exclusive)
    )


@case("lite.auto-create", rules=("R4.31",), level=EXTENSION, needs=NEEDS)
async def auto_create(fixture: Fixture) -> None:
    """A lite topic that nobody made is there with its first message: type LITE, its name, and its parent's."""
    floor = await open_floor(fixture)
    consumer = await floor.consumer("fresh")
    (sent,) = await floor.send("fresh", "m")
    (seen,) = await consumer.take(1)
    once_each([sent], [seen])
    system = seen.message.system_properties
    assert (seen.topic, system.lite_topic, system.message_type) == (floor.topic, "fresh", pb.MessageType.LITE)
    assert (seen.queue, seen.offset, seen.attempt) == (0, 0, 1)


@case("lite.only-subscribed", rules=("R4.32",), level=EXTENSION, needs=NEEDS)
async def only_subscribed(fixture: Fixture) -> None:
    """A consumer gets the messages of the lite topics it subscribed to, and no others."""
    floor = await open_floor(fixture)
    consumer = await floor.consumer("l1")
    await floor.send("l2", "other")
    sent = await floor.send("l1", "own")
    once_each(sent, await floor.deliveries_within(consumer))


@case("lite.per-consumer-sets", rules=("R4.32",), level=EXTENSION, needs=NEEDS)
async def per_consumer_sets(fixture: Fixture) -> None:
    """Two consumers of one group with different subscriptions each get their own."""
    floor = await open_floor(fixture)
    one, two = await floor.consumer("l1"), await floor.consumer("l2")
    first, second = await floor.send("l1", "1"), await floor.send("l2", "2")
    once_each(first, await one.watch(5.0, settle=True))
    once_each(second, await two.watch(5.0, settle=True))


@case("lite.order", rules=("R4.32",), level=EXTENSION, needs=NEEDS, timeout=180.0)
async def order(fixture: Fixture) -> None:
    """Fifty messages of one lite topic come in the order in which they were sent."""
    floor = await open_floor(fixture)
    consumer = await floor.consumer("l1")
    sent = await floor.send("l1", *map(str, range(50)))
    # Servers may look only every ten seconds whether a lite topic has more.
    seen = await consumer.take(50, within=120.0, batch=8)
    assert [one.id for one in seen] == [one.id for one in sent]


@case("lite.names-independent", rules=("R4.32",), level=EXTENSION, needs=NEEDS)
async def names_independent(fixture: Fixture) -> None:
    """An un-acked message blocks its own lite topic and no other."""
    floor = await open_floor(fixture)
    consumer = await floor.consumer("l1", "l2")
    blocking = await floor.send("l1", "1", "1b")
    first = await consumer.one(invisible=60.0)
    assert first.id == blocking[0].id
    flowing = await floor.send("l2", "2")
    once_each(flowing, await consumer.watch(5.0, settle=True))


@case("lite.redelivery", rules=("R4.32",), level=EXTENSION, needs=NEEDS)
async def redelivery(fixture: Fixture) -> None:
    """A message that is not acked comes back at the end of its lease with attempt 2."""
    floor = await open_floor(fixture)
    consumer = await floor.consumer("l1")
    (sent,) = await floor.send("l1", "m")
    first = await consumer.one(invisible=LEASE)
    again = await consumer.find(sent)
    assert (first.attempt, again.attempt) == (1, 2)
    expiry(fixture.target, LEASE, ordered=True).check_return(first, again)


@case("lite.partial-add-remove", rules=("R4.33",), level=EXTENSION, needs=NEEDS)
async def partial_add_remove(fixture: Fixture) -> None:
    """Of two lite topics of which one was taken away again the other one stays."""
    floor = await open_floor(fixture)
    consumer = await floor.consumer("l1", "l2")
    assert await floor.sync(consumer, REMOVE, "l1") == "OK"
    await floor.send("l1", "gone")
    sent = await floor.send("l2", "stays")
    once_each(sent, await floor.deliveries_within(consumer))


@case("lite.complete-add", rules=("R4.33",), level=EXTENSION, needs=NEEDS)
async def complete_add(fixture: Fixture) -> None:
    """A complete list replaces what was subscribed to before."""
    floor = await open_floor(fixture)
    consumer = await floor.consumer("l1", "l2")
    assert await floor.sync(consumer, REPLACE, "l3") == "OK"
    await floor.send("l1", "1")
    await floor.send("l2", "2")
    sent = await floor.send("l3", "3")
    once_each(sent, await floor.deliveries_within(consumer))


@case("lite.quota", rules=("R4.34",), level=EXTENSION, needs=NEEDS)
async def quota(fixture: Fixture) -> None:
    """The quota is told in the settings; one name more is refused, and the ones before still work."""
    floor = await open_floor(fixture, quota=3)
    consumer = await floor.consumer("l1", "l2", "l3")
    settings = consumer.client.settings
    assert settings is not None
    assert settings.subscription.lite_subscription_quota == 3
    assert await floor.sync(consumer, ADD, "l4") == "LITE_SUBSCRIPTION_QUOTA_EXCEEDED"
    sent = await floor.send("l3", "m")
    once_each(sent, await consumer.take(1))


@case(
    "lite.name-limits",
    rules=("R4.31",),
    level=EXTENSION,
    needs=NEEDS,
    params={"blank": " ", "65": "a" * 65, "dot": "a.b", "space": "a b", "accent": "é"},
)
async def name_limits(fixture: Fixture, name: str) -> None:
    """A name that is no lite topic's ({}) is refused by subscriptions and sends alike; 64 characters are fine."""
    floor = await open_floor(fixture)
    consumer = await floor.consumer()
    assert await floor.sync(consumer, ADD, name) == "ILLEGAL_LITE_TOPIC"
    producer = await fixture.producer(floor.topic)
    reply = await producer.send(floor.message(name, "m"))
    assert code_of(reply) == "ILLEGAL_LITE_TOPIC"
    assert await floor.sync(consumer, ADD, "a" * 64) == "OK"


_STARTS: dict[str, tuple[pb.OffsetOption, Sequence[int]]] = {
    "min": (pb.OffsetOption(policy=pb.OffsetOption.MIN), range(10)),
    "max": (pb.OffsetOption(policy=pb.OffsetOption.MAX), ()),
    "offset-7": (pb.OffsetOption(offset=7), range(7, 10)),
    "tail-3": (pb.OffsetOption(tail_n=3), range(7, 10)),
}


@case("lite.offset", rules=("R4.33",), level=EXTENSION, needs=NEEDS, params=_STARTS)
async def offset(fixture: Fixture, asked: tuple[pb.OffsetOption, Sequence[int]]) -> None:
    """A new subscriber that asks to begin at {} gets of ten stored messages what lies behind that, and all new ones."""
    start, expected = asked
    floor = await open_floor(fixture)
    sent = await floor.send("l1", *map(str, range(10)))
    consumer = await floor.consumer()
    assert await floor.sync(consumer, ADD, "l1", start=start) == "OK"
    later = await floor.send("l1", "later")
    seen = await consumer.watch(5.0, settle=True)
    once_each([*(sent[n] for n in expected), *later], seen)


@case("lite.offset-last", rules=("R4.33",), level=EXTENSION, needs=NEEDS)
async def offset_last(fixture: Fixture) -> None:
    """A group that consumed four of ten and went away goes on at the fifth when it comes back."""
    floor = await open_floor(fixture)
    consumer = await floor.consumer("l1")
    sent = await floor.send("l1", *map(str, range(10)))
    once_each(sent[:4], await consumer.take(4, batch=4))
    assert await floor.sync(consumer, REMOVE, "l1") == "OK"
    last = pb.OffsetOption(policy=pb.OffsetOption.LAST)
    assert await floor.sync(consumer, ADD, "l1", start=last) == "OK"
    once_each(sent[4:], await consumer.watch(25.0, settle=True))


@case("lite.offset-timestamp", rules=("R4.33",), level=EXTENSION, needs=NEEDS)
async def offset_timestamp(fixture: Fixture) -> None:
    """A new subscriber that asks to begin at a time gets what was stored from then on."""
    floor = await open_floor(fixture)
    await floor.send("l1", *map(str, range(5)))
    await fixture.clock.sleep(3.0)
    between = int(fixture.clock.wall() * 1000)
    await fixture.clock.sleep(3.0)
    sent = await floor.send("l1", *map(str, range(5, 10)))
    consumer = await floor.consumer()
    assert await floor.sync(consumer, ADD, "l1", start=pb.OffsetOption(timestamp=between)) == "OK"
    once_each(sent, await consumer.watch(5.0, settle=True))


@case("lite.suspend", rules=("R6.15", "R4.32"), level=EXTENSION, needs=NEEDS)
async def suspend(fixture: Fixture) -> None:
    """A message that is given back as suspended for three seconds comes then, with the same attempt."""
    floor = await open_floor(fixture)
    consumer = await floor.consumer("l1")
    (sent,) = await floor.send("l1", "m")
    first = await consumer.one(invisible=30.0)
    request = pb.ChangeInvisibleDurationRequest(
        group=requests.resource(floor.group),
        topic=requests.resource(floor.topic),
        receipt_handle=first.handle,
        message_id=first.id,
        lite_topic="l1",
        suspend=True,
    )
    requests.duration(request.invisible_duration, 3.0)
    asked = fixture.clock.now()
    reply = await consumer.client.unary("ChangeInvisibleDuration", request)
    assert code_of(reply) == "OK"
    again = await consumer.find(sent)
    assert again.at - asked >= 3.0 - fixture.number("early"), f"came back after {again.at - asked:.1f} s"
    assert again.attempt == first.attempt, f"the attempt went from {first.attempt} to {again.attempt}"


@case("lite.notify-unsubscribe", rules=("R4.34",), level=EXTENSION, needs=NEEDS)
async def notify_unsubscribe(fixture: Fixture) -> None:
    """Where a lite topic has one subscriber at a time, the one before is told, and gets nothing more."""
    floor = await open_floor(fixture, exclusive=True)
    first = await floor.consumer("l1", "l2")
    second = await floor.consumer("l1")
    stream = first.client.stream
    assert stream is not None
    told = ""
    with suppress(StreamEnded):
        while not told:
            command = await stream.next(2.0)
            told = command.notify_unsubscribe_lite_command.lite_topic
    assert told == "l1", "the evicted consumer was not told"
    sent = await floor.send("l1", "m")
    assert not await first.watch(5.0)
    once_each(sent, await second.take(1))


@case("lite.ack-scope", rules=("R6.5", "R4.34"), level=EXTENSION, needs=NEEDS)
async def ack_scope(fixture: Fixture) -> None:
    """Acking the message of one lite topic leaves that of another, at the same offset, as it was."""
    floor = await open_floor(fixture)
    consumer = await floor.consumer("l1", "l2")
    (one,), (two,) = await floor.send("l1", "1"), await floor.send("l2", "2")
    taken = {delivery.id: delivery for delivery in await consumer.take(2, settle=False, invisible=LEASE)}
    await consumer.ack(taken[one.id])
    again = await consumer.find(two)
    assert again.attempt == 2
    await consumer.ack(again)
    assert not [seen for seen in await consumer.watch(LEASE + 3.0) if seen.id == one.id]


@case("lite.parent-readers", rules=("R4.31",), level=EXTENSION, needs=NEEDS)
async def parent_readers(fixture: Fixture) -> None:
    """An ordinary consumer of the parent topic gets the messages of all its lite topics."""
    floor = await open_floor(fixture)
    ordinary = await fixture.consumer(floor.topic)
    sent = [*await floor.send("l1", "1"), *await floor.send("l2", "2")]
    once_each(sent, await ordinary.take(2))


@case("lite.expiry", rules=("R4.33",), level=EXTENSION, needs=NEEDS, timeout=800.0)
async def subscription_expiry(fixture: Fixture) -> None:
    """A subscription that is repeated lives on; one that is not ends, and its lite topic's messages wait."""
    floor = await open_floor(fixture)
    consumer = await floor.consumer("l1")
    life = fixture.number("lite.life")
    for _ in range(2):
        await consumer.watch(life * 0.6)
        assert await floor.sync(consumer, REPLACE, "l1") == "OK"
    once_each(await floor.send("l1", "alive"), await consumer.take(1))
    await consumer.watch(life + 125.0)
    sent = await floor.send("l1", "too late")
    assert not await consumer.watch(PROMPT), "delivered without a subscription"
    assert await floor.sync(consumer, ADD, "l1") == "OK"
    once_each(sent, await consumer.take(1))


@case("lite.resync", rules=("R4.33", "R12.7"), level=EXTENSION, needs=(*NEEDS, "@restart"), timeout=200.0)
async def resync(fixture: Fixture) -> None:
    """After a restart that lost the subscriptions, a consumer that repeats its own goes on where it was."""
    floor = await open_floor(fixture)
    consumer = await floor.consumer("l1")
    sent = await floor.send("l1", "1", "2")
    once_each(sent[:1], await consumer.take(1, batch=1))
    await fixture.clock.sleep(12.0)
    await consumer.client.vanish()
    await fixture.target.restart()
    again = await floor.consumer()
    until = fixture.clock.now() + FORGOTTEN
    while (told := await floor.sync(again, REPLACE, "l1")) != "OK" and fixture.clock.now() < until:
        await fixture.clock.sleep(1.0)
    assert told == "OK", f"answered {told} for a minute after the restart"
    once_each(sent[1:], await again.take(1, within=60.0))


@case("lite.ttl", rules=("R4.30",), level=EXTENSION, needs=(*NEEDS, "@lite-life"), timeout=400.0)
async def ttl(fixture: Fixture) -> None:
    """A lite topic that nobody writes to ends with its messages; its name and its place in the quota are free again."""
    floor = await open_floor(fixture)
    await fixture.target.special.bound_lite_topics(floor.topic, seconds=60.0, count=1)
    await floor.send("l1", "old")
    await fixture.clock.sleep(50.0)
    await floor.send("l1", "keeps it alive")
    await fixture.clock.sleep(50.0)
    assert await _refused(floor, "l2"), "a lite topic that was written to 50 s ago has ended after 60 s"
    await fixture.clock.sleep(15.0 + fixture.number("lite.scan"))
    consumer = await floor.consumer()
    assert await floor.sync(consumer, ADD, "l1", start=_STARTS["min"][0]) == "OK"
    sent = await floor.send("l1", "new")
    once_each(sent, await consumer.watch(5.0, settle=True))


async def _refused(floor: Floor, name: str) -> bool:
    producer = await floor.fixture.producer(floor.topic)
    reply = await producer.send(floor.message(name, "m"))
    return code_of(reply) == "LITE_TOPIC_QUOTA_EXCEEDED"


@case("lite.topic-quota", rules=("R4.34",), level=EXTENSION, needs=(*NEEDS, "@lite-life"))
async def topic_quota(fixture: Fixture) -> None:
    """One lite topic more than the parent may have is refused and not made; those that are there take messages."""
    floor = await open_floor(fixture)
    await fixture.target.special.bound_lite_topics(floor.topic, count=2)
    consumer = await floor.consumer("l1", "l2", "l3")
    sent = [*await floor.send("l1", "1"), *await floor.send("l2", "2")]
    assert await _refused(floor, "l3"), "a third lite topic of two was made"
    sent += await floor.send("l1", "1b")
    once_each(sent, await consumer.watch(5.0, settle=True))


@case(
    "lite.wrong-topic",
    rules=("R4.5", "R4.6"),
    level=EXTENSION,
    needs=(*NEEDS, "type.check"),
    params={"NORMAL": "NORMAL", "FIFO": "FIFO", "PRIORITY": "PRIORITY"},
)
async def wrong_topic(fixture: Fixture, kind: str) -> None:
    """A {} topic has no lite topics: a message to one is refused, and so is a subscription."""
    floor = await open_floor(fixture)
    consumer = await floor.consumer()
    other = await fixture.topic(1, type=kind)
    producer = await fixture.producer(other)
    message = requests.message(other, "m", kind=pb.MessageType.LITE, born_at=fixture.clock.wall())
    message.system_properties.lite_topic = "l1"
    reply = await producer.send(message)
    assert code_of(reply) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"
    assert await floor.sync(consumer, ADD, "l1", topic=other) != "OK"


@case("lite.unbound-group", rules=("R4.30",), level=EXTENSION, needs=NEEDS)
async def unbound_group(fixture: Fixture) -> None:
    """A group that is not bound to the topic can neither subscribe nor present a lite consumer."""
    floor = await open_floor(fixture)
    consumer = await floor.consumer()
    stranger = await fixture.group()
    assert await floor.sync(consumer, ADD, "l1", group=stranger) != "OK"
    client = await fixture.client()
    try:
        await client.present(
            requests.consumer_settings(stranger, {floor.topic: "*"}, pb.ClientType.LITE_PUSH_CONSUMER)
        )
    except StreamEnded:
        return
    raise AssertionError("the settings of a lite consumer were taken for a group that is not bound")


@case("lite.simple-consumer", rules=("R4.32",), level=EXTENSION, needs=NEEDS)
async def simple_consumer(fixture: Fixture) -> None:
    """A simple consumer of lite topics receives and acks, and what it acked stays away."""
    floor = await open_floor(fixture)
    consumer = await floor.consumer("l1", kind=pb.ClientType.LITE_SIMPLE_CONSUMER)
    sent = await floor.send("l1", *map(str, range(5)))
    once_each(sent, await consumer.take(5, invisible=LEASE))
    assert not await floor.deliveries_within(consumer, LEASE + 3.0)
