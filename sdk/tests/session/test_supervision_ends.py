"""Where supervision ends: stops, dropped streams, shared watches, and health that is not degraded for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import Random

import pytest
from aiorocketmq import (
    Connection,
    IllegalFilterError,
    Message,
    Producer,
    PullConsumer,
    ReceivedMessage,
    SimpleConsumer,
    Sql,
    UnreachableError,
    UsageError,
)
from aiorocketmq._aio.tasks import MOST_CRASHES, Tasks, Watch
from aiorocketmq_fake import FakeBroker

from sdk.tests import waiting
from sdk.tests.clients import push_consumer

PATIENCE = 20.0
until = partial(waiting.until, within=PATIENCE)


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    async with FakeBroker() as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_group("billing")
        yield broker


@asynccontextmanager
async def tasks_and_ends() -> AsyncIterator[tuple[Tasks, list[str]]]:
    ended: list[str] = []
    tasks = Tasks("test", random=Random(1), gave_up=lambda name, error: ended.append(name))
    try:
        yield tasks, ended
    finally:
        await tasks.end()


async def test_a_loop_whose_clean_up_fails_ends_with_its_client() -> None:
    """Started again it would never end: its cancellation is made once."""
    runs = 0

    async def loop(watch: Watch) -> None:
        nonlocal runs
        runs += 1
        try:
            await asyncio.Event().wait()
        finally:
            raise LookupError("the stream cannot be closed")

    async with asyncio.timeout(PATIENCE), tasks_and_ends() as (tasks, _):
        tasks.supervise(loop, name="the loop")
        await until(lambda: runs == 1)
        await tasks.end()
    assert runs == 1


async def test_a_task_that_swallows_its_cancellation_is_cancelled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call that fails in the moment of its cancellation may raise its own error instead."""
    monkeypatch.setattr("aiorocketmq._aio.tasks._CANCEL_AGAIN", 0.01)
    waits = 0

    async def loop(watch: Watch) -> None:
        nonlocal waits
        with suppress(asyncio.CancelledError):
            waits += 1
            await asyncio.Event().wait()
        waits += 1
        await asyncio.Event().wait()

    async with asyncio.timeout(PATIENCE), tasks_and_ends() as (tasks, _):
        task = tasks.supervise(loop, name="the loop")
        await until(lambda: waits == 1)
        await tasks.end()
        assert task.done()
    assert waits == 2


