"""Every cell of docs/reference/faults.md: a fault of the fake, a client at work, and what its user sees of it.

The page is the one source: its tables are read, each cell is played, and what was seen must be what the page says.
`FAULTS_SHOW=1` plays all and prints the tables as they should be.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from aiorocketmq._session.session import Session
from aiorocketmq.config import Retry, Timeouts
from aiorocketmq.errors import RocketMQError
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.pull_consumer import PullConsumer
from aiorocketmq.push_consumer import PushConsumer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq.transaction import Resolution
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.edge.faults import Fault

from sdk.tests.clients import push_consumer, simple_consumer

PAGE = Path(__file__).parents[3] / "docs/reference/faults.md"
PATIENT = Timeouts(start=3.0, request=5.0, stop=1.0)
HURRIED = Timeouts(start=3.0, request=0.6, stop=1.0)
"""For answers that are meant to be too late; elsewhere a slow machine must not make them so."""
RETRY = Retry(budget=3.0)
"""Less than by default, as an error that lasts is tried again for so long."""
PATIENCE = 40.0
AT_ONCE = 8
"""Cells that are played at a time: few enough that time-outs are not those of a busy machine."""
TICK = 0.1
"""Real seconds between two checks for activity."""


class Scene:
    """One broker, one fault, and what the user of a client has seen."""

    def __init__(self, broker: FakeBroker, rpc: str, disturb: Disturb) -> None:
        self.broker = broker
        self.rpc = rpc
        self.handled: list[bytes] = []
        self.timeouts = HURRIED if disturb is _delay else PATIENT
        self._disturb = disturb
        self._fault: Fault | None = None
        self._begun = False

    async def arm(self) -> None:
        """Let the fault begin."""
        self._begun = True
        self._fault = await self._disturb(self.broker, self.rpc)
        if self.rpc == "Telemetry":
            self.broker.cut_streams()  # an open stream is not disturbed any more, but the next one is

    async def send(self) -> None:
        """Put a message in, undisturbed."""
        async with Producer(self.broker.endpoint) as producer:
            await producer.send(Message("orders", b"x"))

    async def until(self, done: Callable[[], bool], consumer: PushConsumer) -> None:
        """Wait for what a push consumer does by itself; a fault without end is ended after it was met three times.

        Time passes for the broker only while the consumer has nothing in hand, or leases would end under it."""
        async with asyncio.timeout(PATIENCE):
            while not done():
                await asyncio.sleep(TICK)
                self.end_a_fault_without_end()
                if not consumer.messages_in_flight:
                    await self.broker.clock.advance(seconds=2)

    def end_a_fault_without_end(self) -> None:
        """Remove a fault that was met three times."""
        if self._fault is not None and self._fault.hits >= 3:
            self._fault.remove()

    @property
    def came_again(self) -> bool:
        """Whether a message was stored or delivered more than once."""
        stored = self.broker.messages("orders") + self.broker.messages("fifo")
        deliveries = self.broker.deliveries()
        return len(stored) > 1 or len(deliveries) > max(1, len(stored))


Story = Callable[[Scene], Awaitable[None]]
Disturb = Callable[[FakeBroker, str], Awaitable[Fault | None]]


async def _refuse(broker: FakeBroker, rpc: str, *, code: str, times: int | None) -> Fault:
    return broker.faults.refuse(rpc, code, times=times)


async def _delay(broker: FakeBroker, rpc: str) -> Fault:
    return broker.faults.delay(rpc, 3600.0, times=1)


async def _lose(broker: FakeBroker, rpc: str) -> Fault:
    return broker.faults.drop_reply(rpc, times=1)


async def _cut(broker: FakeBroker, rpc: str) -> Fault:
    return broker.faults.cut_stream(rpc, times=1)


async def _restart(broker: FakeBroker, rpc: str) -> None:
    await broker.crash()
    await broker.start()


FAULTS: dict[str, Disturb] = {
    "error once": partial(_refuse, code="INTERNAL_SERVER_ERROR", times=1),
    "error always": partial(_refuse, code="INTERNAL_SERVER_ERROR", times=None),
    "throttled once": partial(_refuse, code="TOO_MANY_REQUESTS", times=1),
    "too late once": _delay,
    "reply lost once": _lose,
    "stream cut": _cut,
    "restart": _restart,
}


async def beat_three_times(client: Producer | SimpleConsumer | PushConsumer | PullConsumer) -> None:
    """Send heartbeats as the client does regularly; one that fails is reported as its health."""
    session = client._session
    assert isinstance(session, Session)
    for _ in range(3):
        with suppress(RocketMQError):
            await session._upkeep.beat()


# Producer


async def start_producing(scene: Scene) -> None:
    await scene.arm()
    async with Producer(
        scene.broker.endpoint, topics=["orders"], timeouts=scene.timeouts, retry=RETRY
    ) as producer:
        await producer.send(Message("orders", b"x"))


async def keep_producing(scene: Scene) -> None:
    async with Producer(
        scene.broker.endpoint, topics=["orders"], timeouts=scene.timeouts, retry=RETRY
    ) as producer:
        await scene.arm()
        if scene.rpc == "Heartbeat":
            await beat_three_times(producer)
        await producer.send(Message("orders", b"x"))


async def recall(scene: Scene) -> None:
    async with Producer(scene.broker.endpoint, timeouts=scene.timeouts, retry=RETRY) as producer:
        receipt = await producer.send(Message("reminders", b"x", delay=600))
        await scene.arm()
        await producer.recall(receipt)


async def commit(scene: Scene) -> None:
    async def check(message: ReceivedMessage) -> Resolution:
        return Resolution.UNKNOWN

    async with (
        Producer(
            scene.broker.endpoint,
            topics=["payments"],
            transaction_checker=check,
            timeouts=scene.timeouts,
            retry=RETRY,
        ) as producer,
        producer.transaction(Message("payments", b"x")),
    ):
        await scene.arm()


async def begin_transaction(scene: Scene) -> None:
    async def check(message: ReceivedMessage) -> Resolution:
        return Resolution.UNKNOWN

    async with Producer(
        scene.broker.endpoint,
        topics=["payments"],
        transaction_checker=check,
        timeouts=scene.timeouts,
        retry=RETRY,
    ) as producer:
        await scene.arm()
        async with producer.transaction(Message("payments", b"x")):
            pass


async def gather(scene: Scene) -> None:
    async with Producer(
        scene.broker.endpoint, topics=["orders"], linger=0, timeouts=scene.timeouts, retry=RETRY
    ) as producer:
        await scene.arm()
        await producer.send(Message("orders", b"x"))


async def end_producing(scene: Scene) -> None:
    async with Producer(
        scene.broker.endpoint, topics=["orders"], timeouts=scene.timeouts, retry=RETRY
    ) as producer:
        await producer.send(Message("orders", b"x"))
        await scene.arm()


# SimpleConsumer


def _simple(scene: Scene) -> SimpleConsumer:
    return simple_consumer(scene.broker.endpoint, timeouts=scene.timeouts)


async def start_fetching(scene: Scene) -> None:
    await scene.send()
    await scene.arm()
    async with _simple(scene) as consumer:
        await consumer.receive(wait=1)


async def fetch(scene: Scene) -> None:
    await scene.send()
    async with _simple(scene) as consumer:
        await scene.arm()
        if scene.rpc == "Heartbeat":
            await beat_three_times(consumer)
        (message,) = await consumer.receive(wait=1)
        await message.ack()


async def acknowledge(scene: Scene) -> None:
    await scene.send()
    async with _simple(scene) as consumer:
        (message,) = await consumer.receive(wait=1)
        await scene.arm()
        await message.ack()


async def extend(scene: Scene) -> None:
    await scene.send()
    async with _simple(scene) as consumer:
        (message,) = await consumer.receive(wait=1)
        await scene.arm()
        await message.extend(60)
        await message.ack()


async def end_fetching(scene: Scene) -> None:
    async with _simple(scene):
        await scene.arm()


# PushConsumer


async def _push(scene: Scene, *, fails: int = 0, group: str = "billing", early: bool = False) -> None:
    broker = scene.broker
    topic = "fifo" if group == "ordered" else "orders"

    async def handle(message: ReceivedMessage) -> None:
        if not early and not scene._begun:
            await scene.arm()
        if len(scene.handled) < fails:
            scene.handled.append(message.body)
            raise ValueError("not now")
        scene.handled.append(message.body)

    def is_done() -> bool:
        settled = not broker.leases(group) and len(scene.handled) > fails - (group == "ordered")
        return settled and (group != "ordered" or len(broker.dead_letters(group)) == 1)

    message = Message(topic, b"x", message_group="a" if group == "ordered" else None)
    consumer = PushConsumer(
        broker.endpoint,
        group=group,
        subscriptions=[topic],
        handler=handle,
        timeouts=scene.timeouts,
        invisible=10,
    )
    async with Producer(broker.endpoint, topics=[topic]) as producer:
        if early:
            await producer.send(message)
            await scene.arm()
        async with consumer:
            if not early:
                if scene.rpc in ("Heartbeat", "ReceiveMessage", "Telemetry"):
                    await scene.arm()
                if scene.rpc == "Heartbeat":
                    await beat_three_times(consumer)
                await persistently(producer, message)
            await scene.until(is_done, consumer)


async def persistently(producer: Producer, message: Message) -> None:
    """Put a message in whatever the broker is going through."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await producer.send(message)
                return
            except RocketMQError:
                await asyncio.sleep(TICK)


