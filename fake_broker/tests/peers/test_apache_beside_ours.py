"""Apache's Python client and ours read what the other one wrote, through one fake."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiorocketmq import Message, Producer, ReceivedMessage, SimpleConsumer
from aiorocketmq_fake import FakeBroker

pytestmark = pytest.mark.peer

Start = Callable[[str], Awaitable[Any]]


async def test_our_consumer_reads_what_apaches_producer_wrote(apache_client: Start) -> None:
    async with FakeBroker() as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_group("billing")
        client = await apache_client(broker.endpoint)
        await client("start_producer", topics=["orders"])
        sent = await client(
            "send", topic="orders", body="zahlt: 3 €", tag="blue", keys=["42"], properties={"from": "web"}
        )
        async with SimpleConsumer(broker.endpoint, group="billing", subscriptions=["orders"]) as consumer:
            (message,) = await consumer.receive(max_messages=8, invisible=30, wait=5)
            assert isinstance(message, ReceivedMessage)
            assert (message.body.decode(), message.message_id) == ("zahlt: 3 €", sent["message_id"])
            assert (message.tag, message.keys, dict(message.properties)) == ("blue", ("42",), {"from": "web"})
            assert (message.corruption, message.attempt) == (None, 1)
            await message.ack()
        assert broker.leases("billing") == ()


async def test_apaches_consumer_reads_what_our_producer_wrote(apache_client: Start) -> None:
    async with FakeBroker() as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_group("billing")
        async with Producer(broker.endpoint) as producer:
            receipt = await producer.send(
                Message("orders", "zahlt: 3 €".encode(), tag="blue", keys=["42"], properties={"from": "web"})
            )
        client = await apache_client(broker.endpoint)
        await client("start_simple", group="billing", topic="orders")
        (message,) = (await client("receive", limit=8, invisible=30))["messages"]
        assert (message["body"], message["message_id"]) == ("zahlt: 3 €", receipt.message_id)
        assert (message["tag"], message["keys"], message["properties"]) == ("blue", ["42"], {"from": "web"})
        assert (message["corrupted"], message["attempt"]) == (False, 1)
        await client("ack", message_id=receipt.message_id)
        assert broker.leases("billing") == ()


async def test_a_line_of_messages_written_by_both_is_read_in_order(apache_client: Start) -> None:
    async with FakeBroker() as broker:
        await broker.create_topic("ordered", type="FIFO", queues=4)
        await broker.create_group("in-line", ordered=True)
        client = await apache_client(broker.endpoint)
        await client("start_producer", topics=["ordered"])
        async with Producer(broker.endpoint) as producer:
            for number in range(0, 6, 2):
                await producer.send(Message("ordered", b"%d" % number, message_group="customer-42"))
                await client("send", topic="ordered", body=f"{number + 1}", group="customer-42")
        await client("start_push", group="in-line", topic="ordered", failures={})
        assert [one["body"] for one in await client.consumed(6)] == ["0", "1", "2", "3", "4", "5"]
        await client("stop", name="push")
