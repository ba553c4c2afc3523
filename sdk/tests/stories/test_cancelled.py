"""What is cancelled while its call is under way: its event says that the outcome is open, and nothing stays taken."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiorocketmq import Connection, Message, Producer, PullConsumer, SimpleConsumer
from aiorocketmq._core.lease import LeaseState
from aiorocketmq.hooks import Event, Hook, Phase
from aiorocketmq.message import ReceivedMessage
from aiorocketmq.transaction import Resolution
from aiorocketmq_fake import FakeBroker


class Heard(Hook):
    """The kinds and phases of all events but those of clients and settings."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Phase]] = []

    def observe(self, event: Event) -> None:
        if event.operation is not None:
            self.events.append((type(event).__name__.removesuffix("Event"), event.phase))

    def take(self) -> list[tuple[str, Phase]]:
        events, self.events = self.events, []
        return events


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    async with FakeBroker(clock="manual") as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_topic("steps", type="FIFO", queues=1)
        await broker.create_topic("later", type="DELAY", queues=1)
        await broker.create_topic("sure", type="TRANSACTION", queues=1)
        await broker.create_group("billing")
        yield broker


async def cancelled(
    broker: FakeBroker, rpc: str, call: Callable[[], Awaitable[object]], *, requests: int = 1
) -> None:
    """Cancel a call whose requests get no answer."""

    async def work() -> None:
        await call()

    with broker.faults.delay(rpc, 3600.0) as fault:
        task = asyncio.create_task(work())
        async with asyncio.timeout(20):
            while fault.hits < requests:  # noqa: ASYNC110 - a fault has no event
                await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()


async def check(message: ReceivedMessage) -> Resolution:
    return Resolution.UNKNOWN


INVOKE, OK, INFO = Phase.INVOKE, Phase.OK, Phase.INFO


@pytest.mark.parametrize("linger", [None, 0.0])
async def test_of_a_producer(broker: FakeBroker, linger: float | None) -> None:
    heard = Heard()
    producer = Producer(
        broker.endpoint, transaction_checker=check, linger=linger, max_in_flight=2, hooks=[heard]
    )

    def takes_nothing() -> bool:
        sender, batcher = producer._sender, producer._batcher
        lingering = 0 if batcher is None else len(batcher._batches) + len(batcher._in_flight)
        return (sender._slots._value, len(sender._group_locks), sender._outages.waiting, lingering) == (
            2,
            0,
            0,
            0,
        )

    async with producer:
        delayed = await producer.send(Message("later", b"x", delay=60))
        await producer.send(Message("orders", b"x"))
        heard.take()
        for message in (Message("orders", b"x"), Message("steps", b"x", message_group="g")):
            await cancelled(broker, "SendMessage", lambda message=message: producer.send(message))  # type: ignore[misc]
            assert heard.take() == [("Send", INVOKE), ("Send", INFO)]
            assert takes_nothing()
            await producer.send(message)
            assert heard.take() == [("Send", INVOKE), ("Send", OK)]
        many = [Message("orders", b"x"), Message("orders", b"y"), Message("steps", b"x", message_group="g")]
        await cancelled(broker, "SendMessage", lambda: producer.send_many(many), requests=2)
        # With a batch, two requests are all three of them.
        count = 2 if linger is None else 3
        assert Counter(heard.take()) == {("Send", INVOKE): count, ("Send", INFO): count}
        assert takes_nothing()
        await cancelled(broker, "RecallMessage", lambda: producer.recall(delayed))
        assert heard.take() == [("Recall", INVOKE), ("Recall", INFO)]

        async def begin() -> None:
            async with producer.transaction(Message("sure", b"x")):
                pass

        await cancelled(broker, "SendMessage", begin)
        assert heard.take() == [("Send", INVOKE), ("Send", INFO)]
        assert producer._transactions is not None
        # If it is stored, a check rolls it back.
        assert len(producer._transactions._decisions._open) == 0
        await cancelled(broker, "EndTransaction", begin)
        assert heard.take() == [("Send", INVOKE), ("Send", OK), ("TransactionEnd", INVOKE)]
        assert takes_nothing()
    # The end goes on for whoever waited for it, until the producer is closed.
    assert heard.take() == [("TransactionEnd", INFO)]


async def test_of_a_consumer(broker: FakeBroker) -> None:
    heard = Heard()
    async with Producer(broker.endpoint) as producer:
        await producer.send_many([Message("orders", b"%d" % number) for number in range(9)])
    async with (
        Connection(broker.endpoint, clock=broker.clock) as connection,
        SimpleConsumer(connection, group="billing", subscriptions=["orders"], hooks=[heard]) as consumer,
    ):
        await cancelled(broker, "ReceiveMessage", lambda: consumer.receive(max_messages=1, wait=1))
        assert heard.take() == [("Receive", INVOKE), ("Receive", INFO)]
        steps: dict[str, tuple[str, str, LeaseState]] = {
            "ack": ("AckMessage", "Ack", LeaseState.ACK_SENT),
            "release": ("ChangeInvisibleDuration", "Change", LeaseState.IN_DOUBT),
        }
        for step, (rpc, kind, state) in steps.items():
            (message,) = await consumer.receive(max_messages=1, wait=1)
            heard.take()
            await cancelled(broker, rpc, getattr(message, step))
            assert heard.take() == [(kind, INVOKE), (kind, INFO)]
            assert message._lease is not None
            assert (message._lease.state, message._lease.step, message.is_settled) == (state, None, False)
            await message.ack()
            assert message.is_settled
        messages = await consumer.receive(max_messages=2, wait=1)
        heard.take()
        await cancelled(broker, "AckMessage", lambda: consumer.ack(messages))
        assert heard.take() == [("Ack", INVOKE)] * 2 + [("Ack", INFO)] * 2
        assert {message._lease.state for message in messages if message._lease} == {LeaseState.ACK_SENT}
        await consumer.ack(messages)


async def test_of_a_pull_consumer(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint) as producer:
        await producer.send(Message("orders", b"x"))
    async with PullConsumer(broker.endpoint, group="billing", auto_commit=None) as consumer:
        (queue,) = await consumer.queues("orders")
        with broker.faults.delay("PullMessage", 3600.0):
            consumer.assign([queue])
            assert await consumer.poll(0.05) is None
        consumer.assign([])
        calls: dict[str, Any] = {
            "GetOffset": lambda: consumer.committed(queue),
            "UpdateOffset": lambda: consumer.commit({queue: 1}),
        }
        for rpc, call in calls.items():
            await cancelled(broker, rpc, call)
        consumer.assign([queue])
        batch = await consumer.poll(10)
        assert batch is not None
        assert [message.body for message in batch] == [b"x"]
