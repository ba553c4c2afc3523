"""Each live lesson (live-lessons.md 1 to 13) holds against the fake as Apache's 5.5 and a real one.

Lessons 6 and 12 are about sending and stand with the tests of the producer."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._transport.grpcio import _OPTIONS, GrpcioTransport
from aiorocketmq._transport.interface import Metadata
from aiorocketmq.config import Timeouts
from aiorocketmq.connection import Connection
from aiorocketmq.errors import GroupNotFound, Refused, TopicNotFound, UsageError
from aiorocketmq.hooks import AckEvent, ChangeEvent, Event, ForwardEvent, Hook, Phase
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.push_consumer import DeadLetter, PushConsumer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq.subscription import dead_letters

if TYPE_CHECKING:
    from sdk.tests.lessons.conftest import Server
else:
    Server = Any

PATIENCE = 40.0


class Watch(Hook):
    """Keeps events, and lets one wait for so many good ones of a kind."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._news = asyncio.Event()

    def observe(self, event: Event) -> None:
        self.events.append(event)
        self._news.set()

    async def good(self, kind: type[Any], count: int = 1) -> list[Any]:
        async with asyncio.timeout(PATIENCE):
            while True:
                found = [e for e in self.events if isinstance(e, kind) and e.phase is Phase.OK]
                if len(found) >= count:
                    return found
                self._news.clear()
                await self._news.wait()


class Polls(GrpcioTransport):
    """The ordinary transport, which keeps the deadlines of its streams, and metadata of all calls."""

    def __init__(self) -> None:
        super().__init__()
        self.deadlines: list[float] = []

    def server_stream(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> AsyncIterator[bytes]:
        self.deadlines.append(timeout)
        return super().server_stream(endpoint, path, payload, metadata, timeout)


async def sent(server: Server, topic: str, *bodies: bytes, message_group: str | None = None) -> None:
    async with Producer(server.endpoint) as producer:
        for body in bodies:
            await producer.send(Message(topic, body, message_group=message_group))


async def test_1_a_message_in_a_handler_is_renewed_by_us_and_not_delivered_twice(server: Server) -> None:
    topic, group, watch = await server.topic(), await server.group(), Watch()
    seen: list[int] = []

    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.attempt)
        await watch.good(ChangeEvent, 2)  # twice five seconds: longer than the first lease

    await sent(server, topic, b"long work")
    async with PushConsumer(
        server.endpoint, group=group, subscriptions=[topic], handler=handle, invisible=10, hooks=[watch]
    ):
        await watch.good(AckEvent)
    assert seen == [1]


async def test_2_changes_and_ack_of_one_message_go_one_after_the_other_and_leave_no_copy(
    server: Server,
) -> None:
    topic, group = await server.topic(), await server.group()
    await sent(server, topic, b"once")
    async with SimpleConsumer(server.endpoint, group=group, subscriptions=[topic]) as consumer:
        (message,) = await consumer.receive(invisible=10)
        await asyncio.gather(message.extend(11), message.extend(10), message.extend(12), message.ack())
        with pytest.raises(UsageError):
            await message.extend(10)
        await server.pass_time(18)
        waiting = asyncio.create_task(consumer.receive(wait=5))
        await asyncio.wait((waiting,), timeout=0.5)
        await server.pass_time(6)
        assert await waiting == []


async def test_3_a_dead_letter_is_the_message_itself_though_its_lease_was_extended(server: Server) -> None:
    topic, group, watch = await server.topic(fifo=True), await server.group(ordered=True), Watch()

    async def give_up(message: ReceivedMessage) -> None:
        if message.body == b"broken":
            await message.extend(20)
            await message.extend(25)
            raise DeadLetter("it cannot be read")

    await sent(server, topic, b"fine", b"broken", b"fine as well", message_group="g")
    async with PushConsumer(
        server.endpoint, group=group, subscriptions=[topic], handler=give_up, hooks=[watch]
    ):
        await watch.good(ForwardEvent)
        await watch.good(AckEvent, 2)
    reader = await server.group(max_attempts=50)
    async with SimpleConsumer(server.endpoint, group=reader, subscriptions=[dead_letters(group)]) as consumer:
        (letter,) = await consumer.receive()
        assert letter.body == b"broken"
        await letter.ack()


