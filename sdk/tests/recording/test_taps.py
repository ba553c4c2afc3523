"""What happens to every message is recorded without events, and recorded as if there had been events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq._session import events
from aiorocketmq._session.events import Answer, Emitter
from aiorocketmq.config import Compression
from aiorocketmq.errors import LeaseLostError, PermissionDeniedError
from aiorocketmq.hooks import AckEvent, DeliverEvent, Event, HandleEvent, Hook, SendEvent
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.pull_consumer import Offset, PullConsumer
from aiorocketmq.push_consumer import PushConsumer
from aiorocketmq.recording import Recorder
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq.transaction import Resolution
from aiorocketmq_fake import FakeBroker

from sdk.tests.recording.events_as_rows import CONSUMER, QUEUE, Instants, received, rows_of

pytest.importorskip("pyarrow.parquet")

OF_THE_RECORDER = {"recorder", "boot", "run_id", "t_real_us"}


class ByEvents(Hook):
    """Passes every event to a recorder, as a user's hook may do."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def observe(self, event: Event) -> None:
        self._recorder.observe(event)


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    async with FakeBroker(clock="manual") as broker:
        await broker.create_topic("plain", queues=2)
        await broker.create_topic("later", type="DELAY")
        await broker.create_topic("sure", type="TRANSACTION")
        for group in ("push", "simple", "pull"):
            await broker.create_group(group, max_attempts=2)
        yield broker


async def checker(message: ReceivedMessage) -> Resolution:
    return Resolution.COMMIT


async def live(broker: FakeBroker, *hooks: Hook) -> None:
    """A life with all that is frequent, and some of what is not; the producer stays, so that it is one recording."""
    endpoint = broker.endpoint
    async with Producer(
        endpoint,
        hooks=hooks,
        linger=0.001,
        transaction_checker=checker,
        compression=Compression(threshold=100),
    ) as producer:
        await producer.send(Message("plain", b"1", tag="paid", keys="k", properties={"audit-serial": "7"}))
        await producer.send_many([Message("plain", b"%d" % number) for number in range(2, 6)])
        await producer.send(Message("plain", b"packed" * 100))
        await producer.send(Message("later", b"in a minute", delay=60.0))
        async with producer.transaction(Message("sure", b"half")):
            pass
        with broker.faults.refuse("SendMessage", "FORBIDDEN"), pytest.raises(PermissionDeniedError):
            await producer.send(Message("plain", b"unwanted"))
        all_handled = asyncio.Event()
        handled: list[ReceivedMessage] = []

        async def handle(message: ReceivedMessage) -> None:
            handled.append(message)
            if len(handled) == 6:
                all_handled.set()
            if message.tag == "paid":
                raise ValueError("not today")

        async with (
            asyncio.timeout(30),
            PushConsumer(endpoint, group="push", subscriptions=["plain"], handler=handle, hooks=hooks),
        ):
            await all_handled.wait()
        async with SimpleConsumer(endpoint, group="simple", subscriptions=["plain"], hooks=hooks) as simple:
            messages = await simple.receive(max_messages=6, invisible=30, wait=5)
            await messages[0].extend(60)
            await messages[1].release()
            with broker.faults.refuse("AckMessage", "INVALID_RECEIPT_HANDLE"), pytest.raises(LeaseLostError):
                await messages[2].ack()
            await simple.ack([messages[0], *messages[3:]])
        async with PullConsumer(endpoint, group="pull", start=Offset.BEGIN, hooks=hooks) as pull:
            pull.assign(await pull.queues("plain"))
            count = 0
            async for batch in pull:
                count += len(batch)
                if count == 6:
                    break


def without_recorder(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: cell for name, cell in row.items() if name not in OF_THE_RECORDER} for row in rows]


async def test_facts_without_events_become_the_rows_that_events_become(
    broker: FakeBroker, tmp_path: Path
) -> None:
    tapped = Recorder(tmp_path / "tapped", clock=broker.clock.now)
    recorder = Recorder(tmp_path / "told", clock=broker.clock.now)
    await live(broker, tapped, ByEvents(recorder))
    rows, expected = without_recorder(rows_of(tapped)), without_recorder(rows_of(recorder))
    kinds = [row["kind"] for row in rows]
    assert {"send", "receive", "deliver", "handle.start", "handle.end", "ack", "change"} <= set(kinds)
    assert kinds.count("deliver") >= 3 * 6
    assert {("send", "fail"), ("ack", "fail")} <= {(row["kind"], row["phase"]) for row in rows}
    assert rows == expected


