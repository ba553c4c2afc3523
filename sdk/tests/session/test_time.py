"""Clocks that jump and event loops that stall: nothing is sent twice, lost, or signed with a wrong date."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

import pytest
from aiorocketmq._core.headers import date_text
from aiorocketmq._transport.grpcio import GrpcioTransport
from aiorocketmq._transport.interface import Metadata
from aiorocketmq.config import Credentials, Timeouts
from aiorocketmq.connection import Connection, Environment
from aiorocketmq.errors import UnreachableError
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq_fake import FakeBroker

from sdk.tests.clients import push_consumer


class Overheard(GrpcioTransport):
    """The ordinary transport, which keeps the dates that calls are signed with."""

    def __init__(self) -> None:
        super().__init__()
        self.dates: list[str] = []
        self.reconnections = 0

    async def unary(
        self, endpoint: Any, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> bytes:
        self.dates.append(dict(metadata)["x-mq-date-time"])
        return await super().unary(endpoint, path, payload, metadata, timeout)

    async def reconnect(self, endpoint: Any, grace: float = 0.0) -> None:
        self.reconnections += 1
        await super().reconnect(endpoint, grace)


@pytest.mark.parametrize("jump", [-86_400.0, -1.0, 3_600.0, 10 * 365 * 86_400.0])
async def test_after_a_jump_of_the_wall_clock_ids_stay_unique_and_signatures_have_the_new_date(
    broker: FakeBroker, jump: float
) -> None:
    moved = 0.0
    transport = Overheard()
    async with (
        Connection(
            broker.endpoint,
            transport=transport,
            credentials=Credentials("key", "secret"),
            environment=Environment(wall=lambda: 1_800_000_000.0 + moved),
        ) as rocketmq,
        Producer(rocketmq) as producer,
    ):
        receipts = [await producer.send(Message("orders", b"x")) for _ in range(3)]
        moved = jump
        receipts += [await producer.send(Message("orders", b"x")) for _ in range(3)]
        assert transport.dates[-1] == date_text(1_800_000_000.0 + jump)
    assert len({receipt.message_id for receipt in receipts}) == 6


async def test_a_jump_of_the_wall_clock_ends_no_lease_in_a_push_consumers_hands(broker: FakeBroker) -> None:
    """Leases are counted by the clock of the event loop, which does not jump."""
    moved = 0.0
    handled: asyncio.Queue[int] = asyncio.Queue()

    async def handle(message: ReceivedMessage) -> None:
        nonlocal moved
        moved = 86_400.0
        await handled.put(message.attempt)

    environment = Environment(wall=lambda: time.time() + moved)
    async with (
        Connection(broker.endpoint, environment=environment) as rocketmq,
        Producer(broker.endpoint) as producer,
        push_consumer(rocketmq, handler=handle, concurrency=1) as consumer,
    ):
        for _ in range(5):
            await producer.send(Message("orders", b"x"))
        async with asyncio.timeout(20):
            attempts = [await handled.get() for _ in range(5)]
        assert consumer.messages_in_flight <= 5
    assert attempts == [1] * 5
    assert broker.leases("billing") == ()


async def test_a_loop_that_stalled_longer_than_a_heartbeat_may_take_keeps_its_connection(
    broker: FakeBroker,
) -> None:
    transport = Overheard()
    async with Producer(
        broker.endpoint, topics=["orders"], transport=transport, timeouts=Timeouts(request=0.3)
    ) as producer:
        beat = asyncio.get_running_loop().create_task(producer._session._upkeep.beat())
        await asyncio.sleep(0)
        time.sleep(0.6)  # noqa: ASYNC251 - a program that blocks its loop is what is tested
        with suppress(UnreachableError):
            await beat
        assert transport.reconnections == 0
        await producer.send(Message("orders", b"x"))
    assert len(broker.messages("orders")) == 1


async def test_a_loop_that_stalled_is_logged(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("aiorocketmq._aio.scheduler._STANDSTILL", 0.2)
    async with Producer(broker.endpoint, topics=["orders"]) as producer:
        done = asyncio.Event()

        async def work() -> None:
            done.set()

        assert producer._session._membership is not None
        producer._session._membership.every(0.01, work, name="test")
        time.sleep(0.4)  # noqa: ASYNC251 - a program that blocks its loop is what is tested
        async with asyncio.timeout(10):
            await done.wait()
    assert "the event loop was blocked for 0." in caplog.text


async def test_a_message_whose_lease_ended_while_the_loop_stalled_is_not_handled_here() -> None:
    """Others may have it: handling it here as well would do its work twice."""
    handled: list[tuple[bytes, int]] = []
    blocked = asyncio.Event()
    again = asyncio.Event()

    async with FakeBroker(clock="manual") as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_group("billing")

        async def handle(message: ReceivedMessage) -> None:
            handled.append((message.body, message.attempt))
            if not blocked.is_set():
                blocked.set()
                # What an event loop that was blocked for a minute looks like: leases are over by its clock.
                for held in tuple(consumer._running.in_flight):
                    if held.message.body == b"second":
                        held.lease.ends_at -= 60.0
            if message.attempt > 1:
                again.set()

        async with Producer(broker.endpoint) as producer:
            for body in (b"first", b"second"):
                await producer.send(Message("orders", body))
        async with push_consumer(broker.endpoint, handler=handle, concurrency=1) as consumer:
            async with asyncio.timeout(20):
                await blocked.wait()
                while (b"second", 2) not in handled:
                    await broker.clock.advance(seconds=31, patience=1)
    assert handled == [(b"first", 1), (b"second", 2)]
