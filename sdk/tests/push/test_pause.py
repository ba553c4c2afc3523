"""A push consumer receives nothing of a topic while that is paused."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiorocketmq._push.receiving import Receiving
from aiorocketmq.errors import ClosedError
from aiorocketmq.message import Message
from aiorocketmq.producer import Producer
from aiorocketmq.push_consumer import PushConsumer
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import Acked, Delivered, PollParked

from sdk.tests.clients import push_consumer


@pytest.fixture
async def consumer(broker: FakeBroker, seen: Any) -> AsyncIterator[PushConsumer]:
    await broker.create_topic("refunds")
    async with PushConsumer(
        broker.endpoint, group="billing", subscriptions=["orders", "refunds"], handler=seen
    ) as consumer:
        yield consumer


def receiving(consumer: PushConsumer) -> Receiving:
    running = consumer._open().receiving
    assert isinstance(running, Receiving)
    return running


async def no_poll_of(consumer: PushConsumer, topic: str) -> None:
    """Wait until the polls of a topic have ended."""
    polls = receiving(consumer)._polls
    async with asyncio.timeout(10):
        await asyncio.wait([task for queue, task in polls.items() if queue.topic == topic])


async def test_a_paused_topic_is_not_received_and_others_are(
    broker: FakeBroker, history: Any, consumer: PushConsumer, producer: Producer, seen: Any
) -> None:
    await history.shows(PollParked, 2)
    consumer.pause("orders")
    await no_poll_of(consumer, "orders")
    assert consumer.paused == {"orders"}
    await producer.send(Message("orders", b"waits"))
    await producer.send(Message("refunds", b"comes"))
    await seen.ends(1)
    await history.shows(Acked)
    assert seen.bodies == [b"comes"]
    consumer.resume("orders")
    await broker.clock.advance(
        seconds=30
    )  # on Apache's servers a cancelled poll holds its place for a moment
    await seen.ends(2)
    assert seen.bodies == [b"comes", b"waits"]
    assert consumer.paused == frozenset()


async def test_what_is_in_hand_is_handled_during_a_pause(
    consumer: PushConsumer, producer: Producer, seen: Any, history: Any
) -> None:
    gate = seen.hold(b"1")
    await producer.send(Message("orders", b"1"))
    await seen.starts(1)
    consumer.pause()
    assert consumer.paused == {"orders", "refunds"}
    gate.set()
    await history.shows(Acked)
    assert seen.ended == [b"1"]


async def test_each_topic_is_paused_until_it_is_resumed(consumer: PushConsumer) -> None:
    consumer.pause("orders")
    consumer.pause("refunds")
    assert consumer.paused == {"orders", "refunds"}
    consumer.resume("orders")
    assert consumer.paused == {"refunds"}


async def test_a_pause_that_ends_at_once_loses_no_poll(
    broker: FakeBroker, consumer: PushConsumer, producer: Producer, seen: Any
) -> None:
    for _ in range(3):
        consumer.pause()
        consumer.resume()
    await producer.send(Message("orders", b"1"))
    await broker.clock.advance(seconds=6)
    await seen.ends(1)
    assert {queue.topic for queue in receiving(consumer)._polls} == {"orders", "refunds"}


async def test_only_subscribed_topics_can_be_paused(consumer: PushConsumer) -> None:
    with pytest.raises(ValueError, match="topic 'nothing' is not subscribed"):
        consumer.pause("nothing")
    with pytest.raises(ValueError, match="topic 'nothing' is not subscribed"):
        consumer.resume("orders", "nothing")


async def test_a_consumer_that_is_not_open_cannot_be_paused(broker: FakeBroker, seen: Any) -> None:
    consumer = push_consumer(broker.endpoint, handler=seen)
    with pytest.raises(ClosedError):
        consumer.pause()
    with pytest.raises(ClosedError):
        _ = consumer.statistics
    assert consumer.paused == frozenset()


async def test_a_topic_that_is_unsubscribed_and_subscribed_again_is_not_paused_any_more(
    broker: FakeBroker, consumer: PushConsumer, producer: Producer, seen: Any
) -> None:
    consumer.pause("refunds")
    await consumer.unsubscribe("refunds")
    await consumer.subscribe("refunds")
    await producer.send(Message("refunds", b"1"))
    await broker.clock.advance(seconds=6)
    await seen.ends(1)
    assert seen.bodies == [b"1"]


async def test_a_stop_during_a_pause_leaves_nothing_behind(history: Any, consumer: PushConsumer) -> None:
    await history.shows(PollParked, 2)
    consumer.pause()
    consumer.stop()
    await asyncio.wait_for(consumer.run(), 10)
    assert history.of(Delivered) == []
