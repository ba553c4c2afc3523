"""What concerns all brokers of a topic goes to each of them, and what concerns one goes to that one alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack
from functools import partial

import pytest
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.pull_consumer import Offset, PullConsumer
from aiorocketmq.push_consumer import PushConsumer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq_fake import FakeBroker

from sdk.tests import waiting

until = partial(waiting.until, within=20)


BROKERS = 3


@pytest.fixture
async def cluster() -> AsyncIterator[FakeBroker]:
    async with FakeBroker(brokers=BROKERS, remoting_port=0) as cluster:
        await cluster.create_topic("orders", queues=1)
        await cluster.create_topic("chat", type="LITE", queues=1)
        await cluster.create_group("billing")
        await cluster.create_group("talking", lite_topic="chat")
        yield cluster


class Counting:
    """Counts the calls of some names at each broker."""

    def __init__(self, cluster: FakeBroker, stack: ExitStack, *names: str) -> None:
        self._faults = {
            name: [stack.enter_context(broker.faults.delay(name, 0.0)) for broker in cluster.brokers]
            for name in names
        }

    def of(self, name: str) -> list[int]:
        """The calls at each broker."""
        return [fault.hits for fault in self._faults[name]]


async def fill(cluster: FakeBroker, endpoint: str, count: int = BROKERS) -> None:
    async with Producer(endpoint) as producer:
        for number in range(count):
            await producer.send(Message("orders", b"%d" % number))


def namesrv(cluster: FakeBroker) -> str:
    return f"namesrv://{cluster.remoting_endpoint}"


async def test_members_over_remoting_greet_lock_commit_and_leave_everywhere(cluster: FakeBroker) -> None:
    await fill(cluster, namesrv(cluster))
    with ExitStack() as stack:
        names = [
            "HEART_BEAT",
            "LOCK_BATCH_MQ",
            "UNLOCK_BATCH_MQ",
            "UPDATE_CONSUMER_OFFSET",
            "UNREGISTER_CLIENT",
        ]
        counting = Counting(cluster, stack, *(f"Remoting.{name}" for name in names))
        consumer = PullConsumer(
            namesrv(cluster), group="billing", topics=["orders"], ordered=True, start=Offset.BEGIN
        )
        async with consumer:
            taken = [await anext(consumer) for _ in range(BROKERS)]
            assert {batch.queue.broker for batch in taken} == {"broker-a", "broker-b", "broker-c"}
            assert min(counting.of("Remoting.HEART_BEAT")) >= 1
            assert min(counting.of("Remoting.LOCK_BATCH_MQ")) >= 1
            for number, batch in enumerate(sorted(taken, key=lambda batch: batch.queue), 1):
                await consumer.commit(batch)
                assert counting.of("Remoting.UPDATE_CONSUMER_OFFSET") == [
                    int(place < number) for place in range(BROKERS)
                ]
            assert counting.of("Remoting.UNLOCK_BATCH_MQ") == [0] * BROKERS
        assert counting.of("Remoting.UNLOCK_BATCH_MQ") == [1] * BROKERS
        assert counting.of("Remoting.UNREGISTER_CLIENT") == [1] * BROKERS


async def test_what_failed_over_remoting_goes_back_to_its_broker(cluster: FakeBroker) -> None:
    await fill(cluster, namesrv(cluster))
    failed: list[str] = []

    async def handle(message: ReceivedMessage) -> None:
        if message.queue.broker != "broker-b":
            raise ValueError("not today")
        failed.append(message.queue.broker)

    with ExitStack() as stack:
        counting = Counting(cluster, stack, "Remoting.CONSUMER_SEND_MSG_BACK")
        async with PushConsumer(
            namesrv(cluster), group="billing", subscriptions=["orders"], handler=handle, start=Offset.BEGIN
        ) as consumer:
            await until(lambda: consumer.statistics.received == BROKERS)
            await until(lambda: not consumer.messages_in_flight)
            assert consumer.statistics.released == 2
        assert counting.of("Remoting.CONSUMER_SEND_MSG_BACK") == [1, 0, 1]


async def test_lists_of_lite_topics_go_to_every_broker(cluster: FakeBroker) -> None:
    with ExitStack() as stack:
        counting = Counting(cluster, stack, "SyncLiteSubscription")
        async with SimpleConsumer(
            cluster.endpoint, group="talking", subscriptions=["chat"], lite_topics=["ann"]
        ) as consumer:
            assert counting.of("SyncLiteSubscription") == [1] * BROKERS
            await consumer.add_lite_topics("bob")
            assert counting.of("SyncLiteSubscription") == [2] * BROKERS
            await consumer.remove_lite_topics("ann")
            assert counting.of("SyncLiteSubscription") == [3] * BROKERS


async def test_messages_are_settled_at_the_broker_that_delivered_them(cluster: FakeBroker) -> None:
    await fill(cluster, cluster.endpoint, 2 * BROKERS)
    messages: list[ReceivedMessage] = []
    with ExitStack() as stack:
        counting = Counting(cluster, stack, "AckMessage", "ChangeInvisibleDuration")
        async with SimpleConsumer(cluster.endpoint, group="billing", subscriptions=["orders"]) as consumer:
            while len(messages) < 2 * BROKERS:
                messages += await consumer.receive(wait=1)
            by_broker = {
                broker: [message for message in messages if message.queue.broker == broker]
                for broker in ("broker-a", "broker-b", "broker-c")
            }
            assert [len(some) for some in by_broker.values()] == [2] * BROKERS
            await by_broker["broker-b"][0].extend(60)
            await by_broker["broker-c"][0].release()
            assert counting.of("ChangeInvisibleDuration") == [0, 1, 1]
            await consumer.ack([message for message in messages if not message.is_settled])
            assert counting.of("AckMessage") == [1] * BROKERS
    assert [message.is_settled for message in messages] == [True] * len(messages)
