"""What one answer may bring in: no more messages and bytes than requested, and no body that stalls the event loop."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import zstandard
from aiorocketmq._core.endpoint import Endpoint, parse_endpoint
from aiorocketmq._transport.grpcio import GrpcioTransport
from aiorocketmq._transport.interface import Metadata, Take
from aiorocketmq.config import Compression
from aiorocketmq.connection import Connection
from aiorocketmq.errors import UsageError
from aiorocketmq.message import Message
from aiorocketmq.producer import Producer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker

from sdk.tests.clients import simple_consumer

MIB = 1024 * 1024
LARGE = b"the same again and " * 10_000


class Talkative:
    """A server that answers every call with messages of one body, and does not end before its caller does."""

    MOST = 3000
    """Messages after which it has shown what it was to show."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.body = b"x"
        self.is_packed = False
        self.left = asyncio.Event()
        """Set when a caller has left a call."""

    async def many(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        try:
            for number in range(self.MOST):
                answer = pb.ReceiveMessageResponse(
                    message=pb.Message(topic=pb.Resource(name="orders"), body=self.body)
                )
                system = answer.message.system_properties
                system.message_id, system.receipt_handle = f"m{number}", f"h{number}"
                system.body_encoding = pb.Encoding.GZIP if self.is_packed else pb.Encoding.IDENTITY
                yield answer.SerializeToString()
        finally:
            self.left.set()


@pytest.fixture
async def talkative() -> AsyncIterator[Talkative]:
    started = Talkative()
    server = grpc.aio.server()
    handler: Any = grpc.unary_stream_rpc_method_handler(started.many)  # Any: bytes pass as they are
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                "apache.rocketmq.v2.MessagingService", {"ReceiveMessage": handler}
            ),
        )
    )
    started.endpoint = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    yield started
    await server.stop(None)


