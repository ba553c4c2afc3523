"""What the network does to a client: every client recovers by itself, whatever end its connection comes to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiorocketmq._core.session_states import StreamState
from aiorocketmq.config import Retry, Timeouts
from aiorocketmq.connection import Connection
from aiorocketmq.errors import RocketMQError, UnreachableError
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import PollParked

from sdk.tests.clients import push_consumer, simple_consumer


class Arrivals:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._more = asyncio.Event()

    async def __call__(self, message: ReceivedMessage) -> None:
        self.bodies.append(message.body)
        self._more.set()

    async def contain(self, *bodies: bytes) -> None:
        async with asyncio.timeout(30):
            while not set(bodies) <= set(self.bodies):
                self._more.clear()
                await self._more.wait()


async def stubbornly(call: Callable[[], Awaitable[Any]]) -> None:
    """Try again as an application does, after errors that say that this may help."""
    async with asyncio.timeout(30):
        while True:
            try:
                await call()
                return
            except RocketMQError as error:
                if not error.may_retry:
                    raise
                await asyncio.sleep(0.02)


async def until_ready(producer: Producer) -> None:
    """Wait until the settings of `producer` are known again on every stream."""
    async with asyncio.timeout(30):
        for stream in producer._session.streams.values():
            while stream.state is not StreamState.READY:
                try:
                    await stream.ready()
                except RocketMQError:
                    continue


def through(wire: Any, broker: FakeBroker, **options: Any) -> Connection:
    return Connection(
        wire.endpoint,
        address_map={broker.endpoint: wire.endpoint},
        timeouts=Timeouts(request=1.0, start=20.0),
        **options,
    )


@pytest.mark.parametrize(("code", "text"), [(0, b"draining"), (11, b"too_many_pings")])
async def test_after_a_goaway_calls_take_a_new_connection_and_nothing_fails(
    wire: Any, broker: FakeBroker, code: int, text: bytes
) -> None:
    async with through(wire, broker) as rocketmq, Producer(rocketmq, topics=["orders"]) as producer:
        await producer.send(Message("orders", b"before"))
        before = wire.connections
        wire.say_goaway(code, text)
        receipts = [await producer.send(Message("orders", b"%d" % n)) for n in range(20)]
        await wire.connected(before + 1)
        await producer.send(Message("orders", b"after"))
    assert len({receipt.message_id for receipt in receipts}) == 20
    assert {message.body for message in broker.messages("orders")} >= {b"%d" % n for n in range(20)}


async def test_a_push_consumer_continues_after_a_goaway_and_the_end_of_its_connection(
    wire: Any, broker: FakeBroker
) -> None:
    arrivals = Arrivals()
    async with (
        through(wire, broker) as rocketmq,
        Producer(broker.endpoint) as producer,
        push_consumer(rocketmq, handler=arrivals),
    ):
        await producer.send(Message("orders", b"before"))
        await arrivals.contain(b"before")
        wire.say_goaway()
        await producer.send(Message("orders", b"between"))
        await arrivals.contain(b"between")
        wire.cut()
        await producer.send(Message("orders", b"after"))
        await arrivals.contain(b"after")
    assert {message.body for message in broker.messages("orders")} == {b"before", b"between", b"after"}


async def test_a_half_open_connection_is_noticed_by_heartbeats_and_replaced(
    wire: Any, broker: FakeBroker
) -> None:
    async with (
        through(wire, broker) as rocketmq,
        Producer(rocketmq, topics=["orders"], retry=Retry(attempts=1)) as producer,
    ):
        await producer.send(Message("orders", b"before"))
        before = wire.connections
        wire.freeze()
        for _ in range(2):
            with pytest.raises(UnreachableError):
                await producer._session._upkeep.beat()
        await wire.connected(before + 1)
        await until_ready(producer)
        await producer.send(Message("orders", b"after"))
    assert [message.body for message in broker.messages("orders")].count(b"after") == 1


async def test_a_connection_that_is_cut_in_the_middle_of_sends_loses_no_receipt(
    wire: Any, broker: FakeBroker
) -> None:
    bodies = [b"%d" % number for number in range(60)]
    async with through(wire, broker) as rocketmq, Producer(rocketmq, topics=["orders"]) as producer:
        for number, body in enumerate(bodies):
            if number % 20 == 10:
                wire.cut()
            await stubbornly(lambda body=body: producer.send(Message("orders", body)))  # type: ignore[misc]
    assert {message.body for message in broker.messages("orders")} == set(bodies)


async def test_a_poll_on_a_connection_that_is_cut_ends_and_the_next_one_brings_the_message(
    wire: Any, broker: FakeBroker
) -> None:
    async with (
        through(wire, broker) as rocketmq,
        simple_consumer(rocketmq) as consumer,
        Producer(broker.endpoint) as producer,
    ):
        async with broker.events.subscribe() as events, asyncio.timeout(20):
            poll = asyncio.get_running_loop().create_task(consumer.receive(wait=20))
            async for event in events:
                if isinstance(event, PollParked):
                    break
        wire.cut()
        await asyncio.wait([poll])
        assert isinstance(poll.exception(), RocketMQError)
        await producer.send(Message("orders", b"x"))
        got: list[ReceivedMessage] = []

        async def receive() -> None:
            got.extend(await consumer.receive(wait=5))

        await stubbornly(receive)
        assert [message.body for message in got] == [b"x"]
        await got[0].ack()


async def test_of_several_addresses_the_first_that_answers_serves(broker: FakeBroker) -> None:
    """The dead ones may be anywhere in the list."""
    port = broker.endpoint.rpartition(":")[2]
    endpoint = f"127.0.0.2:1;127.0.0.1:{port};127.0.0.3:1"
    rocketmq = Connection(endpoint, address_map=lambda _: endpoint)
    async with rocketmq, Producer(rocketmq, topics=["orders"]) as producer:
        receipt = await producer.send(Message("orders", b"x"))
    assert receipt.endpoint == endpoint
