"""The simple consumer against a broker on a real port."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import anyio
import pytest
from aiorocketmq._core.lease import LeaseState
from aiorocketmq.config import Timeouts
from aiorocketmq.errors import (
    ClosedError,
    LeaseLostError,
    PermissionDeniedError,
    RocketMQError,
    ServerError,
    UnreachableError,
    UsageError,
)
from aiorocketmq.hooks import AckEvent, ChangeEvent, DeliverEvent, ReceiveEvent, SettingsEvent
from aiorocketmq.many import AckManyError
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import Acked, LeaseChanged, LeaseEnded, PollParked

from sdk.tests.clients import simple_consumer
from sdk.tests.edge.watching import Watching
from sdk.tests.waiting import until

Awaiting = Callable[[type[object]], AbstractAsyncContextManager[None]]

Result = TypeVar("Result")


def attempts(broker: FakeBroker) -> list[int]:
    return [delivery.attempt for delivery in broker.deliveries("orders", group="billing")]


async def insist(call: Callable[[], Awaitable[Result]]) -> Result:
    """What `call` gives when it is repeated as long as its errors invite to and it gives nothing."""
    async with asyncio.timeout(30):
        while True:
            try:
                result = await call()
            except RocketMQError as error:
                if not error.may_retry:
                    raise
            else:
                if result:
                    return result


def watched_by(watching: Watching, broker: FakeBroker) -> SimpleConsumer:
    return simple_consumer(broker.endpoint, hooks=[watching])


async def one(consumer: SimpleConsumer, producer: Producer, **facts: object) -> ReceivedMessage:
    await producer.send(Message("orders", b"x", **facts))  # type: ignore[arg-type]
    (message,) = await consumer.receive(wait=5)
    return message


async def test_a_message_arrives_with_all_that_it_was_sent_with(
    broker: FakeBroker, producer: Producer, consumer: SimpleConsumer
) -> None:
    receipt = await producer.send(
        Message("orders", b"body", tag="t", keys=["k1", "k2"], properties={"a": "b"})
    )
    (message,) = await consumer.receive(wait=5)
    assert (message.message_id, message.body, message.topic) == (receipt.message_id, b"body", "orders")
    assert (message.tag, message.keys, message.properties) == ("t", ("k1", "k2"), {"a": "b"})
    assert (message.attempt, message.group, message.corruption, message.message_group) == (
        1,
        "billing",
        None,
        None,
    )
    assert message.priority is None
    assert message.endpoint == broker.endpoint
    now = datetime.now(UTC)
    for moment in (message.born_at, message.stored_at):
        assert moment is not None
        assert abs(now - moment) < timedelta(seconds=30)
    assert message.lease_ends_at is not None
    assert timedelta(seconds=20) < message.lease_ends_at - now <= timedelta(seconds=30)


async def test_an_acked_message_is_done(still: FakeBroker) -> None:
    async with (
        Producer(still.endpoint) as producer,
        simple_consumer(still.endpoint) as consumer,
    ):
        message = await one(consumer, producer)
        await message.ack()
        assert message.is_settled
        assert still.leases() == ()
        await still.clock.advance(hours=1)
        assert attempts(still) == [1]
        await message.ack()  # harmless
        with pytest.raises(UsageError, match="settled already"):
            await message.extend(10)


async def test_a_message_whose_lease_ends_is_redelivered_and_its_old_delivery_is_lost(
    still: FakeBroker,
) -> None:
    async with (
        Producer(still.endpoint) as producer,
        simple_consumer(still.endpoint) as consumer,
    ):
        message = await one(consumer, producer)
        await still.clock.advance(seconds=31)
        (again,) = await consumer.receive(wait=5)
        assert (again.message_id, again.attempt) == (message.message_id, 2)
        with pytest.raises(LeaseLostError) as raised:
            await message.ack()
        assert (raised.value.topic, raised.value.group) == ("orders", "billing")
        assert message.is_settled
        with pytest.raises(LeaseLostError, match="lease is over"):
            await message.extend(10)
        await again.ack()


async def test_of_calls_at_one_time_each_takes_the_handle_of_the_one_before(still: FakeBroker) -> None:
    async with (
        Producer(still.endpoint) as producer,
        simple_consumer(still.endpoint) as consumer,
    ):
        message = await one(consumer, producer)
        async with asyncio.timeout(10):
            await asyncio.gather(*(message.extend(60) for _ in range(3)), message.ack())
        await still.clock.advance(hours=1)
        assert attempts(still) == [1]


async def test_an_extended_message_stays_and_is_acked_with_its_newest_handle(still: FakeBroker) -> None:
    async with (
        Producer(still.endpoint) as producer,
        simple_consumer(still.endpoint) as consumer,
    ):
        message = await one(consumer, producer)
        first = message.receipt_handle
        await still.clock.advance(seconds=25)
        await message.extend(60)
        assert message.receipt_handle != first
        await still.clock.advance(seconds=50)
        assert attempts(still) == [1]
        await message.ack()
        await still.clock.advance(hours=1)
        assert attempts(still) == [1]


async def test_a_released_message_is_redelivered_soon(still: FakeBroker) -> None:
    async with (
        Producer(still.endpoint) as producer,
        simple_consumer(still.endpoint) as consumer,
    ):
        message = await one(consumer, producer)
        await message.release()
        assert message.is_settled
        await still.clock.advance(seconds=5)
        (again,) = await consumer.receive(wait=5)
        assert again.attempt == 2
        with pytest.raises(UsageError, match="given back already"):
            await message.ack()


async def test_leaving_a_messages_block_acks_it_and_an_exception_releases_it(still: FakeBroker) -> None:
    async with (
        Producer(still.endpoint) as producer,
        simple_consumer(still.endpoint) as consumer,
    ):
        with pytest.raises(RuntimeError, match="the handling failed"):
            async with await one(consumer, producer):
                raise RuntimeError("the handling failed")
        await still.clock.advance(seconds=5)
        (again,) = await consumer.receive(wait=5)
        async with again:
            pass
        assert again.is_settled
        assert still.leases() == ()
        async with await one(consumer, producer) as message:
            await message.release()
        await still.clock.advance(seconds=5)
        assert len(await consumer.receive(wait=5)) == 1


async def test_a_block_whose_time_is_over_releases_its_message_all_the_same(
    producer: Producer, consumer: SimpleConsumer
) -> None:
    message = await one(consumer, producer)
    with anyio.move_on_after(0.01) as scope:
        async with message:
            await asyncio.Event().wait()
    assert (scope.cancelled_caught, message.is_settled) == (True, True)
    assert message._lease is not None
    assert message._lease.state is LeaseState.RELEASED


async def test_an_ack_waits_for_the_changes_of_each_of_its_messages(
    broker: FakeBroker, producer: Producer, consumer: SimpleConsumer
) -> None:
    messages = [await one(consumer, producer) for _ in range(3)]
    with broker.faults.delay("ChangeInvisibleDuration", 0.2, times=1):
        extending = [asyncio.create_task(message.extend(60)) for message in reversed(messages[1:])]
        await asyncio.sleep(0)
        await asyncio.gather(*extending, consumer.ack(messages))
    assert all(message.is_settled for message in messages)
    assert broker.leases() == ()


async def test_a_change_without_answer_is_not_made_twice(
    broker: FakeBroker, producer: Producer, consumer: SimpleConsumer
) -> None:
    message = await one(consumer, producer)
    with broker.faults.drop_reply("ChangeInvisibleDuration", times=1), pytest.raises(RocketMQError) as raised:
        await message.extend(60)
    assert raised.value.may_have_taken_effect
    with pytest.raises(UsageError, match="could duplicate the message"):
        await message.extend(60)
    assert len(broker.leases()) == 1


async def test_an_ack_without_answer_can_be_repeated_but_nothing_else(
    broker: FakeBroker, producer: Producer, consumer: SimpleConsumer
) -> None:
    message = await one(consumer, producer)
    with broker.faults.drop_reply("AckMessage", times=1), pytest.raises(RocketMQError):
        await message.ack()
    with pytest.raises(UsageError, match="an ack was sent already"):
        await message.extend(60)
    await message.ack()
    assert message.is_settled


async def test_many_are_acked_in_one_call(
    broker: FakeBroker, producer: Producer, consumer: SimpleConsumer
) -> None:
    await producer.send_many([Message("orders", b"x") for _ in range(20)])
    messages = await consumer.receive(wait=5)
    while len(messages) < 20:
        messages += await consumer.receive(wait=5)
    with broker.faults.delay("AckMessage", 0.0) as calls:
        await consumer.ack(messages)
    assert calls.hits == 1
    assert broker.leases() == ()
    assert all(message.is_settled for message in messages)
    await consumer.ack(messages)  # nothing is left to do
    await consumer.ack([])


async def test_more_than_one_call_can_carry_are_acked_in_several(
    broker: FakeBroker, producer: Producer, consumer: SimpleConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiorocketmq._consume.settler.MAX_ENTRIES", 2)
    await producer.send_many([Message("orders", b"x") for _ in range(5)])
    messages: list[ReceivedMessage] = []
    async with asyncio.timeout(10):
        while len(messages) < 5:
            messages += await consumer.receive(wait=5)
    with broker.faults.delay("AckMessage", 0.0) as calls:
        await consumer.ack(messages)
    assert (calls.hits, broker.leases()) == (3, ())
    assert all(message.is_settled for message in messages)


async def test_messages_of_several_topics_are_acked_in_any_order(
    broker: FakeBroker, producer: Producer
) -> None:
    topics = ["orders", "refunds"]
    await broker.create_topic("refunds")
    for topic in topics:
        await producer.send_many([Message(topic, b"x") for _ in range(3)])
    received: dict[str, list[ReceivedMessage]] = {topic: [] for topic in topics}
    async with SimpleConsumer(broker.endpoint, group="billing", subscriptions=topics) as consumer:
        async with asyncio.timeout(10):
            while sum(map(len, received.values())) < 6:
                for message in await consumer.receive(wait=5):
                    received[message.topic].append(message)
        in_turn = [message for pair in zip(*received.values(), strict=True) for message in pair]
        with broker.faults.delay("AckMessage", 0.0) as calls:
            await consumer.ack(in_turn)
        assert all(message.is_settled for message in in_turn)
    assert (calls.hits, broker.leases()) == (2, ())


async def test_when_some_of_many_acks_fail_the_error_has_an_outcome_for_each(still: FakeBroker) -> None:
    async with (
        Producer(still.endpoint) as producer,
        simple_consumer(still.endpoint) as consumer,
    ):
        old = await one(consumer, producer)
        await still.clock.advance(seconds=31)
        (again,) = await consumer.receive(wait=5)
        new = await one(consumer, producer)
        with pytest.raises(AckManyError, match="1 of 3 messages were not acknowledged") as raised:
            await consumer.ack([old, again, new])
        assert [(message, type(error)) for message, error in raised.value.failed] == [(old, LeaseLostError)]
        assert [error for _, error in raised.value.outcomes[1:]] == [None, None]
        assert still.leases() == ()


async def test_a_poll_that_finds_nothing_gives_an_empty_list(still: FakeBroker) -> None:
    async with simple_consumer(still.endpoint) as consumer:
        polling = asyncio.create_task(consumer.receive(wait=20))
        while not polling.done():
            await asyncio.sleep(0.01)
            await still.clock.advance(seconds=5)
        assert await polling == []


async def test_what_arrived_between_calls_is_returned_next(broker: FakeBroker, producer: Producer) -> None:
    await broker.create_topic("refunds")
    for topic in ("orders", "refunds"):
        await producer.send(Message(topic, b"x"))
    async with SimpleConsumer(
        broker.endpoint, group="billing", subscriptions=["orders", "refunds"]
    ) as consumer:
        received = [*await consumer.receive(wait=5)]
        while len(received) < 2:
            received += await consumer.receive(wait=5)
        await consumer.ack(received)
    assert {message.topic for message in received} == {"orders", "refunds"}


async def test_of_what_was_kept_no_more_is_returned_than_the_next_call_asks_for(
    broker: FakeBroker, producer: Producer
) -> None:
    topics = ["refunds", "returns"]
    for topic in topics:
        await broker.create_topic(topic, queues=1)
        await producer.send_many([Message(topic, b"%d" % number) for number in range(3)])
    async with SimpleConsumer(broker.endpoint, group="billing", subscriptions=topics) as consumer:
        first = await consumer.receive(max_messages=3)
        assert len(first) == 3
        rest: list[ReceivedMessage] = []
        for _ in range(3):
            (message,) = await consumer.receive(max_messages=1)
            rest.append(message)
        await consumer.ack([*first, *rest])
    assert {message.topic for message in rest} == {*topics} - {message.topic for message in first}
    assert [message.offset for message in rest] == [0, 1, 2]


async def test_a_loop_yields_a_batch_in_its_order(broker: FakeBroker, producer: Producer) -> None:
    await broker.create_topic("refunds", queues=1)
    await producer.send_many([Message("refunds", b"%d" % number) for number in range(3)])
    async with simple_consumer(broker.endpoint, subscriptions=["refunds"]) as consumer:
        loop = consumer.messages()
        assert [(await anext(loop)).offset for _ in range(3)] == [0, 1, 2]
        await loop.aclose()  # type: ignore[attr-defined]


async def test_a_loop_that_keeps_messages_alive_renews_their_leases(
    broker: FakeBroker, producer: Producer, consumer: SimpleConsumer
) -> None:
    await producer.send(Message("orders", b"x"))
    loop = consumer.messages(invisible=10.0, wait=5, keep_alive=True)
    message = await anext(loop)
    async with asyncio.timeout(9), broker.events.subscribe() as events:
        async for event in events:
            if isinstance(event, LeaseChanged):
                break
    await message.ack()
    assert message.is_settled
    await loop.aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize("profile", ["documented", "apache-5.5"])
async def test_a_server_that_lost_our_settings_gets_them_again_and_the_poll_continues(profile: str) -> None:
    async with FakeBroker(profile=profile) as broker:
        await broker.create_topic("orders")
        await broker.create_group("billing")
        async with (
            Producer(broker.endpoint, topics=["orders"]) as producer,
            simple_consumer(broker.endpoint) as consumer,
        ):
            with broker.faults.refuse("ReceiveMessage", "INTERNAL_SERVER_ERROR", times=1) as refused:
                message = await one(consumer, producer)
            await message.ack()
        assert refused.hits == 1
        assert broker.leases() == ()


async def test_a_broker_that_restarts_is_found_again_by_both_clients(broker: FakeBroker) -> None:
    async with (
        Producer(broker.endpoint, topics=["orders"]) as producer,
        simple_consumer(broker.endpoint) as consumer,
    ):
        await (await one(consumer, producer)).ack()
        await broker.restart()
        sent = await insist(lambda: producer.send(Message("orders", b"after")))
        received = await insist(lambda: consumer.receive(wait=5))
        assert received[-1].message_id == sent.message_id
        await consumer.ack(received)


async def test_observers_see_polls_deliveries_and_settling(broker: FakeBroker, watching: Watching) -> None:
    async with (
        Producer(broker.endpoint) as producer,
        watched_by(watching, broker) as consumer,
    ):
        message = await one(consumer, producer)
        first = message.receipt_handle
        await message.extend(60)
        second = message.receipt_handle
        with (
            broker.faults.refuse("AckMessage", "INVALID_RECEIPT_HANDLE", times=1),
            pytest.raises(LeaseLostError),
        ):
            await message.ack()
    phases = watching.told
    assert phases(ReceiveEvent) == ["invoke", "ok"]
    assert phases(DeliverEvent) == ["single"]
    assert phases(ChangeEvent) == ["invoke", "ok"]
    assert phases(AckEvent) == ["invoke", "fail"]
    assert phases(SettingsEvent) == ["single"]
    events = watching.events
    (delivered,) = [event for event in events if isinstance(event, DeliverEvent)]
    assert (delivered.handle, delivered.position, delivered.invisible) == (first, 0, 30.0)
    changed = [event for event in events if isinstance(event, ChangeEvent)][-1]
    assert (changed.delivery, changed.previous_handle, changed.handle) == (first, first, second)
    acked = [event for event in events if isinstance(event, AckEvent)][-1]
    assert (acked.delivery, acked.handle) == (first, second)
    assert all(event.client.group == "billing" for event in events)


async def test_a_poll_in_flight_ends_with_the_consumer_empty_or_closed(
    broker: FakeBroker, awaiting: Awaiting
) -> None:
    async with (
        simple_consumer(broker.endpoint, timeouts=Timeouts(stop=0.3)) as consumer,
        awaiting(PollParked),
    ):
        polling = asyncio.create_task(consumer.receive(wait=20))
    async with asyncio.timeout(5):
        (outcome,) = await asyncio.gather(polling, return_exceptions=True)
    assert outcome == [] or isinstance(outcome, ClosedError)


async def test_what_arrived_before_a_poll_broke_off_is_returned(
    broker: FakeBroker, producer: Producer, consumer: SimpleConsumer
) -> None:
    await producer.send_many([Message("orders", b"x") for _ in range(40)])
    with broker.faults.cut_stream("ReceiveMessage", frames=2, times=1):
        messages = await consumer.receive(wait=5)
    assert messages
    await consumer.ack(messages)


async def test_a_poll_whose_answer_is_lost_says_that_it_may_have_taken_messages(
    broker: FakeBroker, watching: Watching, awaiting: Awaiting
) -> None:
    async with watched_by(watching, broker) as consumer:
        with broker.faults.fail("ReceiveMessage"), pytest.raises(UnreachableError) as raised:
            await consumer.receive(wait=5)
        assert raised.value.may_have_taken_effect
        with broker.faults.refuse("ReceiveMessage", "FORBIDDEN"), pytest.raises(PermissionDeniedError):
            await consumer.receive(wait=5)
        async with awaiting(PollParked):
            polling = asyncio.create_task(consumer.receive(wait=20))
        polling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await polling
    assert watching.told(ReceiveEvent) == [
        *("invoke", "info"),
        *("invoke", "fail"),
        *("invoke", "info"),
    ]


async def test_an_error_of_one_of_several_topics_is_raised_when_no_other_has_messages(
    broker: FakeBroker, producer: Producer
) -> None:
    await broker.create_topic("refunds")
    async with SimpleConsumer(
        broker.endpoint, group="billing", subscriptions=["orders", "refunds"]
    ) as consumer:
        with broker.faults.refuse("ReceiveMessage", "FORBIDDEN"), pytest.raises(PermissionDeniedError):
            await consumer.receive(wait=5)
        with broker.faults.refuse("ReceiveMessage", "FORBIDDEN", topic="refunds"):
            await producer.send(Message("orders", b"x"))
            (message,) = await consumer.receive(wait=5)
            await message.ack()


@pytest.mark.parametrize(("code", "is_final"), [("FORBIDDEN", True), ("TOO_MANY_REQUESTS", False)])
async def test_a_refusal_of_one_topic_beside_messages_of_another_is_raised_once_by_the_next_call(
    broker: FakeBroker, producer: Producer, code: str, is_final: bool
) -> None:
    await broker.create_topic("refunds")
    async with SimpleConsumer(
        broker.endpoint, group="billing", subscriptions=["orders", "refunds"]
    ) as consumer:
        running = consumer._polls._running
        with broker.faults.refuse("ReceiveMessage", code, topic="refunds") as refused:
            receiving = asyncio.create_task(consumer.receive(wait=20))
            await until(lambda: refused.hits and all(topic == "orders" for topic, _ in running))
            await producer.send(Message("orders", b"x"))
            await consumer.ack(await receiving)
        if is_final:
            with pytest.raises(PermissionDeniedError, match="refunds"):
                await consumer.receive(wait=20)
        await producer.send(Message("refunds", b"y"))
        (message,) = await consumer.receive(wait=20)
        await message.ack()
    assert message.body == b"y"


async def test_a_refusal_of_one_topic_is_raised_although_another_call_returns_messages_meanwhile(
    broker: FakeBroker, producer: Producer
) -> None:
    topics = ["orders", "refunds", "returns"]
    for topic in topics[1:]:
        await broker.create_topic(topic)
    async with SimpleConsumer(broker.endpoint, group="billing", subscriptions=topics) as consumer:
        with broker.faults.refuse("ReceiveMessage", "FORBIDDEN", topic="refunds"):
            calls = [asyncio.create_task(consumer.receive(wait=20)) for _ in range(2)]
            await until(lambda: {topic for topic, _ in consumer._polls._running} == {"orders", "returns"})
            for topic, call in zip(("orders", "returns"), calls, strict=True):
                await producer.send(Message(topic, b"x"))
                assert [message.topic for message in await call] == [topic]
        with pytest.raises(PermissionDeniedError, match="refunds"):
            await consumer.receive(wait=20)


async def test_a_message_that_waited_too_long_for_a_caller_is_given_back(
    broker: FakeBroker, producer: Producer
) -> None:
    await broker.create_topic("refunds")
    async with SimpleConsumer(
        broker.endpoint, group="billing", subscriptions=["orders", "refunds"]
    ) as consumer:
        await producer.send(Message("orders", b"first"))
        (first,) = await consumer.receive(wait=20, invisible=0.5)
        await producer.send(Message("refunds", b"second"))
        async with asyncio.timeout(10), broker.events.subscribe() as events:
            async for event in events:
                if isinstance(event, LeaseEnded) and broker.deliveries("refunds", group="billing"):
                    break
        messages: list[ReceivedMessage] = []
        while not any(message.topic == "refunds" for message in messages):
            messages = await consumer.receive(wait=5, invisible=30)
        assert [message.attempt for message in messages if message.topic == "refunds"] == [2]
        assert first.topic == "orders"


async def test_of_what_was_kept_the_next_call_returns_what_is_fresh_and_the_end_releases_the_rest(
    broker: FakeBroker, producer: Producer, consumer: SimpleConsumer
) -> None:
    stale, fresh, left = [await one(consumer, producer) for _ in range(3)]
    now = consumer._session.clock.time()
    consumer._polls._kept.extend([(stale, now), (fresh, now + 20), (left, now + 20)])
    assert await consumer.receive(max_messages=1) == [fresh]
    assert stale.is_settled
    assert not left.is_settled
    await consumer._close()
    assert left.is_settled
    assert not fresh.is_settled


async def test_what_a_poll_of_several_topics_finds_is_returned_when_one_topic_is_left(
    still: FakeBroker,
) -> None:
    await still.create_topic("refunds", queues=1)
    async with (
        asyncio.timeout(20),
        Producer(still.endpoint) as producer,
        simple_consumer(still.endpoint, subscriptions=["orders", "refunds"]) as consumer,
    ):
        async with still.events.subscribe() as events:
            receiving = asyncio.create_task(consumer.receive(wait=20))
            for _ in range(2):
                async for event in events:
                    if isinstance(event, PollParked):
                        break
        await producer.send(Message("orders", b"1"))
        await consumer.ack(await receiving)
        await consumer.unsubscribe("orders")
        await producer.send(Message("refunds", b"2"))
        (message,) = await consumer.receive(wait=20)
        assert (message.body, message.attempt) == (b"2", 1)
        await message.ack()
    assert still.leases("billing") == ()


async def test_concurrent_receives_return_each_message_once(still: FakeBroker) -> None:
    await still.create_topic("refunds", queues=1)
    async with (
        asyncio.timeout(20),
        Producer(still.endpoint) as producer,
        simple_consumer(still.endpoint, subscriptions=["orders", "refunds"]) as consumer,
        still.events.subscribe() as events,
    ):

        async def parked(polls: int) -> None:
            for _ in range(polls):
                async for event in events:
                    if isinstance(event, PollParked):
                        break

        async def twice() -> list[ReceivedMessage]:
            return [*await consumer.receive(wait=20), *await consumer.receive(wait=20)]

        first, second = asyncio.create_task(twice()), asyncio.create_task(consumer.receive(wait=20))
        await parked(2)
        await producer.send(Message("orders", b"1"))
        await parked(1)  # the first task polls again before the second one looks at what has arrived
        await producer.send(Message("orders", b"2"))
        await first
        await producer.send(Message("refunds", b"3"))
        assert [[one.body for one in await each] for each in (first, second)] == [[b"1", b"2"], [b"3"]]


async def test_leaving_gives_back_what_no_receive_has_returned(
    broker: FakeBroker, producer: Producer, watching: Watching
) -> None:
    await broker.create_topic("refunds")
    topics = ["orders", "refunds"]
    async with SimpleConsumer(
        broker.endpoint, group="billing", subscriptions=topics, hooks=[watching]
    ) as consumer:
        await producer.send(Message("orders", b"first"))
        (first,) = await consumer.receive(wait=20, invisible=30)
        await first.ack()
        told = len(watching.told(ReceiveEvent))
        await producer.send(Message("refunds", b"second"))
        await watching.more(ReceiveEvent, told)
        await asyncio.sleep(0)
    assert len(broker.deliveries("refunds", group="billing")) == 1
    assert broker.leases("billing") == ()


async def test_renewals_stop_when_the_lease_is_lost_or_the_message_settled(
    broker: FakeBroker, producer: Producer, watching: Watching
) -> None:
    async with watched_by(watching, broker) as consumer:
        await producer.send_many([Message("orders", b"x"), Message("orders", b"y")])
        loop = consumer.messages(invisible=0.4, wait=5, keep_alive=True)
        await (await anext(loop)).ack()
        message = await anext(loop)
        with broker.faults.refuse("ChangeInvisibleDuration", "INVALID_RECEIPT_HANDLE", times=1) as fault:
            await watching.until(ChangeEvent, "fail")
        assert message.is_settled
        assert fault.hits == 1
        await loop.aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize("settle", ["ack", "release"])
async def test_a_message_whose_settling_failed_is_redelivered(
    broker: FakeBroker, producer: Producer, consumer: SimpleConsumer, settle: str
) -> None:
    await producer.send(Message("orders", b"x"))
    loop = consumer.messages(invisible=0.5, wait=5, keep_alive=True)
    message = await anext(loop)
    with (
        broker.faults.refuse("AckMessage", "INTERNAL_SERVER_ERROR", times=1),
        broker.faults.refuse("ChangeInvisibleDuration", "INTERNAL_SERVER_ERROR", times=1),
        pytest.raises(ServerError),
    ):
        await (message.ack() if settle == "ack" else message.release())
    async with asyncio.timeout(20):
        again = await anext(loop)
    assert (again.message_id, again.attempt) == (message.message_id, 2)
    await again.ack()
    await loop.aclose()  # type: ignore[attr-defined]


async def test_a_lease_that_was_to_end_is_not_kept_alive_by_a_later_extension(
    broker: FakeBroker, producer: Producer, consumer: SimpleConsumer
) -> None:
    """For instance by a renewal that waited for the release, which failed."""
    message = await one(consumer, producer)
    assert message._lease is not None
    with broker.faults.refuse("ChangeInvisibleDuration", "INTERNAL_SERVER_ERROR", times=1):
        releasing = asyncio.create_task(message.release())
        await asyncio.sleep(0)
        extending = asyncio.create_task(message.extend(60))
        with pytest.raises(ServerError):
            await releasing
    await extending
    assert message._lease.is_ending


async def test_a_renewal_that_fails_is_tried_again_while_the_lease_lasts(
    broker: FakeBroker, producer: Producer, watching: Watching
) -> None:
    async with watched_by(watching, broker) as consumer:
        await producer.send(Message("orders", b"x"))
        loop = consumer.messages(invisible=1.0, wait=5, keep_alive=True)
        message = await anext(loop)
        with broker.faults.refuse("ChangeInvisibleDuration", "TOO_MANY_REQUESTS", times=1):
            await watching.until(ChangeEvent, "ok")
        assert watching.told(ChangeEvent) == ["invoke", "fail", "invoke", "ok"]
        await message.ack()
        await loop.aclose()  # type: ignore[attr-defined]


async def test_a_change_in_flight_that_is_cancelled_leaves_the_lease_in_doubt(
    broker: FakeBroker, producer: Producer, consumer: SimpleConsumer, awaiting: Awaiting
) -> None:
    message = await one(consumer, producer)
    with broker.faults.drop_reply("ChangeInvisibleDuration", hang=True, times=1):
        async with awaiting(LeaseChanged):
            extending = asyncio.create_task(message.extend(60))
        extending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await extending
    with pytest.raises(UsageError, match="could duplicate"):
        await message.extend(60)
    acking = asyncio.create_task(message.ack())
    await asyncio.sleep(0)
    acking.cancel()
    await asyncio.gather(acking, return_exceptions=True)
    assert not message.is_settled or not acking.cancelled()


@pytest.mark.parametrize("seconds", [10, 60, 3600])
async def test_a_renewed_lease_ends_as_much_later(
    producer: Producer, consumer: SimpleConsumer, seconds: int
) -> None:
    message = await one(consumer, producer)
    before = datetime.now(UTC)
    await message.extend(seconds)
    after = datetime.now(UTC)
    assert message.lease_ends_at is not None
    # Ends are whole microseconds, cut.
    assert before - timedelta(microseconds=1) <= message.lease_ends_at - timedelta(seconds=seconds) <= after


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_a_cancelled_ack_of_a_batch_leaves_all_leases_in_doubt(
    broker: FakeBroker, producer: Producer, consumer: SimpleConsumer, awaiting: Awaiting, count: int
) -> None:
    messages = [await one(consumer, producer) for _ in range(count)]
    with broker.faults.drop_reply("AckMessage", hang=True, times=1):
        async with awaiting(Acked):
            acking = asyncio.create_task(consumer.ack(messages))
        acking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await acking
    assert not any(message.is_settled for message in messages)
    await consumer.ack(messages)
    assert all(message.is_settled for message in messages)
