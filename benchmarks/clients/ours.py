"""Our own clients, used as their documentation says."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from aiorocketmq import Message, Offset, Producer, PushConsumer, ReceivedMessage, SimpleConsumer

from benchmarks.clients.measuring import Meter, Orders

POLL_SECONDS = 2


async def send(orders: Orders, meter: Meter) -> None:
    """Send with `in_flight` calls at a time, without batches."""
    await send_with(Producer(orders.endpoint), orders, meter)


async def linger(orders: Orders, meter: Meter) -> None:
    """Send from `in_flight` tasks, gathered into batches."""
    producer = Producer(orders.endpoint, linger=0.005, max_batch=orders.batch)
    await send_with(producer, orders, meter)


async def many(orders: Orders, meter: Meter) -> None:
    """Send lists of `batch` messages, so many at a time that `in_flight` messages are under way."""
    body = orders.body
    async with Producer(orders.endpoint, linger=0.005, max_batch=orders.batch) as producer:

        async def sender() -> None:
            while not meter.over:
                began = time.perf_counter()
                await producer.send_many([Message(orders.topic, body) for _ in range(orders.batch)])
                meter.count(orders.batch, time.perf_counter() - began)

        await asyncio.gather(*(sender() for _ in range(orders.in_flight // orders.batch)))


async def send_with(producer: Producer, orders: Orders, meter: Meter) -> None:
    """Send from `in_flight` tasks, one message after the other in each."""
    body = orders.body
    async with producer:

        async def sender() -> None:
            while not meter.over:
                began = time.perf_counter()
                await producer.send(Message(orders.topic, body))
                meter.count(1, time.perf_counter() - began)

        await asyncio.gather(*(sender() for _ in range(orders.in_flight)))


async def simple(orders: Orders, meter: Meter) -> None:
    """Receive and acknowledge, `in_flight` receives at a time."""
    async with SimpleConsumer(orders.endpoint, group=orders.group, subscriptions=[orders.topic]) as consumer:

        async def reader() -> None:
            while not meter.over:
                began = time.perf_counter()
                messages = await consumer.receive(max_messages=orders.batch, invisible=60, wait=POLL_SECONDS)
                took = time.perf_counter() - began
                if messages:
                    await consumer.ack(messages)
                meter.count(len(messages), took)

        await asyncio.gather(*(reader() for _ in range(orders.in_flight)))


async def push(orders: Orders, meter: Meter) -> None:
    """Be called for everything that is there."""

    async def handle(message: ReceivedMessage) -> None:
        meter.count(1)

    # The backlog is older than the group.
    options: dict[str, Any] = {"start": Offset.BEGIN} if orders.endpoint.startswith("namesrv://") else {}
    async with PushConsumer(
        orders.endpoint,
        group=orders.group,
        subscriptions=[orders.topic],
        handler=handle,
        concurrency=20,
        **options,
    ):
        await meter.run_out()
        meter.report()


async def end_to_end(orders: Orders, meter: Meter) -> None:
    """Send at a fixed rate and be called in the same process."""

    async def handle(message: ReceivedMessage) -> None:
        meter.count(1, (time.perf_counter_ns() - int(message.body[:20])) / 1e9)

    async with (
        Producer(orders.endpoint) as producer,
        PushConsumer(
            orders.endpoint, group=orders.group, subscriptions=[orders.topic], handler=handle, concurrency=20
        ),
    ):
        following = time.perf_counter()
        while not meter.over:
            following += 1 / orders.rate
            await asyncio.sleep(max(0.0, following - time.perf_counter()))
            await producer.send(Message(orders.topic, b"%020d" % time.perf_counter_ns()))
        meter.report()


async def main() -> None:
    """Do what the orders say and report."""
    orders = Orders.from_arguments()
    meter = Meter(orders)
    works = {
        "send": send,
        "linger": linger,
        "many": many,
        "simple": simple,
        "push": push,
        "end_to_end": end_to_end,
    }
    await works[orders.work](orders, meter)
    meter.report()


if __name__ == "__main__":
    asyncio.run(main())
