"""A push consumer counts what it does."""

from typing import Any

from aiorocketmq.message import Message
from aiorocketmq.producer import Producer
from aiorocketmq.push_consumer import DeadLetter, RetryLater
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import Acked, DeadLettered, LeaseChanged

from sdk.tests.clients import push_consumer


async def test_every_message_is_counted_once_by_how_it_ended(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    seen.failures = {b"later": [RetryLater(60)], b"never": [DeadLetter("broken")]}
    gate = seen.hold(b"slow")
    for body in (b"fine", b"later", b"never", b"slow"):
        await producer.send(Message("orders", body))
    async with push_consumer(broker.endpoint, handler=seen, concurrency=4) as consumer:
        await seen.starts(4)
        await history.shows(Acked)
        await history.shows(DeadLettered)
        await history.shows(LeaseChanged)
        while consumer.messages_in_flight > 1:
            await broker.clock.advance(seconds=0)
        now = consumer.statistics
        assert (now.received, now.handled, now.failed) == (4, 1, 2)
        assert (now.acknowledged, now.released, now.dead_lettered, now.lost) == (1, 1, 1, 0)
        assert (now.in_flight, now.running, now.waiting, now.body_bytes) == (1, 1, 0, 4)
        gate.set()
        await history.shows(Acked, 2)


async def test_messages_that_wait_for_a_handler_are_distinguished_from_running_ones(
    broker: FakeBroker, producer: Producer, seen: Any
) -> None:
    gate = seen.hold(b"1", b"2", b"3")
    for body in (b"1", b"2", b"3"):
        await producer.send(Message("orders", body))
    async with push_consumer(broker.endpoint, handler=seen, concurrency=1) as consumer:
        await seen.starts(1)
        while consumer.messages_in_flight < 3:
            await broker.clock.advance(seconds=0)
        assert (consumer.statistics.running, consumer.statistics.waiting) == (1, 2)
        gate.set()
        await seen.ends(3)
