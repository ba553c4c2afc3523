"""A group returns after messages were deleted: it gets an event, continues after the gap, and counts what is there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import pytest
from aiorocketmq import Admin, Message, MessageQueue, Producer, PullConsumer, QueueProgress
from aiorocketmq.hooks import Event, Hook, SeekEvent
from aiorocketmq_conformance.targets.apache.retention import delete_older_files
from aiorocketmq_conformance.targets.apache.server import ApacheServer
from aiorocketmq_conformance.targets.apache.setups import setups
from aiorocketmq_fake import FakeBroker

from sdk.tests.conftest import MISSING, VERSIONS

FAKES = ("apache-5.5",)
TOPIC, GROUP = "orders", "billing"
COUNT = 1500
"""Messages, so many that a real server's log takes three files, of which it keeps the last."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """A server, and how to make it delete most of what it has."""

    namesrv: str
    delete: Callable[[], Awaitable[None]]


class Seeks(Hook):
    """Keeps where positions were moved."""

    def __init__(self) -> None:
        self.found: list[SeekEvent] = []

    def observe(self, event: Event) -> None:
        if isinstance(event, SeekEvent):
            self.found.append(event)


@pytest.fixture
async def keeping(target: str) -> AsyncIterator[Keeping]:
    """A fake, or a real server with small files of its log, which it deletes on request."""
    async with (real if target in VERSIONS else fake)(target) as opened:
        yield opened


@asynccontextmanager
async def fake(target: str) -> AsyncIterator[Keeping]:
    # Its own hour of deletion, 04:00, must not come meanwhile.
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    async with FakeBroker(profile=target, remoting_port=0, clock="manual", start=noon) as broker:

        async def delete() -> None:
            await broker.set_retention(retention=3600.0)
            await broker.clock.advance(seconds=3601)
            await send(namesrv, 30)
            assert await broker.delete_expired() == COUNT

        namesrv = f"namesrv://{broker.remoting_endpoint}"
        yield Keeping(namesrv, delete)


@asynccontextmanager
async def real(version: str) -> AsyncIterator[Keeping]:
    if MISSING:
        pytest.skip(f"a real Apache server needs {' and '.join(MISSING)} on the search path")
    settings = setups(version, "local").trimmed.broker
    async with ApacheServer(version, settings=settings) as server:
        yield Keeping(f"namesrv://{server.namesrv}", partial(delete_older_files, server.broker))


async def send(namesrv: str, count: int) -> None:
    """Send messages of 3,000 bytes."""
    async with Producer(namesrv, topics=[TOPIC]) as producer:
        await producer.send_many([Message(TOPIC, bytes(3000)) for _ in range(count)])


async def read(
    consumer: PullConsumer, seen: dict[MessageQueue, list[int]], is_enough: Callable[[], bool]
) -> None:
    """Read and commit until it `is_enough`."""
    async with asyncio.timeout(60):
        while not is_enough():
            batch = await consumer.poll(10.0)
            assert batch is not None
            seen.setdefault(batch.queue, []).extend(message.offset for message in batch)
            await consumer.commit(batch)


async def after_deletion(
    admin: Admin, committed: Mapping[MessageQueue, int]
) -> tuple[dict[MessageQueue, tuple[int, int]], dict[MessageQueue, QueueProgress]]:
    """Where each queue begins and ends, and the group's progress at that moment, once all that was read is gone.

    A real server looks every 10 s, for the first time after a minute."""
    async with asyncio.timeout(120):
        while True:
            spans = await admin.spans(TOPIC)
            rows = {each.queue: each for each in await admin.progress(GROUP, TOPIC)}
            if spans == await admin.spans(TOPIC) and all(
                span.min_offset > committed[span.queue] for span in spans
            ):
                return {span.queue: (span.min_offset, span.max_offset) for span in spans}, rows
            await asyncio.sleep(0.5)


async def test_a_group_behind_retention_gets_an_event_and_continues(
    keeping: Keeping, caplog: pytest.LogCaptureFixture
) -> None:
    offsets_read: dict[MessageQueue, list[int]] = {}
    seeks = Seeks()
    async with Admin(keeping.namesrv) as admin:
        await admin.create_topic(TOPIC, queues=3)
        await admin.create_group(GROUP)
        async with PullConsumer(keeping.namesrv, group=GROUP, topics=[TOPIC]) as consumer:
            await send(keeping.namesrv, COUNT)
            await read(consumer, offsets_read, lambda: len(offsets_read) == 3)
        committed = {each.queue: each.offset for each in await admin.progress(GROUP, TOPIC)}
        assert committed == {queue: offsets[-1] + 1 for queue, offsets in offsets_read.items()}

        await keeping.delete()
        there, rows = await after_deletion(admin, committed)
        assert {queue: row.offset for queue, row in rows.items()} == committed
        lags = {queue: end - begin for queue, (begin, end) in there.items()}
        assert {queue: row.lag for queue, row in rows.items()} == lags

        offsets_read.clear()
        async with PullConsumer(keeping.namesrv, group=GROUP, topics=[TOPIC], hooks=[seeks]) as consumer:
            with caplog.at_level(logging.WARNING):
                ends = {queue: end - 1 for queue, (_, end) in there.items()}
                await read(
                    consumer,
                    offsets_read,
                    lambda: {queue: offsets[-1] for queue, offsets in offsets_read.items()} == ends,
                )
            assert set((await consumer.lag()).values()) == {0}
    # A real server may have deleted more meanwhile.
    assert all(
        begin <= offsets_read[queue][0] and offsets_read[queue] == list(range(offsets_read[queue][0], end))
        for queue, (begin, end) in there.items()
    )
    # Every step from the committed offset to the first message is told.
    for queue, offsets in offsets_read.items():
        position = committed[queue]
        for seek in (seek for seek in seeks.found if seek.queue == queue):
            assert seek.instead_of == position
            position = seek.offset
            text = f"{queue} has no offset {seek.instead_of} ("
            assert any(
                text in message and f"continues at {position}" in message for message in caplog.messages
            )
        assert position == offsets[0] > committed[queue]
