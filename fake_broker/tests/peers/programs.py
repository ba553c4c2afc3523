"""Apache's own clients of the classic protocol in processes of their own, and what they and the broker report."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from aiorocketmq_fake.core.values.events import Event, Refused, SentBack

PATIENCE = 40.0
"""Seconds for a virtual machine on a busy computer, and for a look at a group's members every 20 s."""
Start = Callable[..., AbstractAsyncContextManager["Program"]]


class News:
    """Wakes who waits for something that programs say or the broker does."""

    def __init__(self) -> None:
        self.happened = asyncio.Event()
        self.events: list[Event] = []

    def take(self, events: Iterable[Event]) -> None:
        self.events.extend(events)
        self.happened.set()

    def count(self, kind: type[Event]) -> int:
        return sum(isinstance(event, kind) for event in self.events)

    def refused(self) -> set[str]:
        """The commands that the broker has refused."""
        return {event.command for event in self.events if isinstance(event, Refused)}

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not is_so():
                self.happened.clear()
                await self.happened.wait()


async def sent_back(news: News, times: int) -> None:
    """Wait until consumers have sent messages back so many times."""
    await news.until(lambda: news.count(SentBack) == times)


class Program:
    """A client in a process of its own: what it says, line by line."""

    def __init__(self, process: Process, news: News) -> None:
        self.process = process
        self.lines: list[list[str]] = []
        self._news = news

    async def listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(line.decode().split())
            self._news.happened.set()

    def said(self, word: str) -> list[list[str]]:
        return [words[1:] for words in self.lines if words and words[0] == word]

    def read(self) -> Counter[str]:
        """How often each body was read."""
        return Counter(words[0] for words in self.said("read"))

    async def tell(self, *words: object) -> list[str]:
        """Have a producer do something; returns what came of it."""
        assert self.process.stdin is not None
        count = len(self.said("sent"))
        self.process.stdin.write((" ".join(map(str, words)) + "\n").encode())
        await self._news.until(lambda: len(self.said("sent")) > count)
        return self.said("sent")[-1]

    async def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"end\n")
        self.process.stdin.close()
        await asyncio.wait_for(self.process.wait(), PATIENCE)


@asynccontextmanager
async def running(
    news: News, *command: str | Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[Program]:
    """Run a client until the block is left; yields it when it is ready."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, limit=1 << 20, env=environment
    )
    program = Program(process, news)
    listening = asyncio.create_task(program.listen())
    try:
        await news.until(lambda: ["ready"] in program.lines)
        yield program
        await program.end()
    finally:
        if process.returncode is None:
            process.kill()
        await listening
