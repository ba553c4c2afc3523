"""Scenarios in which Apache's Python client hangs, stops or loses messages, each passed here (client-behaviour.md)."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time

import pytest
from aiorocketmq.config import Timeouts
from aiorocketmq.errors import Unreachable
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.otel import OpenTelemetryHook
from aiorocketmq.producer import Producer
from aiorocketmq.push_consumer import PushConsumer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq_fake import FakeBroker


@pytest.fixture(params=["documented", "apache-5.5"])
def profile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Arrivals:
    def __init__(self) -> None:
        self.bodies: asyncio.Queue[bytes] = asyncio.Queue()

    async def __call__(self, message: ReceivedMessage) -> None:
        await self.bodies.put(message.body)

    async def next(self) -> bytes:
        async with asyncio.timeout(30):
            return await self.bodies.get()


async def prepared(broker: FakeBroker) -> None:
    await broker.create_topic("orders")
    await broker.create_group("billing")


async def test_a_server_with_metrics_off_has_a_push_consumer_that_works(profile: str) -> None:
    """There an exception about metrics ends the reader of the settings stream (issue 1191)."""
    arrivals = Arrivals()
    async with FakeBroker(profile=profile) as broker:
        await prepared(broker)
        async with (
            Producer(broker.endpoint) as producer,
            PushConsumer(
                broker.endpoint,
                group="billing",
                subscriptions=["orders"],
                handler=arrivals,
                hooks=[OpenTelemetryHook()],
            ) as consumer,
        ):
            assert consumer._session.settings.metrics_endpoint is None
            await producer.send(Message("orders", b"x"))
            assert await arrivals.next() == b"x"


async def test_a_broken_stream_stops_no_consumption(profile: str) -> None:
    """There the stream is opened again with the next regular settings, up to five minutes later."""
    arrivals = Arrivals()
    async with FakeBroker(profile=profile) as broker:
        await prepared(broker)
        async with (
            Producer(broker.endpoint) as producer,
            PushConsumer(broker.endpoint, group="billing", subscriptions=["orders"], handler=arrivals),
        ):
            assert broker.cut_streams() == 2
            for body in (b"1", b"2", b"3"):
                await producer.send(Message("orders", body))
                assert await arrivals.next() == body


FORK = """
import asyncio, os, sys
from aiorocketmq import Closed, Message, Producer

async def main():
    async with Producer(sys.argv[1], topics=["orders"]) as producer:
        await producer.send(Message("orders", b"parent"))
        child = os.fork()
        if not child:
            try:
                asyncio.run(producer.send(Message("orders", b"child")))
            except Closed:
                os._exit(42)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
        await producer.send(Message("orders", b"parent again"))

asyncio.run(main())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
async def test_a_fork_is_a_clear_error_in_the_child_and_nothing_to_the_parent(profile: str) -> None:
    """There the child waits for ever; more in test_forks.py."""
    async with FakeBroker(profile=profile) as broker:
        await prepared(broker)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", FORK, broker.endpoint, stderr=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(60):
            _, error = await process.communicate()
        assert process.returncode == 0, error.decode()
        assert {message.body for message in broker.messages("orders")} == {b"parent", b"parent again"}


async def test_a_dead_endpoint_is_an_error_within_the_deadline() -> None:
    """There the client says that it runs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{free.getsockname()[1]}"
    began = time.monotonic()
    with pytest.raises(Unreachable, match=f"{endpoint}.*nothing listens there"):
        async with Producer(endpoint, topics=["orders"], timeouts=Timeouts(start=1.0)):
            pass
    assert time.monotonic() - began < 10


async def test_a_stop_with_messages_in_flight_loses_none_and_is_soon_over(profile: str) -> None:
    """There what is in hand stays invisible until its lease ends, and a parked poll holds the stop up."""
    async with FakeBroker(profile=profile) as broker:
        await prepared(broker)
        started = asyncio.Event()

        async def never_ends(message: ReceivedMessage) -> None:
            started.set()
            await asyncio.Event().wait()

        async with Producer(broker.endpoint) as producer:
            for number in range(30):
                await producer.send(Message("orders", b"%d" % number))
        consumer = PushConsumer(
            broker.endpoint,
            group="billing",
            subscriptions=["orders"],
            handler=never_ends,
            concurrency=5,
            grace=0.2,
            invisible=600,
        )
        async with consumer:
            async with asyncio.timeout(20):
                await started.wait()
            began = time.monotonic()
        assert time.monotonic() - began < 10
        arrivals = Arrivals()
        async with PushConsumer(broker.endpoint, group="billing", subscriptions=["orders"], handler=arrivals):
            bodies = {await arrivals.next() for _ in range(30)}
    assert bodies == {b"%d" % number for number in range(30)}


async def test_a_short_await_is_no_illegal_polling_time(profile: str) -> None:
    """There any wait of two seconds or less is refused, because its deadline leaves less than five."""
    async with FakeBroker(profile=profile) as broker:
        await prepared(broker)
        async with (
            Producer(broker.endpoint) as producer,
            SimpleConsumer(broker.endpoint, group="billing", subscriptions=["orders"]) as consumer,
        ):
            assert await consumer.receive(wait=1) == []
            await producer.send(Message("orders", b"x"))
            (message,) = await consumer.receive(wait=0)
            assert message.body == b"x"
            await message.ack()


async def test_a_lite_subscription_to_a_topic_is_one_to_that_topic() -> None:
    """There a text is taken for a list: who subscribes `order` gets the lite topics `o`, `r`, `d`, `e` and `r`."""
    arrivals = Arrivals()
    async with FakeBroker() as broker:
        await broker.create_topic("sessions", type="LITE", queues=1)
        await broker.create_group("chat", lite_topic="sessions", lite_quota=5)
        async with (
            Producer(broker.endpoint) as producer,
            PushConsumer(
                broker.endpoint,
                group="chat",
                subscriptions=["sessions"],
                lite_topics=["order"],
                handler=arrivals,
            ) as consumer,
        ):
            assert consumer.lite_topics == {"order"}
            for lite_topic in ("o", "order"):
                await producer.send(Message("sessions", lite_topic.encode(), lite_topic=lite_topic))
            assert await arrivals.next() == b"order"
        with pytest.raises(TypeError, match="lite_topics"):
            PushConsumer(
                broker.endpoint,
                group="chat",
                subscriptions=["sessions"],
                lite_topics="order",
                handler=arrivals,
            )
