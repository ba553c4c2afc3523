"""Members of one group, of which some are Apache's own client for Java: each computes its share, and they agree."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiorocketmq import PushConsumer
from aiorocketmq.message import ReceivedMessage
from aiorocketmq.pull_consumer import Offset
from aiorocketmq_conformance.targets.apache.jars import fetch_jars, find_java

from sdk.tests.servers.test_shared_queues import Member, News, send

if TYPE_CHECKING:
    from sdk.tests.conftest import Place
else:
    Place = Any

FAKES = ()
PULLS = Path(__file__).with_name("Member.java")
PUSHES = Path(__file__).with_name("PushMember.java")


class JavaMember:
    """What a Java program says of itself."""

    def __init__(self, process: Process, news: News) -> None:
        self.process = process
        self.owns: set[int] = set()
        self._news = news

    async def listen(self) -> None:
        """Record its output until it ends."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            word, *rest = line.decode().split()
            if word == "owns":
                self.owns = {int(each) for each in rest}
            elif word == "read":
                self._news.seen[rest[0].encode()] += 1
            self._news.happened.set()


@asynccontextmanager
async def java_member(
    place: Place, topic: str, group: str, news: News, home: Path, program: Path = PULLS
) -> AsyncIterator[JavaMember]:
    jars = await fetch_jars(place.target.partition(":")[0])
    options = ("-Xmx256m", f"-Duser.home={home}", "-cp", f"{jars}/*")
    address = place.namesrv.removeprefix("namesrv://")
    command = (find_java(), *options, str(program), address, group, topic)
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    member = JavaMember(process, news)
    listening = asyncio.create_task(member.listen())
    try:
        yield member
        assert process.stdin is not None
        process.stdin.write(b"end\n")
        await asyncio.wait_for(process.wait(), 60)
    finally:
        if process.returncode is None:
            process.kill()
        await listening


@pytest.mark.parametrize("is_java_first", [True, False], ids=["java joins first", "java joins second"])
async def test_members_of_both_kinds_share_the_queues_of_a_topic(
    place: Place, tmp_path: Path, is_java_first: bool
) -> None:
    place.needs_5("its client for Java does not tell its queues")
    topic, group = await place.topic(queues=5), await place.group()
    news = News()
    sent = await send(place, topic, 0, 20)
    async with AsyncExitStack() as stack:
        if is_java_first:
            java = await stack.enter_async_context(java_member(place, topic, group, news, tmp_path))
            await news.until(lambda: len(java.owns) == 5)
        ours = Member(place, topic, group, news)
        async with ours:
            if not is_java_first:
                await news.until(lambda: len(ours.queues) == 5)
                java = await stack.enter_async_context(java_member(place, topic, group, news, tmp_path))
            await news.until(
                lambda: (
                    len(java.owns) in (2, 3)
                    and sorted([*java.owns, *(queue.id for queue in ours.queues)]) == [0, 1, 2, 3, 4]
                )
            )
            sent |= await send(place, topic, 20, 60)
            await news.contain(sent)
        await news.until(lambda: len(java.owns) == 5)
        sent |= await send(place, topic, 60, 80)
        await news.contain(sent)
    assert news.seen.keys() == sent


@pytest.mark.parametrize("is_java_first", [True, False], ids=["java joins first", "java joins second"])
async def test_push_consumers_of_both_kinds_share_the_queues_of_a_topic(
    place: Place, tmp_path: Path, is_java_first: bool
) -> None:
    topic, group = await place.topic(queues=5), await place.group()
    news = News()
    sent = await send(place, topic, 0, 20)

    async def handle(message: ReceivedMessage) -> None:
        news.seen[message.body] += 1
        news.happened.set()

    def java() -> AbstractAsyncContextManager[JavaMember]:
        return java_member(place, topic, group, news, tmp_path, PUSHES)

    def owned() -> set[int]:
        return {queue.id for queue in ours.assigned_queues if queue.topic == topic}

    ours = PushConsumer(place.namesrv, group=group, subscriptions=[topic], handler=handle, start=Offset.BEGIN)
    async with AsyncExitStack() as stack:
        if is_java_first:
            other = await stack.enter_async_context(java())
            await news.until(lambda: len(other.owns) == 5)
        async with ours:
            if not is_java_first:
                await news.contain(sent)
                other = await stack.enter_async_context(java())
            await news.until(
                lambda: sorted([*other.owns, *owned()]) == [0, 1, 2, 3, 4] and len(owned()) in (2, 3)
            )
            sent |= await send(place, topic, 20, 60)
            await news.contain(sent)
        await news.until(lambda: len(other.owns) == 5)
        sent |= await send(place, topic, 60, 80)
        await news.contain(sent)
    assert news.seen.keys() == sent
