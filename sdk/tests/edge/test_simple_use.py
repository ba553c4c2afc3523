"""What a simple consumer lets one do, and what it refuses: filters, topics, loops, wrong use."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import pytest
from aiorocketmq.errors import (
    ClosedError,
    IllegalFilterError,
    PermissionDeniedError,
    UsageError,
)
from aiorocketmq.message import Message
from aiorocketmq.producer import Producer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq.subscription import Sql
from aiorocketmq_fake import FakeBroker

from sdk.tests.clients import simple_consumer

Awaiting = Callable[[type[object]], AbstractAsyncContextManager[None]]

Result = TypeVar("Result")


async def test_only_messages_with_a_wanted_tag_arrive(broker: FakeBroker, producer: Producer) -> None:
    for tag in ("paid", "open", "refunded"):
        await producer.send(Message("orders", tag.encode(), tag=tag))
    subscriptions = {"orders": "paid || refunded"}
    async with SimpleConsumer(broker.endpoint, group="billing", subscriptions=subscriptions) as consumer:
        received = await consumer.receive(wait=5)
        while len(received) < 2:
            received += await consumer.receive(wait=5)
        await consumer.ack(received)
    assert {message.tag for message in received} == {"paid", "refunded"}


async def test_only_messages_that_satisfy_an_sql_expression_arrive(
    broker: FakeBroker, producer: Producer
) -> None:
    for amount, region in ((5, "eu"), (500, "us"), (700, "eu"), (900, "uk")):
        properties = {"amount": str(amount), "region": region}
        await producer.send(Message("orders", str(amount).encode(), properties=properties))
    subscriptions = {"orders": Sql("amount > 100 AND region IN ('eu', 'uk')")}
    async with SimpleConsumer(broker.endpoint, group="billing", subscriptions=subscriptions) as consumer:
        received = await consumer.receive(wait=5)
        while len(received) < 2:
            received += await consumer.receive(wait=5)
        await consumer.ack(received)
    assert {message.body for message in received} == {b"700", b"900"}


async def test_an_expression_that_the_server_cannot_read_is_reported(broker: FakeBroker) -> None:
    subscriptions = {"orders": Sql("amount LIKE 1")}
    async with SimpleConsumer(broker.endpoint, group="billing", subscriptions=subscriptions) as consumer:
        with pytest.raises(IllegalFilterError, match="'LIKE' stands at position 7"):
            await consumer.receive(wait=5)


async def test_several_topics_are_asked_at_once(broker: FakeBroker, producer: Producer) -> None:
    await broker.create_topic("refunds")
    async with SimpleConsumer(
        broker.endpoint, group="billing", subscriptions=["orders", "refunds"]
    ) as consumer:
        for topic in ("refunds", "orders", "refunds"):
            await producer.send(Message(topic, b"x"))
            begun = asyncio.get_running_loop().time()
            (message,) = await consumer.receive(wait=20)
            assert asyncio.get_running_loop().time() - begun < 5
            assert message.topic == topic
            await message.ack()


async def test_subscriptions_change_at_run_time(
    broker: FakeBroker, producer: Producer, consumer: SimpleConsumer
) -> None:
    await broker.create_topic("refunds")
    await consumer.subscribe("refunds")
    await consumer.unsubscribe("orders")
    await producer.send(Message("refunds", b"x"))
    (message,) = await consumer.receive(wait=5)
    assert message.topic == "refunds"
    await message.ack()
    (client,) = [each for each in broker.clients() if each.group == "billing"]
    assert client.topics == ("refunds",)
    with pytest.raises(UsageError, match="is not subscribed"):
        await consumer.unsubscribe("orders")
    with broker.faults.refuse("QueryRoute", "FORBIDDEN"), pytest.raises(PermissionDeniedError):
        await consumer.subscribe("unknown")
    (client,) = [each for each in broker.clients() if each.group == "billing"]
    assert client.topics == ("refunds",)
    await consumer.unsubscribe("refunds")
    with pytest.raises(UsageError, match="nothing is subscribed"):
        await consumer.receive()


async def test_subscriptions_that_change_at_a_time_are_all_kept(
    broker: FakeBroker, producer: Producer, consumer: SimpleConsumer
) -> None:
    topics = {"refunds", "returns", "reviews"}
    for topic in topics:
        await broker.create_topic(topic)
    await asyncio.gather(consumer.unsubscribe("orders"), *map(consumer.subscribe, topics))
    for topic in topics:
        await producer.send(Message(topic, b"x"))
    came: set[str] = set()
    async with asyncio.timeout(10):
        while came < topics:
            came.update(message.topic for message in await consumer.receive(wait=5))
    with pytest.raises(UsageError, match="is not subscribed"):
        await consumer.unsubscribe("orders")


async def test_the_loop_over_messages_continues_over_batches(
    broker: FakeBroker, producer: Producer, consumer: SimpleConsumer
) -> None:
    await producer.send_many([Message("orders", str(number).encode()) for number in range(40)])
    bodies = set()
    async for message in consumer.messages(max_messages=8, wait=5):
        async with message:
            bodies.add(message.body)
        if len(bodies) == 40:
            break
    assert len(bodies) == 40
    assert broker.leases() == ()


async def test_leaving_the_loop_gives_back_what_was_not_returned(still: FakeBroker) -> None:
    async with (
        Producer(still.endpoint, topics=["orders"]) as producer,
        simple_consumer(still.endpoint) as consumer,
    ):
        await producer.send_many([Message("orders", b"x", message_group=None) for _ in range(8)])
        loop = consumer.messages(wait=5)
        message = await anext(loop)
        await loop.aclose()  # type: ignore[attr-defined]
        assert not message.is_settled
        held = [lease.message_id for lease in still.leases()]
        await message.ack()
        assert held in ([message.message_id], held[:1])


async def test_after_the_end_everything_says_closed(broker: FakeBroker, producer: Producer) -> None:
    async with simple_consumer(broker.endpoint) as consumer:
        await producer.send(Message("orders", b"x"))
        (message,) = await consumer.receive(wait=5)
    assert [client.group for client in broker.clients()] == [""]
    with pytest.raises(ClosedError):
        await consumer.receive()
    with pytest.raises(ClosedError):
        await message.ack()


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"max_messages": 0}, "max_messages must be at least 1"),
        ({"invisible": 0}, "invisible must be from 0 to 43200"),
        ({"invisible": 43_201}, "invisible must be from 0 to 43200"),
        ({"wait": -1}, "wait must be a number of seconds from 0"),
    ],
)
async def test_a_bad_argument_is_refused(
    consumer: SimpleConsumer, facts: dict[str, float], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        await consumer.receive(**facts)  # type: ignore[arg-type]


@pytest.mark.parametrize("group", ["", "a b", "g" * 121])
def test_a_bad_group_is_refused(group: str) -> None:
    with pytest.raises(ValueError, match="group"):
        SimpleConsumer("localhost:8081", group=group, subscriptions=["orders"])


async def test_an_extension_out_of_range_is_refused(producer: Producer, consumer: SimpleConsumer) -> None:
    await producer.send(Message("orders", b"x"))
    (message,) = await consumer.receive(wait=5)
    for bad in (-1, 43_201):
        with pytest.raises(ValueError, match="a lease lasts from 0 to 43200 seconds"):
            await message.extend(bad)
    await message.ack()
