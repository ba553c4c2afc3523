"""What a producer promises, on each server."""

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from aiorocketmq.config import Compression
from aiorocketmq.errors import MessageTooLargeError, TypeMismatchError
from aiorocketmq.message import Message, MessageType, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq.transaction import Resolution

if TYPE_CHECKING:
    from sdk.tests.conftest import OpenPlace, Place
else:
    OpenPlace = Place = Any

PATIENCE = 90.0
"""Seconds: servers ask about transactions every 30 to 60 seconds."""


wires = pytest.mark.parametrize("wire", ["grpc", "remoting"])
"""The two ways to send; what was sent is always received over gRPC."""


async def received(place: Place, topic: str, group: str, count: int) -> list[ReceivedMessage]:
    """The first `count` messages of a topic, acknowledged."""
    received_messages: list[ReceivedMessage] = []
    async with (
        asyncio.timeout(PATIENCE),
        SimpleConsumer(place.endpoint, group=group, subscriptions=[topic]) as consumer,
    ):
        while len(received_messages) < count:
            messages = await consumer.receive(max_messages=32, invisible=30, wait=5)
            await consumer.ack(messages)
            received_messages += messages
    return received_messages


def stored_at(message: ReceivedMessage) -> datetime:
    assert message.stored_at is not None
    return message.stored_at


@wires
async def test_a_message_arrives_with_all_that_was_sent(place: Place, wire: str) -> None:
    topic, group = await place.topic(queues=4), await place.group()
    original = Message(
        topic, "zahlt: 3 €".encode(), tag="blue", keys=["42", "43"], properties={"from": "web", "é": "ü b"}
    )
    async with Producer(place.at(wire)) as producer:
        receipt = await producer.send(original)
    (message,) = await received(place, topic, group, 1)
    assert (message.message_id, message.offset) == (receipt.message_id, receipt.offset)
    assert (message.body, message.tag, message.keys) == (original.body, "blue", ("42", "43"))
    assert dict(message.properties) == {"from": "web", "é": "ü b"}
    assert (message.message_type, message.attempt, message.corruption) == (MessageType.NORMAL, 1, None)


async def test_what_a_server_refuses_is_one_error_that_says_why(place: Place) -> None:
    topic, fifo = await place.topic(), await place.topic(kind="FIFO")
    async with Producer(place.endpoint, topics=[topic, fifo]) as producer:
        with pytest.raises(TypeMismatchError, match=fifo):
            await producer.send(Message(fifo, b"without a message group"))
        with pytest.raises(MessageTooLargeError, match=topic):
            await producer.send(Message(topic, bytes(4 * 1024 * 1024 + 1)))
        assert (await producer.send(Message(topic, b"fine"))).topic == topic


@wires
async def test_a_delayed_message_comes_when_it_is_due_and_not_before(
    open_place: OpenPlace, wire: str
) -> None:
    async with open_place(clock="manual") as place:
        topic, group = await place.topic(kind="DELAY"), await place.group()
        async with Producer(place.at(wire), topics=[topic]) as producer:
            await producer.send(Message(topic, b"later", delay=5))
            await producer.send(Message(topic, b"sooner", delay=1))
        await place.hurry(PATIENCE)  # delays count from the clock of the client, which is ahead
        messages = sorted(await received(place, topic, group, 2), key=stored_at)
    assert [message.body for message in messages] == [b"sooner", b"later"]
    for message, delay in zip(messages, (1, 5), strict=True):
        assert message.message_type is MessageType.DELAY
        # What a reader sees as the time of storing is that of the copy which was made when it was due.
        assert message.born_at is not None
        assert (stored_at(message) - message.born_at).total_seconds() > delay - 1