class Diverted(GrpcioTransport):
    """A network whose polls end at another server."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(None)
        self._endpoint = parse_endpoint(endpoint)

    async def server_stream(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take
    ) -> None:
        await super().server_stream(self._endpoint, path, payload, metadata, timeout, take)


@pytest.fixture
async def flooded(broker: FakeBroker, talkative: Talkative) -> AsyncIterator[SimpleConsumer]:
    """A consumer whose polls the talkative server answers."""
    network = Diverted(talkative.endpoint)
    async with simple_consumer(broker.endpoint, transport=network) as consumer:
        yield consumer


async def test_an_endless_answer_ends_at_the_messages_asked_for(
    broker: FakeBroker, talkative: Talkative, flooded: SimpleConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        talkative.left.clear()
        messages = await flooded.receive(max_messages=8, invisible=30, wait=5)
        assert [message.message_id for message in messages] == [f"m{number}" for number in range(8)]
        await asyncio.wait_for(talkative.left.wait(), 10)
    (warning,) = [each.getMessage() for each in caplog.records if "that were requested" in each.getMessage()]
    assert warning.startswith(
        f"{broker.endpoint} answers ReceiveMessage of topic 'orders' with more than the 8 "
    )


async def test_an_endless_answer_of_large_bodies_ends_at_its_bytes(
    talkative: Talkative, flooded: SimpleConsumer
) -> None:
    talkative.body = bytes(7 * MIB)  # more than servers store by default, so that one is enough for one
    assert len(await flooded.receive(max_messages=1, invisible=30, wait=5)) == 1
    assert len(await flooded.receive(max_messages=3, invisible=30, wait=5)) == 2


@pytest.fixture
def packed(talkative: Talkative) -> None:
    talkative.body, talkative.is_packed = gzip.compress(LARGE), True


async def test_large_bodies_are_decompressed_off_the_event_loop(
    broker: FakeBroker, talkative: Talkative, packed: None, executor: Any
) -> None:
    async with (
        Connection(broker.endpoint, executor=executor, transport=Diverted(talkative.endpoint)) as rocketmq,
        simple_consumer(rocketmq) as consumer,
    ):
        poll = asyncio.create_task(consumer.receive(max_messages=3, invisible=30, wait=5))
        await asyncio.wait_for(executor.is_busy.wait(), 10)  # the loop turns although the body is not done
        assert not poll.done()
        executor.go_on.set()
        messages = await poll
    assert [(message.body, message.corruption) for message in messages] == [(LARGE, None)] * 3
    assert executor.given == 3


async def test_without_an_executor_the_loops_own_threads_decompress(
    talkative: Talkative, packed: None, flooded: SimpleConsumer
) -> None:
    messages = await flooded.receive(max_messages=3, invisible=30, wait=5)
    assert [message.body for message in messages] == [LARGE] * 3


async def test_small_bodies_are_decompressed_at_once(
    broker: FakeBroker, talkative: Talkative, executor: Any
) -> None:
    talkative.body, talkative.is_packed = gzip.compress(LARGE[:1000]), True
    async with simple_consumer(
        broker.endpoint,
        executor=executor,
        transport=Diverted(talkative.endpoint),
    ) as consumer:
        messages = await consumer.receive(max_messages=2, invisible=30, wait=5)
    assert [message.body for message in messages] == [LARGE[:1000]] * 2
    assert executor.given == 0


@pytest.mark.parametrize("cancels", [False, True], ids=["before", "meanwhile"])
async def test_an_executor_that_was_shut_down_is_a_usage_error(
    broker: FakeBroker, talkative: Talkative, packed: None, executor: Any, cancels: bool
) -> None:
    async with simple_consumer(
        broker.endpoint,
        executor=executor,
        transport=Diverted(talkative.endpoint),
    ) as consumer:
        if cancels:
            executor.submit(bool)  # the only thread is taken, so that the next work waits
            await executor.is_busy.wait()
            executor.was_given.clear()
        else:
            executor.shutdown()
        poll = asyncio.create_task(consumer.receive(max_messages=3, invisible=30, wait=5))
        if cancels:
            await asyncio.wait_for(executor.was_given.wait(), 10)
            executor.shutdown(wait=False, cancel_futures=True)
        with pytest.raises(UsageError, match="executor cannot decompress"):
            await poll


async def test_a_cancelled_receive_does_not_wait_for_a_body(
    broker: FakeBroker, talkative: Talkative, packed: None, executor: Any
) -> None:
    async with simple_consumer(
        broker.endpoint,
        executor=executor,
        transport=Diverted(talkative.endpoint),
    ) as consumer:
        poll = asyncio.create_task(consumer.receive(max_messages=3, invisible=30, wait=5))
        await asyncio.wait_for(executor.is_busy.wait(), 10)
        poll.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(poll, 10)


async def test_a_body_beyond_the_limit_arrives_as_it_came(broker: FakeBroker, talkative: Talkative) -> None:
    stream = zstandard.ZstdCompressor().compressobj()
    talkative.body = stream.compress(bytes(3 * MIB)) + stream.flush()
    talkative.is_packed = True
    async with simple_consumer(
        broker.endpoint,
        max_decompressed_body=2 * MIB,
        transport=Diverted(talkative.endpoint),
    ) as consumer:
        (message,) = await consumer.receive(max_messages=1, invisible=30, wait=5)
    assert message.body == talkative.body
    assert f"more than {2 * MIB} bytes" in str(message.corruption)


@pytest.mark.parametrize("most", [0, -1])
def test_the_limit_is_checked_when_it_is_written(most: int) -> None:
    with pytest.raises(ValueError, match="max_decompressed_body must be bytes from 1"):
        Connection("localhost:8081", max_decompressed_body=most)


async def test_the_limit_of_an_answer_counts_decompressed_bodies(broker: FakeBroker) -> None:
    """Three bodies of 7 MiB that travel as some KB: two reach the limit of 12 MiB, the third is redelivered."""
    async with Producer(broker.endpoint, compression=Compression()) as producer:
        for _ in range(3):
            await producer.send(Message("orders", bytes(7 * 1024 * 1024)))
    async with simple_consumer(broker.endpoint) as consumer:
        first = await consumer.receive(max_messages=3, invisible=10, wait=1)
        assert [len(message.body) for message in first] == [7 * 1024 * 1024] * 2
        await consumer.ack(first)
        broker.clock.jump(10)  # the lease of the third
        second = await consumer.receive(max_messages=3, wait=20)
        assert [message.attempt for message in second] == [2]
