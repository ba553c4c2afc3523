"""A simple consumer's messages go through handlers and hooks as a push consumer's do, and are settled by their end."""

import threading
from collections.abc import AsyncIterator

import pytest
from aiorocketmq.deduplication import DeduplicationHook, MemoryStore
from aiorocketmq.hooks import Event, HandleCall, HandleEvent, Hook, Phase
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.push_consumer import DeadLetter, RetryLater
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import LeaseChanged

from sdk.tests.clients import simple_consumer


class Around(Hook):
    """Notes what it wraps and what it sees."""

    def __init__(self) -> None:
        self.story: list[str] = []
        self.phases: list[Phase] = []

    async def handle(self, message: ReceivedMessage, call: HandleCall) -> None:
        self.story.append("before")
        await call(message)
        self.story.append("after")

    def observe(self, event: Event) -> None:
        if isinstance(event, HandleEvent):
            self.phases.append(event.phase)


@pytest.fixture
def hook() -> Around:
    return Around()


@pytest.fixture
async def watched(broker: FakeBroker, hook: Around) -> AsyncIterator[SimpleConsumer]:
    async with simple_consumer(broker.endpoint, hooks=[hook]) as consumer:
        yield consumer


async def one(producer: Producer, consumer: SimpleConsumer) -> ReceivedMessage:
    await producer.send(Message("orders", b"1"))
    (message,) = await consumer.receive()
    return message


async def test_a_message_whose_handler_returns_is_acknowledged_and_its_hooks_were_around_it(
    producer: Producer, watched: SimpleConsumer, hook: Around, broker: FakeBroker
) -> None:
    message = await one(producer, watched)

    async def handler(message: ReceivedMessage) -> None:
        hook.story.append(message.body.decode())

    await watched.handle(message, handler)
    assert hook.story == ["before", "1", "after"]
    assert hook.phases == [Phase.INVOKE, Phase.OK]
    assert message.is_settled
    assert not broker.leases("billing")


@pytest.mark.parametrize("failure", [KeyError("no such order"), DeadLetter("only push consumers give up")])
async def test_a_message_whose_handler_fails_is_released_and_its_error_raised(
    producer: Producer, watched: SimpleConsumer, hook: Around, failure: Exception
) -> None:
    message = await one(producer, watched)

    async def handler(message: ReceivedMessage) -> None:
        raise failure

    with pytest.raises(type(failure)) as raised:
        await watched.handle(message, handler)
    assert raised.value is failure
    assert hook.phases == [Phase.INVOKE, Phase.FAIL]
    (again,) = await watched.receive()
    assert (again.message_id, again.attempt) == (message.message_id, 2)


async def test_retry_later_asks_for_the_message_after_its_seconds_and_is_not_raised(
    producer: Producer, consumer: SimpleConsumer, broker: FakeBroker
) -> None:
    message = await one(producer, consumer)

    async def handler(message: ReceivedMessage) -> None:
        raise RetryLater(45)

    async with broker.events.subscribe() as events:
        await consumer.handle(message, handler)
        changed = await anext(event async for event in events if isinstance(event, LeaseChanged))
    assert changed.invisible == 45
    assert message.is_settled


async def test_what_the_handler_settled_itself_is_left_alone(
    producer: Producer, consumer: SimpleConsumer
) -> None:
    message = await one(producer, consumer)

    async def handler(message: ReceivedMessage) -> None:
        await message.release()

    await consumer.handle(message, handler)
    (again,) = await consumer.receive()
    assert again.attempt == 2


async def test_a_plain_function_runs_in_a_thread(producer: Producer, consumer: SimpleConsumer) -> None:
    message = await one(producer, consumer)
    threads: list[int] = []
    await consumer.handle(message, lambda message: threads.append(threading.get_ident()))
    assert threads != [threading.get_ident()]
    assert message.is_settled


async def test_a_message_that_is_stored_twice_is_handled_once(broker: FakeBroker) -> None:
    handled: list[bytes] = []

    async def handler(message: ReceivedMessage) -> None:
        handled.append(message.body)

    with broker.faults.drop_reply("SendMessage", times=1):
        async with Producer(broker.endpoint) as producer:
            await producer.send(Message("orders", b"1"))
    assert len(broker.messages("orders")) == 2
    deduplication = DeduplicationHook(MemoryStore())
    async with simple_consumer(broker.endpoint, hooks=[deduplication]) as consumer:
        settled = 0
        while settled < 2:
            for message in await consumer.receive():
                await consumer.handle(message, handler)
                settled += message.is_settled
    assert handled == [b"1"]
