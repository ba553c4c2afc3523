"""Plays of honest fakes and real clients under trouble that the protocol allows."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import anyio
from aiorocketmq import Message, Producer, RocketMQError, SimpleConsumer
from aiorocketmq.recording import Recorder
from aiorocketmq_fake import FakeBroker

MESSAGES = 12
NAMES = ("ann", "bob", "carol", "dora")


class Trouble:
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


class LiteTrouble:
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
