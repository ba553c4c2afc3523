"""A stop while the answer of a poll is arriving: its messages are leased already, and none may be forgotten."""

import asyncio
from typing import Any

import pytest
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._transport.grpcio import GrpcioTransport
from aiorocketmq._transport.interface import Metadata, Take
from aiorocketmq.config import Compression
from aiorocketmq.message import Message
from aiorocketmq.producer import Producer
from aiorocketmq.push_consumer import PushConsumer
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import LeaseChanged

from sdk.tests.clients import push_consumer


class Stalling(GrpcioTransport):
    """A network that stops in the middle of the first answer with messages, until it is let go."""

    def __init__(self) -> None:
        super().__init__(None)
        self.stalled = asyncio.Event()
        self.go_on = asyncio.Event()

    async def server_stream(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take
    ) -> None:
        frames: list[bytes] = []
        await super().server_stream(endpoint, path, payload, metadata, timeout, frames.append)
        for frame in frames:
            take(frame)
            if pb.ReceiveMessageResponse.FromString(frame).HasField("message") and not self.stalled.is_set():
                self.stalled.set()
                await self.go_on.wait()


@pytest.fixture
async def network(broker: FakeBroker, producer: Producer) -> Stalling:
    await broker.update_topic("orders", queues=1)
    for number in range(4):
        await producer.send(Message("orders", b"%d" % number))
    return Stalling()


async def test_an_answer_that_is_arriving_is_taken_and_given_back(
    broker: FakeBroker, network: Stalling, seen: Any, history: Any
) -> None:
    async with push_consumer(broker.endpoint, handler=seen, transport=network) as consumer:
        await asyncio.wait_for(network.stalled.wait(), 10)
        consumer.stop()
        network.go_on.set()

    assert [change.invisible for change in history.of(LeaseChanged)] == [0.0] * 4
    assert seen.bodies == []


async def test_an_answer_that_never_ends_does_not_hold_up_the_stop(
    broker: FakeBroker, network: Stalling, seen: Any, history: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiorocketmq._push.receiving.LAST_ANSWERS", 0.01)
    async with push_consumer(broker.endpoint, handler=seen, transport=network) as consumer:
        await asyncio.wait_for(network.stalled.wait(), 10)
        consumer.stop()

    assert [change.invisible for change in history.of(LeaseChanged)] == [0.0]


LARGE = b"the same again and " * 10_000


async def send_packed(endpoint: str, *bodies: bytes) -> None:
    async with Producer(endpoint, compression=Compression(threshold=1024)) as packing:
        for body in bodies:
            await packing.send(Message("orders", body))


async def test_a_body_that_is_being_decompressed_is_waited_for_and_given_back(
    broker: FakeBroker, seen: Any, history: Any, executor: Any
) -> None:
    await broker.update_topic("orders", queues=1)
    await send_packed(broker.endpoint, b"1", LARGE, b"3")
    async with push_consumer(broker.endpoint, handler=seen, executor=executor) as consumer:
        await asyncio.wait_for(executor.is_busy.wait(), 10)
        consumer.stop()
        executor.go_on.set()

    assert [change.invisible for change in history.of(LeaseChanged)] == [0.0] * 3
    assert seen.bodies == []


async def test_a_topic_dropped_while_bodies_are_decompressed_is_handled_whole(
    broker: FakeBroker, seen: Any, executor: Any
) -> None:
    await broker.update_topic("orders", queues=1)
    await broker.create_topic("refunds")
    await send_packed(broker.endpoint, b"1", LARGE, b"3")
    async with PushConsumer(
        broker.endpoint, group="billing", subscriptions=["orders", "refunds"], handler=seen, executor=executor
    ) as consumer:
        await asyncio.wait_for(executor.is_busy.wait(), 10)
        await consumer.unsubscribe("orders")
        executor.go_on.set()
        await seen.ends(3)

    assert sorted(seen.bodies) == sorted([b"1", LARGE, b"3"])


async def test_a_body_that_is_decompressed_too_slowly_is_left_to_its_lease(
    broker: FakeBroker,
    seen: Any,
    history: Any,
    executor: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It, and what came behind it, is never handed over as it travelled."""
    monkeypatch.setattr("aiorocketmq._push.receiving.LAST_ANSWERS", 0.01)
    monkeypatch.setattr("aiorocketmq._consume.receive._LAST_BODIES", 0.01)
    await broker.update_topic("orders", queues=1)
    await send_packed(broker.endpoint, b"1", LARGE, b"3")
    async with push_consumer(broker.endpoint, handler=seen, executor=executor) as consumer:
        await asyncio.wait_for(executor.is_busy.wait(), 10)
        consumer.stop()

    assert [change.invisible for change in history.of(LeaseChanged)] == [0.0]
    assert seen.bodies == []
