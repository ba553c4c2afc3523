"""Consumers of a topic on several brokers: an empty or dead broker delays no other."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, suppress

import pytest
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._transport.grpcio import GrpcioTransport
from aiorocketmq.config import Retry, Timeouts
from aiorocketmq.errors import BackgroundTaskError, ServerError, UnreachableError
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.transaction import Resolution
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import PollParked, TransactionChecked, TransactionEnded

from sdk.tests.clients import push_consumer, simple_consumer
from sdk.tests.waiting import until


@pytest.fixture
async def cluster() -> AsyncIterator[FakeBroker]:
    """Three brokers behind one route, with a paused clock: no poll ends by itself."""
    async with FakeBroker(brokers=3, clock="manual") as cluster:
        await cluster.create_topic("orders", queues=1)
        await cluster.create_group("billing")
        yield cluster


async def send(cluster: FakeBroker, count: int) -> None:
    async with Producer(cluster.endpoint) as producer:
        for number in range(count):
            await producer.send(Message("orders", b"%d" % number))


async def test_a_receive_does_not_wait_for_brokers_that_have_nothing(cluster: FakeBroker) -> None:
    async with simple_consumer(cluster.endpoint) as consumer:
        receiving = asyncio.create_task(consumer.receive(wait=20))
        await send(cluster, 1)
        (message,) = await asyncio.wait_for(receiving, 10)
        await message.ack()
    assert cluster.leases("billing") == ()


async def test_a_message_that_comes_late_in_a_long_poll_is_returned(cluster: FakeBroker) -> None:
    """How long a message may wait here counts from its arrival, as its lease does."""
    async with (
        simple_consumer(cluster.endpoint, clock=cluster.clock) as consumer,
        cluster.brokers[0].events.subscribe() as events,
    ):
        receiving = asyncio.create_task(consumer.receive(wait=20, invisible=15.0))
        async with asyncio.timeout(10):
            async for event in events:
                if isinstance(event, PollParked):
                    break
            await cluster.clock.advance(seconds=18)
            await send(cluster, 1)
            (message,) = await receiving
        assert message.attempt == 1
        await message.ack()
    assert cluster.leases("billing") == ()


async def test_one_loop_receives_from_all_brokers(cluster: FakeBroker) -> None:
    await send(cluster, 9)
    counts: Counter[str] = Counter()
    async with simple_consumer(cluster.endpoint) as consumer:
        async with asyncio.timeout(10):
            while counts.total() < 9:
                messages = await consumer.receive(wait=20)
                counts.update(message.queue.broker for message in messages)
                await consumer.ack(messages)
    assert len(counts) == 3
    assert cluster.leases("billing") == ()


async def test_a_dead_broker_does_not_keep_the_others_messages_back(cluster: FakeBroker) -> None:
    async with simple_consumer(cluster.endpoint) as consumer:
        await send(cluster, 6)
        await cluster.brokers[2].crash()
        received: list[ReceivedMessage] = []
        async with asyncio.timeout(10):
            while len({message.queue.broker for message in received}) < 2:
                messages = await consumer.receive(wait=20)
                await consumer.ack(messages)
                received.extend(messages)
    assert all(message.is_settled for message in received)


async def test_a_push_consumer_polls_every_broker_by_itself(cluster: FakeBroker) -> None:
    counts: Counter[str] = Counter()
    done = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        counts[message.queue.broker] += 1
        if counts.total() == 9:
            done.set()

    async with push_consumer(cluster.endpoint, handler=handle) as consumer:
        assert len(consumer.assigned_queues) == 3
        await send(cluster, 9)
        await asyncio.wait_for(done.wait(), 10)
    assert len(counts) == 3


def declared(cluster: FakeBroker, *numbers: int) -> list[list[str]]:
    """The topics that a client has declared to the brokers of these numbers, or to all."""
    filters = (
        client.settings.subscription.filters
        for number in numbers or range(3)
        for client in cluster._drivers[number].core.clients()
        if client.settings.subscription is not None
    )
    return [sorted(topic for topic, _ in each) for each in filters]


async def test_changed_subscriptions_are_declared_to_every_broker(cluster: FakeBroker) -> None:
    await cluster.create_topic("refunds", queues=1)

    async with simple_consumer(cluster.endpoint) as consumer:
        await until(lambda: declared(cluster) == [["orders"]] * 3)
        await consumer.subscribe("refunds")
        await until(lambda: declared(cluster) == [["orders", "refunds"]] * 3)
        await consumer.unsubscribe("orders")
        await until(lambda: declared(cluster) == [["refunds"]] * 3)
    # Each of them is told that the client leaves.
    assert declared(cluster) == []


async def test_a_dead_broker_keeps_changed_subscriptions_from_no_other(cluster: FakeBroker) -> None:
    await cluster.create_topic("refunds", queues=1)
    async with simple_consumer(cluster.endpoint, subscriptions=["orders", "refunds"]) as consumer:
        await cluster.brokers[1].crash()
        await consumer.unsubscribe("orders")
        await until(lambda: declared(cluster, 0, 2) == [["refunds"]] * 2)


async def test_a_send_that_all_brokers_refuse_is_tried_at_each_in_turn(cluster: FakeBroker) -> None:
    retry = Retry(attempts=7, initial=0.001, maximum=0.001)
    async with AsyncExitStack() as stack:
        faults = [
            stack.enter_context(broker.faults.refuse("SendMessage", "INTERNAL_SERVER_ERROR"))
            for broker in cluster.brokers
        ]
        async with Producer(cluster.endpoint, retry=retry) as producer:
            with pytest.raises(ServerError):
                await producer.send(Message("orders", b"x"))
    assert sorted(fault.hits for fault in faults) == [2, 2, 3]


async def test_heartbeats_go_to_every_broker_and_an_error_of_one_keeps_none_from_the_others(
    cluster: FakeBroker,
) -> None:
    async with AsyncExitStack() as stack:
        consumer = await stack.enter_async_context(simple_consumer(cluster.endpoint))
        beats = [
            stack.enter_context(broker.faults.refuse("Heartbeat", "INTERNAL_SERVER_ERROR"))
            for broker in cluster.brokers
        ]
        session = consumer._session
        assert len(session.streams) == 3
        with pytest.raises(ServerError):
            await session._upkeep.beat()
        assert [beat.hits for beat in beats] == [1, 1, 1]


class Reconnecting(GrpcioTransport):
    """The ordinary transport; it notes what is reconnected."""

    def __init__(self) -> None:
        super().__init__()
        self.reconnected: list[str] = []

    async def reconnect(self, endpoint: Endpoint, grace: float = 0.0) -> None:
        self.reconnected.append(str(endpoint))
        await super().reconnect(endpoint, grace)


async def test_the_connection_to_a_silent_broker_is_replaced_although_others_answer(
    cluster: FakeBroker,
) -> None:
    transport, silent = Reconnecting(), cluster.brokers[1]
    timeouts = Timeouts(request=0.3)
    async with simple_consumer(cluster.endpoint, transport=transport, timeouts=timeouts) as consumer:
        with silent.faults.drop_reply("Heartbeat", hang=True):
            for _ in range(2):
                assert transport.reconnected == []
                with pytest.raises(UnreachableError):
                    await consumer._session._upkeep.beat()
    assert transport.reconnected == [silent.endpoint]


def any_of(kind: type, events: Iterable[object]) -> bool:
    return any(isinstance(event, kind) for event in events)


async def test_transactions_end_at_the_broker_that_has_them(cluster: FakeBroker) -> None:
    await cluster.create_topic("payments", type="TRANSACTION", queues=1)

    async def check(message: ReceivedMessage) -> Resolution:
        return Resolution.UNKNOWN

    async with (
        Producer(cluster.endpoint, topics=["payments"], transaction_checker=check) as producer,
        AsyncExitStack() as stack,
    ):
        events = [await stack.enter_async_context(broker.events.subscribe()) for broker in cluster.brokers]
        for number in range(6):
            with suppress(LookupError):
                async with producer.transaction(Message("payments", b"%d" % number)):
                    if number >= 3:
                        raise LookupError
        for each in events:
            ends = [event.resolution.name for event in each.take() if isinstance(event, TransactionEnded)]
            assert ends == ["COMMIT", "ROLLBACK"]
    assert sorted(message.body for message in cluster.messages("payments")) == [b"0", b"1", b"2"]


async def test_a_check_is_answered_at_the_broker_that_has_asked(cluster: FakeBroker) -> None:
    """Each broker knows its own transactions only; the others would refuse the answer."""
    await cluster.create_topic("payments", type="TRANSACTION", queues=1)

    async def check(message: ReceivedMessage) -> Resolution:
        return Resolution.COMMIT

    async with (
        Producer(cluster.endpoint, topics=["payments"], transaction_checker=check) as producer,
        AsyncExitStack() as stack,
    ):
        events = [await stack.enter_async_context(broker.events.subscribe()) for broker in cluster.brokers]
        for number in range(3):
            async with producer.transaction(Message("payments", b"%d" % number)) as transaction:
                transaction.leave_unknown()
        seen: list[list[object]] = [[] for _ in events]

        def every(kind: type) -> bool:
            for each, some in zip(events, seen, strict=True):
                some += each.take()
            return all(any_of(kind, some) for some in seen)

        # No longer than until they ask: a broker forgets its question after 30 seconds.
        while not every(TransactionChecked):
            assert not any(any_of(TransactionChecked, some) for some in seen)
            await cluster.clock.advance(seconds=5)
        await until(lambda: every(TransactionEnded))
    assert sorted(message.body for message in cluster.messages("payments")) == [b"0", b"1", b"2"]


async def test_a_client_is_connected_only_while_all_its_brokers_are(cluster: FakeBroker) -> None:
    async with Producer(cluster.endpoint, topics=["orders"]) as producer:
        assert producer.is_ready
        await cluster.brokers[1].crash()
        await until(lambda: not producer.health().connected)
        assert not producer.is_ready
        await cluster.brokers[1].start()
        await until(lambda: producer.is_ready)


async def test_only_the_brokers_that_have_answered_a_heartbeat_are_sent_to_again(cluster: FakeBroker) -> None:
    async with Producer(cluster.endpoint, topics=["orders"]) as producer:
        session = producer._session
        session.isolated.update(session.streams)
        silent = cluster.brokers[1]
        with silent.faults.refuse("Heartbeat", "INTERNAL_SERVER_ERROR"), pytest.raises(ServerError):
            await session._upkeep.beat()
        assert [str(endpoint) for endpoint in session.isolated] == [silent.endpoint]


async def test_the_connections_to_two_brokers_are_replaced_at_one_time(cluster: FakeBroker) -> None:
    transport = Reconnecting()
    async with simple_consumer(cluster.endpoint, transport=transport) as consumer:
        session = consumer._session
        first, second, _ = session.streams
        for endpoint in (first, second, first, second):
            await session.reconnect(endpoint)
    assert transport.reconnected == [str(first), str(second)]


async def test_a_second_attempt_is_made_at_once_only_where_no_send_has_failed(cluster: FakeBroker) -> None:
    async with Producer(cluster.endpoint, topics=["orders"]) as producer:
        sender, route = producer._sender, producer._session.routes.cached["orders"]
        request, (chosen, *others) = sender.batch(()), route.writable
        assert sender._can_switch(request, route, chosen)
        producer._session.isolated.update(each.endpoint for each in others[1:])
        assert sender._can_switch(request, route, chosen)
        producer._session.isolated.add(others[0].endpoint)
        assert not sender._can_switch(request, route, chosen)


async def test_who_waits_for_any_broker_hears_that_the_client_has_failed(cluster: FakeBroker) -> None:
    async with Producer(cluster.endpoint, topics=["orders"]) as producer:
        streams = producer._session.streams.values()
        waiting = [asyncio.create_task(stream._answer.wait()) for stream in streams]
        await asyncio.sleep(0)
        producer._session.fail(BackgroundTaskError("a loop failed"))
        async with asyncio.timeout(5):
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [BackgroundTaskError] * 3