async def test_4_a_receive_leaves_three_seconds_beyond_its_poll(server: Server) -> None:
    topic, group, transport = await server.topic(), await server.group(), Polls()
    await sent(server, topic, b"1")
    async with SimpleConsumer(
        server.endpoint, group=group, subscriptions=[topic], transport=transport, timeouts=Timeouts(request=1)
    ) as consumer:
        (message,) = await consumer.receive(wait=7)
        await message.ack()
    assert transport.deadlines == [10.0]


async def test_5_redelivery_topics_are_refused_and_dead_letters_guarded(server: Server) -> None:
    topic, group, watch = await server.topic(), await server.group(max_attempts=17), Watch()
    with pytest.raises(ValueError, match="can stop redelivery"):
        SimpleConsumer(server.endpoint, group=group, subscriptions=[f"%RETRY%{group}"])

    async def give_up(message: ReceivedMessage) -> None:
        raise DeadLetter("no")

    await sent(server, topic, b"1")
    async with PushConsumer(
        server.endpoint, group=group, subscriptions=[topic], handler=give_up, hooks=[watch]
    ):
        await watch.good(ForwardEvent)
    equal = await server.group(max_attempts=17)
    with pytest.raises(UsageError, match="begin with attempt 19"):
        async with SimpleConsumer(server.endpoint, group=equal, subscriptions=[dead_letters(group)]):
            pass


async def test_7_every_message_says_when_it_was_born(server: Server) -> None:
    topic, group = await server.topic(), await server.group()
    before = datetime.now(UTC) - timedelta(seconds=1)
    await sent(server, topic, b"1")
    async with SimpleConsumer(server.endpoint, group=group, subscriptions=[topic]) as consumer:
        (message,) = await consumer.receive()
        await message.ack()
    assert message.born_at is not None
    assert before <= message.born_at <= datetime.now(UTC) + timedelta(seconds=1)


async def test_8_an_unknown_group_is_one_error_with_its_remedy_or_created_on_request(server: Server) -> None:
    topic, group = await server.topic(), server.name("group")
    await sent(server, topic, b"1")
    with pytest.raises(GroupNotFound, match="create the consumer group first"):
        async with SimpleConsumer(server.endpoint, group=group, subscriptions=[topic]):
            pass
    async with SimpleConsumer(
        server.endpoint, group=group, subscriptions=[topic], create_group=True
    ) as consumer:
        (message,) = await consumer.receive()
        assert (message.body, message.attempt) == (b"1", 1)
        await message.ack()


def test_9_no_ping_that_ends_the_connection() -> None:
    assert int(dict(_OPTIONS)["grpc.keepalive_time_ms"]) >= 300_000


async def test_10_the_address_that_a_server_names_can_be_replaced(server: Server) -> None:
    topic, group = await server.topic(), await server.group()
    named: list[str] = []

    def elsewhere(address: str) -> str:
        named.append(address)
        return server.endpoint

    async with (
        Connection(server.endpoint, address_map=elsewhere) as rocketmq,
        Producer(rocketmq) as producer,
        SimpleConsumer(rocketmq, group=group, subscriptions=[topic]) as consumer,
    ):
        await producer.send(Message(topic, b"1"))
        (message,) = await consumer.receive()
        await message.ack()
    assert named


async def test_11_an_error_keeps_code_and_words_of_the_server(server: Server) -> None:
    topic = server.name("topic")
    with pytest.raises(TopicNotFound) as raised:
        async with Producer(server.endpoint, topics=[topic], timeouts=Timeouts(start=1)):
            pass
    assert isinstance(raised.value, Refused)
    assert raised.value.code == 40402
    assert topic in str(raised.value)


async def test_13_a_topic_that_was_asked_for_too_early_is_waited_for(server: Server) -> None:
    topic = server.name("topic")

    async with Producer(server.endpoint, timeouts=Timeouts(start=PATIENCE)) as producer:
        sending = asyncio.create_task(producer.send(Message(topic, b"early")))
        await asyncio.wait((sending,), timeout=0.5)
        assert not sending.done()
        await server.topic(topic)
        await server.pass_time(21)
        receipt = await asyncio.wait_for(sending, PATIENCE)
        assert receipt.topic == topic
