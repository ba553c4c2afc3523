"""Apache's Python client, used as its own examples use it.

Runs in an environment of its own, where nothing of ours is installed.
"""
# The package is in that environment only:
# mypy: disable-error-code="import-not-found, misc"

from __future__ import annotations

import os
import threading
import time
from typing import Any

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
)

from benchmarks.clients.measuring import Meter, Orders

POLL_SECONDS = 2


def started(client: Any) -> Any:
    """Start a client; wait for its settings, which its own start does not do for all roles."""
    client.startup()
    assert client._init_settings_event.wait(10)
    return client


def new_message(orders: Orders, body: bytes) -> Message:
    """Make a message."""
    message = Message()
    message.topic = orders.topic
    message.body = body
    return message


def send(orders: Orders, meter: Meter) -> None:
    """Send with `in_flight` calls at a time: its future-returning call for many, its blocking call for one."""
    producer = started(Producer(configuration(orders), [orders.topic]))
    body = orders.body
    if orders.in_flight == 1:
        while not meter.over:
            began = time.perf_counter()
            producer.send(new_message(orders, body))
            meter.count(1, time.perf_counter() - began)
        return
    free = threading.Semaphore(orders.in_flight)
    while not meter.over:
        free.acquire()
        began = time.perf_counter()

        def done(future: Any, began: float = began) -> None:
            future.result()
            meter.count(1, time.perf_counter() - began)
            free.release()

        producer.send_async(new_message(orders, body)).add_done_callback(done)


def simple(orders: Orders, meter: Meter) -> None:
    """Receive and acknowledge in `in_flight` threads; it has no call that acknowledges many."""
    subscription = {orders.topic: FilterExpression()}
    consumer = started(
        SimpleConsumer(configuration(orders), orders.group, subscription, await_duration=POLL_SECONDS)
    )

    def reader() -> None:
        while not meter.over:
            began = time.perf_counter()
            messages = consumer.receive(orders.batch, 60)
            took = time.perf_counter() - began
            for message in messages:
                consumer.ack(message)
            meter.count(len(messages), took)

    threads = [threading.Thread(target=reader, daemon=True) for _ in range(orders.in_flight)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Counter(MessageListener):
    """Counts; with a clock in the body it times, too."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.timed = meter.orders.work == "end_to_end"

    def consume(self, message: Message) -> ConsumeResult:
        """Take one message."""
        took = (time.perf_counter_ns() - int(message.body[:20])) / 1e9 if self.timed else None
        self.meter.count(1, took)
        return ConsumeResult.SUCCESS


def push(orders: Orders, meter: Meter) -> None:
    """Be called for everything that is there."""
    started(
        PushConsumer(configuration(orders), orders.group, Counter(meter), {orders.topic: FilterExpression()})
    )
    while not meter.over:
        time.sleep(0.01)


def end_to_end(orders: Orders, meter: Meter) -> None:
    """Send at a fixed rate and be called in the same process."""
    started(
        PushConsumer(configuration(orders), orders.group, Counter(meter), {orders.topic: FilterExpression()})
    )
    producer = started(Producer(configuration(orders), [orders.topic]))
    following = time.perf_counter()
    while not meter.over:
        following += 1 / orders.rate
        time.sleep(max(0.0, following - time.perf_counter()))
        producer.send(new_message(orders, b"%020d" % time.perf_counter_ns()))


def configuration(orders: Orders) -> ClientConfiguration:
    """Say where the server is."""
    return ClientConfiguration(orders.endpoint, Credentials(), request_timeout=10)


def main() -> None:
    """Do what the orders say, report, and leave without waiting for its threads."""
    orders = Orders.from_arguments()
    meter = Meter(orders)
    works = {
        "send": send,
        "linger": send,
        "many": send,
        "simple": simple,
        "push": push,
        "end_to_end": end_to_end,
    }
    works[orders.work](orders, meter)
    meter.report()
    os._exit(0)


if __name__ == "__main__":
    main()
