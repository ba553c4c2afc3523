"""The push consumer against a fake broker on a real port; only the test moves the broker's clock."""

import asyncio
import threading
from typing import Any

import pytest
from aiorocketmq.config import CacheLimits
from aiorocketmq.hooks import AssignEvent, Event, Grain, Hook
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.push_consumer import DeadLetter, PushConsumer, RetryLater
from aiorocketmq.subscription import Sql
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import (
    Acked,
    ClientLeft,
    DeadLettered,
    Delivered,
    LeaseChanged,
    PollParked,
)

from sdk.tests.clients import push_consumer


async def send(producer: Producer, *bodies: bytes) -> None:
    for body in bodies:
        await producer.send(Message("orders", body))


def numbered(count: int) -> tuple[bytes, ...]:
    return tuple(b"%03d" % number for number in range(count))


async def test_every_message_reaches_the_handler_once_and_is_acked(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    bodies = numbered(50)
    await send(producer, *bodies)
    async with push_consumer(broker.endpoint, handler=seen):
        await seen.ends(50)
        await history.shows(Acked, 50)

    assert sorted(seen.bodies) == sorted(bodies)
    assert {message.attempt for message in seen.messages} == {1}
    assert broker.leases("billing") == ()


async def test_hooks_see_which_queues_are_read_and_that_they_are_shared_by_message(
    broker: FakeBroker, seen: Any, history: Any
) -> None:
    class Watch(Hook):
        def __init__(self) -> None:
            self.told: list[tuple[int, set[str], set[str], Grain]] = []

        def observe(self, event: Event) -> None:
            if isinstance(event, AssignEvent):
                read = {queue.topic for queue in event.queues}
                revoked = {queue.topic for queue in event.revoked}
                self.told.append((event.generation, read, revoked, event.grain))

    watch = Watch()
    await broker.create_topic("refunds")
    async with PushConsumer(
        broker.endpoint, group="billing", subscriptions=["orders", "refunds"], handler=seen, hooks=[watch]
    ) as consumer:
        await history.shows(PollParked, 2)
        await consumer.unsubscribe("refunds")
    *_, (both, *before), (one, *after) = watch.told
    assert one == both + 1
    assert before == [{"orders", "refunds"}, set(), Grain.MESSAGE]
    assert after == [{"orders"}, {"refunds"}, Grain.MESSAGE]


async def test_a_message_sent_later_wakes_the_parked_poll(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    async with push_consumer(broker.endpoint, handler=seen):
        await history.shows(PollParked)
        await send(producer, b"late")
        await seen.ends(1)

    assert seen.bodies == [b"late"]


async def test_a_plain_function_handles_in_a_worker_thread(
    broker: FakeBroker, producer: Producer, history: Any
) -> None:
    threads: list[threading.Thread] = []

    def handle(message: ReceivedMessage) -> None:
        threads.append(threading.current_thread())

    await send(producer, b"1")
    async with push_consumer(broker.endpoint, handler=handle):
        await history.shows(Acked)

    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


async def test_each_topic_has_its_handler(broker: FakeBroker, producer: Producer) -> None:
    await broker.create_topic("refunds")
    got: dict[str, list[str]] = {"orders": [], "refunds": []}
    done = asyncio.Event()

    def handler(name: str) -> Any:
        async def handle(message: ReceivedMessage) -> None:
            got[name].append(message.topic)
            if all(got.values()):
                done.set()

        return handle

    await producer.send(Message("orders", b"o"))
    await producer.send(Message("refunds", b"r"))
    async with PushConsumer(
        broker.endpoint,
        group="billing",
        subscriptions=["orders", "refunds"],
        handlers={"orders": handler("orders"), "refunds": handler("refunds")},
    ):
        await asyncio.wait_for(done.wait(), 10)

    assert got == {"orders": ["orders"], "refunds": ["refunds"]}


async def test_a_filter_keeps_other_tags_away(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    for tag in ("paid", "open", "refunded"):
        await producer.send(Message("orders", tag.encode(), tag=tag))
    async with PushConsumer(
        broker.endpoint, group="billing", subscriptions={"orders": "paid || refunded"}, handler=seen
    ):
        await history.shows(Acked, 2)

    assert sorted(seen.bodies) == [b"paid", b"refunded"]


async def test_an_sql_expression_keeps_other_messages_away(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    for amount in ("5", "500", "700"):
        await producer.send(Message("orders", amount.encode(), properties={"amount": amount}))
    subscriptions = {"orders": Sql("amount > 100")}
    async with PushConsumer(broker.endpoint, group="billing", subscriptions=subscriptions, handler=seen):
        await history.shows(Acked, 2)

    assert sorted(seen.bodies) == [b"500", b"700"]


# Failures


async def test_a_failed_message_is_given_back_by_the_groups_ladder_and_is_redelivered(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    await broker.update_group("billing", backoff=[7, 60])
    seen.failures[b"1"] = [ValueError("no")]
    await send(producer, b"1")
    async with push_consumer(broker.endpoint, handler=seen):
        [change] = await history.shows(LeaseChanged)
        assert change.invisible == 7.0
        await broker.clock.advance(seconds=15)
        await seen.ends(1)

    assert [message.attempt for message in seen.messages] == [1, 2]


async def test_a_handler_chooses_the_wait(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    seen.failures[b"1"] = [RetryLater(1234)]
    await send(producer, b"1")
    async with push_consumer(broker.endpoint, handler=seen):
        [change] = await history.shows(LeaseChanged)

    assert change.invisible == 1234.0


async def test_a_handler_gives_up_at_once(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    seen.failures[b"bad"] = [DeadLetter("not an order")]
    await send(producer, b"good", b"bad")
    async with push_consumer(broker.endpoint, handler=seen):
        await history.shows(DeadLettered)
        await broker.clock.advance(hours=3)

    assert [message.body for message in broker.dead_letters("billing")] == [b"bad"]
    assert sorted(seen.bodies) == [b"bad", b"good"]


async def test_after_the_last_attempt_a_message_is_a_dead_letter(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    await broker.update_group("billing", max_attempts=2, backoff=[5])
    seen.failures[b"1"] = [ValueError("no"), ValueError("again")]
    await send(producer, b"1")
    async with push_consumer(broker.endpoint, handler=seen):
        await history.shows(LeaseChanged, 1)
        await broker.clock.advance(seconds=20)
        await history.shows(LeaseChanged, 2)
        await broker.clock.advance(seconds=60)
        await history.shows(DeadLettered)

    assert [message.attempt for message in seen.messages] == [1, 2]
    assert [message.body for message in broker.dead_letters("billing")] == [b"1"]


async def test_a_handler_over_its_timeout_has_failed(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    seen.hold(b"1")
    await send(producer, b"1")
    async with push_consumer(
        broker.endpoint,
        handler=seen,
        handler_timeout=0.001,
    ):
        await history.shows(LeaseChanged)

    assert seen.running == 0


# Acks


async def test_acks_travel_together(broker: FakeBroker, producer: Producer, seen: Any, history: Any) -> None:
    gate = seen.hold(*numbered(32))
    await send(producer, *numbered(32))
    with broker.faults.fail("AckMessage", skip=1_000_000) as acks:  # only counts them
        async with push_consumer(broker.endpoint, handler=seen, concurrency=32):
            await seen.starts(32)
            gate.set()
            await history.shows(Acked, 32)

    assert acks.seen < 8


@pytest.mark.parametrize("code", ["INTERNAL_SERVER_ERROR", "TOO_MANY_REQUESTS"])
async def test_a_refused_ack_is_sent_again(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any, code: str
) -> None:
    await send(producer, b"1")
    with broker.faults.refuse("AckMessage", code, times=2):
        async with push_consumer(broker.endpoint, handler=seen):
            await history.shows(Acked)

    assert broker.leases("billing") == ()


async def test_an_ack_whose_reply_is_lost_is_sent_again(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    await send(producer, b"1")
    with broker.faults.drop_reply("AckMessage", times=1) as fault:
        async with push_consumer(broker.endpoint, handler=seen) as consumer:
            await history.shows(Acked, 2)
            await seen.ends(1)
            assert consumer.assigned_queues

    assert fault.hits == 1
    assert seen.bodies == [b"1"]


async def test_an_ack_of_a_lost_lease_is_not_repeated(
    broker: FakeBroker, producer: Producer, seen: Any, caplog: pytest.LogCaptureFixture
) -> None:
    gate = seen.hold(b"1")
    await send(producer, b"1")
    with broker.faults.refuse("AckMessage", "INVALID_RECEIPT_HANDLE") as refused:
        async with push_consumer(broker.endpoint, handler=seen):
            await seen.starts(1)
            gate.set()
            await seen.ends(1)

    assert refused.hits == 1
    assert "will be redelivered" in caplog.text


# Limits


async def test_no_more_handlers_run_than_allowed(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    gate = seen.hold(*numbered(10))
    await send(producer, *numbered(10))
    async with push_consumer(broker.endpoint, handler=seen, concurrency=3):
        await seen.starts(3)
        gate.set()
        await history.shows(Acked, 10)

    assert seen.most_running == 3


async def test_a_full_cache_receives_no_more_until_a_message_is_settled(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    gate = seen.hold(*numbered(12))
    await send(producer, *numbered(12))
    async with push_consumer(
        broker.endpoint,
        handler=seen,
        concurrency=100,
        cache=CacheLimits(messages=5),
    ):
        await seen.starts(5)
        assert len(history.of(Delivered)) == 5
        gate.set()
        await history.shows(Acked, 12)


async def test_no_more_is_taken_from_other_consumers_than_keeps_the_handlers_busy(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    bodies = numbered(150)
    gate = seen.hold(*bodies)
    await producer.send_many(Message("orders", body) for body in bodies)
    async with push_consumer(broker.endpoint, handler=seen, concurrency=1):
        taken = 4 * (32 + 1)
        await history.shows(Delivered, taken)
        other = type(seen)()
        async with push_consumer(broker.endpoint, handler=other):
            await other.ends(150 - taken)
        gate.set()
        await seen.ends(taken)
    assert {*seen.bodies, *other.bodies} == set(bodies)


async def test_the_cache_counts_bytes_too(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    gate = seen.hold(b"a" * 1000, b"b" * 1000)
    async with push_consumer(
        broker.endpoint,
        handler=seen,
        cache=CacheLimits(bytes=500),
    ):
        await history.shows(PollParked)
        await send(producer, b"a" * 1000)
        await seen.starts(1)
        await send(producer, b"b" * 1000)
        assert len(history.of(Delivered)) == 1
        gate.set()
        await history.shows(Acked, 2)


# Order


async def send_in_order(producer: Producer, *bodies: bytes) -> None:
    """The first letter is the message group."""
    for body in bodies:
        await producer.send(Message("orders", body, message_group=body[:1].decode()))


async def test_an_ordered_group_handles_one_message_group_at_a_time_in_order(
    ordered_broker: FakeBroker, ordered_producer: Producer, seen: Any, ordered_history: Any
) -> None:
    bodies = [b"a1", b"b1", b"a2", b"b2", b"a3", b"b3"]
    await send_in_order(ordered_producer, *bodies)
    async with push_consumer(ordered_broker.endpoint, handler=seen):
        await ordered_history.shows(Acked, 6)

    for group in (b"a", b"b"):
        assert [body for body in seen.bodies if body.startswith(group)] == [
            body for body in bodies if body.startswith(group)
        ]


async def test_a_message_group_waits_for_its_failed_message_and_others_continue(
    ordered_broker: FakeBroker, ordered_producer: Producer, seen: Any, ordered_history: Any
) -> None:
    await ordered_broker.update_group("billing", ordered=True, max_attempts=9, backoff=[0.001])
    seen.failures[b"a1"] = [ValueError("1"), ValueError("2")]
    await send_in_order(ordered_producer, b"a1", b"a2", b"b1")
    async with push_consumer(ordered_broker.endpoint, handler=seen):
        await ordered_history.shows(Acked, 3)

    assert [body for body in seen.bodies if body.startswith(b"a")] == [b"a1", b"a1", b"a1", b"a2"]
    assert seen.ended.index(b"b1") < seen.ended.index(b"a2")
    assert ordered_history.of(LeaseChanged) == []


async def test_the_attempt_counts_on_with_each_local_run(
    ordered_broker: FakeBroker, ordered_producer: Producer, ordered_history: Any
) -> None:
    attempts: list[int] = []

    async def handle(message: ReceivedMessage) -> None:
        attempts.append(message.attempt)
        raise ValueError("no")

    await send_in_order(ordered_producer, b"a1")
    async with push_consumer(ordered_broker.endpoint, handler=handle):
        await ordered_history.shows(DeadLettered)

    assert attempts == [1, 2, 3]


async def test_after_the_last_attempt_the_message_group_continues_without_the_message(
    ordered_broker: FakeBroker, ordered_producer: Producer, seen: Any, ordered_history: Any
) -> None:
    seen.failures[b"a1"] = [ValueError("no")] * 3
    await send_in_order(ordered_producer, b"a1", b"a2")
    async with push_consumer(ordered_broker.endpoint, handler=seen):
        await seen.ends(1)
        await ordered_history.shows(Acked)

    assert seen.bodies == [b"a1", b"a1", b"a1", b"a2"]
    [dead] = ordered_broker.dead_letters("billing")
    assert dead.body == b"a1"


# Stop


async def test_stopping_lets_running_handlers_end_and_gives_the_rest_back_at_once(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    gate = seen.hold(*numbered(5))
    await send(producer, *numbered(5))
    async with push_consumer(broker.endpoint, handler=seen, concurrency=1) as consumer:
        await seen.starts(1)
        await history.shows(Delivered, 5)
        consumer.stop()
        returned = await history.shows(LeaseChanged, 4)
        assert seen.running == 1
        gate.set()

    assert {change.invisible for change in returned} == {0.0}
    assert len(seen.ended) == len(history.of(Acked)) == 1


async def test_a_handler_that_outlasts_the_grace_is_cancelled_and_its_message_given_back(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    seen.hold(b"1")
    await send(producer, b"1")
    async with push_consumer(broker.endpoint, handler=seen, shutdown_timeout=0.01):
        await seen.starts(1)

    [change] = history.of(LeaseChanged)
    assert change.invisible == 0.0
    assert seen.running == 0
    assert seen.ended == []


async def test_run_returns_when_a_handler_stops_the_consumer(
    broker: FakeBroker, producer: Producer, history: Any
) -> None:
    async def handle(message: ReceivedMessage) -> None:
        consumer.stop()

    await send(producer, b"1")
    async with push_consumer(broker.endpoint, handler=handle) as consumer:
        await asyncio.wait_for(consumer.run(), 10)

    assert len(history.of(Acked)) == 1


async def test_cancelling_run_drains_and_leaves_no_task_behind(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    gate = seen.hold(b"1")
    await send(producer, b"1")

    async def main() -> None:
        async with push_consumer(broker.endpoint, handler=seen) as consumer:
            await consumer.run()

    task = asyncio.create_task(main())
    await seen.starts(1)
    task.cancel()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert len(history.of(Acked)) == 1
    assert len(history.of(ClientLeft)) == 1
    assert [each for each in asyncio.all_tasks() if each.get_name().startswith("push")] == []


async def test_stopping_an_ordered_group_gives_followers_back_after_their_head(
    ordered_broker: FakeBroker, ordered_producer: Producer, seen: Any, ordered_history: Any
) -> None:
    gate = seen.hold(b"a1")
    await send_in_order(ordered_producer, b"a1", b"a2", b"a3")
    async with push_consumer(ordered_broker.endpoint, handler=seen) as consumer:
        await seen.starts(1)
        consumer.stop()
        assert ordered_history.of(LeaseChanged) == []
        gate.set()

    kinds = [type(event) for event in ordered_history.events if isinstance(event, Acked | LeaseChanged)]
    assert kinds == [Acked, LeaseChanged, LeaseChanged]
    assert seen.bodies == [b"a1"]
