"""Recordings of the fake and of real clients under trouble that the protocol allows: nobody honest is accused."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiorocketmq import Message, Producer, ReceivedMessage, RocketMQError, SimpleConsumer
from aiorocketmq.hooks import Event, Hook, TransactionCheckEvent
from aiorocketmq.recording import Recorder
from aiorocketmq.transaction import Resolution
from aiorocketmq_audit.oracle import judge
from aiorocketmq_audit.transactions import CHECK_US
from aiorocketmq_fake import FakeBroker
from pyarrow import parquet

RUNS = 20
MESSAGES = 12


class Play:
    """Two groups, an ordered and a normal one, whose consumers fail, forget, leave, and are cancelled in their polls,
    while the broker is restarted."""

    def __init__(self, broker: FakeBroker, recorder: Recorder, seed: int) -> None:
        self._broker = broker
        self._recorder = recorder
        self._chance = random.Random(seed)
        self._settled: dict[str, set[bytes]] = {"shipping": set(), "billing": set()}

    async def run(self) -> None:
        await self._broker.create_topic("shipments", type="FIFO", queues=2)
        await self._broker.create_topic("orders", queues=2)
        await self._broker.create_group("shipping", ordered=True, max_attempts=4)
        await self._broker.create_group("billing", max_attempts=4)
        async with Producer(self._broker.endpoint, hooks=[self._recorder]) as producer:
            for number in range(MESSAGES):
                body = str(number).encode()
                await producer.send(Message("shipments", body, message_group=self._chance.choice("ab")))
                await producer.send(Message("orders", body))
        async with anyio.create_task_group() as tasks:
            for group, topic in (("shipping", "shipments"), ("billing", "orders")):
                for life in range(3):
                    tasks.start_soon(self._consume, group, topic, life)
            tasks.start_soon(self._trouble)

    async def _consume(self, group: str, topic: str, life: int) -> None:
        """Comes and goes; what it took last it leaves behind."""
        await self._broker.clock.advance(seconds=self._chance.random() * 5, patience=0.02)
        async with SimpleConsumer(
            self._broker.endpoint, group=group, subscriptions=[topic], hooks=[self._recorder]
        ) as consumer:
            for _ in range(6 + life):
                with anyio.move_on_after(0.2):
                    try:
                        for message in await consumer.receive(max_messages=3, invisible=10, wait=5):
                            await self._settle(message)
                    except RocketMQError:
                        continue

    async def _settle(self, message: Any) -> None:
        drawn = self._chance.random()
        if drawn < 0.7:
            await message.ack()
        elif drawn < 0.8:
            await message.extend(20)
            await message.ack()
        elif drawn < 0.9:
            await message.release()

    async def _trouble(self) -> None:
        for step in range(12):
            await self._broker.clock.advance(seconds=self._chance.choice((1, 3, 12, 40)), patience=0.05)
            if step == 6 and self._chance.random() < 0.5:
                await self._broker.restart()


@pytest.mark.parametrize("seed", range(RUNS))
async def test_nobody_honest_is_accused(seed: int, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    async with FakeBroker(clock="manual", record=folder) as broker:
        with Recorder(folder, clock=broker.clock.now) as recorder, anyio.fail_after(120):
            await Play(broker, recorder, seed).run()
    rows = _rows(folder)
    kinds = {row["kind"] for row in rows}
    assert {"deliver", "ack", "client.stop"} <= kinds
    assert [(found.invariant, found.verdict, found.row) for found in judge(rows)] == []


async def test_a_half_message_that_the_network_repeats_may_be_asked_about_after_a_commit(
    tmp_path: Path,
) -> None:
    asked = Asked()
    folder = tmp_path / "runs"
    async with FakeBroker(clock="manual", record=folder) as broker:
        await broker.create_topic("payments", type="TRANSACTION")
        with Recorder(folder, clock=broker.clock.now) as recorder, anyio.fail_after(120):
            async with Producer(
                broker.endpoint, hooks=[recorder, asked], transaction_checker=_knows_nothing
            ) as producer:
                with broker.faults.duplicate("SendMessage", times=1):
                    async with producer.transaction(Message("payments", b"x")):
                        pass
                while asked.times < 2:
                    await broker.clock.advance(seconds=20, patience=0.05)
    rows = _rows(folder)
    checks, decided = _times(rows, "client", "tx.check"), _times(rows, "client", "tx.end")
    assert max(checks) > min(decided) + CHECK_US
    assert len(_times(rows, "broker", "send")) == 2
    assert [(found.invariant, found.verdict, found.row) for found in judge(rows)] == []
    alone = [row for row in rows if row["observer"] == "client"]
    assert [(found.invariant, found.verdict) for found in judge(alone)] == [("INV-TX-CHECK", "possible")]


class Asked(Hook):
    """Counts the checks that reach a producer."""

    times = 0

    def observe(self, event: Event) -> None:
        self.times += isinstance(event, TransactionCheckEvent)


async def _knows_nothing(_: ReceivedMessage) -> Resolution:
    return Resolution.UNKNOWN


def _rows(folder: Path) -> list[dict[str, Any]]:
    return [row for file in folder.glob("*.parquet") for row in parquet.read_table(file).to_pylist()]


def _times(rows: list[dict[str, Any]], observer: str, kind: str) -> list[int]:
    return [row["t_wall_us"] for row in rows if (row["observer"], row["kind"]) == (observer, kind)]
