"""The whole path: brokers, honest or with one promise broken, real clients over real gRPC, both recorders, and the
audit: who kept the promises is accused of nothing, and the others of what they did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiorocketmq import Message, Producer, PushConsumer, ReceivedMessage, SimpleConsumer
from aiorocketmq.hooks import Event, Hook, TransactionCheckEvent
from aiorocketmq.recording import Recorder
from aiorocketmq.transaction import Resolution
from aiorocketmq_audit.judgement import EXEMPTED
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.broker import Broker, Parts
from aiorocketmq_fake.core.commands.polls import Poll
from aiorocketmq_fake.core.commands.receiving import Receiving
from aiorocketmq_fake.core.values.codes import LiteAction
from aiorocketmq_fake.core.values.events import Delivered
from aiorocketmq_fake.core.values.model import Delivery, LiteSyncRequest, ReceiveRequest
from aiorocketmq_fake.faulty_cores import FAULTY_CORES
from pyarrow import parquet
from pyspark.sql import SparkSession

from spark_checks.tests.bench import read
from spark_checks.tests.judging import Finding, found, found_plainly
from spark_checks.tests.plays import LiteTrouble, Trouble

pytestmark = pytest.mark.spark

Play = Callable[[Path], Awaitable[None]]
Row = dict[str, Any]

SEEDS = 8
LEASE = 10.0
PATIENCE = 10.0
"""Real seconds that time waits for consumers on a busy machine: of what they do too late a broker tells otherwise."""
QUIET = 60.0
"""More than twice the lease and the tolerance."""


async def trouble(folder: Path, *, seed: int, play: type[Trouble | LiteTrouble]) -> None:
    async with FakeBroker(clock="manual", record=folder) as broker:
        with Recorder(folder, clock=broker.clock.now) as recorder, anyio.fail_after(120):
            await play(broker, recorder, seed).run()


async def orders(folder: Path, *, core: Callable[..., Broker] = Broker) -> None:
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
                with anyio.fail_after(120):
                    while not everything.is_set():
                        await broker.clock.advance(seconds=1, patience=PATIENCE)


class ShowsItsRetryTopic(Receiving):
    """Its first message is delivered as one of a topic that was not requested (R5.6)."""

    def _lease(self, poll: Poll[ReceiveRequest], *of: Any) -> Delivery:
        delivery = super()._lease(poll, *of)
        if delivery.offset:
            return delivery
        content = replace(delivery.message.content, topic="%RETRY%billing_orders")
        shown = replace(delivery, message=replace(delivery.message, content=content))
        event = self._state.events.pop()
        assert isinstance(event, Delivered)
        self._state.events.append(replace(event, delivery=shown))
        return shown


async def revealed(folder: Path) -> None:
    async with FakeBroker(
        clock="manual",
        record=folder,
        core=partial(Broker, parts=Parts(receiving=ShowsItsRetryTopic)),
    ) as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_group("billing")
        with Recorder(folder, clock=broker.clock.now) as recorder:
            async with Producer(broker.endpoint) as producer:
                for number in range(3):
                    await producer.send(Message("orders", str(number).encode()))
            async with SimpleConsumer(
                broker.endpoint, group="billing", subscriptions=["orders"], hooks=[recorder]
            ) as billing:
                messages = await billing.receive(max_messages=3, invisible=30, wait=5)
    assert [message.topic for message in messages] == ["%RETRY%billing_orders", "orders", "orders"]


class NothingUnsubscribed(Broker):
    """What a client has removed comes all the same."""

    def sync_lite_subscription(self, request: LiteSyncRequest, *, now: float) -> None:
        if request.action is not LiteAction.PARTIAL_REMOVE:
            super().sync_lite_subscription(replace(request, action=LiteAction.PARTIAL_ADD), now=now)


async def chats(folder: Path) -> None:
    """A client gives up one of two lite topics, and both get a message."""
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


class Asked(Hook):
    """Counts the checks that reach a producer."""

    times = 0

    def observe(self, event: Event) -> None:
        self.times += isinstance(event, TransactionCheckEvent)


async def _knows_nothing(_: ReceivedMessage) -> Resolution:
    return Resolution.UNKNOWN


async def payments(folder: Path) -> None:
    """The network repeats a half message, about which the server may ask after a commit."""
    checker = Asked()
    async with FakeBroker(clock="manual", record=folder) as broker:
        await broker.create_topic("payments", type="TRANSACTION")
        with Recorder(folder, clock=broker.clock.now) as recorder, anyio.fail_after(120):
            async with Producer(
                broker.endpoint, hooks=[recorder, checker], transaction_checker=_knows_nothing
            ) as producer:
                with broker.faults.duplicate("SendMessage", times=1):
                    async with producer.transaction(Message("payments", b"x")):
                        pass
                while checker.times < 2:
                    await broker.clock.advance(seconds=20, patience=0.05)


async def drained(folder: Path, *, strangers: int) -> None:
    """As clients alone tell it: three messages for a group that has begun to poll; `strangers` of them are taken by
    somebody unrecorded. Then the group polls in vain for long enough."""
    async with FakeBroker(clock="manual") as broker, anyio.create_task_group() as tasks:
        await broker.create_topic("orders", queues=2)
        await broker.create_group("billing")
        tasks.start_soon(_let_time_pass, broker)
        with Recorder(folder, clock=broker.clock.now) as recorder, anyio.fail_after(120):
            consumer = SimpleConsumer(
                broker.endpoint, group="billing", subscriptions=["orders"], hooks=[recorder]
            )
            stranger = SimpleConsumer(broker.endpoint, group="billing", subscriptions=["orders"])
            async with Producer(broker.endpoint, hooks=[recorder]) as producer, consumer, stranger:
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
        await broker.clock.advance(seconds=1, patience=PATIENCE)


PLAYS: dict[str, Play] = {
    **{f"trouble {seed}": partial(trouble, seed=seed, play=Trouble) for seed in range(SEEDS)},
    **{f"lite {seed}": partial(trouble, seed=seed, play=LiteTrouble) for seed in range(SEEDS // 2)},
    "orders": orders,
    **{name: partial(orders, core=core) for name, core in FAULTY_CORES.items()},
    "revealed": revealed,
    "unsubscribed": chats,
    "payments": payments,
    "drained": partial(drained, strangers=0),
    "strangers": partial(drained, strangers=1),
}

BOTH = {"broker", "client"}

CONVICTED: dict[str, tuple[str, str, str, set[str]]] = {
    "alone": ("transactions", "INV-TX-CHECK", "possible", {"client"}),
    "double-delivery": ("double delivery", "INV-EXCL", "broken", BOTH),
    "early-retry": ("retry timing", "INV-EARLY", "broken", BOTH),
    "reordering": ("ordering", "INV-ORD-FIRST", "broken", BOTH),
    "revealed": ("filters", "INV-ISOLATE", "broken", BOTH),
    "strangers": ("loss", "INV-LOSS", "possible", {"client"}),
    "unsubscribed": ("filters", "INV-ISOLATE", "broken", {"client"}),
}
"""By case: check, invariant, verdict, and who recorded it. Clients alone cannot prove what others may explain."""


@pytest.mark.slow
async def test_brokers_are_convicted_of_what_they_did_and_of_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows: list[Row] = []
    for case, play in PLAYS.items():
        await play(tmp_path / case)
        rows += told(tmp_path / case, case)
    halves = [row for row in told(tmp_path / "payments", "alone") if row["observer"] == "client"]
    kinds = Counter((row["observer"], row["kind"], row["lite_topic"] is None) for row in rows)
    for observer in BOTH:
        # A single run may bring nothing, as its polls are broken off by real time.
        assert kinds[observer, "deliver", False] > SEEDS // 2
        assert kinds[observer, "lite.sync", True] > SEEDS
        assert kinds[observer, "deliver", True] > SEEDS
    recording, gate = read(spark, tmp_path / "all", [*rows, *halves])
    assert gate.missing == gate.clocks == ()
    by_spark = {each for each in found(recording, gate) if each.verdict != EXEMPTED}
    assert by_case(by_spark) == {
        case: {(*what, observer) for observer in observers} for case, (*what, observers) in CONVICTED.items()
    }
    assert by_spark == found_plainly([*rows, *halves])


def told(folder: Path, case: str) -> list[Row]:
    """What was recorded of a play, as a case of its own."""
    rows = [row for file in sorted(folder.glob("*.parquet")) for row in parquet.read_table(file).to_pylist()]
    return [row | {"case_id": case, "recorder": f"{case}/{row['recorder']}"} for row in rows]


def by_case(findings: set[Finding]) -> dict[str, set[tuple[str, ...]]]:
    """What was found in each case, and who recorded it."""
    cases: dict[str, set[tuple[str, ...]]] = {}
    for each in findings:
        case, _, recorder = each.recorder.partition("/")
        cases.setdefault(case, set()).add((each.check, each.invariant, each.verdict, recorder.split("-")[0]))
    return cases
