import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from aiorocketmq.message import ReceivedMessage
from aiorocketmq_fake import FakeBroker

PATIENCE = 20.0
"""Seconds after which a client has not recovered: the longest pause between two of its tries is well below."""


@pytest.fixture(params=["documented", "apache-5.5"])
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[FakeBroker]:
    """A fake broker on a fixed port that can be stopped, crashed and started again."""
    async with FakeBroker(profile=request.param) as broker:
        await broker.create_topic("orders", queues=2)
        await broker.create_group("billing")
        yield broker


class Arrivals:
    """A handler, and a place for what came by other ways."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._news = asyncio.Event()

    async def __call__(self, message: ReceivedMessage) -> None:
        self.add(message.body)

    def add(self, body: bytes) -> None:
        self.bodies.append(body)
        self._news.set()

    async def contain(self, *bodies: bytes) -> None:
        """Wait until each of them has come."""
        await self.satisfy(lambda: set(bodies) <= set(self.bodies))

    async def satisfy(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not reached():
                self._news.clear()
                await self._news.wait()


@pytest.fixture
def arrivals() -> Arrivals:
    return Arrivals()


@pytest.fixture(autouse=True)
def no_background_fault(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A task of a client that ends by an error of ours shows nowhere but in the log."""
    yield
    records = caplog.get_records("call")
    faults = [each for each in records if each.name == "aiorocketmq.tasks" and each.levelno >= logging.ERROR]
    assert faults == []
