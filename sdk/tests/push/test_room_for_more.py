"""A poll that waits for room is woken by all that makes room, also by the end of another poll that brought little."""

import asyncio
from functools import partial

from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._transport.grpcio import GrpcioTransport
from aiorocketmq._transport.interface import Metadata, Take
from aiorocketmq.config import CacheLimits
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker

from sdk.tests import waiting
from sdk.tests.clients import push_consumer

until = partial(waiting.until, within=30)


BACKLOG = 70


async def test_a_poll_beside_others_is_woken_when_they_end_with_little() -> None:
    """Room for three batches: two came, and the concurrent poll keeps the last third until it ends with six."""
    handled: list[str] = []
    gate, all_came, all_handled, done = asyncio.Event(), asyncio.Event(), asyncio.Event(), asyncio.Event()
    waiting = 0

    async def handle(message: ReceivedMessage) -> None:
        nonlocal waiting
        waiting += 1
        if waiting == BACKLOG:
            all_came.set()
        await gate.wait()
        handled.append(message.body.decode())
        if len(handled) == BACKLOG:
            all_handled.set()
        elif len(handled) > BACKLOG:
            done.set()

    async with FakeBroker() as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_group("billing")
        async with Producer(broker.endpoint) as producer:
            await producer.send_many([Message("orders", b"%d" % number) for number in range(BACKLOG)])
            # The third receive is concurrent with the first poll's second.
            broker.faults.delay("ReceiveMessage", 0.5, skip=2, times=1)
            consumer = push_consumer(
                broker.endpoint,
                handler=handle,
                concurrency=2 * BACKLOG,
                cache=CacheLimits(messages=96),
            )
            async with consumer, asyncio.timeout(30):
                await all_came.wait()
                gate.set()
                await all_handled.wait()
                await producer.send(Message("orders", b"last"))
                await done.wait()
    assert handled[-1] == "last"


class Holding(GrpcioTransport):
    """The ordinary transport; polls that help the first one of their queue, which are short ones, wait here."""

    def __init__(self) -> None:
        super().__init__()
        self.held = 0

    async def server_stream(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take
    ) -> None:
        if pb.ReceiveMessageRequest.FromString(payload).long_polling_timeout.seconds <= 5:
            self.held += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.held -= 1
        await super().server_stream(endpoint, path, payload, metadata, timeout, take)


async def test_no_more_than_three_polls_help_the_first_one_and_all_end_with_their_topic() -> None:
    transport, gate = Holding(), asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        await gate.wait()

    async with FakeBroker(clock="manual") as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_topic("refunds", queues=1)
        await broker.create_group("billing")
        async with Producer(broker.endpoint) as producer:
            await producer.send_many([Message("orders", b"%d" % number) for number in range(320)])
        consumer = push_consumer(
            broker.endpoint, handler=handle, concurrency=400, transport=transport, clock=broker.clock
        )
        async with consumer:
            await until(lambda: consumer.statistics.received == 320)
            assert transport.held == 3
            await consumer.subscribe("refunds")
            await consumer.unsubscribe("orders")
            await until(lambda: transport.held == 0)
            gate.set()
            await until(lambda: consumer.messages_in_flight == 0)


async def test_no_poll_helps_in_an_ordered_group() -> None:
    """Answers of several polls would mix what has an order."""
    transport = Holding()
    gate = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        await gate.wait()

    async with FakeBroker(clock="manual") as broker:
        await broker.create_topic("orders", type="FIFO", queues=1)
        await broker.create_group("billing", ordered=True)
        async with Producer(broker.endpoint) as producer:
            await producer.send_many(
                [Message("orders", b"%d" % number, message_group=f"{number}") for number in range(160)]
            )
        consumer = push_consumer(
            broker.endpoint, handler=handle, concurrency=200, transport=transport, clock=broker.clock
        )
        async with consumer, asyncio.timeout(30):
            while consumer.statistics.received < 160:  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.005)
            assert transport.held == 0
            gate.set()
