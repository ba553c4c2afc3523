"""One answer that cannot be decoded ends no client: its call is tried again, or raises one of our errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from aiorocketmq import (
    LeaseLostError,
    MalformedAnswerError,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    Retry,
    RocketMQError,
    SimpleConsumer,
    Timeouts,
)
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._transport.grpcio import GrpcioTransport
from aiorocketmq._transport.interface import DuplexStream, Metadata, Take
from aiorocketmq_fake import FakeBroker

from sdk.tests import waiting
from sdk.tests.clients import push_consumer, simple_consumer

GARBAGE = b"\xff\xfe\xfd"
PATIENCE = 20.0
until = partial(waiting.until, within=PATIENCE)


class Garbling(GrpcioTransport):
    """The ordinary transport; of the RPC `name`, the answers whose numbers are in `which` arrive as garbage."""

    def __init__(self, name: str, which: Sequence[int] = (0,)) -> None:
        super().__init__()
        self._name = name
        self._which = which
        self._answers = 0
        self.garbled = 0

    def damage(self, path: str, answer: bytes) -> bytes:
        if not path.endswith(f"/{self._name}"):
            return answer
        number, self._answers = self._answers, self._answers + 1
        if number not in self._which:
            return answer
        self.garbled += 1
        return GARBAGE

    async def unary(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> bytes:
        return self.damage(path, await super().unary(endpoint, path, payload, metadata, timeout))

    async def server_stream(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take
    ) -> None:
        def damaged(answer: bytes) -> Any:
            return take(self.damage(path, answer))

        await super().server_stream(endpoint, path, payload, metadata, timeout, damaged)

    async def duplex(self, endpoint: Endpoint, path: str, metadata: Metadata) -> DuplexStream:
        stream = await super().duplex(endpoint, path, metadata)
        read = stream.read

        async def damaged() -> bytes | None:
            answer = await read()
            return None if answer is None else self.damage(path, answer)

        stream.read = damaged  # type: ignore[method-assign]  # each stream is of this test's own
        return stream


class Seen:
    """A handler that keeps bodies, and lets one wait for them."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._news = asyncio.Event()

    async def __call__(self, message: ReceivedMessage) -> None:
        self.bodies.append(message.body)
        self._news.set()

    async def contains(self, *bodies: bytes) -> None:
        async with asyncio.timeout(PATIENCE):
            while not set(bodies) <= set(self.bodies):
                self._news.clear()
                await self._news.wait()


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    async with FakeBroker(clock="manual") as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_group("billing")
        yield broker


async def fill(broker: FakeBroker, count: int) -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    async with Producer(broker.endpoint) as producer:
        await producer.send_many([Message("orders", body) for body in bodies])
    return bodies


def push(broker: FakeBroker, seen: Seen, transport: Garbling) -> PushConsumer:
    return push_consumer(broker.endpoint, handler=seen, transport=transport)


@pytest.mark.parametrize("which", [(0,), (1,), (2, 3), (0, 1, 2, 3, 4, 5, 6)])
async def test_garbage_among_received_messages_stops_no_poll(broker: FakeBroker, which: Any) -> None:
    """Messages that were damaged on their way are redelivered when their lease expires."""
    handler, transport = Seen(), Garbling("ReceiveMessage", which)
    bodies = await fill(broker, 5)
    async with push(broker, handler, transport):
        await until(lambda: transport.garbled > 0 and not broker.leases("billing")[len(which) :])
        async with asyncio.timeout(PATIENCE):
            while set(handler.bodies) < set(bodies):
                await broker.clock.advance(seconds=31)
        await fill(broker, 6)
        await handler.contains(b"5")
    assert transport.garbled >= 1


async def test_in_order_no_message_overtakes_one_that_arrived_as_garbage(broker: FakeBroker) -> None:
    await broker.create_topic("fifo", type="FIFO", queues=1)
    await broker.create_group("ordering", ordered=True)
    bodies = [b"%d" % number for number in range(5)]
    async with Producer(broker.endpoint) as producer:
        await producer.send_many([Message("fifo", body, message_group="g") for body in bodies])
    transport = Garbling("ReceiveMessage", (3,))
    async with simple_consumer(
        broker.endpoint, group="ordering", subscriptions=["fifo"], transport=transport
    ) as consumer:
        received = [message.body for message in await consumer.receive(max_messages=5, wait=5)]
    assert (transport.garbled, received) == (1, bodies[: len(received)])
    assert 1 <= len(received) <= 3


async def test_garbage_as_answer_to_acks_leaves_nothing_in_flight(broker: FakeBroker) -> None:
    handler, transport = Seen(), Garbling("AckMessage", (0, 1, 2))
    bodies = await fill(broker, 9)
    async with push(broker, handler, transport) as consumer:
        await handler.contains(*bodies)
        await until(lambda: consumer.messages_in_flight == 0)
        assert consumer.statistics.acknowledged == 9
    assert broker.leases("billing") == ()
    assert transport.garbled >= 1


@pytest.mark.parametrize("rpc", ["Heartbeat", "QueryRoute", "QueryAssignment", "Telemetry"])
async def test_garbage_as_answer_to_regular_jobs_is_shown_and_over_soon(broker: FakeBroker, rpc: str) -> None:
    handler, transport = Seen(), Garbling(rpc, (0, 1) if rpc == "Heartbeat" else (1, 2))
    async with push(broker, handler, transport) as consumer:
        session = consumer._session
        assert consumer.is_ready
        if rpc == "Telemetry":
            await session.write_settings()
            await session.write_settings()
        else:
            session.network._asked_at.clear()  # or routes would be taken for fresh
            for job in [job for job in session._membership.jobs if job is not None]:
                job.plan(0.0)
        await until(lambda: transport.garbled == 2)
        await until(lambda: consumer.health().is_ready and not consumer.health().degraded)
        await fill(broker, 1)
        await handler.contains(b"0")


