"""A real master is killed while its replica runs: the replica is read on, and the master gets the commits when it is
back."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest
from aiorocketmq import Message, Producer, PullConsumer
from aiorocketmq.admin import Admin
from aiorocketmq.errors import RocketMQError
from aiorocketmq_conformance.targets.apache.server import ApacheServer

from sdk.tests.conftest import MISSING

pytestmark = pytest.mark.slow

FAKES = ()
"""They have no replicas."""
TOPIC, GROUP = "replicated", "readers"
LEARNS = 120.0
"""Seconds within which a replica knows topics: 5.x copies them once a minute, 4.9 every 10 s."""
BEFORE, AFTER = 200, 20
"""Messages that are sent before the master is killed, and after it is back."""
PATIENCE = 60.0


async def copied(replica: str) -> None:
    """Wait until the replica knows the topic and has all of its messages."""
    async with asyncio.timeout(LEARNS), Admin(f"broker://{replica}") as admin:
        while True:
            try:
                spans = await admin.spans(TOPIC)
            except RocketMQError:
                spans = ()
            if sum(span.max_offset for span in spans) == BEFORE:
                return
            await asyncio.sleep(0.5)


async def send(namesrv: str, bodies: set[bytes]) -> None:
    async with Producer(namesrv, topics=[TOPIC]) as producer:
        await asyncio.gather(*(producer.send(Message(TOPIC, body)) for body in sorted(bodies)))


class Reader:
    """Reads and commits batch for batch, and counts what comes."""

    def __init__(self, consumer: PullConsumer) -> None:
        self._consumer = consumer
        self.counts: Counter[bytes] = Counter()

    async def until(self, wanted: set[bytes], *, count: int) -> None:
        """Read on until so many of `wanted` have come."""
        async with asyncio.timeout(PATIENCE):
            while len(wanted & self.counts.keys()) < count:
                batch = await self._consumer.poll(PATIENCE)
                assert batch is not None
                self.counts.update(message.body for message in batch)
                await self._consumer.commit(batch)


async def test_what_the_replica_has_arrives_and_nothing_is_lost_or_repeated(
    target: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aiorocketmq")
    if MISSING:
        pytest.skip(f"a real Apache server needs {' and '.join(MISSING)} on the search path")
    version = target.partition(":")[0]
    if version.startswith("5.3"):
        pytest.skip("its replicas fail to copy topics that have a type, and refuse to be read")
    first = {b"%03d" % number for number in range(BEFORE)}
    second = {b"later %d" % number for number in range(AFTER)}
    async with ApacheServer(version, settings={"slaveReadEnable": "true"}) as server:
        namesrv = f"namesrv://{server.namesrv}"
        async with Admin(namesrv) as admin:
            await admin.create_topic(TOPIC, queues=2)
            await admin.create_group(GROUP)
        async with server.replica() as replica:
            await send(namesrv, first)
            await copied(replica)
            async with PullConsumer(namesrv, group=GROUP, topics=[TOPIC], max_messages=10) as consumer:
                reader = Reader(consumer)
                await reader.until(first, count=60)
                await server.kill()
                await reader.until(first, count=BEFORE)
                assert "is unavailable, its replicas are read" in caplog.text
                assert "is committed when the master is available again" in caplog.text
                await server.start()
                await send(namesrv, second)
                await reader.until(second, count=AFTER)
                assert reader.counts == Counter(first | second)
                # The replica may have had all of them before the consumer asked for its master again.
                async with asyncio.timeout(60):
                    while "the master of broker broker-a is available again" not in caplog.text:  # noqa: ASYNC110  # a log has no event
                        await asyncio.sleep(0.1)
            # Everything was committed at the master by then: no member reads anything again.
            async with Admin(namesrv) as admin:
                progress = await admin.progress(GROUP, TOPIC)
            assert [each.lag for each in progress] == [0, 0]
            assert sum(each.offset for each in progress) == BEFORE + AFTER
