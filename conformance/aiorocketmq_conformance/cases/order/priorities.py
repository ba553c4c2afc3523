"""Priorities: inventory 4.6, first half."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import EXTENSION, INFORMATIONAL, case
from aiorocketmq_conformance.consumer import Consumer, Sent
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe.answers import Delivery, code_of
from aiorocketmq_conformance.tolerances import PROMPT

NEEDS = ("type.priority",)
LEVELS = 8


def ranked(fixture: Fixture, topic: str, body: str, priority: int, **fields: Any) -> pb.Message:
    """Return a message with a priority."""
    message = fixture.message(topic, body, **fields)
    message.system_properties.priority = priority
    if not fields:
        message.system_properties.message_type = pb.MessageType.PRIORITY
    return message


async def prepared(fixture: Fixture) -> tuple[str, Consumer]:
    """Return a fresh PRIORITY topic with a queue for each level, and its primed consumer."""
    topic = await fixture.topic(LEVELS, type="PRIORITY")
    return topic, await fixture.consumer(topic)


async def send(fixture: Fixture, topic: str, *levels: int) -> list[Sent]:
    """Send one message of each level in turn; its body is the level."""
    return [await fixture.send_message(ranked(fixture, topic, str(level), level)) for level in levels]


async def backlog(fixture: Fixture, topic: str, *levels: int) -> list[Sent]:
    """Send, and wait until another group has received all messages: servers make a message visible some time after
    its receipt, and an invisible one cannot be delivered first."""
    witness = await fixture.consumer(topic)
    sent = await send(fixture, topic, *levels)
    once_each(sent, await witness.take(len(sent), within=60.0))
    return sent


def level(delivery: Delivery) -> int:
    """Return the level in a delivery's body."""
    return int(delivery.text)


def in_order(deliveries: Sequence[Delivery], wanted: Sequence[int]) -> None:
    """Fail unless deliveries have these levels, with the order that they have."""
    levels = [level(one) for one in deliveries]
    assert levels == wanted, f"delivered in the order {levels}"


@case("prio.backlog-order", rules=("R4.28", "R4.29"), level=EXTENSION, needs=NEEDS, timeout=180.0)
async def backlog_order(fixture: Fixture) -> None:
    """Of a backlog of 50 low and 50 high messages, received one by one, the high ones are delivered first."""
    topic, consumer = await prepared(fixture)
    sent = await backlog(fixture, topic, *[1] * 50, *[6] * 50)
    deliveries = await consumer.take(100, within=90.0, batch=1)
    once_each(sent, deliveries)
    in_order(deliveries, [6] * 50 + [1] * 50)


@case(
    "prio.levels",
    rules=("R4.28", "R4.29"),
    level=EXTENSION,
    needs=NEEDS,
    timeout=180.0,
    params={"batch-1": 1, "batch-32": 32},
)
async def levels(fixture: Fixture, batch: int) -> None:
    """Ten messages of each of eight levels, sent in any order, are delivered level by level, the highest first
    ({})."""
    topic, consumer = await prepared(fixture)
    shuffled = random.Random(7).sample(list(range(LEVELS)) * 10, k=LEVELS * 10)
    sent = await backlog(fixture, topic, *shuffled)
    deliveries = await consumer.take(len(sent), within=90.0, batch=batch)
    once_each(sent, deliveries)
    in_order(deliveries, sorted(shuffled, reverse=True))


@case("prio.no-backlog", rules=("R4.29",), level=EXTENSION, needs=NEEDS)
async def no_backlog(fixture: Fixture) -> None:
    """A waiting consumer receives a low message at once, not after a high one that is sent later."""
    topic, consumer = await prepared(fixture)
    (low,) = await send(fixture, topic, 0)
    once_each([low], await consumer.take(1, within=PROMPT))
    (high,) = await send(fixture, topic, 7)
    once_each([high], await consumer.take(1, within=PROMPT))


