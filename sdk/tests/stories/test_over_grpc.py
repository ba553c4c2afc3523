"""Whole lives of clients over gRPC: every field of what they ask, tell and give."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any

import pytest
from aiorocketmq import (
    AckManyError,
    Compression,
    DeadLetter,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    Retry,
    RetryLater,
    SimpleConsumer,
    Sql,
)
from aiorocketmq.pull_consumer import Offset
from aiorocketmq.transaction import Resolution
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import TransactionChecked

from sdk.tests import waiting
from sdk.tests.stories.story import Story

until = partial(waiting.until, within=20)


START = datetime(2030, 1, 2, 3, 4, 5, 250_000, UTC)
TOPICS = {"orders": "NORMAL", "steps": "FIFO", "later": "DELAY", "sure": "TRANSACTION", "urgent": "PRIORITY"}


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    async with FakeBroker(clock="manual", start=START) as broker:
        for name, kind in TOPICS.items():
            await broker.create_topic(f"ns%{name}", type=kind, queues=1)
        await broker.create_topic("ns%chat", type="LITE", queues=1)
        await broker.create_group("ns%billing", max_attempts=3, backoff=(10.0, 60.0))
        await broker.create_group("ns%stepping", ordered=True, max_attempts=3, backoff=(10.0, 60.0))
        await broker.create_group("ns%talking", lite_topic="ns%chat")
        yield broker


@pytest.fixture
def story(broker: FakeBroker) -> Iterator[Story]:
    story = Story(broker)
    with story.logging():
        yield story


def options(broker: FakeBroker, story: Story) -> dict[str, Any]:
    """What all clients have in common."""
    return {
        "namespace": "ns",
        "hooks": [story],
        "transport": story.transport,
        "environment": story.environment,
        "clock": broker.clock,
    }


async def put(broker: FakeBroker, *messages: Message) -> None:
    """Store messages unseen."""
    unseen = Story(broker, seed=2)
    async with Producer(
        broker.endpoint, namespace="ns", environment=unseen.environment, clock=broker.clock
    ) as producer:
        for message in messages:
            await producer.send(message)


async def transactions(story: Story, broker: FakeBroker, producer: Producer) -> None:
    """Commit, roll back, and leave unknown until the broker has asked."""
    async with producer.transaction(Message("sure", b"half", tag="t"), check_after=7) as transaction:
        story.result("transaction", transaction.receipt)
    with pytest.raises(LookupError):
        async with producer.transaction(Message("sure", b"no")):
            raise LookupError
    async with producer.transaction(Message("sure", b"unknown", properties={"b": "2"})) as transaction:
        transaction.leave_unknown()
    async with broker.events.subscribe() as events:
        while not any(isinstance(event, TransactionChecked) for event in events.take()):
            await broker.clock.advance(seconds=5)
    await until(lambda: "phase=OK operation=TransactionEndEvent-3" in story.text())


async def test_a_producer(broker: FakeBroker, story: Story) -> None:
    async def check(message: ReceivedMessage) -> Resolution:
        story.result("asked about", message)
        return Resolution.COMMIT

    producer = Producer(
        broker.endpoint,
        topics=["orders"],
        transaction_checker=check,
        compression=Compression(threshold=1000),
        retry=Retry(attempts=3, budget=30.0),
        client_properties={"deployment": "blue"},
        **options(broker, story),
    )
    async with producer:
        plain = Message("orders", b"plain", tag="paid", keys=["k1", "k2"], properties={"a": "1"})
        story.result("plain", await producer.send(plain))
        story.result("large", await producer.send(Message("orders", b"large" * 300), timeout=60))
        story.result("ordered", await producer.send(Message("steps", b"one", message_group="g1")))
        delayed = await producer.send(Message("later", b"soon", delay=90.5))
        story.result("delayed", delayed)
        at = datetime(2030, 1, 2, 4, tzinfo=UTC)
        story.result("at", await producer.send(Message("later", b"at", deliver_at=at)))
        story.result("urgent", await producer.send(Message("urgent", b"now", priority=3)))
        story.result("lite", await producer.send(Message("chat", b"hi", lite_topic="ann")))
        await producer.recall(delayed)
        await transactions(story, broker, producer)
        with broker.faults.refuse("SendMessage", "TOO_MANY_REQUESTS", times=1):
            story.result("after a refusal", await producer.send(Message("orders", b"again")))
        with broker.faults.refuse("SendMessage", "FORBIDDEN"), story.failing("forbidden"):
            await producer.send(plain)
        with broker.faults.drop_reply("SendMessage", times=1):
            story.result("after a lost answer", await producer.send(Message("orders", b"lost")))
        with broker.faults.refuse("RecallMessage", "FORBIDDEN"), story.failing("recall forbidden"):
            await producer.recall(delayed)
        with broker.faults.refuse("EndTransaction", "FORBIDDEN"), story.failing("end forbidden"):
            async with producer.transaction(Message("sure", b"open")):
                pass
        with story.failing("too large"):
            await producer.send(Message("orders", Random(1).randbytes(4_200_000)))
        with story.failing("of the wrong type"):
            await producer.send(Message("steps", b"x"))
        story.result("health", producer.health())
    story.check("producer")


async def test_batches(broker: FakeBroker, story: Story) -> None:
    producer = Producer(broker.endpoint, linger=0.01, max_batch=3, **options(broker, story))
    messages = [Message("orders", b"%d" % number, tag=f"t{number}") for number in range(4)]
    async with producer:
        story.result("receipts", await producer.send_many(messages))
        story.result("concurrent", await asyncio.gather(*map(producer.send, messages[:2])))
        with broker.faults.refuse("SendMessage", "FORBIDDEN"), story.failing("forbidden"):
            await producer.send_many(messages[:2])
    story.check("batches")


async def test_a_simple_consumer(broker: FakeBroker, story: Story) -> None:
    def paid(number: int) -> Message:
        return Message("orders", b"%d" % number, tag="paid", keys=["k1", "k2"], properties={"a": "1"})

    await put(broker, *map(paid, range(9)))
    consumer = SimpleConsumer(
        broker.endpoint, group="billing", subscriptions={"orders": "paid || open"}, **options(broker, story)
    )

    async def take(count: int = 1) -> list[ReceivedMessage]:
        messages = await consumer.receive(max_messages=count, invisible=25.0, wait=1.0)
        assert len(messages) == count
        return messages

    def later(message: ReceivedMessage) -> None:
        raise RetryLater(12.5)

    def fail(message: ReceivedMessage) -> None:
        raise LookupError

    async with consumer:
        first, second, third = await take(3)
        await broker.clock.advance(seconds=2)
        await first.extend(40.0)
        story.result("extended", first.lease_ends_at)
        await first.ack()
        await first.ack()
        await second.release()
        story.result("released", second.is_settled)
        with broker.faults.refuse("ChangeInvisibleDuration", "FORBIDDEN"), story.failing("extend forbidden"):
            await third.extend(30.0)
        with broker.faults.drop_reply("ChangeInvisibleDuration", times=1), story.failing("extend lost"):
            await third.extend(30.0)
        with story.failing("extend after a lost answer"):
            await third.extend(30.0)
        with (
            broker.faults.refuse("AckMessage", "INVALID_RECEIPT_HANDLE"),
            story.failing("ack of a lost lease"),
        ):
            await third.ack()
        fourth, fifth, sixth = await take(3)
        await consumer.handle(fourth, later)
        with pytest.raises(LookupError):
            await consumer.handle(fifth, fail)
        await consumer.handle(sixth, lambda message: None)
        seventh, eighth = await take(2)
        with broker.faults.refuse("AckMessage", "FORBIDDEN"), pytest.raises(AckManyError) as failed:
            await consumer.ack([seventh, eighth])
        story.result("ack of many forbidden", failed.value)
        for message, error in failed.value.outcomes:
            assert error is not None
            story.result(f"ack of {message.body!r}", error)
        await consumer.ack([seventh, eighth])
        with broker.faults.refuse("ReceiveMessage", "FORBIDDEN"), story.failing("receive forbidden"):
            await consumer.receive(max_messages=1, wait=1)
        await consumer.subscribe("orders", Sql("a = 2"))
        await consumer.subscribe("urgent")
        await consumer.unsubscribe("orders")
        await broker.clock.advance(seconds=1)
        story.result("health", consumer.health())
        await put(broker, Message("urgent", b"iterated", priority=0))
        async for message in consumer.messages(invisible=15.0, wait=1.0, max_messages=2, keep_alive=True):
            await broker.clock.advance(seconds=14)
            story.result("iterated", message)
            break
    story.check("simple_consumer")


class Handler:
    """Ends as the body of a message says, and keeps what it was called with."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self.calls: list[tuple[bytes, int]] = []
        self.gate = asyncio.Event()

    async def __call__(self, message: ReceivedMessage) -> None:
        self.calls.append((message.body, message.attempt))
        self._story.result("handler", message)
        match message.body:
            case b"later":
                raise RetryLater(12.5)
            case b"never":
                raise DeadLetter("unusable")
            case b"fails":
                raise LookupError("not found")
            case b"held":
                await self.gate.wait()