async def test_tasks_of_one_kind_count_their_crashes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each works off what is there and ends, so that none would ever reach the limit by itself."""
    monkeypatch.setattr("aiorocketmq._aio.tasks.failure_pause", lambda crashes, **_: 0.0)
    monkeypatch.setattr("aiorocketmq._aio.tasks._ONE_TIME", 0.0)
    waiting = list(range(MOST_CRASHES))

    async def work(watch: Watch) -> None:
        if waiting:
            waiting.pop()
            raise LookupError("no such lane")

    async with tasks_and_ends() as (tasks, ended):
        watch = tasks.watch("handling messages")
        for _ in range(MOST_CRASHES):
            await tasks.supervise(work, name=watch.name, watch=watch)
        assert tasks.degraded == {"handling messages": "LookupError('no such lane')"}
    assert ended == ["handling messages"]


async def test_a_loop_is_degraded_until_the_last_of_its_items_has_ended() -> None:
    async with tasks_and_ends() as (tasks, _):
        watch = tasks.watch("acknowledging messages")
        for item in "ab":
            watch.failed(OSError(f"about {item}"), item)
        watch.ended("a")
        assert tasks.degraded == {"acknowledging messages": "about b"}
        watch.ended("b")
        assert tasks.degraded == {}


async def test_tasks_that_crash_at_one_time_count_once() -> None:
    at_once = asyncio.Barrier(3 * MOST_CRASHES)

    async def work(watch: Watch) -> None:
        if not watch.crashes:
            await at_once.wait()
            raise LookupError("of all")

    async with asyncio.timeout(PATIENCE), tasks_and_ends() as (tasks, ended):
        watch = tasks.watch("releasing messages")
        await asyncio.gather(
            *(tasks.supervise(work, name=watch.name, watch=watch) for _ in range(at_once.parties))
        )
        assert watch.crashes == 1
    assert ended == []


async def test_a_route_under_way_keeps_its_streams(broker: FakeBroker) -> None:
    """Another look-up that ends meanwhile does not know its servers yet."""
    async with FakeBroker() as other:
        await broker.create_topic("refunds", queues=1)
        addresses: list[str] = []

        def moved(address: str) -> str:
            return addresses[0] if addresses else address

        async with (
            Connection(broker.endpoint, address_map=moved) as rocketmq,
            Producer(rocketmq, topics=["orders"]) as producer,
        ):
            session = producer._session
            with other.faults.drop_reply("Telemetry", hang=True, times=1):
                addresses.append(other.endpoint)
                slow = asyncio.create_task(session.routes.fetch("refunds"))
                await until(lambda: len(session.streams) == 2)
                addresses.clear()
                await session.routes.fetch("orders")
                assert len(session.streams) == 2
            # Its stream is opened again after the answer that never came, and now it comes.
            async with asyncio.timeout(PATIENCE):
                with suppress(UnreachableError):
                    await slow
                addresses.append(other.endpoint)
                await session.routes.fetch("refunds")


async def test_servers_of_a_route_that_failed_keep_no_streams(broker: FakeBroker) -> None:
    await broker.create_topic("refunds", queues=1)
    addresses: list[str] = []
    async with (
        FakeBroker() as other,
        Connection(
            broker.endpoint, address_map=lambda address: addresses[0] if addresses else address
        ) as rocketmq,
        Producer(rocketmq, topics=["orders"]) as producer,
    ):
        session = producer._session
        addresses.append(other.endpoint)
        with other.faults.fail("Telemetry", times=1), pytest.raises(UnreachableError):
            await session.routes.fetch("refunds")
        addresses.clear()
        await session.routes.fetch("refunds")
        assert set(session.streams) == {session.access}


async def test_a_failed_renewal_is_forgotten_when_its_message_is_settled() -> None:
    async with FakeBroker(clock="manual") as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_group("billing")
        gate = asyncio.Event()
        handled: list[bytes] = []

        async def handle(message: ReceivedMessage) -> None:
            await gate.wait()
            handled.append(message.body)

        async with (
            Producer(broker.endpoint) as producer,
            push_consumer(
                broker.endpoint,
                handler=handle,
                clock=broker.clock,
            ) as consumer,
        ):
            await producer.send(Message("orders", b"x"))
            await until(lambda: consumer.statistics.running == 1)
            with broker.faults.refuse("ChangeInvisibleDuration", "INTERNAL_ERROR"):
                await broker.clock.advance(seconds=16, patience=0)
                await until(lambda: "renewing leases" in consumer.health().degraded)
            gate.set()
            await until(lambda: handled == [b"x"] and not consumer.health().degraded)
            assert consumer.health().failure is None


async def test_a_topic_that_is_gone_is_not_asked_for_for_ever(broker: FakeBroker) -> None:
    await broker.create_topic("refunds", queues=1)
    async with SimpleConsumer(
        broker.endpoint, group="billing", subscriptions=["orders", "refunds"]
    ) as consumer:
        session = consumer._session
        await consumer.unsubscribe("refunds")
        await broker.delete_topic("refunds")
        await session.routes.refresh()
        assert set(session.routes.cached) == {"orders"}
        await broker.delete_topic("orders")
        await session.routes.refresh()
        assert set(session.routes.cached) == {"orders"}


async def test_acks_that_all_fail_show_in_health(broker: FakeBroker) -> None:
    handled: list[bytes] = []

    async def handle(message: ReceivedMessage) -> None:
        handled.append(message.body)

    async with (
        Producer(broker.endpoint) as producer,
        push_consumer(broker.endpoint, handler=handle) as consumer,
    ):
        with broker.faults.refuse("AckMessage", "INTERNAL_ERROR"):
            await producer.send(Message("orders", b"x"))
            await until(lambda: "acknowledging messages" in consumer.health().degraded)
        await until(lambda: not consumer.health().degraded)
        assert (handled, consumer.messages_in_flight) == ([b"x"], 0)


async def test_a_failed_queue_shows_in_health_until_it_is_dropped(broker: FakeBroker) -> None:
    async with PullConsumer(broker.endpoint, group="billing") as consumer:
        (good,) = await consumer.queues("orders")
        bad = type(good)("orders", good.broker, 77)
        consumer.assign([bad, good])
        await until(lambda: f"pulling from orders/{good.broker}/77" in consumer.health().degraded)
        consumer.assign([good])
        assert consumer.health().degraded == {}


async def test_who_waits_for_a_position_hears_that_its_queue_is_dropped(broker: FakeBroker) -> None:
    async with PullConsumer(broker.endpoint, group="billing") as consumer:
        (queue,) = await consumer.queues("orders")
        with broker.faults.drop_reply("GetOffset", hang=True):
            consumer.assign([queue])
            waiting = asyncio.create_task(consumer.position(queue))
            await asyncio.sleep(0)
            consumer.assign([])
            with pytest.raises(UsageError, match="not assigned any more"):
                await asyncio.wait_for(waiting, PATIENCE)


async def test_a_refusal_of_one_source_is_raised_though_another_has_messages(broker: FakeBroker) -> None:
    await broker.create_topic("refunds", queues=1)
    async with (
        Producer(broker.endpoint) as producer,
        SimpleConsumer(
            broker.endpoint, group="billing", subscriptions={"orders": "*", "refunds": Sql("amount > ' AND")}
        ) as consumer,
    ):

        async def receive() -> None:
            for number in range(20):
                await producer.send(Message("orders", b"%d" % number))
                await consumer.ack(await consumer.receive(wait=1))

        with pytest.raises(IllegalFilterError):
            await receive()


async def test_a_provider_that_times_out_is_not_taken_for_the_server(broker: FakeBroker) -> None:
    async def provider() -> object:
        raise TimeoutError("the vault does not answer")

    with pytest.raises(TimeoutError, match="the vault"):
        async with Producer(broker.endpoint, credentials=provider):  # type: ignore[arg-type]  # it never returns
            pass
