"""A client's own account of a broker whose word nobody has: what it can say about losses, over a real port."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from aiorocketmq import Message, Producer, SimpleConsumer
from aiorocketmq.recording import Recorder
from aiorocketmq_audit.run import audit
from aiorocketmq_audit.verdicts import CheckResult
from aiorocketmq_fake import FakeBroker
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LEASE = 10.0
QUIET = 60.0
"""More than twice the lease and the tolerance."""


async def play(folder: Path, *, strangers: int) -> None:
    """Three messages for a group that has begun to poll; `strangers` of them are taken by somebody unrecorded. Then the
    group polls in vain for long enough."""
    async with FakeBroker(clock="manual") as broker, anyio.create_task_group() as tasks:
        await broker.create_topic("orders", queues=2)
        await broker.create_group("billing")
        tasks.start_soon(_let_time_pass, broker)
        consumer = SimpleConsumer(
            broker.endpoint,
            group="billing",
            subscriptions=["orders"],
            hooks=[recorder := Recorder(folder, clock=broker.clock.now)],
        )
        stranger = SimpleConsumer(broker.endpoint, group="billing", subscriptions=["orders"])
        producer = Producer(broker.endpoint, hooks=[recorder])
        with recorder, anyio.fail_after(120):
            async with producer, consumer, stranger:
                assert await consumer.receive(invisible=LEASE, wait=5) == []
                for number in range(3):
                    await producer.send(Message("orders", str(number).encode()))
                if strangers:
                    await stranger.ack(await stranger.receive(max_messages=strangers, invisible=LEASE))
                await consumer.ack(await consumer.receive(max_messages=3, invisible=LEASE))
                ends = broker.clock.now() + QUIET
                while broker.clock.now() < ends:
                    assert await consumer.receive(invisible=LEASE, wait=5) == []
        tasks.cancel_scope.cancel()


async def _let_time_pass(broker: FakeBroker) -> None:
    while True:
        await broker.clock.advance(seconds=1, patience=1.0)


def loss_of(folder: Path, spark: SparkSession) -> CheckResult:
    (check,) = (each for each in audit([str(folder)], spark=spark).checks if each.name == "loss")
    return check


async def test_a_group_that_was_drained_before_its_clients_eyes_has_lost_nothing(
    tmp_path: Path, spark: SparkSession
) -> None:
    await play(tmp_path / "runs", strangers=0)
    loss = loss_of(tmp_path / "runs", spark)
    assert (loss.verdict.value, loss.tally.judged) == ("valid", 3)


async def test_what_an_unrecorded_consumer_took_is_suspected_and_not_proven(
    tmp_path: Path, spark: SparkSession
) -> None:
    await play(tmp_path / "runs", strangers=1)
    loss = loss_of(tmp_path / "runs", spark)
    assert (loss.verdict.value, loss.tally.broken, loss.tally.possible) == ("unknown", 0, 1)
