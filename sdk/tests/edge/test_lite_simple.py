"""Simple consumers of lite topics."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiorocketmq.errors import UsageError
from aiorocketmq.message import Message
from aiorocketmq.producer import Producer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq_fake import FakeBroker


@pytest.fixture
async def lite() -> AsyncIterator[FakeBroker]:
    async with FakeBroker(clock="manual") as broker:
        await broker.create_topic("sessions", type="LITE", queues=1)
        await broker.create_group("chat", lite_topic="sessions")
        yield broker


async def test_a_simple_consumer_receives_from_its_lite_topics_and_no_others(lite: FakeBroker) -> None:
    async with (
        Producer(lite.endpoint) as producer,
        SimpleConsumer(
            lite.endpoint, group="chat", subscriptions=["sessions"], lite_topics=["ann"]
        ) as consumer,
    ):
        for name in ("ann", "bob", "carol"):
            await producer.send(Message("sessions", name.encode(), lite_topic=name))
        await consumer.add_lite_topics("bob")
        assert consumer.lite_topics == {"ann", "bob"}
        seen: list[bytes] = []
        async with asyncio.timeout(10):
            while len(seen) < 2:
                messages = await consumer.receive()
                await consumer.ack(messages)
                seen.extend(message.body for message in messages)
        assert sorted(seen) == [b"ann", b"bob"]
        await consumer.remove_lite_topics("ann")
        assert consumer.lite_topics == {"bob"}


async def test_lite_topics_need_a_consumer_of_them(broker: FakeBroker) -> None:
    with pytest.raises(ValueError, match="one topic, their parent"):
        SimpleConsumer(broker.endpoint, group="chat", subscriptions=["a", "b"], lite_topics=[])
    async with SimpleConsumer(broker.endpoint, group="billing", subscriptions=["orders"]) as plain:
        assert plain.lite_topics == frozenset()
        with pytest.raises(UsageError, match="give lite_topics="):
            await plain.add_lite_topics("x")