@wires
async def test_transactions_end_as_their_blocks_do_or_as_the_checker_says(
    open_place: OpenPlace, wire: str
) -> None:
    checked: list[bytes] = []

    async def check(message: ReceivedMessage) -> Resolution:
        checked.append(message.body)
        return Resolution.COMMIT if message.body == b"left, committed" else Resolution.ROLLBACK

    async with open_place(clock="manual") as place:
        topic, group = await place.topic(kind="TRANSACTION"), await place.group()
        group_of_producers = place.name("producers") if wire == "remoting" else None
        async with Producer(
            place.at(wire), topics=[topic], group=group_of_producers, transaction_checker=check
        ) as producer:
            async with producer.transaction(Message(topic, b"committed", tag="t")):
                pass
            with pytest.raises(LookupError):
                async with producer.transaction(Message(topic, b"rolled back")):
                    raise LookupError
            for body in (b"left, committed", b"left, rolled back"):
                async with producer.transaction(Message(topic, body), check_after=1) as tx:
                    tx.leave_unknown()
            # Second by second: an answer that comes long after its question is not taken any more.
            async with asyncio.timeout(PATIENCE):
                while len(checked) < 2:
                    await place.hurry(1)
                    await asyncio.sleep(0.02)
            messages = await received(place, topic, group, 2)
    assert [(message.body, message.message_type) for message in messages] == [
        (b"committed", MessageType.TRANSACTION),
        (b"left, committed", MessageType.TRANSACTION),
    ]
    assert (messages[0].tag, dict(messages[0].properties)) == ("t", {})
    assert sorted(checked) == [b"left, committed", b"left, rolled back"]


@wires
@pytest.mark.parametrize("compression", [None, Compression(threshold=10)])
async def test_gathered_messages_arrive_each_with_its_own_id_place_and_content(
    place: Place, compression: Compression | None, wire: str
) -> None:
    topic, group = await place.topic(queues=4), await place.group()
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
    async with Producer(place.at(wire), topics=[topic], linger=0.005, compression=compression) as producer:
        receipts = await producer.send_many(messages[:60])
        receipts += tuple(await asyncio.gather(*(producer.send(message) for message in messages[60:])))
    arrived = await received(place, topic, group, 100)
    if place.is_old and wire == "grpc":
        assert sorted(message.body for message in arrived) == sorted(message.body for message in messages)
        return
    sent = {
        receipt.message_id: (receipt, message) for receipt, message in zip(receipts, messages, strict=True)
    }
    for message in arrived:
        receipt, original = sent.pop(message.message_id)
        assert (message.body, message.tag, message.keys) == (original.body, original.tag, original.keys)
        assert (dict(message.properties), message.offset) == (dict(original.properties), receipt.offset)
        assert message.corruption is None
    assert sent == {}


@wires
async def test_concurrent_sends_of_one_group_arrive_in_their_order(place: Place, wire: str) -> None:
    topic, group = await place.topic(kind="FIFO", queues=4), await place.group(ordered=True)
    async with Producer(place.at(wire), topics=[topic], linger=0.005) as producer:
        sends = [producer.send(Message(topic, b"%d" % number, message_group="g")) for number in range(40)]
        await asyncio.gather(*sends)
    assert [int(message.body) for message in await received(place, topic, group, 40)] == list(range(40))


@wires
async def test_a_priority_arrives(place: Place, wire: str) -> None:
    if place.is_old:
        pytest.skip(f"{place.target} knows no priorities")
    topic, group = await place.topic(kind="PRIORITY", queues=8), await place.group()
    async with Producer(place.at(wire), topics=[topic], linger=0.005) as producer:
        await producer.send(Message(topic, b"x", priority=5))
    (message,) = await received(place, topic, group, 1)
    assert (message.priority, message.message_type) == (5, MessageType.PRIORITY)


async def test_a_recalled_message_does_not_come_and_another_does(open_place: OpenPlace) -> None:
    async with open_place(clock="manual") as place:
        topic, group = await place.topic(kind="DELAY"), await place.group()
        async with Producer(place.endpoint, topics=[topic]) as producer:
            receipt = await producer.send(Message(topic, b"recalled", delay=5))
            await producer.send(Message(topic, b"delivered", delay=8))
            await producer.recall(receipt)
        await place.hurry(PATIENCE)
        assert [message.body for message in await received(place, topic, group, 1)] == [b"delivered"]