async def end_pushing(scene: Scene) -> None:
    async def never(message: ReceivedMessage) -> None:
        raise AssertionError("nothing was sent")

    async with push_consumer(
        scene.broker.endpoint,
        handler=never,
        timeouts=scene.timeouts,
    ):
        await scene.arm()


async def start_with_lite_topics(scene: Scene) -> None:
    async def handle(message: ReceivedMessage) -> None:
        scene.handled.append(message.body)

    consumer = PushConsumer(
        scene.broker.endpoint,
        group="chat",
        subscriptions=["sessions"],
        lite_topics=["alice"],
        handler=handle,
        timeouts=scene.timeouts,
        invisible=10,
    )
    await scene.arm()
    async with consumer, Producer(scene.broker.endpoint) as producer:
        await persistently(producer, Message("sessions", b"x", lite_topic="alice"))
        await scene.until(lambda: bool(scene.handled) and not scene.broker.leases("chat"), consumer)


# PullConsumer


async def _pull(scene: Scene, at: str) -> None:
    await scene.send()
    if at == "start":
        await scene.arm()
    async with PullConsumer(
        scene.broker.endpoint, group="billing", auto_commit=None, wait=1, timeouts=scene.timeouts
    ) as consumer:
        if at == "fetch":
            await scene.arm()
        if scene.rpc == "Heartbeat":
            await beat_three_times(consumer)
        consumer.assign(await consumer.queues("orders"))
        async with asyncio.timeout(PATIENCE):
            batch = None
            while batch is None:
                batch = await consumer.poll(timeout=TICK * 5)
                scene.end_a_fault_without_end()
                await scene.broker.clock.advance(seconds=2)
        if at == "settle":
            await scene.arm()
        if scene.rpc == "GetOffset":
            await consumer.committed(batch.queue)
        elif scene.rpc == "QueryOffset":
            await consumer.lag()
        else:
            await consumer.commit(batch)
        if at == "end":
            await scene.arm()