async def test_at_the_end_nothing_counts_as_waiting(broker: FakeBroker, tmp_path: Path) -> None:
    """A difference would grow until a long recording leaves everything out."""

    class Keeping(Recorder):
        series: Any = None

        def _end(self) -> None:
            self.series = self._series or self.series
            super()._end()

    recorder = Keeping(tmp_path)
    await live(broker, recorder)
    rows, series = rows_of(recorder), recorder.series
    assert len(rows) > 50
    assert series._added == series._taken
    assert series._bytes_added == series._bytes_taken > 0


async def test_a_recorder_with_an_observe_of_its_own_sees_every_event(
    broker: FakeBroker, tmp_path: Path
) -> None:
    class Counting(Recorder):
        seen: set[type[Event]]

        def observe(self, event: Event) -> None:
            self.seen.add(type(event))
            super().observe(event)

    recorder = Counting(tmp_path)
    recorder.seen = set()
    await live(broker, recorder)
    assert {SendEvent, DeliverEvent, HandleEvent, AckEvent} <= recorder.seen
    assert "ack" in {row["kind"] for row in rows_of(recorder)}


async def test_a_message_that_is_settled_long_after_its_delivery_is_reported_again(
    broker: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recorder remembers the latest messages of the process by their numbers, not all of them."""
    recorder = Recorder(tmp_path, clock=broker.clock.now)
    async with Producer(broker.endpoint) as producer:
        await producer.send(Message("plain", b"1", tag="paid"))
    async with SimpleConsumer(
        broker.endpoint, group="simple", subscriptions=["plain"], hooks=[recorder]
    ) as simple:
        (message,) = await simple.receive(max_messages=1, invisible=30, wait=5)
        monkeypatch.setattr(events, "_latest", events._latest + 2 * events.KNOWN)
        await message.extend(60)
        await message.ack()
    rows = rows_of(recorder)
    delivered = next(row for row in rows if row["kind"] == "deliver")
    acks = [row for row in rows if row["kind"] == "ack"]
    assert [row["phase"] for row in acks] == ["invoke", "ok"]
    for name in ("topic", "broker", "queue", "offset", "message_id", "tag", "attempt", "delivery"):
        assert [row[name] for row in acks] == [delivered[name]] * 2
    assert {row["handle"] for row in acks} != {delivered["handle"]}
    assert [row["seq"] for row in rows] == list(range(len(rows)))


def test_a_message_that_did_not_come_over_grpc_has_the_same_columns(tmp_path: Path) -> None:
    """It has no message of the wire that the recorder could read."""
    message = received(
        attempt=3,
        tag="paid",
        message_group="ann",
        priority=4,
        born_us=1,
        stored_us=2,
        deliver_us=3,
        transaction_id="T1",
        properties={"a": "b"},
    )
    clock = Instants()
    tapped, told = Recorder(tmp_path / "tapped", clock=clock), Recorder(tmp_path / "told", clock=clock)
    for emitter in (Emitter([tapped], CONSUMER), Emitter([ByEvents(told)], CONSUMER)):
        emitter.delivered([message], Answer(operation="1", broker=QUEUE.broker, filter=None))
    rows, expected = without_recorder(rows_of(tapped)), without_recorder(rows_of(told))
    assert rows == expected
    names = ("attempt", "born_us", "store_us", "due_us", "tx_id", "priority")
    assert [rows[1][name] for name in names] == [3, 1, 2, 3, "T1", 4]


async def test_what_a_tap_raises_is_logged_and_goes_no_further(
    broker: FakeBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls = 0

    def clock() -> float:
        nonlocal calls
        calls += 1
        if calls > 10:
            raise ValueError("the clock is broken")
        return 1.0

    recorder = Recorder(tmp_path, clock=clock)
    async with Producer(broker.endpoint, hooks=[recorder]) as producer:
        for number in range(8):
            assert (await producer.send(Message("plain", b"%d" % number))).message_id
    assert "a hook failed to observe" in caplog.text
    recorder._clock = None
    with pytest.raises(ValueError, match="broken"):
        recorder.close()
