import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

import pytest
from aiorocketmq.message import ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq_fake import FakeBroker

from sdk.tests.background import no_background_fault as no_background_fault

E = TypeVar("E")

PATIENCE = 10.0
"""Seconds after which a test that waits for something has failed."""


@pytest.fixture(params=["documented", "apache-5.5"])
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[FakeBroker]:
    """A fake broker with a paused clock, a topic and a group of the usual names."""
    async with FakeBroker(profile=request.param, clock="manual") as broker:
        await broker.create_topic("orders")
        await broker.create_group("billing")
        yield broker


@pytest.fixture(params=["documented", "apache-5.5"])
async def ordered_broker(request: pytest.FixtureRequest) -> AsyncIterator[FakeBroker]:
    """A fake broker with a FIFO topic and an ordered group that runs failed messages again at once."""
    async with FakeBroker(profile=request.param, clock="manual") as broker:
        await broker.create_topic("orders", type="FIFO", queues=1)
        await broker.create_group("billing", ordered=True, max_attempts=3, backoff=[0.001])
        yield broker


@pytest.fixture
async def producer(broker: FakeBroker) -> AsyncIterator[Producer]:
    async with Producer(broker.endpoint) as producer:
        yield producer


@pytest.fixture
async def ordered_producer(ordered_broker: FakeBroker) -> AsyncIterator[Producer]:
    async with Producer(ordered_broker.endpoint) as producer:
        yield producer


class Seen:
    """A handler that keeps what it gets, and fails as configured for some bodies."""

    def __init__(self) -> None:
        self.messages: list[ReceivedMessage] = []
        self.ended: list[bytes] = []
        self.running = 0
        self.most_running = 0
        self.gates: dict[bytes, asyncio.Event] = {}
        self.failures: dict[bytes, list[Exception]] = {}
        self._news = asyncio.Event()

    async def __call__(self, message: ReceivedMessage) -> None:
        self.messages.append(message)
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        self._news.set()
        try:
            if message.body in self.gates:
                await self.gates[message.body].wait()
            if self.failures.get(message.body):
                raise self.failures[message.body].pop(0)
        finally:
            self.running -= 1
        self.ended.append(message.body)
        self._news.set()

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    def hold(self, *bodies: bytes) -> asyncio.Event:
        """Make the handlers of these bodies wait for the event that is returned."""
        gate = asyncio.Event()
        self.gates.update(dict.fromkeys(bodies, gate))
        return gate

    async def starts(self, count: int) -> None:
        """Wait until `count` handlers have started."""
        await self._until(lambda: len(self.messages) >= count)

    async def ends(self, count: int) -> None:
        """Wait until `count` handlers have ended well."""
        await self._until(lambda: len(self.ended) >= count)

    async def _until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not reached():
                self._news.clear()
                await self._news.wait()


@pytest.fixture
def seen() -> Seen:
    return Seen()


class History:
    """All events of a broker, and a way to wait for them."""

    def __init__(self) -> None:
        self.events: list[object] = []
        self._news = asyncio.Event()

    def add(self, events: tuple[object, ...]) -> None:
        self.events.extend(events)
        self._news.set()

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    async def shows(self, kind: type[E], count: int = 1) -> list[E]:
        """Wait until `count` events of that kind have happened, and return them."""
        async with asyncio.timeout(PATIENCE):
            while len(self.of(kind)) < count:
                self._news.clear()
                await self._news.wait()
        return self.of(kind)


@pytest.fixture
def history(broker: FakeBroker) -> Iterator[History]:
    history = History()
    with broker.events.listen(history.add):
        yield history


@pytest.fixture
def ordered_history(ordered_broker: FakeBroker) -> Iterator[History]:
    history = History()
    with ordered_broker.events.listen(history.add):
        yield history
