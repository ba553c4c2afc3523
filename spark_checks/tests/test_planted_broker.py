"""The whole path: a broker that breaks one promise, real clients over real gRPC, both recorders, and the audit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiorocketmq import Message, Producer, PushConsumer, ReceivedMessage, SimpleConsumer
from aiorocketmq.recording import Recorder
from aiorocketmq_audit.checks import CHECKS
from aiorocketmq_audit.run import audit
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.events import Delivered
from aiorocketmq_fake.core.model import Delivery, ReceiveRequest
from aiorocketmq_fake.core.polls import Poll
from aiorocketmq_fake.core.receiving import Receiving
from aiorocketmq_fake.planted import PLANTED
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CHECK_OF = {"reordering": "ordering", "double-delivery": "double delivery", "early-retry": "retry timing"}


async def play(core: type[Broker], folder: Path) -> None:
    """An ordered and a normal group; one handler fails once, and its message climbs the first step of the ladder."""
    handled: list[bytes] = []
    everything = anyio.Event()

    async def bill(message: ReceivedMessage) -> None:
        if message.body == b"3" and message.attempt == 1:
            raise ValueError("the first attempt fails")
        handled.append(message.body)
        if set(handled) == {b"0", b"1", b"2", b"3"}:
            everything.set()

    async with FakeBroker(clock="manual", record=folder, core=core) as broker:
        with Recorder(folder, clock=broker.clock.now) as recorder:
            await broker.create_topic("shipments", type="FIFO", queues=1)
            await broker.create_topic("orders", queues=1)
            await broker.create_group("shipping", ordered=True)
            await broker.create_group("billing")
            async with Producer(broker.endpoint, hooks=[recorder]) as producer:
                for number in range(4):
                    body = str(number).encode()
                    await producer.send(Message("shipments", body, message_group="customer"))
                    await producer.send(Message("orders", body))
            async with SimpleConsumer(
                broker.endpoint, group="shipping", subscriptions=["shipments"], hooks=[recorder]
            ) as shipping:
                for message in await shipping.receive(max_messages=4, invisible=30, wait=5):
                    await message.ack()
            async with PushConsumer(
                broker.endpoint, group="billing", subscriptions=["orders"], handler=bill, hooks=[recorder]
            ):
                with anyio.fail_after(20):
                    while not everything.is_set():
                        await broker.clock.advance(seconds=1, patience=1.0)


@pytest.mark.parametrize("kind", PLANTED)
async def test_a_broker_that_breaks_one_promise_is_convicted_of_that_one(
    kind: str, tmp_path: Path, spark: SparkSession
) -> None:
    await play(PLANTED[kind], tmp_path / "runs")
    found = audit([str(tmp_path / "runs")], spark=spark)
    broken = {check.name for check in found.checks if check.tally.broken}
    assert broken == {CHECK_OF[kind]}
    assert {row["observer"] for row in found.samples[CHECK_OF[kind]]} >= {"broker"}


async def test_the_same_play_with_an_honest_broker_is_valid(tmp_path: Path, spark: SparkSession) -> None:
    await play(Broker, tmp_path / "runs")
    found = audit([str(tmp_path / "runs")], spark=spark)
    judged = {check.name: check.verdict.value for check in found.checks if check.has_subject}
    # Nothing is delayed, given up, taken back or half sent in this play, and no queue is owned or waits.
    absent = {"dead letters", "delay", "transactions", "recall", "queues", "fairness"}
    assert judged == dict.fromkeys(CHECKS.keys() - absent, "valid")
    assert found.verdict.value == "valid"


class ShowsItsRetryTopic(Receiving):
    """Its first message is handed out as one of a topic that nobody asked for (R5.6)."""

    def _lease(self, poll: Poll[ReceiveRequest], *of: Any) -> Delivery:
        delivery = super()._lease(poll, *of)
        if delivery.offset:
            return delivery
        content = replace(delivery.message.content, topic="%RETRY%billing_orders")
        shown = replace(delivery, message=replace(delivery.message, content=content))
        told = self._state.events.pop()
        assert isinstance(told, Delivered)
        self._state.events.append(replace(told, delivery=shown))
        return shown


class Revealing(Broker):
    _receiving_class = ShowsItsRetryTopic


async def test_a_message_of_another_topic_is_told_by_server_and_client_alike(
    tmp_path: Path, spark: SparkSession
) -> None:
    folder = tmp_path / "runs"
    async with FakeBroker(record=folder, core=Revealing) as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_group("billing")
        with Recorder(folder) as recorder:
            async with Producer(broker.endpoint) as producer:
                for number in range(3):
                    await producer.send(Message("orders", str(number).encode()))
            billing = SimpleConsumer(
                broker.endpoint, group="billing", subscriptions=["orders"], hooks=[recorder]
            )
            async with billing:
                messages = await billing.receive(max_messages=3, invisible=30, wait=5)
    assert [message.topic for message in messages] == ["%RETRY%billing_orders", "orders", "orders"]
    found = audit([str(folder)], spark=spark)
    assert {check.name for check in found.checks if check.tally.broken} == {"filters"}
    assert {(row["invariant"], row["observer"]) for row in found.samples["filters"]} == {
        ("INV-ISOLATE", "broker"),
        ("INV-ISOLATE", "client"),
    }