@pytest.mark.parametrize(("group", "topic"), [("billing", "orders"), ("stepping", "steps")])
async def test_a_push_consumer(broker: FakeBroker, story: Story, group: str, topic: str) -> None:
    handler = Handler(story)
    consumer = PushConsumer(
        broker.endpoint,
        group=group,
        subscriptions=[topic],
        handler=handler,
        concurrency=1,
        invisible=20.0,
        **options(broker, story),
    )
    async with consumer:
        story.result("queues", consumer.assigned_queues)
        for body, pauses in (
            (b"fine", ()),
            (b"also fine", ()),
            (b"later", (12.5, 12.5)),
            (b"never", ()),
            (b"fails", (10, 60)),
        ):
            handler.calls.clear()
            await put(broker, Message(topic, body, tag="t", message_group="g1" if topic == "steps" else None))
            await until(lambda: handler.calls)
            for pause in pauses:
                await broker.clock.advance(seconds=pause + 0.5)
            count = 1 + len(pauses)
            await until(lambda count=count: len(handler.calls) == count)  # type: ignore[misc]
            await until(lambda: not consumer.messages_in_flight)
        await put(broker, Message(topic, b"held", message_group="g2" if topic == "steps" else None))
        await until(lambda: (b"held", 1) in handler.calls)
        await broker.clock.advance(seconds=15, patience=0.1)
        story.result("statistics", consumer.statistics)
        handler.gate.set()
        stored = {message.body: message.message_id for message in broker.messages(f"ns%{topic}")}
        for body in (b"fine", b"fails"):
            answer = await broker.verify_message(consumer.client_id, f"ns%{topic}", stored[body])
            assert answer is not None
            story.result("verified", f"{answer.code} {answer.text}")
        await put(broker, Message("urgent", b"foreign", priority=1))
        (foreign,) = broker.messages("ns%urgent")
        await broker.verify_message(consumer.client_id, "ns%urgent", foreign.message_id)
        assert await broker.print_stack_trace(consumer.client_id) is not None
        await until(lambda: not consumer.messages_in_flight)
        story.result("health", consumer.health())
    story.result("dead letters", [letter.body for letter in broker.dead_letters(f"ns%{group}")])
    story.check(f"push_consumer_{group}")


