"""The whole path: a broker that breaks one promise, real clients over real gRPC, both recorders, and the audit."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiorocketmq import Message, Producer, SimpleConsumer
from aiorocketmq.recording import Recorder
from aiorocketmq_audit.run import CHECKS, audit
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.planted import PLANTED
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CHECK_OF = {"reordering": "ordering", "double-delivery": "double delivery", "early-retry": "retry timing"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def play(core: type[Broker], folder: Path) -> None:
    """Two topics, an ordered and a normal group; the first normal message is given back once."""
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
            async with SimpleConsumer(
                broker.endpoint, group="billing", subscriptions=["orders"], hooks=[recorder]
            ) as billing:
                # One step of the group's own ladder: a broker sees no other reason for a change.
                messages = await billing.receive(max_messages=4, invisible=30, wait=5)
                await messages[0].extend(10)
                for seconds in (6, 5):
                    await broker.clock.advance(seconds=seconds)
                    for message in [
                        *messages[1:],
                        *await billing.receive(max_messages=4, invisible=30, wait=0),
                    ]:
                        await message.ack()
                    messages = []


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
    assert [(check.name, check.verdict.value) for check in found.checks] == [
        (name, "valid") for name in CHECKS
    ]
