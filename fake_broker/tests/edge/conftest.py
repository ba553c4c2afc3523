"""Fixtures: fake brokers, and a bare gRPC client that decides nothing by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS
from aiorocketmq_fake import FakeBroker
from grpc import aio

# No test waits so long; one that hangs ends with an error that names the call.
DEADLINE = 10.0


@dataclass
class Frames:
    """The parts of a receive's or pull's answer, in the order in which they came."""

    kinds: list[str] = field(default_factory=list)
    status: Any = None
    messages: list[Any] = field(default_factory=list)
    timestamp: Any = None
    next_offset: int | None = None

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    @property
    def code(self) -> int:
        return int(self.status.code)


class Raw:
    """A client of one id: every method is one call, sent as it is."""

    def __init__(
        self,
        endpoint: str,
        client_id: str,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        **headers: str,
    ) -> None:
        self.client_id = client_id
        metadata = {"x-mq-client-id": client_id, "x-mq-language": "PYTHON", "x-mq-client-version": "5.0.8"}
        metadata.update({f"x-mq-{name.replace('_', '-')}": value for name, value in headers.items()})
        self.streams: list[Any] = []
        self.metadata = tuple((name, value) for name, value in metadata.items() if value)
        self.channel = (
            aio.insecure_channel(endpoint)
            if credentials is None
            else aio.secure_channel(
                endpoint, credentials, options=(("grpc.ssl_target_name_override", "localhost"),)
            )
        )

    async def call(self, name: str, request: Any, *, timeout: float | None = DEADLINE) -> Any:
        method = METHODS[name]
        stub: Any = self.channel.unary_unary(
            method.path,
            request_serializer=lambda value: value if isinstance(value, bytes) else value.SerializeToString(),
            response_deserializer=method.response.FromString,
        )
        return await stub(request, timeout=timeout, metadata=self.metadata)

    def stream(self, name: str, request: Any, *, timeout: float | None = DEADLINE) -> Any:
        method = METHODS[name]
        stub: Any = self.channel.unary_stream(
            method.path,
            request_serializer=lambda value: value if isinstance(value, bytes) else value.SerializeToString(),
            response_deserializer=method.response.FromString,
        )
        return stub(request, timeout=timeout, metadata=self.metadata)

    def telemetry(self) -> Any:
        method = METHODS["Telemetry"]
        stub: Any = self.channel.stream_stream(
            method.path,
            request_serializer=lambda value: value if isinstance(value, bytes) else value.SerializeToString(),
            response_deserializer=method.response.FromString,
        )
        stream = stub(metadata=self.metadata)
        # Older grpcio cancels a call without references.
        self.streams.append(stream)
        return stream

    async def settings(self, settings: Any) -> tuple[Any, Any]:
        """Open a telemetry stream, send settings, and return the stream with the first answer."""
        stream = self.telemetry()
        await stream.write(pb.TelemetryCommand(settings=settings))
        return stream, await asyncio.wait_for(stream.read(), DEADLINE)

    async def publish(self, *topics: str) -> tuple[Any, Any]:
        publishing = pb.Publishing(topics=[pb.Resource(name=topic) for topic in topics])
        return await self.settings(pb.Settings(client_type=pb.ClientType.PRODUCER, publishing=publishing))

    async def subscribe(self, group: str, topic: str) -> tuple[Any, Any]:
        subscription = pb.Subscription(
            group=pb.Resource(name=group),
            subscriptions=[
                pb.SubscriptionEntry(
                    topic=pb.Resource(name=topic),
                    expression=pb.FilterExpression(type=pb.FilterType.TAG, expression="*"),
                )
            ],
        )
        return await self.settings(
            pb.Settings(client_type=pb.ClientType.SIMPLE_CONSUMER, subscription=subscription)
        )

    async def send(self, topic: str, *bodies: bytes, **system: Any) -> Any:
        return await self.call("SendMessage", send_request(topic, *bodies, **system))

    async def receive(
        self, group: str, topic: str, *, deadline: float | None = DEADLINE, **options: Any
    ) -> Frames:
        return await collect(
            self.stream("ReceiveMessage", receive_request(group, topic, **options), timeout=deadline)
        )

    async def ack(self, group: str, topic: str, *messages: Any) -> Any:
        entries = [
            pb.AckMessageEntry(
                message_id=message.system_properties.message_id,
                receipt_handle=message.system_properties.receipt_handle,
            )
            for message in messages
        ]
        request = pb.AckMessageRequest(
            group=pb.Resource(name=group), topic=pb.Resource(name=topic), entries=entries
        )
        return await self.call("AckMessage", request)


def send_request(topic: str, *bodies: bytes, **system: Any) -> Any:
    return pb.SendMessageRequest(
        messages=[
            pb.Message(
                topic=pb.Resource(name=topic),
                body=body,
                system_properties=pb.SystemProperties(
                    **{"message_id": f"id-{body[:20]!r}-{index}", **system}
                ),
            )
            for index, body in enumerate(bodies)
        ]
    )


def receive_request(
    group: str,
    topic: str,
    *,
    batch: int = 32,
    invisible: int = 30,
    wait: float | None = None,
    filter_: str = "*",
) -> Any:
    request = pb.ReceiveMessageRequest(
        group=pb.Resource(name=group),
        message_queue=pb.MessageQueue(topic=pb.Resource(name=topic), id=-1),
        filter_expression=pb.FilterExpression(type=pb.FilterType.TAG, expression=filter_),
        batch_size=batch,
    )
    request.invisible_duration.seconds = invisible
    if wait is not None:
        request.long_polling_timeout.FromMilliseconds(int(wait * 1000))
    return request


async def collect(stream: Any) -> Frames:
    frames = Frames()
    async for frame in stream:
        kind = frame.WhichOneof("content")
        frames.kinds.append(kind)
        if kind == "message":
            frames.messages.append(frame.message)
        elif kind == "delivery_timestamp":
            frames.timestamp = frame.delivery_timestamp
        elif kind == "next_offset":
            frames.next_offset = frame.next_offset
        else:
            frames.status = frame.status
    return frames


@pytest.fixture
async def running() -> AsyncIterator[Callable[..., Awaitable[FakeBroker]]]:
    """Start brokers with the keywords of `FakeBroker`; each has a topic `t` and a group `g`."""
    async with AsyncExitStack() as stack:

        async def start(**options: Any) -> FakeBroker:
            broker = await stack.enter_async_context(FakeBroker(**options))
            await broker.create_topic("t", queues=1)
            await broker.create_group("g")
            return broker

        yield start


@pytest.fixture
async def broker(running: Callable[..., Awaitable[FakeBroker]]) -> FakeBroker:
    """A broker with a manual clock."""
    return await running(clock="manual")


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., Raw]]:
    """Make bare clients: `connect(broker)`, or `connect(broker, "id", language="GO")`, or `connect("host:port")`."""
    clients: list[Raw] = []

    def make(where: FakeBroker | str, client_id: str = "raw-1", **options: Any) -> Raw:
        endpoint = where if isinstance(where, str) else where.endpoint
        clients.append(Raw(endpoint, client_id, **options))
        return clients[-1]

    yield make
    for client in clients:
        for stream in client.streams:
            stream.cancel()
        await client.channel.close()


@pytest.fixture
def client(broker: FakeBroker, connect: Callable[..., Raw]) -> Raw:
    """A bare client of the broker."""
    return connect(broker)


@pytest.fixture
async def consumer(broker: FakeBroker, connect: Callable[..., Raw]) -> Raw:
    """A bare client that has said that it consumes `t` in group `g`."""
    raw = connect(broker, "consumer-1")
    await raw.subscribe("g", "t")
    return raw


@pytest.fixture
def requests() -> Any:
    """Builders of requests, for tests that send them by themselves: `requests.send`, `.receive`, `.collect`."""

    class Requests:
        send = staticmethod(send_request)
        receive = staticmethod(receive_request)
        collect = staticmethod(collect)

    return Requests


@pytest.fixture
async def happened(broker: FakeBroker) -> AsyncIterator[Callable[[type], Awaitable[Any]]]:
    """Wait for the next event of a kind: `await happened(PollParked)`."""
    async with broker.events.subscribe() as stream:

        async def wait(kind: type) -> Any:
            async with asyncio.timeout(DEADLINE):
                async for event in stream:
                    if isinstance(event, kind):
                        return event
            raise AssertionError("the broker has ended")

        yield wait


@pytest.fixture
def until() -> Callable[[Callable[[], object]], Awaitable[None]]:
    """Run the loop until a condition without an event holds: `await until(lambda: broker.clock.parked)`."""

    async def wait(holds: Callable[[], object]) -> None:
        async with asyncio.timeout(DEADLINE):
            while not holds():  # noqa: ASYNC110  # there is no event to wait for
                await asyncio.sleep(0)

    return wait
