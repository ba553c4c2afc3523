"""Whole lives of clients over the remoting protocol: every field of what they ask, tell and give."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from aiorocketmq import (
    Compression,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    Sql,
)
from aiorocketmq._push import queue_consumption
from aiorocketmq.message import MessageQueue
from aiorocketmq.pull_consumer import Offset
from aiorocketmq.transaction import Resolution
from aiorocketmq_fake import FakeBroker

from sdk.tests.stories.story import Listening, Story
from sdk.tests.stories.test_over_grpc import START, TOPICS, Handler, transactions, until


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    server: dict[str, Any] = {"profile": "apache-5.5", "settings": {"recallMessageEnable": True}}
    async with FakeBroker(**server, clock="manual", start=START, remoting_port=0) as broker:
        for name, kind in TOPICS.items():
            await broker.create_topic(name, type=kind, queues=1)
        await broker.create_group("billing", max_attempts=3)
        await broker.create_group("stepping", ordered=True, max_attempts=3)
        yield broker


@pytest.fixture
def story(broker: FakeBroker) -> Iterator[Story]:
    story = Story(broker)
    with story.logging():
        yield story


@pytest.fixture
async def options(broker: FakeBroker, story: Story) -> AsyncIterator[dict[str, Any]]:
    """What all clients have in common."""
    behind = broker.remoting_endpoint
    assert behind is not None
    async with Listening.before(story, behind) as listening:
        yield {
            "endpoint": f"namesrv://{listening.address}",
            "address_map": {behind: listening.address},
            "hooks": [story],
            "environment": story.environment,
            "clock": broker.clock,
        }


async def put(broker: FakeBroker, *messages: Message) -> None:
    """Store messages unseen."""
    environment = Story(broker, seed=2).environment
    async with Producer(
        f"namesrv://{broker.remoting_endpoint}", environment=environment, clock=broker.clock
    ) as producer:
        for message in messages:
            await producer.send(message)


async def test_a_producer(broker: FakeBroker, story: Story, options: dict[str, Any]) -> None:
    async def check(message: ReceivedMessage) -> Resolution:
        story.result("asked about", message)
        return Resolution.ROLLBACK

    producer = Producer(
        group="sellers",
        topics=["orders"],
        transaction_checker=check,
        compression=Compression(threshold=1000),
        **options,
    )
    async with producer:
        plain = Message("orders", b"plain", tag="paid", keys=["k1", "k2"], properties={"a": "1"})
        story.result("plain", await producer.send(plain))
        story.result("large", await producer.send(Message("orders", b"large" * 300)))
        story.result("ordered", await producer.send(Message("steps", b"one", message_group="g1")))
        delayed = await producer.send(Message("later", b"soon", delay=90.5))
        story.result("delayed", delayed)
        await producer.recall(delayed)
        await transactions(story, broker, producer)
        with broker.faults.refuse("Remoting.SEND_MESSAGE_V2", "NO_PERMISSION"), story.failing("forbidden"):
            await producer.send(plain)
        with broker.faults.refuse("Remoting.SEND_MESSAGE_V2", "SYSTEM_BUSY", times=1):
            story.result("after a refusal", await producer.send(Message("orders", b"again")))
        refused = broker.faults.refuse("Remoting.END_TRANSACTION", "NO_PERMISSION")
        with refused, story.failing("end forbidden"):
            async with producer.transaction(Message("sure", b"open")):
                pass
        story.result("urgent", await producer.send(Message("urgent", b"now", priority=3)))
        with story.failing("unsupported"):
            await producer.send(Message("orders", b"hello", lite_topic="ann"))
        with story.failing("of the system"):
            await producer.send(Message("orders", b"x", properties={"TAGS": "t"}))
        story.result("health", producer.health())
    story.check("remoting_producer")


async def test_batches(story: Story, options: dict[str, Any]) -> None:
    messages = [Message("orders", b"%d" % number, tag=f"t{number}") for number in range(4)]
    async with Producer(linger=0.01, max_batch=3, **options) as producer:
        story.result("receipts", await producer.send_many(messages))
    story.check("remoting_batches")


async def test_a_pull_consumer(broker: FakeBroker, story: Story, options: dict[str, Any]) -> None:
    await put(broker, *(Message("orders", b"%d" % number, tag="t") for number in range(5)))
    await broker.clock.advance(seconds=10)
    await put(broker, *(Message("orders", b"%d" % number, tag="t") for number in range(5, 7)))
    consumer = PullConsumer(
        group="billing",
        filters={"orders": "t || u", "steps": Sql("a = 1")},
        start=Offset.BEGIN,
        max_messages=3,
        wait=7.0,
        auto_commit=None,
        **options,
    )
    async with consumer:
        (queue,) = await consumer.queues("orders")
        consumer.assign([queue])
        story.result("batch", await consumer.poll(10))
        story.result("committed", await consumer.committed(queue))
        await consumer.commit({queue: 2})
        story.result("committed", await consumer.committed(queue))
        story.result("lag", await consumer.lag())
        await consumer.seek(queue, START + timedelta(seconds=5, microseconds=1500))
        story.result("position", await consumer.position(queue))
        await consumer.seek(queue, START - timedelta(days=40_000))
        await consumer.seek(queue, Offset.END)
        story.result("position", await consumer.position(queue))
        await consumer.seek(queue, 1)
        story.result("batch", await consumer.poll(10))
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "UPDATE_CONSUMER_OFFSET": lambda: consumer.commit({queue: 3}),
            "QUERY_CONSUMER_OFFSET": lambda: consumer.committed(queue),
            "GET_MIN_OFFSET": lambda: consumer.seek(queue, Offset.BEGIN),
        }
        for name, call in calls.items():
            with broker.faults.refuse(f"Remoting.{name}", "NO_PERMISSION"), story.failing(name):
                await call()
        await consumer.seek(queue, 99)
        await until(lambda: "instead_of=99" in story.text())
        consumer.assign([MessageQueue("steps", "broker-a", 0)])
        await until(lambda: "expressionType='SQL92'" in story.text())
        story.result("health", consumer.health())
        with broker.faults.refuse("Remoting.PULL_MESSAGE", "NO_PERMISSION"), story.failing("pull forbidden"):
            consumer.assign([queue])
            await consumer.poll(10)
    story.check("remoting_pull_consumer")


@pytest.mark.parametrize(("group", "topic"), [("billing", "orders"), ("stepping", "steps")])
async def test_a_push_consumer(
    broker: FakeBroker,
    story: Story,
    options: dict[str, Any],
    group: str,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queue_consumption, "COMMIT_EVERY", 3600.0)  # else how many there are depends on time
    monkeypatch.setattr(queue_consumption, "BACKOFF", replace(queue_consumption.BACKOFF, max_attempts=3))
    handler = Handler(story)
    is_ordered = group == "stepping"
    consumer = PushConsumer(
        group=group,
        subscriptions={topic: "t || u"},
        handler=handler,
        concurrency=1,
        ordered=is_ordered,
        start=Offset.BEGIN,
        **options,
    )
    async with consumer:
        await until(lambda: len(consumer.assigned_queues) == 2)
        story.result("queues", consumer.assigned_queues)
        for body, pauses in (
            (b"fine", ()),
            (b"also fine", ()),
            (b"later", (12.5, 12.5)),
            (b"never", ()),
            (b"fails", (10, 30)),
        ):
            handler.calls.clear()
            await put(broker, Message(topic, body, tag="t", message_group="g1" if is_ordered else None))
            await until(lambda: handler.calls)
            for attempt, pause in enumerate(pauses, 2):
                await until(lambda: is_ordered or not consumer.messages_in_flight)
                await broker.clock.advance(seconds=31 if body == b"later" and not is_ordered else pause + 0.5)
                await until(lambda count=attempt: len(handler.calls) >= count)  # type: ignore[misc]
            await until(lambda: not consumer.messages_in_flight)
        story.result("statistics", consumer.statistics)
        story.result("health", consumer.health())
    story.result("dead letters", [letter.body for letter in broker.dead_letters(group)])
    story.check(f"remoting_push_consumer_{group}")
