"""Apache's Python client in a subprocess, driven line by line, and a fake with a remoting port for other clients."""

import asyncio
import json
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq_fake import FakeBroker

from fake_broker.tests.peers.programs import News

DRIVER = Path(__file__).with_name("apache_driver.py")
PATIENCE = 60.0


class ApacheRefused(Exception):
    """Apache's client raised an error that carries a code."""

    def __init__(self, text: str, code: int | None) -> None:
        super().__init__(text)
        self.code = code


class ApacheClient:
    """The other end of `apache_driver.py`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.early: deque[dict[str, Any]] = deque()

    async def __call__(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Have one command done; what a listener reports meanwhile is kept for `consumed`."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        await self.process.stdin.drain()
        while True:
            answer = await self._line()
            if "consumed" in answer:
                self.early.append(answer)
            elif "done" in answer:
                return dict(answer["done"])
            elif "refused" in answer:
                raise ApacheRefused(answer["refused"], answer["code"])
            else:
                raise AssertionError(f"{do}: {answer}")

    async def consumed(self, count: int) -> list[dict[str, Any]]:
        """Wait until the push consumer's listener was called `count` times; return what it saw, in order."""
        messages = [self.early.popleft() for _ in range(min(count, len(self.early)))]
        while len(messages) < count:
            messages.append(await self._line())
        return [{**one["consumed"], "ok": one["ok"]} for one in messages]

    async def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), PATIENCE)
        assert line, "Apache's client died"
        return dict(json.loads(line))


@pytest.fixture
async def apache_client(
    apache_python: Path, tmp_path: Path
) -> AsyncIterator[Callable[[str], Awaitable[ApacheClient]]]:
    """Start Apache's client against an endpoint."""
    async with AsyncExitStack() as stack:

        async def start(endpoint: str) -> ApacheClient:
            process = await asyncio.create_subprocess_exec(
                apache_python,
                DRIVER,
                endpoint,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                # The package writes log files below the home directory as soon as it is imported.
                env={**os.environ, "HOME": str(tmp_path)},
            )
            stack.push_async_callback(end, process)
            return ApacheClient(process)

        yield start


async def end(process: asyncio.subprocess.Process) -> None:
    """Close its orders, and kill it if it does not leave: threads of clients never stopped hold it."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), 3)
    except TimeoutError:
        process.kill()
        await process.wait()


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    """Its clock is manual: retries and delays happen when a test moves it."""
    async with FakeBroker(remoting_port=0, clock="manual") as fake:
        await fake.create_topic("orders", queues=4)
        yield fake


@pytest.fixture
def news(broker: FakeBroker) -> Iterator[News]:
    news = News()
    with broker.events.listen(news.take):
        yield news