async def test_lite_topics(broker: FakeBroker, story: Story) -> None:
    handler = Handler(story)
    consumer = PushConsumer(
        broker.endpoint,
        group="talking",
        subscriptions=["chat"],
        lite_topics=["ann", "bob"],
        handler=handler,
        **options(broker, story),
    )
    async with consumer:
        await put(broker, Message("chat", b"hello", lite_topic="ann"))
        await until(lambda: handler.calls and not consumer.messages_in_flight)
        # What waits behind a message that is to come later comes later as well.
        await put(broker, *(Message("chat", body, lite_topic="carol") for body in (b"later", b"2", b"3")))
        await consumer.add_lite_topics("carol")
        await until(lambda: (b"later", 1) in handler.calls and not consumer.messages_in_flight)
        await consumer.remove_lite_topics("bob")
        story.result("lite topics", sorted(consumer.lite_topics))
        refused = broker.faults.refuse("SyncLiteSubscription", "LITE_SUBSCRIPTION_QUOTA_EXCEEDED")
        with refused, story.failing("too many"):
            await consumer.add_lite_topics("dave")
    story.check("lite_topics")


async def test_a_pull_consumer(broker: FakeBroker, story: Story) -> None:
    await put(broker, *(Message("orders", b"%d" % number, tag="t") for number in range(5)))
    await broker.clock.advance(seconds=10)
    await put(broker, *(Message("orders", b"%d" % number, tag="t") for number in range(5, 7)))
    consumer = PullConsumer(
        broker.endpoint,
        group="billing",
        filters={"orders": "t || u"},
        start=Offset.BEGIN,
        max_messages=3,
        wait=7.0,
        auto_commit=None,
        **options(broker, story),
    )
    async with consumer:
        (queue,) = await consumer.queues("orders")
        consumer.assign([queue])
        batch = await consumer.poll(10)
        story.result("batch", batch)
        story.result("committed", await consumer.committed(queue))
        await consumer.commit({queue: 2})
        story.result("committed", await consumer.committed(queue))
        story.result("lag", await consumer.lag())
        await consumer.seek(queue, START + timedelta(seconds=5, microseconds=1500))
        story.result("position", await consumer.position(queue))
        await consumer.seek(queue, Offset.END)
        story.result("position", await consumer.position(queue))
        await consumer.seek(queue, 1)
        story.result("batch", await consumer.poll(10))
        with broker.faults.refuse("UpdateOffset", "FORBIDDEN"), story.failing("commit forbidden"):
            await consumer.commit({queue: 3})
        with broker.faults.refuse("GetOffset", "FORBIDDEN"), story.failing("committed forbidden"):
            await consumer.committed(queue)
        with broker.faults.refuse("QueryOffset", "FORBIDDEN"), story.failing("seek forbidden"):
            await consumer.seek(queue, Offset.BEGIN)
        await consumer.seek(queue, 99)
        await until(lambda: "instead_of=99" in story.text())
        story.result("health", consumer.health())
        with broker.faults.refuse("PullMessage", "FORBIDDEN"), story.failing("pull forbidden"):
            await consumer.seek(queue, 1)
            await consumer.poll(10)
    story.check("pull_consumer")
