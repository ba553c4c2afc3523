"""What a push consumer over the remoting protocol promises, on servers that have it."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

from aiorocketmq import DeadLetter, Message, Producer, PullConsumer, PushConsumer, Retry, RetryLater
from aiorocketmq.message import ReceivedMessage
from aiorocketmq.pull_consumer import Offset

if TYPE_CHECKING:
    from sdk.tests.conftest import Arrivals, Place
else:
    Arrivals = Place = Any

FAKES = ("apache-5.5",)


def consumer(place: Place, group: str, topic: str, handler: Any, **options: Any) -> PushConsumer:
    options = {"subscriptions": [topic], "start": Offset.BEGIN, **options}
    return PushConsumer(place.namesrv, group=group, handler=handler, **options)


async def send(place: Place, topic: str, *bodies: bytes, **options: Any) -> None:
    async with Producer(place.namesrv) as producer:
        for body in bodies:
            await producer.send(Message(topic, body, **options))


def numbered(first: int, behind: int) -> list[bytes]:
    return [b"%04d" % number for number in range(first, behind)]


async def read_all(place: Place, topic: str, count: int) -> list[bytes]:
    """The bodies of the first messages of a topic without consumers."""
    bodies: list[bytes] = []
    async with asyncio.timeout(60), PullConsumer(place.namesrv, group=place.name("group")) as reader:
        reader.assign(await reader.queues(topic))
        async for batch in reader:
            bodies += [message.body for message in batch]
            if len(bodies) >= count:
                break
    return bodies


async def test_every_message_is_handled_once_and_the_next_start_continues(
    place: Place, arrivals: Arrivals
) -> None:
    topic, group = await place.topic(queues=3), await place.group()
    await send(place, topic, *numbered(0, 100))
    async with consumer(place, group, topic, arrivals):
        await arrivals.contain(*numbered(0, 100))
    assert sorted(arrivals.bodies) == numbered(0, 100)
    assert {message.attempt for message in arrivals.messages} == {1}
    await send(place, topic, *numbered(100, 120))
    async with consumer(place, group, topic, arrivals):
        await arrivals.contain(*numbered(0, 120))
    assert sorted(arrivals.bodies) == numbered(0, 120)


async def test_a_new_group_begins_a_young_topic_at_its_first_message(
    place: Place, arrivals: Arrivals
) -> None:
    topic, group = await place.topic(queues=2), await place.group()
    await send(place, topic, *numbered(0, 20))
    async with consumer(place, group, topic, arrivals, start=None):
        await arrivals.contain(*numbered(0, 20))
    assert sorted(arrivals.bodies) == numbered(0, 20)


async def test_a_failed_message_is_redelivered_and_goes_to_the_dead_letters(place: Place) -> None:
    topic, group = await place.topic(), await place.group(max_attempts=2)
    calls: list[tuple[bytes, int, str]] = []
    called = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        calls.append((message.body, message.attempt, message.topic))
        called.set()
        if message.body == b"given up":
            raise DeadLetter("no use")
        if message.body == b"bad" or message.attempt == 1:
            raise RetryLater(1)

    await send(place, topic, b"bad", b"given up", b"once more", tag="t", keys=["k"])
    async with consumer(place, group, topic, handle, subscriptions={topic: "t"}), asyncio.timeout(60):
        while len(calls) < 5:
            called.clear()
            await called.wait()
        assert sorted(await read_all(place, f"%DLQ%{group}", 2)) == [b"bad", b"given up"]
    assert sorted(calls) == [
        (b"bad", 1, topic),
        (b"bad", 2, topic),
        (b"given up", 1, topic),
        (b"once more", 1, topic),
        (b"once more", 2, topic),
    ]


async def test_in_order_each_queue_is_handled_one_by_one_while_members_come_and_go(place: Place) -> None:
    topic, group = await place.topic(queues=3), await place.group()
    handled: dict[str, list[int]] = {}
    running: Counter[int] = Counter()
    together: list[int] = []
    called = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        running[message.queue.id] += 1
        if running[message.queue.id] > 1:
            together.append(message.queue.id)
        await asyncio.sleep(0.001)
        running[message.queue.id] -= 1
        number = int(message.body)
        if number % 40 == 7 and message.attempt == 1:
            raise RetryLater(0.05)
        assert message.message_group is not None
        handled.setdefault(message.message_group, []).append(number)
        called.set()

    async def all_handled(count: int) -> None:
        async with asyncio.timeout(60):
            while sum(len(set(numbers)) for numbers in handled.values()) < count:
                called.clear()
                await called.wait()

    async def send_from(first: int) -> None:
        async with Producer(place.namesrv) as producer:
            for number in range(first, first + 100):
                await producer.send(Message(topic, b"%d" % number, message_group=f"g{number % 7}"))

    async with consumer(place, group, topic, handle, ordered=True):
        await send_from(0)
        async with consumer(place, group, topic, handle, ordered=True):
            await send_from(100)
            await all_handled(200)
        await send_from(200)
        await all_handled(300)
    assert together == []
    for numbers in handled.values():
        first_times = list(dict.fromkeys(numbers))
        assert first_times == sorted(first_times)


async def test_a_kill_loses_nothing_that_was_stored_and_keeps_each_queue_in_order(place: Place) -> None:
    topic, group = await place.topic(queues=3), await place.group()
    in_order: dict[str, list[int]] = {}
    stored: set[tuple[str, int]] = set()
    called = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        assert message.message_group is not None
        in_order.setdefault(message.message_group, []).append(int(message.body))
        called.set()

    async def send_on(producer: Producer, name: str) -> None:
        number = 0
        while not is_over.is_set():
            await producer.send(Message(topic, b"%d" % number, message_group=name))
            stored.add((name, number))
            number += 1
            await asyncio.sleep(0.005)

    def handled() -> set[tuple[str, int]]:
        return {(name, number) for name, numbers in in_order.items() for number in numbers}

    is_over = asyncio.Event()
    async with (
        Producer(place.namesrv, retry=Retry(budget=60)) as producer,
        consumer(place, group, topic, handle, ordered=True),
        consumer(place, group, topic, handle, ordered=True),
        asyncio.timeout(120),
    ):
        async with asyncio.TaskGroup() as sending:
            for name in ("a", "b", "c", "d", "e"):
                sending.create_task(send_on(producer, name))
            while len(handled()) < 100:
                called.clear()
                await called.wait()
            await place.crash()
            before = len(stored)
            while len(stored) < before + 100:  # noqa: ASYNC110  # sends continue by themselves
                await asyncio.sleep(0.05)
            is_over.set()
        while not stored <= handled():
            called.clear()
            await called.wait()
    for numbers in in_order.values():
        first_times = list(dict.fromkeys(numbers))
        assert first_times == sorted(first_times)