@case("prio.roundtrip", rules=("R4.28",), level=EXTENSION, needs=NEEDS)
async def roundtrip(fixture: Fixture) -> None:
    """Messages are delivered with their priority, also one above the number of queues; other messages have none."""
    topic, consumer = await prepared(fixture)
    for priority in (0, 7, 100, 2**31 - 1):
        await send(fixture, topic, priority)
        (delivery,) = await consumer.take(1, within=PROMPT)
        system = delivery.message.system_properties
        assert system.HasField("priority"), f"the priority {priority} is lost"
        assert system.priority == priority
        assert system.message_type == pb.MessageType.PRIORITY
    plain = await fixture.topic(1)
    reader = await fixture.consumer(plain)
    await fixture.send(plain, "m")
    (unset,) = await reader.take(1)
    assert not unset.message.system_properties.HasField("priority")


@case("prio.range", rules=("R4.28",), level=EXTENSION, needs=NEEDS)
async def refused(fixture: Fixture) -> None:
    """A negative priority is refused and nothing is stored."""
    topic, consumer = await prepared(fixture)
    producer = await fixture.producer(topic)
    reply = await producer.send(ranked(fixture, topic, "-1", -1))
    assert reply.status.code != pb.Code.OK
    fixture.note("answer", code_of(reply))
    (sentinel,) = await send(fixture, topic, 0)
    once_each([sentinel], await consumer.receive_for(5.0, settle=True))


@case(
    "prio.exclusive",
    rules=("R4.5",),
    level=EXTENSION,
    needs=(*NEEDS, "type.check"),
    params={
        "group": {"group": "g"},
        "delay": {"deliver_at": 1.0},
        "half": {"kind": pb.MessageType.TRANSACTION},
    },
)
async def exclusive(fixture: Fixture, fields: dict[str, Any]) -> None:
    """A PRIORITY topic refuses a message that has a priority and also a {}."""
    topic = await fixture.topic(LEVELS, type="PRIORITY")
    producer = await fixture.producer(topic)
    reply = await producer.send(ranked(fixture, topic, "m", 3, **fields))
    assert code_of(reply) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"


@case(
    "prio.wrong-topic",
    rules=("R4.5", "R4.6"),
    level=EXTENSION,
    needs=(*NEEDS, "type.check"),
    params={"with-on-NORMAL": ("NORMAL", 3), "without-on-PRIORITY": ("PRIORITY", None)},
)
async def wrong_topic(fixture: Fixture, given: tuple[str, int | None]) -> None:
    """A PRIORITY topic refuses messages without a priority, and other topics those with one ({})."""
    kind, priority = given
    topic = await fixture.topic(LEVELS, type=kind)
    producer = await fixture.producer(topic)
    message = fixture.message(topic, "m")
    if priority is not None:
        message.system_properties.priority = priority
    reply = await producer.send(message)
    assert code_of(reply) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"


@case("prio.retry-inversion", rules=("R4.29",), level=INFORMATIONAL, needs=NEEDS, timeout=120.0)
async def retry_inversion(fixture: Fixture) -> None:
    """A redelivered message of the highest level is delivered before fresh ones of lower levels."""
    topic, consumer = await prepared(fixture)
    (high,) = await send(fixture, topic, 7)
    first = await consumer.one(invisible=10.0)
    assert first.id == high.id
    await fixture.clock.sleep(10.0 + fixture.number("revive.high"))
    low = await send(fixture, topic, 0, 1, 2)
    deliveries = await consumer.take(4, batch=1, within=60.0)
    order = [level(one) for one in deliveries]
    fixture.note("order", str(order))
    once_each([high, *low], deliveries)
    assert order[0] == 7, f"the redelivery was number {order.index(7) + 1}"


@case("prio.loss-free", rules=("R4.29",), level=EXTENSION, needs=NEEDS, timeout=240.0)
async def loss_free(fixture: Fixture) -> None:
    """Of 400 concurrently sent messages of mixed levels none is lost, duplicated or starved."""
    topic, consumer = await prepared(fixture)
    chance = random.Random(11)
    sent = []
    for _ in range(10):
        batch = [chance.randrange(LEVELS) for _ in range(40)]
        sent += await send(fixture, topic, *batch)
        await consumer.receive(batch=5, invisible=60.0)
    deliveries = [*consumer.deliveries]
    await consumer.ack(*deliveries)
    deliveries += await consumer.take(len(sent) - len(deliveries), within=120.0)
    once_each(sent, deliveries)