STORIES: dict[str, dict[str, tuple[str, Story]]] = {
    "Producer": {
        "start: `QueryRoute`": ("QueryRoute", start_producing),
        "start: `Telemetry`": ("Telemetry", start_producing),
        "running: `Telemetry`": ("Telemetry", keep_producing),
        "running: `Heartbeat`": ("Heartbeat", keep_producing),
        "`send`: `SendMessage`": ("SendMessage", keep_producing),
        "`send` with `linger`: `SendMessage`": ("SendMessage", gather),
        "`recall`: `RecallMessage`": ("RecallMessage", recall),
        "entering `transaction`: `SendMessage`": ("SendMessage", begin_transaction),
        "leaving `transaction`: `EndTransaction`": ("EndTransaction", commit),
        "leaving: `NotifyClientTermination`": ("NotifyClientTermination", end_producing),
    },
    "SimpleConsumer": {
        "start: `QueryRoute`": ("QueryRoute", start_fetching),
        "start: `Telemetry`": ("Telemetry", start_fetching),
        "running: `Telemetry`": ("Telemetry", fetch),
        "running: `Heartbeat`": ("Heartbeat", fetch),
        "`receive`: `ReceiveMessage`": ("ReceiveMessage", fetch),
        "`ack`: `AckMessage`": ("AckMessage", acknowledge),
        "`extend`: `ChangeInvisibleDuration`": ("ChangeInvisibleDuration", extend),
        "leaving: `NotifyClientTermination`": ("NotifyClientTermination", end_fetching),
    },
    "PushConsumer": {
        "start: `QueryRoute`": ("QueryRoute", partial(_push, early=True)),
        "start: `Telemetry`": ("Telemetry", partial(_push, early=True)),
        "start: `QueryAssignment`": ("QueryAssignment", partial(_push, early=True)),
        "start, lite topics: `SyncLiteSubscription`": ("SyncLiteSubscription", start_with_lite_topics),
        "running: `Telemetry`": ("Telemetry", _push),
        "running: `Heartbeat`": ("Heartbeat", _push),
        "running: `ReceiveMessage`": ("ReceiveMessage", _push),
        "handler returns: `AckMessage`": ("AckMessage", _push),
        "handler raises: `ChangeInvisibleDuration`": ("ChangeInvisibleDuration", partial(_push, fails=1)),
        "ordered, last attempt fails: `ForwardMessageToDeadLetterQueue`": (
            "ForwardMessageToDeadLetterQueue",
            partial(_push, fails=1, group="ordered"),
        ),
        "leaving: `NotifyClientTermination`": ("NotifyClientTermination", end_pushing),
    },
    "PullConsumer": {
        "start: `GetOffset`": ("GetOffset", partial(_pull, at="start")),
        "start: `Telemetry`": ("Telemetry", partial(_pull, at="start")),
        "running: `Heartbeat`": ("Heartbeat", partial(_pull, at="fetch")),
        "`queues`: `QueryRoute`": ("QueryRoute", partial(_pull, at="fetch")),
        "iterating: `PullMessage`": ("PullMessage", partial(_pull, at="fetch")),
        "`commit`: `UpdateOffset`": ("UpdateOffset", partial(_pull, at="settle")),
        "`committed`: `GetOffset`": ("GetOffset", partial(_pull, at="settle")),
        "`lag`: `QueryOffset`": ("QueryOffset", partial(_pull, at="settle")),
        "leaving: `NotifyClientTermination`": ("NotifyClientTermination", partial(_pull, at="end")),
    },
}

