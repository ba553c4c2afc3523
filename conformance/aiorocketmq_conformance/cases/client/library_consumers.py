"""Consumers of the client library with several topics or message groups: two `sdk` rows."""

from __future__ import annotations

import asyncio

from aiorocketmq import PushConsumer, ReceivedMessage, SimpleConsumer

from aiorocketmq_conformance.case import EXTENSION, SHOULD, case
from aiorocketmq_conformance.cases.client.library_proxy import REAL, SDK, until
from aiorocketmq_conformance.consumer import SHORT_POLL
from aiorocketmq_conformance.fixture import Fixture


@case("simple.unsubscribe", rules=("client-behaviour.md 6",), level=SHOULD, needs=SDK, timeout=90.0)
async def simple_unsubscribe(fixture: Fixture) -> None:
    """A simple consumer receives nothing from an unsubscribed topic, and still receives from another."""
    one, two = await fixture.topic(1), await fixture.topic(1)
    primed = await fixture.consumer(one)
    await fixture.consumer(two, group=primed.group)
    async with SimpleConsumer(
        fixture.target.endpoint, group=primed.group, subscriptions=[one, two]
    ) as consumer:
        await consumer.unsubscribe(one)
        await fixture.send(one, "after")
        await fixture.send(two, "sentinel")
        async with asyncio.timeout(REAL):
            received = await consumer.receive(max_messages=8, wait=SHORT_POLL)
        await consumer.ack(received)
    assert [message.body for message in received] == [b"sentinel"]


@case(
    "fifo.accelerator", rules=("R8.17", "client-behaviour.md 5"), level=EXTENSION, needs=(*SDK, "type.fifo")
)
async def accelerator(fixture: Fixture) -> None:
    """The library handles message groups concurrently, and each of them in order."""
    topic = await fixture.topic(1, type="FIFO")
    group = (await fixture.consumer(topic, ordered=True)).group
    groups = [fixture.fresh("mg") for _ in range(4)]
    for n in range(5):
        for name in groups:
            await fixture.send(topic, str(n), group=name)
    running = most = 0
    numbers: dict[str, list[int]] = {name: [] for name in groups}

    async def handle(message: ReceivedMessage) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        numbers[str(message.message_group)].append(int(message.body))
        running -= 1

    async with PushConsumer(
        fixture.target.endpoint, group=group, subscriptions=[topic], handler=handle, shutdown_timeout=5.0
    ):
        await until(lambda: sum(map(len, numbers.values())) >= 20, "twenty messages handled")
    assert set(map(tuple, numbers.values())) == {(0, 1, 2, 3, 4)}, f"out of order: {numbers}"
    fixture.note("side_by_side", most)
    assert most > 1, "message groups of one queue wait for each other"
