"""`with FakeBroker()`: a broker for synchronous code, and inspection from other threads."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator

import anyio
import pytest
from aiorocketmq import Message, Producer, PushConsumer, ReceivedMessage
from aiorocketmq_fake import FakeBroker


def test_a_synchronous_program_sends_through_the_portal() -> None:
    with FakeBroker(clock="manual") as broker:
        call = broker.portal.call
        call(broker.create_topic, "orders")
        with broker.portal.wrap_async_context_manager(Producer(broker.endpoint)) as producer:
            call(producer.send, Message("orders", b"1"))
        assert [message.body for message in broker.messages("orders")] == [b"1"]
        call(lambda: broker.clock.advance(hours=1))
        assert broker.is_running
    assert not broker.is_running
    assert "fake broker" not in {thread.name for thread in threading.enumerate()}


def test_what_a_test_leaves_open_does_not_keep_the_block() -> None:
    ended = threading.Event()

    async def leave_open() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    with FakeBroker() as broker:
        broker.portal.start_task_soon(leave_open)
    assert ended.is_set()


def test_an_error_in_the_block_is_raised_and_the_port_is_closed() -> None:
    with pytest.raises(LookupError), FakeBroker() as broker:
        raise LookupError
    with FakeBroker(listen=broker.endpoint):
        pass


def test_a_taken_port_is_an_error_and_ends_the_thread() -> None:
    with FakeBroker() as broker, pytest.raises(OSError, match="cannot listen"):
        FakeBroker(listen=broker.endpoint).__enter__()
    assert "fake broker" not in {thread.name for thread in threading.enumerate()}


async def test_on_an_event_loop_it_asks_for_async_with() -> None:
    with pytest.raises(RuntimeError, match="write `async with`"):
        FakeBroker().__enter__()


async def test_only_a_broker_opened_by_with_has_a_portal(broker: FakeBroker) -> None:
    with pytest.raises(RuntimeError, match="open the broker by `with`"):
        _ = broker.portal


def test_changes_on_another_event_loop_are_refused() -> None:
    with FakeBroker(clock="manual") as broker:
        with pytest.raises(RuntimeError, match="runs on another event loop"):
            asyncio.run(broker.create_topic("t"))
        with pytest.raises(RuntimeError, match="runs on another event loop"):
            asyncio.run(broker.clock.advance(seconds=1))
        assert broker.topics() == ()


@pytest.fixture
def many_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("many_switches")
def test_inspection_in_another_thread_does_not_race_with_the_broker() -> None:
    """Without a turn on the event loop, collections change while they are read: 18 errors in such a run."""

    async def ignore(message: ReceivedMessage) -> None:
        pass

    async def work(broker: FakeBroker) -> None:
        consumer = PushConsumer(broker.endpoint, group="g", subscriptions=["orders"], handler=ignore)
        async with consumer, Producer(broker.endpoint) as producer:
            for _ in range(1000):
                await producer.send(Message("orders", b"1"))

    with FakeBroker() as broker:
        broker.portal.call(broker.create_topic, "orders")
        broker.portal.call(broker.create_group, "g")
        working = broker.portal.start_task_soon(work, broker)
        while not working.done():
            assert broker.totals().messages >= 0
            for inspect in (broker.deliveries, broker.leases, broker.progress, broker.clients, broker.groups):
                inspect()
            broker.messages("orders")
        working.result()


async def test_a_handler_in_a_thread_may_inspect(broker: FakeBroker) -> None:
    names = await asyncio.wait_for(
        asyncio.to_thread(lambda: [topic.name for topic in broker.topics()]), timeout=10
    )
    assert names == ["t"]
