"""Simple consumers of lite topics."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from aiorocketmq._consume.lite_topics import _fill_start
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._transport.grpcio import GrpcioTransport
from aiorocketmq._transport.interface import Metadata
from aiorocketmq.errors import UsageError
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker

from sdk.tests.clients import simple_consumer


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
        bodies: list[bytes] = []
        async with asyncio.timeout(10):
            while len(bodies) < 2:
                messages = await consumer.receive()
                await consumer.ack(messages)
                bodies.extend(message.body for message in messages)
        assert sorted(bodies) == [b"ann", b"bob"]
        await consumer.remove_lite_topics("ann")
        assert consumer.lite_topics == {"bob"}


class Reading(GrpcioTransport):
    """Notes which lite topic each settling call names."""

    def __init__(self) -> None:
        super().__init__(None)
        self.named: list[str | None] = []

    async def unary(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> bytes:
        settling: list[Any] = []  # Any: messages of a generated module
        if path.endswith("/AckMessage"):
            settling.extend(pb.AckMessageRequest.FromString(payload).entries)
        elif path.endswith("/ChangeInvisibleDuration"):
            settling.append(pb.ChangeInvisibleDurationRequest.FromString(payload))
        self.named.extend(each.lite_topic if each.HasField("lite_topic") else None for each in settling)
        return await super().unary(endpoint, path, payload, metadata, timeout)


@pytest.mark.parametrize(("group", "lite_topics", "named"), [("chat", ["ann"], "ann"), ("plain", None, None)])
async def test_only_a_lite_consumer_names_the_lite_topic_when_it_settles(
    lite: FakeBroker, group: str, lite_topics: list[str] | None, named: str | None
) -> None:
    await lite.create_group("plain")
    network = Reading()
    async with (
        Producer(lite.endpoint) as producer,
        SimpleConsumer(
            lite.endpoint,
            group=group,
            subscriptions=["sessions"],
            lite_topics=lite_topics,
            transport=network,
        ) as consumer,
    ):
        for _ in range(2):
            await producer.send(Message("sessions", b"x", lite_topic="ann"))
        messages: list[ReceivedMessage] = []
        async with asyncio.timeout(10):
            while len(messages) < 2:
                messages += await consumer.receive()
        assert {message.lite_topic for message in messages} == {"ann"}
        await messages[0].extend(30)
        await consumer.ack(messages)
    assert network.named == [named] * 3
    assert not lite.leases(group)


async def test_lite_topics_need_a_consumer_of_them(broker: FakeBroker) -> None:
    with pytest.raises(ValueError, match="one topic, their parent"):
        SimpleConsumer(broker.endpoint, group="chat", subscriptions=["a", "b"], lite_topics=[])
    async with simple_consumer(broker.endpoint) as plain:
        assert plain.lite_topics == frozenset()
        with pytest.raises(UsageError, match="give lite_topics="):
            await plain.add_lite_topics("x")


@pytest.mark.parametrize(
    ("moment", "milliseconds"),
    [
        (datetime(2026, 1, 1, 0, 0, 0, 1_000, tzinfo=UTC), 1_767_225_600_001),
        (datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC), 0),
        (datetime(1, 1, 1, tzinfo=UTC), 0),
    ],
)
def test_a_start_before_1970_is_the_beginning(moment: datetime, milliseconds: int) -> None:
    option = pb.OffsetOption()
    _fill_start(option, moment)
    assert option.timestamp == milliseconds
