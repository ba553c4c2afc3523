"""What the consumers of the client library promise beyond one topic and one message group: two `sdk` rows more."""

from __future__ import annotations

import asyncio

from aiorocketmq import PushConsumer, ReceivedMessage, SimpleConsumer

from aiorocketmq_conformance.case import Level, case
from aiorocketmq_conformance.cases.client.library_wire import REAL, SDK, until
from aiorocketmq_conformance.fixture import SHORT_POLL, Stage, on_stage


@case("simple.unsubscribe", rules=("client-behaviour.md 6",), level=Level.SHOULD, needs=SDK, timeout=90.0)
@on_stage
async def simple_unsubscribe(stage: Stage) -> None:
    """A topic that a simple consumer unsubscribed brings nothing any more, and another one does."""
    one, two = await stage.topic(1), await stage.topic(1)
    primed = await stage.consumer(one)
    await stage.consumer(two, group=primed.group)
    async with SimpleConsumer(
        stage.target.endpoint, group=primed.group, subscriptions=[one, two]
    ) as consumer:
        await consumer.unsubscribe(one)
        await stage.send(one, "after")
        await stage.send(two, "sentinel")
        async with asyncio.timeout(REAL):
            seen = await consumer.receive(max_messages=8, wait=SHORT_POLL)
        await consumer.ack(seen)
    assert [message.body for message in seen] == [b"sentinel"]


@case(
    "fifo.accelerator",
    rules=("R8.17", "client-behaviour.md 5"),
    level=Level.EXTENSION,
    needs=(*SDK, "type.fifo"),
)
@on_stage
async def accelerator(stage: Stage) -> None:
    """The library handles message groups side by side, and each of them in order."""
    topic = await stage.topic(1, type="FIFO")
    group = (await stage.consumer(topic, ordered=True)).group
    lanes = [stage.target.fresh("mg") for _ in range(4)]
    for n in range(5):
        for lane in lanes:
            await stage.send(topic, str(n), group=lane)
    running = most = 0
    told: dict[str, list[int]] = {lane: [] for lane in lanes}

    async def handle(message: ReceivedMessage) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        told[str(message.message_group)].append(int(message.body))
        running -= 1

    async with PushConsumer(
        stage.target.endpoint, group=group, subscriptions=[topic], handler=handle, shutdown_timeout=5.0
    ):
        await until(lambda: sum(map(len, told.values())) >= 20, "twenty messages handled")
    assert set(map(tuple, told.values())) == {(0, 1, 2, 3, 4)}, f"out of order: {told}"
    stage.target.note("side_by_side", most)
    assert most > 1, "message groups of one queue wait for each other"
