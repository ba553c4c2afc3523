"""Recordings of lite topics that come and go, from the fake and from real clients under trouble: nobody honest is
accused, and a broker that forgets what was unsubscribed is."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
from aiorocketmq import Message, Producer, RocketMQError, SimpleConsumer
from aiorocketmq.recording import Recorder
from aiorocketmq_audit.oracle import judge
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.codes import LiteAction
from aiorocketmq_fake.core.model import LiteSyncRequest
from pyarrow import parquet

RUNS = 10
NAMES = ("ann", "bob", "carol", "dora")


class Play:
    """Two groups, one of them exclusive, whose consumers want other lite topics again and again."""

    def __init__(self, broker: FakeBroker, recorder: Recorder, seed: int) -> None:
        self._broker = broker
        self._recorder = recorder
        self._chance = random.Random(seed)
        self._starting = 4
        self._started = anyio.Event()

    async def run(self) -> None:
        await self._broker.create_topic("sessions", type="LITE", queues=1)
        await self._broker.create_topic("calls", type="LITE", queues=1)
        await self._broker.create_group("chat", lite_topic="sessions")
        await self._broker.create_group("phones", lite_topic="calls", lite_exclusive=True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._produce)
            for group, topic in (("chat", "sessions"), ("phones", "calls")):
                for _ in range(2):
                    tasks.start_soon(self._consume, group, topic)
            tasks.start_soon(self._trouble)

    async def _produce(self) -> None:
        async with Producer(self._broker.endpoint, hooks=[self._recorder]) as producer:
            for number in range(30):
                for topic in ("sessions", "calls"):
                    name = self._chance.choice(NAMES)
                    with suppress(RocketMQError):  # the broker may be starting again
                        await producer.send(Message(topic, str(number).encode(), lite_topic=name))
                await self._pass_time()

    async def _consume(self, group: str, topic: str) -> None:
        first = self._chance.sample(NAMES, 2)
        async with (
            SimpleConsumer(
                self._broker.endpoint,
                group=group,
                subscriptions=[topic],
                lite_topics=first,
                hooks=[self._recorder],
            ) as consumer,
            anyio.create_task_group() as tasks,
        ):
            self._starting -= 1
            if not self._starting:
                self._started.set()
            tasks.start_soon(self._poll, consumer)
            for _ in range(12):
                await self._change(consumer)
                await self._pass_time()

    async def _pass_time(self) -> None:
        await self._broker.clock.advance(seconds=self._chance.random(), patience=0.02)

    async def _poll(self, consumer: SimpleConsumer) -> None:
        for _ in range(15):
            with anyio.move_on_after(0.3):
                try:
                    for message in await consumer.receive(max_messages=3, invisible=10, wait=5):
                        if self._chance.random() < 0.7:
                            await message.ack()
                except RocketMQError:
                    continue

    async def _change(self, consumer: SimpleConsumer) -> None:
        name = self._chance.choice(NAMES)
        with anyio.move_on_after(0.3):
            try:
                if name in consumer.lite_topics:
                    await consumer.remove_lite_topics(name)
                else:
                    await consumer.add_lite_topics(name)
            except RocketMQError:
                return

    async def _trouble(self) -> None:
        await self._started.wait()
        for step in range(12):
            await self._broker.clock.advance(seconds=self._chance.choice((1, 3, 12, 40)), patience=0.02)
            if step % 4 == 3:
                self._broker.faults.drop_reply("SyncLiteSubscription", times=1)
            if step == 6 and self._chance.random() < 0.5:
                await self._broker.restart()


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [row for file in folder.glob("*.parquet") for row in parquet.read_table(file).to_pylist()]


async def test_nobody_honest_is_accused(tmp_path: Path) -> None:
    told: Counter[tuple[str, str]] = Counter()
    for seed in range(RUNS):
        folder = tmp_path / str(seed)
        async with FakeBroker(clock="manual", record=folder) as broker:
            with Recorder(folder, clock=broker.clock.now) as recorder, anyio.fail_after(120):
                await Play(broker, recorder, seed).run()
        rows = rows_of(folder)
        told.update((row["observer"], row["kind"]) for row in rows if row["kind"] == "lite.sync")
        told.update(
            (row["observer"], row["kind"]) for row in rows if row["lite_topic"] and row["kind"] == "deliver"
        )
        found = [each for each in judge(rows) if each.check == "filters"]
        assert [(each.invariant, each.verdict, each.row) for each in found] == [], f"with seed {seed}"
    # A single run may bring nothing, as its polls are broken off by real time.
    for observer in ("client", "broker"):
        assert told[observer, "lite.sync"] > 5 * RUNS
        assert told[observer, "deliver"] > RUNS


class NothingUnsubscribed(Broker):
    """What a client has removed comes all the same."""

    def sync_lite_subscription(self, request: LiteSyncRequest, *, now: float) -> None:
        if request.action is not LiteAction.PARTIAL_REMOVE:
            super().sync_lite_subscription(replace(request, action=LiteAction.PARTIAL_ADD), now=now)


async def test_a_broker_that_forgets_what_was_removed_is_convicted(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    async with FakeBroker(clock="manual", record=folder, core=NothingUnsubscribed) as broker:
        await broker.create_topic("sessions", type="LITE", queues=1)
        await broker.create_group("chat", lite_topic="sessions")
        with Recorder(folder, clock=broker.clock.now) as recorder:
            async with (
                Producer(broker.endpoint) as producer,
                SimpleConsumer(
                    broker.endpoint,
                    group="chat",
                    subscriptions=["sessions"],
                    lite_topics=["ann", "bob"],
                    hooks=[recorder],
                ) as consumer,
            ):
                await consumer.remove_lite_topics("bob")
                for name in ("ann", "bob"):
                    await producer.send(Message("sessions", b"1", lite_topic=name))
                for _ in range(2):
                    for message in await consumer.receive(wait=5):
                        await message.ack()
    found = list(judge(rows_of(folder)))
    assert [(each.check, each.invariant, each.verdict) for each in found] == [
        ("filters", "INV-ISOLATE", "broken")
    ]
    assert (found[0].row["observer"], found[0].row["lite_topic"]) == ("client", "bob")