async def test_garbage_at_an_open_settings_stream_degrades_health(broker: FakeBroker) -> None:
    transport = Garbling("Telemetry", (1,))
    async with push(broker, Seen(), transport) as consumer:
        await consumer._session.write_settings()
        await until(lambda: bool(consumer.health().degraded))
        health = consumer.health()
        assert "could not be decoded" in health.degraded[f"the settings stream to {broker.endpoint}"]
        assert (health.connected, health.is_ready, health.is_degraded) == (False, False, True)
        await until(lambda: consumer.is_ready)


async def test_garbage_as_answer_to_a_send_is_tried_again(broker: FakeBroker) -> None:
    transport = Garbling("SendMessage")
    async with Producer(broker.endpoint, transport=transport) as producer:
        receipt = await producer.send(Message("orders", b"x"))
    assert receipt.attempts == 2
    assert {message.body for message in broker.messages("orders")} == {b"x"}


async def use(consumer: SimpleConsumer, rpc: str) -> None:
    (message,) = await consumer.receive(max_messages=1, wait=1)
    await (message.ack() if rpc == "AckMessage" else message.extend(60))


async def test_garbage_reaches_the_application_as_our_error(broker: FakeBroker) -> None:
    """Never protobuf's own: it has no request id, no endpoint, and says nothing of what may have happened."""
    for rpc in ("ReceiveMessage", "AckMessage", "ChangeInvisibleDuration"):
        await fill(broker, 1)
        transport = Garbling(rpc, range(1000))
        async with simple_consumer(broker.endpoint, transport=transport) as consumer:
            with pytest.raises(MalformedAnswerError) as caught:
                await use(consumer, rpc)
        assert caught.value.may_retry
        assert caught.value.may_have_taken_effect
        assert str(caught.value.endpoint) == broker.endpoint
        await broker.clock.advance(seconds=100)


async def test_garbage_stops_no_iteration(broker: FakeBroker) -> None:
    bodies = set(await fill(broker, 3))
    transport = Garbling("ReceiveMessage", (0, 1, 2, 3, 4, 5))
    async with simple_consumer(broker.endpoint, transport=transport) as consumer:
        await broker.clock.advance(seconds=1)

        async def pass_time() -> None:
            while True:
                await asyncio.sleep(0.05)
                await broker.clock.advance(seconds=40)

        passing = asyncio.create_task(pass_time())
        try:
            async with asyncio.timeout(PATIENCE):
                async for message in consumer.messages(wait=1):
                    with suppress(LeaseLostError):  # time passed between delivery and ack
                        await message.ack()
                        bodies.discard(message.body)
                    if not bodies:
                        break
        finally:
            passing.cancel()
    assert transport.garbled == 6


@pytest.mark.parametrize("rpc", ["PullMessage", "GetOffset", "QueryOffset", "UpdateOffset"])
async def test_garbage_stops_no_pull_consumer(broker: FakeBroker, rpc: str) -> None:
    bodies = await fill(broker, 3)
    # The first GetOffset is the question whether the server has pull calls at all.
    transport = Garbling(rpc, (1, 2) if rpc == "GetOffset" else (0, 1))
    async with PullConsumer(
        broker.endpoint, group="billing", transport=transport, auto_commit=0.01, wait=1.0
    ) as consumer:
        consumer.assign(await consumer.queues("orders"))
        received: list[bytes] = []
        async with asyncio.timeout(PATIENCE):
            while set(received) < set(bodies):
                received += [message.body for message in await anext(consumer)]
            await consumer.poll(0)
            await until(lambda: transport.garbled == 2)
    assert set(received) == set(bodies)


async def test_garbage_at_every_answer_of_the_start_is_one_sentence(broker: FakeBroker) -> None:
    for rpc in ("QueryRoute", "Telemetry"):
        with pytest.raises(MalformedAnswerError, match="could not be decoded") as caught:
            async with Producer(
                broker.endpoint,
                topics=["orders"],
                transport=Garbling(rpc, range(1000)),
                timeouts=Timeouts(start=0.5),
            ):
                pass
        assert broker.endpoint in str(caught.value)


class Raising(GrpcioTransport):
    """A transport with a bug: every call raises what no transport may raise."""

    def __init__(self) -> None:
        super().__init__()
        self.is_broken = False

    async def unary(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> bytes:
        if self.is_broken:
            raise LookupError("no such wire")
        return await super().unary(endpoint, path, payload, metadata, timeout)


async def test_whatever_a_transport_raises_becomes_our_error(broker: FakeBroker) -> None:
    transport = Raising()
    async with Producer(broker.endpoint, transport=transport, retry=Retry(attempts=1)) as producer:
        await producer.send(Message("orders", b"x"))
        transport.is_broken = True
        with pytest.raises(RocketMQError, match="LookupError: no such wire") as caught:
            await producer.send(Message("orders", b"y"))
        assert isinstance(caught.value.__cause__, BaseException)
        transport.is_broken = False
        await producer.send(Message("orders", b"z"))
