"""What a server refuses for good reaches the application: `run()`, the iteration and the next send raise it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from aiorocketmq import (
    GroupNotFoundError,
    Health,
    IllegalFilterError,
    Message,
    PermissionDeniedError,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    RocketMQError,
    SimpleConsumer,
    Sql,
    Timeouts,
    TopicNotFoundError,
    TypeMismatchError,
)
from aiorocketmq_fake import FakeBroker

from sdk.tests import waiting
from sdk.tests.clients import push_consumer

PATIENCE = 20.0
until = partial(waiting.until, within=PATIENCE)
HURRIED = Timeouts(start=0.5, not_found_grace=0.5)
PATIENT = Timeouts(start=0.5, not_found_grace=3600.0)


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    async with FakeBroker(clock="manual") as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_group("billing")
        yield broker


async def accept(message: ReceivedMessage) -> None:
    pass


def push(broker: FakeBroker, group: str = "billing", wanted: Any = "*", **options: Any) -> PushConsumer:
    return PushConsumer(
        broker.endpoint, group=group, subscriptions={"orders": wanted}, handler=accept, **options
    )


async def run(consumer: PushConsumer) -> None:
    async with asyncio.timeout(PATIENCE), consumer:
        await consumer.run()


# Push


@pytest.mark.parametrize("profile", ["documented", "apache-5.5", "apache-5.5-cluster"])
async def test_a_misspelt_group_ends_run_within_the_start_timeout(profile: str) -> None:
    # Else a separate proxy takes any name, and the broker behind it makes the group.
    settings = {"autoCreateSubscriptionGroup": False} if profile == "apache-5.5-cluster" else {}
    async with FakeBroker(profile=profile, settings=settings) as broker:
        await broker.create_topic("orders")
        with pytest.raises(GroupNotFoundError, match="biling"):
            await run(push(broker, "biling", timeouts=Timeouts(start=1.0)))


@pytest.mark.parametrize("profile", ["documented", "apache-5.5", "apache-5.5-cluster"])
async def test_an_illegal_sql_filter_ends_run_at_once(profile: str) -> None:
    async with FakeBroker(profile=profile) as broker:
        await broker.create_topic("orders")
        await broker.create_group("billing")
        with pytest.raises(IllegalFilterError):
            await run(push(broker, wanted=Sql("amount > ' AND")))


async def test_a_failure_outside_of_run_is_raised_when_the_block_is_left(broker: FakeBroker) -> None:
    stopped = asyncio.Event()
    consumer = push(broker, wanted=Sql("amount > ' AND"))
    consumer._session.on_failure.append(stopped.set)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(IllegalFilterError):  # noqa: PT012 - the block is what raises
            async with consumer:
                await stopped.wait()
                health = consumer.health()
                assert (health.running, health.connected, health.is_ready) == (True, True, False)
    assert isinstance(consumer.health().failure, IllegalFilterError)
    assert not consumer.is_ready


async def test_an_error_of_the_block_itself_is_not_replaced(broker: FakeBroker) -> None:
    stopped = asyncio.Event()
    consumer = push(broker, wanted=Sql("amount > ' AND"))
    consumer._session.on_failure.append(stopped.set)

    async def work() -> None:
        async with consumer:
            await stopped.wait()
            raise LookupError("of the application")

    with pytest.raises(LookupError, match="of the application"):
        await work()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("FORBIDDEN", PermissionDeniedError),
        ("ILLEGAL_FILTER_EXPRESSION", IllegalFilterError),
        ("MESSAGE_PROPERTY_CONFLICT_WITH_TYPE", TypeMismatchError),
    ],
)
async def test_a_refusal_for_good_ends_a_consumer_that_has_worked(
    broker: FakeBroker, code: str, kind: type[RocketMQError]
) -> None:
    with pytest.raises(kind):
        await run_refused_later(broker, push(broker), code)


async def run_refused_later(broker: FakeBroker, consumer: PushConsumer, code: str) -> None:
    """Run a consumer that has received one message when its server begins to refuse every receive."""
    async with asyncio.timeout(PATIENCE), Producer(broker.endpoint) as producer, consumer:
        await producer.send(Message("orders", b"x"))
        await until(lambda: consumer.health().last_success is not None)
        with broker.faults.refuse("ReceiveMessage", code):
            await producer.send(Message("orders", b"y"))  # ends the poll that is parked
            await consumer.run()


async def test_a_group_that_vanishes_is_waited_for_and_then_final(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(GroupNotFoundError):
        await run_refused_later(broker, push(broker, timeouts=HURRIED), "CONSUMER_GROUP_NOT_FOUND")
    assert "fails in 0.5 s" in caplog.text


async def test_a_group_that_comes_back_within_the_grace_ends_nothing(broker: FakeBroker) -> None:
    handled = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        if message.body == b"after":
            handled.set()

    consumer = push_consumer(broker.endpoint, handler=handle, timeouts=PATIENT)
    async with asyncio.timeout(PATIENCE), consumer:
        async with Producer(broker.endpoint) as producer:
            await producer.send(Message("orders", b"before"))
        await until(lambda: consumer.health().last_success is not None)
        with broker.faults.refuse("ReceiveMessage", "TOPIC_NOT_FOUND", times=3) as refused:
            async with Producer(broker.endpoint) as producer:
                await producer.send(Message("orders", b"during"))
                await producer.send(Message("orders", b"after"))
            await handled.wait()
        assert refused.hits == 3
        assert consumer.health().degraded == {}


# Simple


async def first_of(consumer: SimpleConsumer, **options: Any) -> ReceivedMessage:
    async with asyncio.timeout(PATIENCE), consumer:
        async for message in consumer.messages(wait=1, **options):
            return message
    raise AssertionError("the iteration ended by itself")


def simple(broker: FakeBroker, group: str = "billing", wanted: Any = "*", **options: Any) -> SimpleConsumer:
    return SimpleConsumer(broker.endpoint, group=group, subscriptions={"orders": wanted}, **options)


async def test_an_illegal_filter_ends_an_iteration_at_once(broker: FakeBroker) -> None:
    with pytest.raises(IllegalFilterError):
        await first_of(simple(broker, wanted=Sql("amount > ' AND")))


async def test_a_misspelt_group_ends_an_iteration_within_the_start_timeout(broker: FakeBroker) -> None:
    with pytest.raises(GroupNotFoundError):
        await first_of(simple(broker, "biling", timeouts=HURRIED))


async def test_an_iteration_outlasts_refusals_that_pass(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint) as producer:
        await producer.send(Message("orders", b"x"))
    with broker.faults.refuse("ReceiveMessage", "INTERNAL_ERROR", times=2) as refused:
        message = await first_of(simple(broker))
    assert message.body == b"x"
    assert refused.hits == 2


# Pull


async def test_an_unknown_queue_fails_until_it_is_assigned_no_more(broker: FakeBroker) -> None:
    await broker.create_topic("refunds", queues=1)
    async with Producer(broker.endpoint) as producer:
        await producer.send(Message("orders", b"x"))
    async with asyncio.timeout(PATIENCE), PullConsumer(broker.endpoint, group="billing") as consumer:
        (good,) = await consumer.queues("orders")
        bad = type(good)("orders", good.broker, 77)
        consumer.assign([bad])
        for _ in range(2):
            with pytest.raises(RocketMQError, match="no readable queue broker-a/77"):
                await consumer.poll(5)
        consumer.assign([good])
        batch = await consumer.poll(5)
        assert batch is not None
        assert [message.body for message in batch] == [b"x"]
        assert await consumer.poll(0) is None


async def test_a_failed_queue_holds_up_no_other(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint) as producer:
        await producer.send(Message("orders", b"x"))
    async with asyncio.timeout(PATIENCE), PullConsumer(broker.endpoint, group="billing") as consumer:
        (good,) = await consumer.queues("orders")
        consumer.assign([type(good)("orders", good.broker, 77), good])
        bodies: list[bytes] = []
        while not bodies:
            try:
                bodies += [message.body for message in await anext(consumer)]
            except RocketMQError:
                await asyncio.sleep(0.01)
    assert bodies == [b"x"]


async def test_a_seek_while_a_batch_waits_continues_from_there(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint) as producer:
        for number in range(7):
            await producer.send(Message("orders", b"%d" % number))
    async with (
        asyncio.timeout(PATIENCE),
        PullConsumer(broker.endpoint, group="billing", max_messages=3) as consumer,
    ):
        (queue,) = await consumer.queues("orders")
        consumer.assign([queue])
        assert consumer._fetching is not None
        for offset in (3, 0, 1):
            await until(lambda: bool(consumer._fetching._ready))
            await consumer.seek(queue, offset)
            batch = await anext(consumer)
            assert [message.offset for message in batch] == list(range(offset, min(offset + 3, 7)))


async def test_a_forbidden_topic_ends_a_pull_consumer_that_has_worked(broker: FakeBroker) -> None:
    async with asyncio.timeout(PATIENCE), PullConsumer(broker.endpoint, group="billing") as consumer:
        consumer.assign(await consumer.queues("orders"))
        async with Producer(broker.endpoint) as producer:
            await producer.send(Message("orders", b"x"))
            assert len(await anext(consumer)) == 1
            with broker.faults.refuse("PullMessage", "FORBIDDEN"):
                await producer.send(Message("orders", b"y"))
                with pytest.raises(PermissionDeniedError):
                    [batch async for batch in consumer]


# Health


async def test_health_of_every_client_follows_its_life(broker: FakeBroker) -> None:
    clients: list[Producer | PushConsumer | SimpleConsumer | PullConsumer] = [
        Producer(broker.endpoint, topics=["orders"]),
        push(broker),
        simple(broker),
        PullConsumer(broker.endpoint, group="billing"),
    ]
    for client in clients:
        assert client.health() == Health(
            running=False, connected=False, settings_in_force=False, last_success=None
        )
        assert not client.is_ready
        async with client:
            health = client.health()
            assert (health.running, health.connected, health.settings_in_force) == (True, True, True)
            assert (health.degraded, health.failure, health.is_ready) == ({}, None, True)
        assert not client.is_ready


async def test_health_records_when_a_client_last_succeeded(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint) as producer, simple(broker) as consumer:
        assert producer.health().last_success is None
        await producer.send(Message("orders", b"x"))
        assert consumer.health().last_success is None
        await consumer.receive(wait=1)
        sent, received = producer.health().last_success, consumer.health().last_success
    assert sent is not None
    assert received is not None
    assert sent.tzinfo is not None
    assert sent <= received


async def test_an_outage_shows_in_health_and_ends_with_it(broker: FakeBroker) -> None:
    """The poll after a failure is a short one: an idle consumer soon knows that it receives again."""
    consumer = push(broker, timeouts=PATIENT)
    async with asyncio.timeout(PATIENCE), consumer:
        await broker.crash()
        await until(lambda: len(consumer.health().degraded) >= 2)
        assert not consumer.is_ready
        degraded = consumer.health().degraded
        assert f"the settings stream to {broker.endpoint}" in degraded
        assert any(name.startswith("receiving from orders/broker-a") for name in degraded)
        await broker.start()
        await until(lambda: consumer.is_ready)
        await broker.clock.advance(seconds=5)
        await until(lambda: not consumer.health().is_degraded)


async def test_topics_unknown_at_the_start_are_an_error_within_the_start_timeout(broker: FakeBroker) -> None:
    with pytest.raises(TopicNotFoundError):
        async with PushConsumer(
            broker.endpoint, group="billing", subscriptions=["unknown"], handler=accept, timeouts=HURRIED
        ):
            pass
