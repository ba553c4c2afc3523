"""Scenarios in which Apache's Python client hangs, stops or loses messages, each passed here (client-behaviour.md).

What that client does instead is shown in peers/test_where_apaches_client_fails.py.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from aiorocketmq.config import Timeouts
from aiorocketmq.errors import UnreachableError
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.otel import OpenTelemetryHook
from aiorocketmq.producer import Producer
from aiorocketmq.push_consumer import PushConsumer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq_fake import FakeBroker

from sdk.tests.clients import push_consumer

if TYPE_CHECKING:
    from sdk.tests.conftest import Arrivals, Place
else:
    Arrivals = Place = Any

PATIENCE = 60.0


async def test_metrics_off_a_push_consumer_works(place: Place, arrivals: Arrivals) -> None:
    """There an exception about metrics ends the reader of the settings stream (issue 1191)."""
    topic, group = await place.topic(), await place.group()
    async with (
        Producer(place.endpoint) as producer,
        PushConsumer(
            place.endpoint,
            group=group,
            subscriptions=[topic],
            handler=arrivals,
            hooks=[OpenTelemetryHook()],
        ) as consumer,
    ):
        assert consumer._session.settings.metrics_endpoint is None
        await producer.send(Message(topic, b"x"))
        await arrivals.contain(b"x")


@pytest.mark.parametrize("profile", ["documented", "apache-5.5"])
async def test_broken_stream_it_is_opened_again_and_nothing_stops(profile: str, arrivals: Arrivals) -> None:
    """There the stream is opened again with the next regular settings, up to five minutes later."""
    async with FakeBroker(profile=profile) as broker:
        await broker.create_topic("orders")
        await broker.create_group("billing")
        async with (
            Producer(broker.endpoint) as producer,
            push_consumer(broker.endpoint, handler=arrivals),
        ):
            assert broker.cut_streams() == 2
            for body in (b"1", b"2", b"3"):
                await producer.send(Message("orders", body))
                await arrivals.contain(body)


FORK = """
import asyncio, os, sys
from aiorocketmq import ClosedError, Message, Producer

async def main():
    async with Producer(sys.argv[1], topics=[sys.argv[2]]) as producer:
        await producer.send(Message(sys.argv[2], b"parent"))
        child = os.fork()
        if not child:
            try:
                asyncio.run(producer.send(Message(sys.argv[2], b"child")))
            except ClosedError:
                os._exit(42)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
        await producer.send(Message(sys.argv[2], b"parent again"))

asyncio.run(main())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
async def test_fork_it_is_a_clear_error_in_the_child_and_nothing_to_the_parent(place: Place) -> None:
    """There the child waits for ever; more in session/test_forks.py."""
    topic, group = await place.topic(), await place.group()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", FORK, place.endpoint, topic), stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        _, error = await process.communicate()
    assert process.returncode == 0, error.decode()
    bodies: list[bytes] = []
    async with SimpleConsumer(place.endpoint, group=group, subscriptions=[topic]) as consumer:
        while messages := await consumer.receive(wait=5):
            bodies += (message.body for message in messages)
            await consumer.ack(messages)
    assert sorted(bodies) == [b"parent", b"parent again"]


async def test_dead_endpoint_it_is_an_error_within_the_deadline() -> None:
    """There the client says that it runs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{free.getsockname()[1]}"
    began = time.monotonic()
    with pytest.raises(UnreachableError, match=f"{endpoint}.*nothing listens there"):
        async with Producer(endpoint, topics=["orders"], timeouts=Timeouts(start=1.0)):
            pass
    assert time.monotonic() - began < 10


async def test_stop_with_messages_in_flight_it_loses_none_and_is_soon_over(
    place: Place, arrivals: Arrivals
) -> None:
    """There what is in hand stays invisible until its lease ends."""
    topic, group, started = await place.topic(), await place.group(), asyncio.Event()

    async def never_ends(message: ReceivedMessage) -> None:
        started.set()
        await asyncio.Event().wait()

    bodies = tuple(b"%03d" % number for number in range(30))
    async with Producer(place.endpoint, topics=[topic]) as producer:
        await producer.send_many([Message(topic, body) for body in bodies])
    consumer = PushConsumer(
        place.endpoint,
        group=group,
        subscriptions=[topic],
        handler=never_ends,
        concurrency=5,
        shutdown_timeout=0.2,
        invisible=600,
    )
    async with consumer:
        async with asyncio.timeout(PATIENCE):
            await started.wait()
        began = time.monotonic()
    # Not the ten minutes of the leases, nor the twenty seconds of a parked poll.
    assert time.monotonic() - began < 15
    async with PushConsumer(place.endpoint, group=group, subscriptions=[topic], handler=arrivals):
        await arrivals.contain(*bodies)
    assert set(arrivals.bodies) == set(bodies)


async def test_short_await_it_is_no_illegal_polling_time(place: Place) -> None:
    """There any wait of two seconds or less is refused, because its deadline leaves less than five."""
    topic, group = await place.topic(), await place.group()
    async with SimpleConsumer(place.endpoint, group=group, subscriptions=[topic]) as consumer:
        assert await consumer.receive(wait=1) == []
        async with Producer(place.endpoint) as producer:
            await producer.send(Message(topic, b"x"))
        async with asyncio.timeout(PATIENCE):
            while not (messages := await consumer.receive(wait=0)):
                pass
        assert [message.body for message in messages] == [b"x"]
        await consumer.ack(messages)


async def test_lite_subscribe_a_name_is_the_name_of_one_topic(arrivals: Arrivals) -> None:
    """There a text is taken for a list: who subscribes `order` gets the lite topics `o`, `r`, `d`, `e` and `r`."""
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
            await arrivals.contain(b"order")
            assert arrivals.bodies == [b"order"]
        with pytest.raises(TypeError, match="lite_topics"):
            PushConsumer(
                broker.endpoint,
                group="chat",
                subscriptions=["sessions"],
                lite_topics="order",
                handler=arrivals,
            )
