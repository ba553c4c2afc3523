"""Cancellation is safe at every point where a client waits for the network, tried one point after the other."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._transport.grpcio import GrpcioTransport
from aiorocketmq._transport.interface import DuplexStream, Metadata, Take
from aiorocketmq.config import Timeouts
from aiorocketmq.errors import LeaseLostError, UsageError
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.push_consumer import PushConsumer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq_fake import FakeBroker

from sdk.tests.clients import push_consumer, simple_consumer

MOST_POINTS = 60
"""More than any of these operations has."""


class Pointed(GrpcioTransport):
    """The ordinary transport, which cancels a task at one of the points where it is awaited."""

    def __init__(self) -> None:
        super().__init__()
        self._points = 0
        self._at = 0
        self._victim: asyncio.Task[object] | None = None

    def aim(self, victim: asyncio.Task[object], at: int) -> None:
        """Cancel `victim` at point number `at` from now."""
        self._points, self._at, self._victim = 0, at, victim

    @property
    def has_struck(self) -> bool:
        return self._victim is None

    async def point(self) -> None:
        """One point: a call begins or completes."""
        if self.strike():
            await asyncio.sleep(0)

    def strike(self) -> bool:
        """One point: cancel the victim if it is the one, at its next wait."""
        self._points += 1
        if self._victim is None or self._points != self._at:
            return False
        self._victim.cancel()
        self._victim = None
        return True

    async def unary(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> bytes:
        await self.point()
        answer = await super().unary(endpoint, path, payload, metadata, timeout)
        await self.point()
        return answer

    async def server_stream(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take
    ) -> None:
        await self.point()

        def taken(answer: bytes) -> None:
            self.strike()  # while the stream is open
            take(answer)

        await super().server_stream(endpoint, path, payload, metadata, timeout, taken)

    async def duplex(self, endpoint: Endpoint, path: str, metadata: Metadata) -> DuplexStream:
        await self.point()
        return PointedStream(self, await super().duplex(endpoint, path, metadata))


class PointedStream:
    """A stream with points."""

    def __init__(self, transport: Pointed, stream: DuplexStream) -> None:
        self._transport = transport
        self._stream = stream

    async def write(self, payload: bytes) -> None:
        await self._transport.point()
        await self._stream.write(payload)

    async def read(self) -> bytes | None:
        payload = await self._stream.read()
        await self._transport.point()
        return payload

    async def close(self) -> None:
        await self._stream.close()


@pytest.fixture
async def still() -> AsyncIterator[FakeBroker]:
    """A broker with a paused clock and three messages."""
    async with FakeBroker(profile="apache-5.5", clock="manual") as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_group("billing")
        async with Producer(broker.endpoint) as producer:
            for body in (b"1", b"2", b"3"):
                await producer.send(Message("orders", body))
        yield broker


async def struck(transport: Pointed, operation: Awaitable[object], at: int) -> tuple[bool, object]:
    """Run an operation and cancel it at a point; whether that was reached, and what became of the operation."""

    async def run() -> object:
        own = asyncio.current_task()
        assert own is not None
        transport.aim(own, at)
        return await operation

    (outcome,) = await asyncio.gather(asyncio.create_task(run()), return_exceptions=True)
    reached = transport.has_struck
    assert reached or not isinstance(outcome, BaseException), f"it failed by itself: {outcome!r}"
    return reached, outcome


def nothing_is_left(broker: FakeBroker) -> None:
    names = [task.get_name() for task in asyncio.all_tasks() if not task.done()]
    assert [name for name in names if name.startswith(("push", "simple"))] == []
    assert broker.clients() == ()


async def all_comes_again(broker: FakeBroker, but: set[bytes]) -> None:
    """What was not acked is delivered once its lease has expired: nothing is lost and nothing is copied."""
    await broker.clock.advance(seconds=120)
    bodies: list[bytes] = []
    async with simple_consumer(broker.endpoint) as consumer:
        while len(bodies) + len(but) < 3:
            messages = await consumer.receive()
            bodies.extend(message.body for message in messages)
            await consumer.ack(messages)
    assert sorted([*bodies, *but]) == [b"1", b"2", b"3"]


def simple(broker: FakeBroker, transport: Pointed) -> SimpleConsumer:
    return simple_consumer(
        broker.endpoint,
        transport=transport,
        timeouts=Timeouts(stop=2),
    )


async def ignore(message: ReceivedMessage) -> None:
    return None


def push(
    broker: FakeBroker, transport: Pointed, handler: Callable[[ReceivedMessage], Awaitable[None]]
) -> PushConsumer:
    return push_consumer(
        broker.endpoint,
        handler=handler,
        shutdown_timeout=1,
        transport=transport,
        timeouts=Timeouts(stop=2),
    )


@pytest.mark.parametrize("kind", ["simple", "push"])
async def test_a_start_cancelled_at_any_point_leaves_nothing_behind(still: FakeBroker, kind: str) -> None:
    for at in range(1, MOST_POINTS):
        transport = Pointed()
        consumer = simple(still, transport) if kind == "simple" else push(still, transport, ignore)
        reached, outcome = await struck(transport, consumer.__aenter__(), at)
        if not isinstance(outcome, asyncio.CancelledError):
            await consumer.__aexit__(None, None, None)
        assert transport._channels == {}
        # A server whose answer to our settings was not read yet gets no termination request: it expires the client.
        await still.clock.advance(seconds=300)
        nothing_is_left(still)
        if not reached:
            break
    assert 4 <= at < MOST_POINTS


async def test_a_receive_cancelled_at_any_point_loses_nothing(still: FakeBroker) -> None:
    for at in range(1, MOST_POINTS):
        transport = Pointed()
        async with simple(still, transport) as consumer:
            reached, outcome = await struck(transport, consumer.receive(), at)
            assert isinstance(outcome, asyncio.CancelledError) == reached
        nothing_is_left(still)
        await still.clock.advance(seconds=60)
        if not reached:
            break
    assert 3 <= at < MOST_POINTS
    await all_comes_again(still, but=set())


async def test_an_ack_cancelled_at_any_point_may_be_repeated(still: FakeBroker) -> None:
    acked: set[bytes] = set()
    transport = Pointed()
    async with simple(still, transport) as consumer:
        messages = await consumer.receive()
        for at, message in enumerate(messages, start=1):
            reached, outcome = await struck(transport, message.ack(), at)
            assert reached == (at <= 2)
            assert isinstance(outcome, asyncio.CancelledError) == reached
            await message.ack()
            acked.add(message.body)
            assert message.is_settled
    nothing_is_left(still)
    assert still.leases("billing") == ()
    await all_comes_again(still, but=acked)


async def test_a_change_cancelled_at_any_point_leaves_a_message_that_can_be_acked(still: FakeBroker) -> None:
    transport = Pointed()
    acked: set[bytes] = set()
    async with simple(still, transport) as consumer:
        for at, message in enumerate(await consumer.receive(), start=1):
            reached, outcome = await struck(transport, message.extend(40), at)
            assert isinstance(outcome, asyncio.CancelledError) == reached
            if reached:
                with pytest.raises(UsageError, match="another one could duplicate"):
                    await message.extend(40)
            try:
                await message.ack()
            except LeaseLostError:  # the change took effect, and its new handle never came
                continue
            acked.add(message.body)
    nothing_is_left(still)
    await all_comes_again(still, but=acked)


@pytest.mark.parametrize("kind", ["simple", "push"])
async def test_a_stop_cancelled_at_any_point_stops_all_the_same(still: FakeBroker, kind: str) -> None:
    for at in range(1, MOST_POINTS):
        transport = Pointed()
        consumer = simple(still, transport) if kind == "simple" else push(still, transport, ignore)
        await consumer.__aenter__()
        reached, _ = await struck(transport, consumer.__aexit__(None, None, None), at)
        nothing_is_left(still)
        assert transport._channels == {}
        if not reached:
            break
    assert 2 <= at < MOST_POINTS


async def test_a_push_consumer_cancelled_at_any_point_has_acked_a_message_or_gives_it_back(
    still: FakeBroker,
) -> None:
    handled: set[bytes] = set()

    async def handle(message: ReceivedMessage) -> None:
        handled.add(message.body)
        if len(handled) == 3:
            done.set()

    for at in range(1, MOST_POINTS):
        done = asyncio.Event()
        transport = Pointed()

        async def work(transport: Pointed = transport, done: asyncio.Event = done) -> None:
            async with push(still, transport, handle):
                await done.wait()

        reached, _ = await struck(transport, work(), at)
        nothing_is_left(still)
        await still.clock.advance(seconds=60)
        if not reached or len(handled) == 3:
            break
    assert at < MOST_POINTS
    assert handled == {b"1", b"2", b"3"}


async def test_clients_that_come_and_go_leave_no_task_no_line_and_no_object(still: FakeBroker) -> None:
    before = clients()  # that other tests have left
    for _ in range(3):
        first, second = Pointed(), Pointed()
        async with push(still, first, ignore), simple(still, second):
            pass
        nothing_is_left(still)
        assert (first._channels, second._channels) == ({}, {})
    assert clients() <= before


def clients() -> set[PushConsumer | SimpleConsumer]:
    gc.collect()
    return {each for each in gc.get_objects() if isinstance(each, (PushConsumer, SimpleConsumer))}