STREAMS = {"Telemetry", "ReceiveMessage", "PullMessage"}


def applies(rpc: str, fault: str) -> bool:
    """Whether the fake can disturb a call this way."""
    return fault != "stream cut" or rpc in STREAMS


async def seen_by_the_user(client: str, work: str, fault: str) -> str:
    """Play one cell; the words of the page for what happened."""
    rpc, story = STORIES[client][work]
    async with FakeBroker(clock="manual") as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_topic("fifo", type="FIFO", queues=1)
        await broker.create_topic("reminders", type="DELAY", queues=1)
        await broker.create_topic("payments", type="TRANSACTION", queues=1)
        await broker.create_topic("sessions", type="LITE", queues=1)
        await broker.create_group("chat", lite_topic="sessions", lite_quota=5)
        await broker.create_group("billing", backoff=(1.0,))
        await broker.create_group("ordered", ordered=True, max_attempts=1)
        scene = Scene(broker, rpc, FAULTS[fault])
        try:
            async with asyncio.timeout(2 * PATIENCE):
                await story(scene)
        except RocketMQError as error:
            return f"`{type(error).__name__}`" + ("?" if error.may_have_taken_effect else "")
        again = scene.came_again and not (work.startswith("handler raises") and len(scene.handled) == 2)
        return "again" if again else "fine"


@dataclass(frozen=True)
class Cell:
    client: str
    work: str
    fault: str
    said: str


def cells() -> list[Cell]:
    """What the page says, cell by cell."""
    result: list[Cell] = []
    columns: list[str] = []
    client = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            client, columns = line.removeprefix("## "), []
        elif line.startswith("|") and client in STORIES:
            parts = [part.strip() for part in line.strip("|").split("|")]
            if not columns:
                columns = parts[1:]
            elif not set(line) <= set("|-"):
                result += [
                    Cell(client, parts[0], *pair) for pair in zip(columns, parts[1:], strict=True) if pair[1]
                ]
    return result


@pytest.mark.parametrize(
    "client",
    [pytest.param(each, marks=pytest.mark.slow) if each == "PushConsumer" else each for each in STORIES],
)
async def test_the_user_sees_of_a_fault_what_the_page_says(client: str) -> None:
    """Cells are played side by side, each on a broker of its own: most of them wait for time-outs, which are real."""
    at_once = asyncio.Semaphore(AT_ONCE)

    async def wrong(cell: Cell) -> str | None:
        async with at_once:
            outcome = await seen_by_the_user(client, cell.work, cell.fault)
        return None if outcome == cell.said else f"{cell.work}, {cell.fault}: {outcome}, not {cell.said}"

    differences = await asyncio.gather(*(wrong(cell) for cell in cells() if cell.client == client))
    assert differences
    assert [line for line in differences if line] == []


def test_the_page_has_a_cell_for_every_call_of_every_client_and_every_fault() -> None:
    expected = {
        (client, work, fault)
        for client, works in STORIES.items()
        for work, (rpc, _) in works.items()
        for fault in FAULTS
        if applies(rpc, fault)
    }
    assert {(cell.client, cell.work, cell.fault) for cell in cells()} == expected


@pytest.mark.skipif("FAULTS_SHOW" not in os.environ, reason="prints the tables for the page: set FAULTS_SHOW")
async def test_show_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    for client, works in STORIES.items():
        lines += [f"## {client}", "", "| | " + " | ".join(FAULTS) + " |", "|---" * (len(FAULTS) + 1) + "|"]
        for work, (rpc, _) in works.items():
            row = [
                await seen_by_the_user(client, work, fault) if applies(rpc, fault) else "" for fault in FAULTS
            ]
            lines.append(f"| {work} | " + " | ".join(row) + " |")
            with capsys.disabled():
                print(lines[-1], flush=True)
        lines.append("")
    with capsys.disabled():
        print("\n".join(lines))
    assert len(lines) > len(STORIES)
