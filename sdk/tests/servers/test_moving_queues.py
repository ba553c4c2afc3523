"""Members of a group, each a process of its own, that join, leave, die, stand still and are cut off under load.

Every message is read; some are read twice, where a queue moved away from somebody who had not committed them; and
the audit of what everybody has recorded accuses nobody."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiorocketmq import Admin, Message, Producer, Recorder
from anyio import run_process

from sdk.tests.servers.test_shared_queues import News
from tools.wire import Wire

if TYPE_CHECKING:
    from sdk.tests.conftest import Place
else:
    Place = Any

pytestmark = pytest.mark.slow

FAKES = ("apache-5.5",)
QUEUES = 5
PAUSE = 0.01
"""Seconds between two messages that are sent."""
JUDGED = {
    "pull": ("origin", "queues", "commits"),
    "push": ("origin", "queues", "commits", "attempts", "offsets"),
}
"""Checks that judge members of such groups, by their kind."""
ROOT = Path(__file__).parents[3]


class Reader:
    """What one member says of itself."""

    def __init__(self, process: Process, news: News) -> None:
        self.process = process
        self.queues = 0
        self.read = 0
        self._news = news

    async def listen(self) -> None:
        """Record its output until it ends."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            word, rest = line.split()
            if word == b"queues":
                self.queues = int(rest)
            else:
                self.read += 1
                self._news.seen[rest] += 1
            self._news.happened.set()
        self.queues = 0
        self._news.happened.set()

    async def reads_on(self) -> None:
        """Wait until it has read more than now."""
        now = self.read
        await self._news.until(lambda: self.read > now)

    async def leave(self) -> None:
        """Let it end in good order."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert await asyncio.wait_for(self.process.wait(), 60) == 0


class Scene:
    """A group of readers, and the load on its topic."""

    def __init__(self, options: dict[str, Any], news: News, stack: AsyncExitStack) -> None:
        self._options = options
        self._news = news
        self._stack = stack
        self.sent: set[bytes] = set()
        self.readers: list[Reader] = []

    async def join(self) -> Reader:
        """Let one more member read, and wait until it has its part."""
        reader = await self._stack.enter_async_context(reading(self._options, self._news))
        self.readers.append(reader)
        await self.settled()
        assert reader.queues
        return reader

    async def settled(self) -> None:
        """Wait until the queues are spread evenly over those who are there."""

        def is_even() -> bool:
            counts = [each.queues for each in self.readers if each.process.returncode is None]
            return sum(counts) == QUEUES and max(counts) - min(counts) <= 1

        await self._news.until(is_even)

    async def send(self, producer: Producer, topic: str) -> None:
        """Send one message after another until it is cancelled."""
        while True:
            body = b"%d" % len(self.sent)
            await producer.send(Message(topic, body))
            self.sent.add(body)
            await asyncio.sleep(PAUSE)


@asynccontextmanager
async def reading(options: dict[str, Any], news: News) -> AsyncIterator[Reader]:
    command = (sys.executable, "-m", "sdk.tests.servers.reader", json.dumps(options))
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=PIPE, stdout=PIPE)
    reader = Reader(process, news)
    listening = asyncio.create_task(reader.listen())
    try:
        yield reader
    finally:
        if process.returncode is None:
            process.kill()
        await listening


@pytest.mark.parametrize("kind", ["pull", "push"])
async def test_members_come_go_die_stand_still_and_are_cut_off_and_nothing_is_lost(
    place: Place, kind: str, tmp_path: Path
) -> None:
    topic, group = await place.topic(queues=QUEUES), await place.group()
    news = News()
    async with AsyncExitStack() as stack:
        async with Admin(place.namesrv) as admin:
            broker = (await admin.route(topic)).queues[0].address
        wire = await stack.enter_async_context(Wire(broker, is_http2=False))
        options = {
            "kind": kind,
            "namesrv": place.namesrv,
            "address_map": {broker: wire.endpoint},
            "topic": topic,
            "group": group,
            "folder": str(tmp_path),
        }
        recorder = stack.enter_context(Recorder(tmp_path, run_id="run"))
        producer = await stack.enter_async_context(Producer(place.namesrv, topics=[topic], hooks=[recorder]))
        scene = Scene(options, news, stack)
        sending = asyncio.create_task(scene.send(producer, topic))
        first, second = await scene.join(), await scene.join()
        third = await scene.join()

        await second.leave()
        await scene.settled()

        third.process.kill()
        await third.process.wait()
        await scene.settled()
        fourth = await scene.join()

        first.process.send_signal(signal.SIGSTOP)
        await fourth.reads_on()
        await asyncio.sleep(3.0)  # long after its pulls were answered
        first.process.send_signal(signal.SIGCONT)
        await first.reads_on()

        for _ in range(3):
            wire.cut()
            await asyncio.sleep(0.3)
        await first.reads_on()
        await fourth.reads_on()
        await scene.settled()

        wire.freeze()
        await asyncio.sleep(0.5)  # what had been sent to them
        await first.reads_on()
        await fourth.reads_on()
        await scene.settled()

        sending.cancel()
        await asyncio.wait([sending])
        await news.contain(scene.sent)
        await first.leave()
        await fourth.leave()
    print(f"{len(scene.sent)} sent, {news.seen.total() - len(scene.sent)} read once more")
    assert max(news.seen.values()) <= 3, news.seen.most_common(3)
    command = (sys.executable, "-m", "aiorocketmq_audit", str(tmp_path), "--json")
    report = json.loads((await run_process(command, check=False)).stdout)
    # What the killed one had not written may leave a check unknown, and reports no violation.
    assert {check["verdict"] for check in report["checks"]} <= {"valid", "unknown"}, report
    judged = {check["name"]: check["judged"] for check in report["checks"]}
    assert all(judged[name] for name in JUDGED[kind]), judged
