"""Queues whose addresses change, and several queues behind one address, as behind a proxy."""

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


SHARE = 8
"""Messages that each of two queues may have in flight."""
WAVE = 48


class Watching(GrpcioTransport):
    """The ordinary transport; it notes what polls request."""

    def __init__(self) -> None:
        super().__init__()
        self.requested: dict[str, int] = {}
        """The most messages that a poll of a broker's queue has requested."""
        self.hosts: list[str] = []
        """The host of each poll."""

    async def server_stream(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take
    ) -> None:
        request = pb.ReceiveMessageRequest.FromString(payload)
        broker = request.message_queue.broker.name
        self.requested[broker] = max(request.batch_size, self.requested.get(broker, 0))
        self.hosts.append(endpoint.addresses[0].host)
        await super().server_stream(endpoint, path, payload, metadata, timeout, take)


class Proxy(Watching):
    """Assigns the broker's queue twice, the second time as one of another broker.

    The messages of both come from the one broker, so an ack call carries some of each."""

    async def unary(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> bytes:
        answer = await super().unary(endpoint, path, payload, metadata, timeout)
        if not path.endswith("/QueryAssignment"):
            return answer
        assigned = pb.QueryAssignmentResponse.FromString(answer)
        other = assigned.assignments.add()
        other.CopyFrom(assigned.assignments[0])
        other.message_queue.broker.name = "broker-b"
        return assigned.SerializeToString()


async def test_an_ack_call_with_messages_of_several_queues_frees_the_room_of_each() -> None:
    proxy, gate = Proxy(), asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        await gate.wait()

    async with FakeBroker(clock="manual") as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_group("billing")
        consumer = push_consumer(
            broker.endpoint,
            handler=handle,
            concurrency=WAVE,
            cache=CacheLimits(messages=2 * SHARE),
            transport=proxy,
            clock=broker.clock,
        )
        async with Producer(broker.endpoint) as producer, consumer:
            for wave in range(1, 4):
                gate.clear()
                await producer.send_many([Message("orders", b"%d" % number) for number in range(WAVE)])
                await until(lambda: consumer.messages_in_flight == 2 * SHARE)
                proxy.requested.clear()
                gate.set()
                await until(lambda wave=wave: consumer.statistics.acknowledged == wave * WAVE)  # type: ignore[misc]
                await until(lambda: proxy.requested.keys() == {"broker-a", "broker-b"})
                assert max(proxy.requested.values()) <= SHARE


async def test_a_queue_that_has_moved_is_polled_at_its_new_address() -> None:
    transport = Watching()
    moved = False
    handled: list[bytes] = []

    async def handle(message: ReceivedMessage) -> None:
        handled.append(message.body)

    async with FakeBroker() as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_group("billing")
        port = broker.endpoint.rpartition(":")[2]
        consumer = push_consumer(
            broker.endpoint,
            handler=handle,
            transport=transport,
            address_map=lambda _: f"{'localhost' if moved else '127.0.0.1'}:{port}",
        )
        async with Producer(broker.endpoint) as producer, consumer:
            await until(lambda: bool(transport.hosts))
            assert set(transport.hosts) == {"127.0.0.1"}
            moved = True
            await consumer._running.receiving._scan("orders")
            await producer.send(Message("orders", b"ends the poll at the old address"))
            await until(lambda: transport.hosts[-1] == "localhost")
            await producer.send(Message("orders", b"x"))
            await until(lambda: b"x" in handled)
            assert consumer.assigned_queues
