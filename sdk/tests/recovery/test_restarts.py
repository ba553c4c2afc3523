"""A broker that stops and starts under running clients: all recover by themselves, nothing acknowledged is lost."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import pytest
from aiorocketmq.config import Retry
from aiorocketmq.errors import RocketMQError
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.pull_consumer import PullConsumer
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import Acked, PollParked

from sdk.tests.clients import push_consumer, simple_consumer

T = TypeVar("T")
AWAY = 5.0
"""Seconds of an outage that is no mere restart: pauses between tries are as long as they get by then."""
PACE = 0.02
"""Seconds between the tries of an application that retries after an error that may pass."""


async def persistently(call: Callable[[], Awaitable[T]], patience: float = 20.0) -> T:
    """Do what an application does: try again after an error that says that this may help."""
    async with asyncio.timeout(patience):
        while True:
            try:
                return await call()
            except RocketMQError as error:
                if not error.may_retry:
                    raise
                await asyncio.sleep(PACE)


async def happens(broker: FakeBroker, kind: type[object], start: Callable[[], Awaitable[object]]) -> None:
    """Start something, and wait until the broker has seen that kind of event from then on."""
    async with asyncio.timeout(20), broker.events.subscribe() as events:
        await start()
        async for event in events:
            if isinstance(event, kind):
                return


async def restart_hard(broker: FakeBroker) -> None:
    await broker.crash()
    await broker.start()


RESTARTS = {"stopped and started": FakeBroker.restart, "crashed and started": restart_hard}
Restart = Callable[[FakeBroker], Awaitable[None]]


@pytest.fixture(params=RESTARTS.values(), ids=list(RESTARTS))
def restart(request: pytest.FixtureRequest) -> Restart:
    return request.param  # type: ignore[no-any-return]  # what pytest gives has no type


async def test_a_producer_continues_by_itself(broker: FakeBroker, restart: Restart) -> None:
    async with Producer(broker.endpoint) as producer:
        await producer.send(Message("orders", b"before"))
        await restart(broker)
        await persistently(lambda: producer.send(Message("orders", b"after")))

    assert {message.body for message in broker.messages("orders")} == {b"before", b"after"}


async def test_a_push_consumer_continues_by_itself(
    broker: FakeBroker, restart: Restart, arrivals: Any
) -> None:
    async with (
        Producer(broker.endpoint) as producer,
        push_consumer(broker.endpoint, handler=arrivals),
    ):
        await producer.send(Message("orders", b"before"))
        await arrivals.contain(b"before")
        await restart(broker)
        await persistently(lambda: producer.send(Message("orders", b"after")))
        await arrivals.contain(b"after")
    assert set(arrivals.bodies) == {b"before", b"after"}


async def test_a_message_in_hand_over_a_restart_is_acked_and_not_delivered_again(
    broker: FakeBroker, restart: Restart, arrivals: Any
) -> None:
    gate = asyncio.Event()
    started = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        arrivals.add(message.body)
        if message.body == b"slow":
            started.set()
            await gate.wait()

    async with (
        Producer(broker.endpoint) as producer,
        push_consumer(broker.endpoint, handler=handle),
    ):
        await producer.send(Message("orders", b"slow"))
        await started.wait()
        await restart(broker)

        async def open_gate() -> None:
            gate.set()

        await happens(broker, Acked, open_gate)
        await persistently(lambda: producer.send(Message("orders", b"next")))
        await arrivals.contain(b"next")

    assert arrivals.bodies == [b"slow", b"next"]


async def test_a_simple_consumer_continues_by_itself(
    broker: FakeBroker, restart: Restart, arrivals: Any
) -> None:
    async with (
        Producer(broker.endpoint) as producer,
        simple_consumer(broker.endpoint) as consumer,
    ):

        async def consume() -> None:
            while True:
                for message in await persistently(consumer.receive):
                    arrivals.add(message.body)
                    await persistently(message.ack)

        task = asyncio.create_task(consume())
        await producer.send(Message("orders", b"before"))
        await arrivals.contain(b"before")
        await restart(broker)
        await persistently(lambda: producer.send(Message("orders", b"after")))
        await arrivals.contain(b"after")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("broker", ["documented"], indirect=True)
async def test_a_pull_consumer_continues_by_itself_and_reads_nothing_twice(
    broker: FakeBroker, restart: Restart, arrivals: Any
) -> None:
    async with (
        Producer(broker.endpoint) as producer,
        PullConsumer(broker.endpoint, group="billing") as consumer,
    ):
        consumer.assign(await consumer.queues("orders"))

        async def consume() -> None:
            async for batch in consumer:
                for message in batch:
                    arrivals.add(message.body)

        task = asyncio.create_task(consume())
        await producer.send(Message("orders", b"before"))
        await arrivals.contain(b"before")
        await restart(broker)
        await persistently(lambda: producer.send(Message("orders", b"after")))
        await arrivals.contain(b"after")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert arrivals.bodies == [b"before", b"after"]


@pytest.mark.parametrize("profile", ["documented", "apache-5.5"])
async def test_nothing_acknowledged_is_lost_over_several_crashes(profile: str, arrivals: Any) -> None:
    stored: list[bytes] = []
    async with FakeBroker(profile=profile, clock="manual") as broker:
        await broker.create_topic("orders")
        await broker.create_group("billing")
        async with (
            Producer(broker.endpoint) as producer,
            push_consumer(broker.endpoint, handler=arrivals),
        ):

            async def produce() -> None:
                for number in range(300):
                    message = Message("orders", b"%03d" % number)
                    await persistently(partial(producer.send, message))
                    stored.append(message.body)

            task = asyncio.create_task(produce())
            for count in (50, 120, 200):
                await arrivals.satisfy(partial(at_least, arrivals, count))
                await restart_hard(broker)
            await asyncio.wait_for(task, 30)
            # What was delivered into a broken connection is redelivered when its lease expires.
            await broker.clock.advance(seconds=60, patience=1)
            await arrivals.contain(*stored)

    assert len(stored) == 300


def at_least(arrivals: Any, count: int) -> bool:
    return len(set(arrivals.bodies)) >= count


async def test_clients_wait_out_a_broker_that_is_away_for_a_while(broker: FakeBroker, arrivals: Any) -> None:
    async with (
        Producer(broker.endpoint, retry=Retry(budget=AWAY)) as producer,
        push_consumer(broker.endpoint, handler=arrivals) as consumer,
    ):
        await broker.crash()
        with pytest.raises(RocketMQError) as raised:
            await producer.send(Message("orders", b"nobody there"))
        assert raised.value.may_retry
        assert consumer.assigned_queues
        await broker.start()
        await persistently(lambda: producer.send(Message("orders", b"back")))
        await arrivals.contain(b"back")


# What is not a restart


async def test_broken_settings_streams_are_opened_again_and_nothing_stops(
    broker: FakeBroker, arrivals: Any
) -> None:
    async with (
        Producer(broker.endpoint) as producer,
        push_consumer(broker.endpoint, handler=arrivals) as consumer,
    ):
        receipt = await producer.send(Message("orders", b"before"))
        await arrivals.contain(b"before")
        with broker.faults.fail("Telemetry", skip=1_000_000) as opened:  # only counts them
            assert broker.cut_streams() == 2
            await producer.send(Message("orders", b"during"))
            await arrivals.contain(b"during")
            async with asyncio.timeout(20):
                while opened.seen < 2:  # noqa: ASYNC110  # the broker emits no event
                    await asyncio.sleep(PACE)
        reply = await broker.verify_message(consumer.client_id, "orders", receipt.message_id)

    assert reply is not None


async def test_a_consumer_whose_settings_were_forgotten_sends_them_again(arrivals: Any) -> None:
    async with FakeBroker(profile="apache-5.5", clock="manual") as broker:
        await broker.create_topic("orders")
        await broker.create_group("billing")
        async with (
            Producer(broker.endpoint) as producer,
            push_consumer(broker.endpoint, handler=arrivals),
        ):
            await happens(broker, PollParked, lambda: broker.clock.advance(minutes=5, forget_clients=True))
            await persistently(lambda: producer.send(Message("orders", b"after")))
            await arrivals.contain(b"after")
        assert arrivals.bodies == [b"after"]
