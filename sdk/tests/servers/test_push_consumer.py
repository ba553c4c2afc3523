"""What a push consumer promises, on each server."""

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from aiorocketmq.hooks import AckEvent, Event, ForwardEvent, Hook, Phase
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.push_consumer import DeadLetter, PushConsumer, RetryLater
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq.subscription import dead_letters

if TYPE_CHECKING:
    from sdk.tests.conftest import Arrivals, Place
else:
    Arrivals = Place = Any

PATIENCE = 60.0


class Settled(Hook):
    """Lets one wait until so many messages were settled in one way."""

    def __init__(self, kind: type[Event] = AckEvent) -> None:
        self.kind = kind
        self.count = 0
        self._news = asyncio.Event()

    def observe(self, event: Event) -> None:
        if isinstance(event, self.kind) and event.phase is Phase.OK:
            self.count += 1
            self._news.set()

    async def __call__(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.count < count:
                self._news.clear()
                await self._news.wait()


async def sent(place: Place, topic: str, *bodies: bytes, message_group: str | None = None) -> None:
    async with Producer(place.endpoint, topics=[topic]) as producer:
        for body in bodies:
            await producer.send(Message(topic, body, message_group=message_group))


def numbered(count: int) -> tuple[bytes, ...]:
    return tuple(b"%03d" % number for number in range(count))


async def test_every_message_is_handled_once_and_acknowledged(place: Place, arrivals: Arrivals) -> None:
    topic, group, settled = await place.topic(queues=4), await place.group(), Settled()
    async with PushConsumer(
        place.endpoint, group=group, subscriptions=[topic], handler=arrivals, hooks=[settled]
    ):
        await sent(place, topic, *numbered(60))
        await settled(60)
    assert sorted(arrivals.bodies) == list(numbered(60))
    assert {message.attempt for message in arrivals.messages} == {1}


async def test_a_plain_function_handles_in_a_worker_thread(place: Place) -> None:
    topic, group, settled = await place.topic(), await place.group(), Settled()
    threads: list[threading.Thread] = []

    def handle(message: ReceivedMessage) -> None:
        threads.append(threading.current_thread())

    await sent(place, topic, b"1")
    async with PushConsumer(
        place.endpoint, group=group, subscriptions=[topic], handler=handle, hooks=[settled]
    ):
        await settled(1)
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


async def test_a_failed_message_is_redelivered_as_the_next_attempt(place: Place, arrivals: Arrivals) -> None:
    topic, group, settled = await place.topic(), await place.group(backoff=(1.0, 2.0)), Settled()

    async def handle(message: ReceivedMessage) -> None:
        arrivals.add(message)
        if message.body == b"bad" and message.attempt == 1:
            raise RuntimeError("the first time it fails")
        if message.body == b"later" and message.attempt == 1:
            raise RetryLater(3)

    await sent(place, topic, b"good", b"bad", b"later")
    async with PushConsumer(
        place.endpoint, group=group, subscriptions=[topic], handler=handle, hooks=[settled]
    ):
        await settled(3)
    assert sorted((message.body, message.attempt) for message in arrivals.messages) == [
        (b"bad", 1),
        (b"bad", 2),
        (b"good", 1),
        (b"later", 1),
        (b"later", 2),
    ]


async def test_a_message_that_is_given_up_is_a_dead_letter_at_once(place: Place, arrivals: Arrivals) -> None:
    topic, group, forwarded = await place.topic(), await place.group(), Settled(ForwardEvent)

    async def handle(message: ReceivedMessage) -> None:
        arrivals.add(message)
        raise DeadLetter("it cannot be read")

    await sent(place, topic, b"broken")
    async with PushConsumer(
        place.endpoint, group=group, subscriptions=[topic], handler=handle, hooks=[forwarded]
    ):
        await forwarded(1)
    assert arrivals.bodies == [b"broken"]
    if place.target == "documented":  # there a new group begins behind what is stored already
        assert [letter.body for letter in place.fake.dead_letters(group)] == [b"broken"]
        return
    reader = await place.group(max_attempts=50)
    async with SimpleConsumer(place.endpoint, group=reader, subscriptions=[dead_letters(group)]) as consumer:
        (letter,) = await consumer.receive()
        assert letter.body == b"broken"
        await letter.ack()


async def test_a_tag_expression_lets_only_its_tags_through(place: Place, arrivals: Arrivals) -> None:
    topic, group = await place.topic(), await place.group()
    async with Producer(place.endpoint, topics=[topic]) as producer:
        for tag in ("a", "b", "c", "a"):
            await producer.send(Message(topic, tag.encode(), tag=tag))
        async with PushConsumer(
            place.endpoint, group=group, subscriptions={topic: "a || c"}, handler=arrivals
        ):
            await arrivals.contain(b"c")
            await producer.send(Message(topic, b"last", tag="c"))
            await arrivals.contain(b"last")
    assert sorted(arrivals.bodies) == [b"a", b"a", b"c", b"last"]


async def test_a_message_group_is_handled_in_its_order_while_one_of_it_fails(
    place: Place, arrivals: Arrivals
) -> None:
    topic = await place.topic(kind="FIFO", queues=4)
    group, settled = await place.group(ordered=True, backoff=(1.0,)), Settled()
    failures = [b"003", b"003", b"007"]

    async def handle(message: ReceivedMessage) -> None:
        arrivals.add(message)
        if message.message_group == "a" and message.body in failures:
            failures.remove(message.body)
            raise RuntimeError("not yet")

    async with PushConsumer(
        place.endpoint, group=group, subscriptions=[topic], handler=handle, hooks=[settled]
    ):
        for message_group in ("a", "b", "c"):
            await sent(place, topic, *numbered(10), message_group=message_group)
        await settled(30)

    def line(message_group: str) -> list[bytes]:
        return [message.body for message in arrivals.messages if message.message_group == message_group]

    assert line("b") == line("c") == list(numbered(10))
    expected = list(numbered(10))
    expected[7:8] = [b"007"] * 2
    expected[3:4] = [b"003"] * 3
    assert line("a") == expected


async def test_two_consumers_of_a_group_share_its_messages_and_take_over_from_each_other(
    place: Place, arrivals: Arrivals
) -> None:
    topic, group = await place.topic(queues=4), await place.group()
    async with PushConsumer(place.endpoint, group=group, subscriptions=[topic], handler=arrivals):
        async with PushConsumer(place.endpoint, group=group, subscriptions=[topic], handler=arrivals):
            await sent(place, topic, *numbered(20))
            await arrivals.contain(*numbered(20))
        await sent(place, topic, b"after")
        await arrivals.contain(b"after")
    assert sorted(arrivals.bodies) == [*numbered(20), b"after"]
