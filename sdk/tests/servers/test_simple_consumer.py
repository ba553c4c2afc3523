"""What a simple consumer promises, on each server."""

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from aiorocketmq.errors import UsageError
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.simple_consumer import SimpleConsumer

if TYPE_CHECKING:
    from sdk.tests.conftest import Place
else:
    Place = Any

PATIENCE = 60.0


async def sent(place: Place, topic: str, *bodies: bytes) -> None:
    async with Producer(place.endpoint, topics=[topic]) as producer:
        await producer.send_many([Message(topic, body) for body in bodies])


async def some(consumer: SimpleConsumer, count: int) -> list[ReceivedMessage]:
    """The next `count` messages."""
    messages: list[ReceivedMessage] = []
    async with asyncio.timeout(PATIENCE):
        while len(messages) < count:
            messages += await consumer.receive(wait=5)
    return messages


async def test_what_was_acknowledged_is_not_redelivered_and_what_was_released_does(place: Place) -> None:
    topic, group = await place.topic(), await place.group()
    await sent(place, topic, b"1", b"2", b"3")
    async with SimpleConsumer(place.endpoint, group=group, subscriptions=[topic]) as consumer:
        messages = {message.body: message for message in await some(consumer, 3)}
        await consumer.ack([messages[b"1"], messages[b"3"]])
        await messages[b"2"].release()
        (again,) = await some(consumer, 1)
        assert (again.body, again.attempt) == (b"2", 2)
        await again.ack()
        with pytest.raises(UsageError):
            await again.extend(30)


async def test_an_extended_message_stays_away_and_a_forgotten_one_is_redelivered(place: Place) -> None:
    topic, group = await place.topic(), await place.group()
    await sent(place, topic, b"kept", b"forgotten")
    async with SimpleConsumer(place.endpoint, group=group, subscriptions=[topic]) as consumer:
        taken: list[ReceivedMessage] = []
        while len(taken) < 2:
            taken += await consumer.receive(invisible=10, wait=5)
        (kept,) = (message for message in taken if message.body == b"kept")
        await kept.extend(60)
        (again,) = await some(consumer, 1)
        assert (again.body, again.attempt) == (b"forgotten", 2)
        await consumer.ack([again, kept])


async def test_a_loop_with_keep_alive_holds_on_to_what_it_works_on(place: Place) -> None:
    topic, group, bodies = await place.topic(), await place.group(), []
    await sent(place, topic, b"1", b"2")
    async with SimpleConsumer(place.endpoint, group=group, subscriptions=[topic]) as consumer:
        async with asyncio.timeout(PATIENCE):
            async for message in consumer.messages(invisible=10, keep_alive=True):
                async with message:
                    bodies.append((message.body, message.attempt))
                    if len(bodies) == 1:
                        await asyncio.sleep(12)  # longer than the lease
                if len(bodies) == 2:
                    break
        assert sorted(bodies) == [(b"1", 1), (b"2", 1)]
        assert await consumer.receive(wait=5) == []


async def test_one_empty_topic_delays_no_other(place: Place) -> None:
    topic, empty, group = await place.topic(), await place.topic(), await place.group()
    async with SimpleConsumer(place.endpoint, group=group, subscriptions=[topic, empty]) as consumer:
        waiting = asyncio.create_task(consumer.receive(wait=20))
        await asyncio.wait((waiting,), timeout=1.0)
        began = time.monotonic()
        await sent(place, topic, b"x")
        (message,) = await waiting
        await message.ack()
    assert time.monotonic() - began < 10


async def test_leaving_with_messages_in_hand_ends_at_once_and_gives_back_what_was_not_returned(
    place: Place,
) -> None:
    topic, group = await place.topic(), await place.group()
    await sent(place, topic, *(b"%d" % number for number in range(10)))
    async with SimpleConsumer(place.endpoint, group=group, subscriptions=[topic]) as consumer:
        async for message in consumer.messages(invisible=300):
            await message.ack()
            first = message.body
            break
        began = time.monotonic()
    assert time.monotonic() - began < 15
    async with SimpleConsumer(place.endpoint, group=group, subscriptions=[topic]) as consumer:
        rest = await some(consumer, 9)
        await consumer.ack(rest)
    assert {message.body for message in rest} == {b"%d" % number for number in range(10)} - {first}
