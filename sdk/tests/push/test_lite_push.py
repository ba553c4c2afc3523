"""Push consumers of lite topics: their own lists, in order within each, side by side between them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from aiorocketmq.errors import ClosedError, QuotaExceededError, ServerError, UsageError
from aiorocketmq.hooks import ChangeEvent, ChangeReason, Event, Hook
from aiorocketmq.message import Message
from aiorocketmq.producer import Producer
from aiorocketmq.pull_consumer import Offset
from aiorocketmq.push_consumer import PushConsumer, RetryLater
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import Acked, DeadLettered
from aiorocketmq_fake.core.values.profiles import PROFILES

from sdk.tests.clients import push_consumer


@pytest.fixture
async def lite_broker() -> AsyncIterator[FakeBroker]:
    async with FakeBroker(profile="documented", clock="manual") as broker:
        await broker.create_topic("sessions", type="LITE", queues=1)
        await broker.create_group(
            "chat", lite_topic="sessions", lite_quota=5, max_attempts=3, backoff=[0.001]
        )
        yield broker


@pytest.fixture
async def lite_producer(lite_broker: FakeBroker) -> AsyncIterator[Producer]:
    async with Producer(lite_broker.endpoint) as producer:
        yield producer


async def send(producer: Producer, lite_topic: str, *bodies: bytes) -> None:
    for body in bodies:
        await producer.send(Message("sessions", body, lite_topic=lite_topic))


def consumer_of(broker: FakeBroker, seen: Any, *lite_topics: str, hooks: Sequence[Hook] = ()) -> PushConsumer:
    return PushConsumer(
        broker.endpoint,
        group="chat",
        subscriptions=["sessions"],
        lite_topics=lite_topics,
        handler=seen,
        hooks=hooks,
    )


async def test_only_the_lite_topics_of_the_list_are_consumed_each_in_order(
    lite_broker: FakeBroker, lite_producer: Producer, seen: Any
) -> None:
    async with consumer_of(lite_broker, seen, "alice", "bob") as consumer:
        assert consumer.lite_topics == {"alice", "bob"}
        await send(lite_producer, "alice", b"a1", b"a2", b"a3")
        await send(lite_producer, "carol", b"c1")
        await send(lite_producer, "bob", b"b1", b"b2")
        await seen.ends(5)
    assert [body for body in seen.bodies if body[:1] == b"a"] == [b"a1", b"a2", b"a3"]
    assert [body for body in seen.bodies if body[:1] == b"b"] == [b"b1", b"b2"]
    assert b"c1" not in seen.bodies
    assert {message.lite_topic for message in seen.messages} == {"alice", "bob"}


async def test_one_lite_topic_holds_up_no_other(
    lite_broker: FakeBroker, lite_producer: Producer, seen: Any
) -> None:
    gate = seen.hold(b"a1")
    async with consumer_of(lite_broker, seen, "alice", "bob"):
        await send(lite_producer, "alice", b"a1", b"a2")
        await seen.starts(1)
        await send(lite_producer, "bob", b"b1")
        await seen.ends(1)
        assert seen.ended == [b"b1"]
        gate.set()
        await seen.ends(3)
    assert seen.bodies.index(b"a1") < seen.bodies.index(b"a2")


async def test_the_list_changes_while_the_consumer_runs(
    lite_broker: FakeBroker, lite_producer: Producer, seen: Any
) -> None:
    async with consumer_of(lite_broker, seen) as consumer:
        await consumer.add_lite_topics("alice", "bob")
        await send(lite_producer, "alice", b"a1")
        await seen.ends(1)
        await consumer.remove_lite_topics("alice")
        assert consumer.lite_topics == {"bob"}
        await send(lite_producer, "alice", b"a2")
        await send(lite_producer, "bob", b"b1")
        await seen.ends(2)
        with pytest.raises(UsageError, match="lite topic 'alice' is not subscribed"):
            await consumer.remove_lite_topics("alice")
    assert seen.bodies == [b"a1", b"b1"]


async def test_the_servers_limit_of_names_is_checked_before_anything_is_asked(seen: Any) -> None:
    profile = replace(PROFILES["documented"], max_lite_topic_size=8)
    async with FakeBroker(profile=profile, clock="manual") as broker:
        await broker.create_topic("sessions", type="LITE", queues=1)
        await broker.create_group("chat", lite_topic="sessions")
        async with consumer_of(broker, seen) as consumer:
            await consumer.add_lite_topics("a" * 8)
            with (
                broker.faults.delay("SyncLiteSubscription", 0.0) as asked,
                pytest.raises(ValueError, match="is 9 characters long; at most 8 are allowed"),
            ):
                await consumer.add_lite_topics("b", "a" * 9)
            assert asked.hits == 0
            assert consumer.lite_topics == {"a" * 8}


async def test_a_group_begins_in_a_lite_topic_where_it_is_configured(
    lite_broker: FakeBroker, lite_producer: Producer, seen: Any
) -> None:
    await send(lite_producer, "old", b"o0", b"o1", b"o2")
    await send(lite_producer, "new", b"n0")
    async with consumer_of(lite_broker, seen) as consumer:
        await consumer.add_lite_topics("old", start=2)
        await consumer.add_lite_topics("new", start=Offset.END)
        await send(lite_producer, "new", b"n1")
        await seen.ends(2)
    assert sorted(seen.bodies) == [b"n1", b"o2"]


async def test_more_than_the_quota_is_refused_and_changes_nothing(lite_broker: FakeBroker, seen: Any) -> None:
    async with consumer_of(lite_broker, seen, "a", "b", "c") as consumer:
        with pytest.raises(QuotaExceededError, match="6 lite topics are more than the 5"):
            await consumer.add_lite_topics("d", "e", "f")
        assert consumer.lite_topics == {"a", "b", "c"}
        await consumer.add_lite_topics("a", "b", "c", "d", "e", "e")
        assert consumer.lite_topics == {"a", "b", "c", "d", "e"}


async def test_a_handler_that_asks_for_later_suspends_its_lite_topic(
    lite_broker: FakeBroker, lite_producer: Producer, seen: Any
) -> None:
    seen.failures = {b"a1": [RetryLater(60)]}
    reasons: list[ChangeReason] = []

    class Watch(Hook):
        def observe(self, event: Event) -> None:
            if isinstance(event, ChangeEvent):
                reasons.append(event.reason)

    async with consumer_of(lite_broker, seen, "alice", "bob", hooks=[Watch()]) as consumer:
        await send(lite_producer, "alice", b"a1", b"a2")
        await seen.starts(1)
        await send(lite_producer, "bob", b"b1")
        await seen.ends(1)
        while consumer.messages_in_flight:
            await lite_broker.clock.advance(seconds=0)
        assert seen.bodies == [b"a1", b"b1"]
        await lite_broker.clock.advance(seconds=70)
        await seen.ends(3)
    assert seen.bodies == [b"a1", b"b1", b"a1", b"a2"]
    assert set(reasons) == {ChangeReason.SUSPEND}


async def test_a_message_that_fails_again_and_again_is_a_dead_letter_and_the_lite_topic_continues(
    lite_broker: FakeBroker, lite_producer: Producer, seen: Any
) -> None:
    dead = asyncio.Event()
    with lite_broker.events.listen(
        lambda events: dead.set() if any(isinstance(each, DeadLettered) for each in events) else None
    ):
        seen.failures = {b"a1": [LookupError("no such user")] * 3}
        async with consumer_of(lite_broker, seen, "alice"):
            await send(lite_producer, "alice", b"a1", b"a2")
            await seen.ends(1)
            await asyncio.wait_for(dead.wait(), 10)
    assert seen.bodies == [b"a1", b"a1", b"a1", b"a2"]


async def test_a_lite_topic_that_another_consumer_took_is_wanted_no_more(seen: Any) -> None:
    async with FakeBroker(clock="manual") as broker:
        await broker.create_topic("sessions", type="LITE", queues=1)
        await broker.create_group("chat", lite_topic="sessions", lite_exclusive=True)
        async with consumer_of(broker, seen, "alice") as first, consumer_of(broker, seen, "alice") as second:
            async with asyncio.timeout(10):
                while first.lite_topics:
                    await broker.clock.advance(seconds=0)
            assert second.lite_topics == {"alice"}


async def test_the_full_list_is_sent_periodically(
    lite_broker: FakeBroker, lite_producer: Producer, seen: Any
) -> None:
    async with consumer_of(lite_broker, seen, "alice") as consumer:
        with (
            lite_broker.faults.refuse("SyncLiteSubscription", "INTERNAL_SERVER_ERROR", times=1),
            pytest.raises(ServerError),
        ):
            await consumer._lite_topics()._repeat()
        await consumer._lite_topics()._repeat()
        await send(lite_producer, "alice", b"a1")
        await seen.ends(1)
        assert seen.bodies == [b"a1"]
        assert consumer.lite_topics == {"alice"}


async def test_acks_of_lite_messages_name_their_lite_topic(
    lite_broker: FakeBroker, lite_producer: Producer, seen: Any
) -> None:
    acked: list[Acked] = []
    with lite_broker.events.listen(lambda events: acked.extend(e for e in events if isinstance(e, Acked))):
        async with consumer_of(lite_broker, seen, "alice"):
            await send(lite_producer, "alice", b"a1", b"a2")
            await seen.ends(2)
    assert len(acked) == 2


async def test_what_is_wrong_is_said_where_it_is_written(broker: FakeBroker, seen: Any) -> None:
    with pytest.raises(ValueError, match="one topic, their parent"):
        PushConsumer("127.0.0.1:1", group="g", subscriptions=["a", "b"], lite_topics=[], handler=seen)
    with pytest.raises(ValueError, match="lite topic 'a b' must consist of"):
        PushConsumer("127.0.0.1:1", group="g", subscriptions=["a"], lite_topics=["a b"], handler=seen)
    plain = push_consumer(broker.endpoint, handler=seen)
    with pytest.raises(ClosedError):
        await plain.add_lite_topics("x")
    async with plain:
        assert plain.lite_topics == frozenset()
        with pytest.raises(UsageError, match="give lite_topics="):
            await plain.add_lite_topics("x")
