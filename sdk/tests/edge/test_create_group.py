"""Groups that come to be with their consumer, on servers that create them (live-lessons.md 8)."""

import asyncio
from typing import Any

import pytest
from aiorocketmq.config import Timeouts
from aiorocketmq.errors import GroupNotFoundError
from aiorocketmq.message import Message
from aiorocketmq.producer import Producer
from aiorocketmq.push_consumer import PushConsumer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import Delivered


@pytest.fixture
async def apache() -> Any:
    async with FakeBroker(profile="apache-5.5") as broker:
        await broker.create_topic("orders")
        yield broker


async def test_an_unknown_group_is_one_clear_error_and_is_not_created_by_itself(apache: FakeBroker) -> None:
    with pytest.raises(
        GroupNotFoundError, match=r"'invoices'.*create the consumer group first, or correct its name"
    ):
        async with SimpleConsumer(apache.endpoint, group="invoices", subscriptions=["orders"]):
            pass
    assert [group.name for group in apache.groups()] == []


async def test_a_simple_consumer_creates_its_group_on_request_and_takes_nothing_by_it(
    apache: FakeBroker,
) -> None:
    async with Producer(apache.endpoint) as producer:
        await producer.send(Message("orders", b"1"))
    delivered: list[Delivered] = []
    with apache.events.listen(lambda events: delivered.extend(e for e in events if isinstance(e, Delivered))):
        async with SimpleConsumer(
            apache.endpoint, group="invoices", subscriptions=["orders"], create_group=True
        ) as consumer:
            assert delivered == []
            (message,) = await consumer.receive()
            assert (message.body, message.attempt) == (b"1", 1)
            await message.ack()
            assert [client.type for client in apache.clients()] == ["SIMPLE_CONSUMER"]


async def test_a_push_consumer_creates_its_group_on_request(apache: FakeBroker) -> None:
    handled = asyncio.Event()

    async def handle(message: object) -> None:
        handled.set()

    async with Producer(apache.endpoint) as producer:
        await producer.send(Message("orders", b"1"))
    async with PushConsumer(
        apache.endpoint, group="invoices", subscriptions=["orders"], handler=handle, create_group=True
    ):
        await asyncio.wait_for(handled.wait(), 10)
    assert [message.body for message in apache.messages("orders")] == [b"1"]
    assert len(apache.deliveries("orders", group="invoices")) == 1


async def test_a_group_that_is_there_stays_as_it_is(apache: FakeBroker) -> None:
    await apache.create_group("invoices", max_attempts=3)
    async with SimpleConsumer(apache.endpoint, group="invoices", subscriptions=["orders"], create_group=True):
        assert [group.max_attempts for group in apache.groups()] == [3]


async def test_a_server_that_creates_no_groups_is_reported_within_the_deadline(broker: FakeBroker) -> None:
    with pytest.raises(GroupNotFoundError):
        async with SimpleConsumer(
            broker.endpoint,
            group="nobody",
            subscriptions=["orders"],
            create_group=True,
            timeouts=Timeouts(start=5),
        ) as consumer:
            await consumer.receive()
