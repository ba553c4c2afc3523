"""What a producer promises, on a real server of Apache."""

import asyncio
from typing import Protocol

import pytest
from aiorocketmq.admin import TopicType
from aiorocketmq.config import Compression
from aiorocketmq.message import Message, MessageType, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq.transaction import Resolution

pytestmark = pytest.mark.real

PATIENCE = 90.0
"""Seconds: a server asks about transactions every 30 seconds."""


class Place(Protocol):
    """The fixture of that name."""

    endpoint: str
    topic: str
    group: str

    async def make(self, kind: TopicType, *, queues: int = 4, ordered: bool = False) -> str: ...
    def consumer(self) -> SimpleConsumer: ...


async def received(place: Place, count: int, *, seconds: float = PATIENCE) -> list[ReceivedMessage]:
    """The next `count` messages, acknowledged."""
    found: list[ReceivedMessage] = []
    async with asyncio.timeout(seconds), place.consumer() as consumer:
        while len(found) < count:
            messages = await consumer.receive(max_messages=32, invisible=30, wait=5)
            await consumer.ack(messages)
            found += messages
    return found


async def test_transactions_end_as_their_blocks_do_or_as_the_checker_says(place: Place) -> None:
    topic = await place.make(TopicType.TRANSACTION)
    asked: list[bytes] = []

    async def check(message: ReceivedMessage) -> Resolution:
        asked.append(message.body)
        return Resolution.COMMIT if message.body == b"left, committed" else Resolution.ROLLBACK

    async with Producer(place.endpoint, topics=[topic], transaction_checker=check) as producer:
        async with producer.transaction(Message(topic, b"committed", tag="t")):
            pass
        with pytest.raises(LookupError):
            async with producer.transaction(Message(topic, b"rolled back")):
                raise LookupError
        for body in (b"left, committed", b"left, rolled back"):
            async with producer.transaction(Message(topic, body), check_after=1) as tx:
                tx.leave_unknown()
        messages = await received(place, 2)
    assert [(message.body, message.message_type) for message in messages] == [
        (b"committed", MessageType.TRANSACTION),
        (b"left, committed", MessageType.TRANSACTION),
    ]
    assert (messages[0].tag, dict(messages[0].properties)) == ("t", {})
    assert sorted(asked) == [b"left, committed", b"left, rolled back"]


@pytest.mark.parametrize("compression", [None, Compression(threshold=10)])
async def test_gathered_messages_arrive_each_with_its_own_id_place_and_content(
    place: Place, compression: Compression | None
) -> None:
    topic = await place.make(TopicType.NORMAL)
    messages = [
        Message(
            topic,
            b"%d" % number * 50,
            tag=f"t{number % 3}",
            keys=[f"k{number}"],
            properties={"n": f"{number}"},
        )
        for number in range(100)
    ]
    async with Producer(place.endpoint, topics=[topic], linger=0.005, compression=compression) as producer:
        receipts = await producer.send_many(messages[:60])
        receipts += tuple(await asyncio.gather(*(producer.send(message) for message in messages[60:])))
    sent = {
        receipt.message_id: (receipt, message) for receipt, message in zip(receipts, messages, strict=True)
    }
    for message in await received(place, 100):
        receipt, original = sent.pop(message.message_id)
        assert (message.body, message.tag, message.keys) == (original.body, original.tag, original.keys)
        assert (dict(message.properties), message.offset) == (dict(original.properties), receipt.offset)
        assert message.corruption is None
    assert sent == {}


async def test_concurrent_sends_of_one_group_arrive_in_their_order(place: Place) -> None:
    topic = await place.make(TopicType.FIFO, ordered=True)
    async with Producer(place.endpoint, topics=[topic], linger=0.005) as producer:
        sends = [producer.send(Message(topic, b"%d" % number, message_group="g")) for number in range(40)]
        await asyncio.gather(*sends)
    assert [int(message.body) for message in await received(place, 40)] == list(range(40))


async def test_a_priority_arrives(place: Place) -> None:
    topic = await place.make(TopicType.PRIORITY, queues=8)
    async with Producer(place.endpoint, topics=[topic], linger=0.005) as producer:
        await producer.send(Message(topic, b"x", priority=5))
    (message,) = await received(place, 1)
    assert (message.priority, message.message_type) == (5, MessageType.PRIORITY)


async def test_a_recalled_message_does_not_come_and_another_does(place: Place) -> None:
    topic = await place.make(TopicType.DELAY)
    async with Producer(place.endpoint, topics=[topic]) as producer:
        receipt = await producer.send(Message(topic, b"recalled", delay=5))
        await producer.send(Message(topic, b"delivered", delay=8))
        await producer.recall(receipt)
    assert [message.body for message in await received(place, 1)] == [b"delivered"]
