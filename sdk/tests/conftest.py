"""Servers for tests that hold on each of them: fakes of two profiles, and real ones of Apache (marker `real`).

A real server is started once, kept for all tests that want its version, and ended before one of another version is
started: there is never more than one. `AIOROCKETMQ_REAL_VERSIONS` names the versions, by default "5.5.0"; behind a
separate proxy it is "5.5.0:cluster"; "4.9.7" runs what needs the remoting protocol alone.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiorocketmq.admin import Admin, TopicType
from aiorocketmq.message import ReceivedMessage
from aiorocketmq_conformance.targets.apache.jars import has_proxy
from aiorocketmq_conformance.targets.apache.server import ApacheServer
from aiorocketmq_conformance.targets.readiness import STARTING, wait_until_ready
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.profiles import PROFILES
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import settings

# How long an example takes says something about the machine only.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

FAKES = ("documented", "apache-5.5")
VERSIONS = tuple(os.environ.get("AIOROCKETMQ_REAL_VERSIONS", "5.5.0").split())
MISSING = [program for program in ("java", "mvn") if shutil.which(program) is None]
PATIENCE = 60.0
"""Seconds until what was waited for does not come: redeliveries take a real server 10 s on slow machines."""

_NUMBERS = itertools.count()
_RUN = f"{int(time.time() * 1000):x}"


class RealServer:
    """A running server of Apache, whose processes belong to another thread's loop."""

    def __init__(self, server: ApacheServer, portal: BlockingPortal) -> None:
        self._server = server
        self._portal = portal
        self.endpoint = server.grpc if has_proxy(server.version) else None
        """None before 5.0: there are name servers and brokers alone."""
        self.namesrv = server.namesrv

    def greet(self) -> None:
        """Return when it answers."""
        if (endpoint := self.endpoint) is not None:
            self._portal.call(lambda: wait_until_ready(endpoint, patience=STARTING))

    async def restart(self) -> None:
        """Stop it in good order and start it again; return when it answers."""
        await self._again(self._server.restart)

    async def kill(self) -> None:
        """Kill it; return when it is gone."""
        await asyncio.to_thread(self._portal.call, self._server.kill)

    async def start(self) -> None:
        """Start it after it was killed; return when it answers."""
        await self._again(self._server.start)

    async def _again(self, disturb: Callable[[], Awaitable[None]]) -> None:
        def work() -> None:
            self._portal.call(disturb)
            self.greet()

        await asyncio.to_thread(work)


class RealServers:
    """Has at most one real server running at a time."""

    def __init__(self, portal: BlockingPortal) -> None:
        self._portal = portal
        self._version: str | None = None
        self._server: RealServer | None = None
        self._stack = ExitStack()

    def __call__(self, version: str) -> RealServer:
        """The server of this version."""
        if self._server is None or version != self._version:
            self.close()
            number, _, mode = version.partition(":")
            server = ApacheServer(number, mode=mode or "local", settings={"recallMessageEnable": "true"})
            self._stack.enter_context(self._portal.wrap_async_context_manager(server))
            self._version, self._server = version, RealServer(server, self._portal)
            self._server.greet()
        return self._server

    def close(self) -> None:
        """End the server that runs."""
        self._version = self._server = None
        self._stack.close()


class Place:
    """A server as tests see it, with topics, groups and names of its own."""

    def __init__(self, target: str, fake: FakeBroker | None, real: RealServer | None) -> None:
        self.target = target
        """A profile of the fake, or the version of a real server."""
        self._fake = fake
        self._real = real

    @property
    def endpoint(self) -> str:
        """Where clients connect that speak gRPC; a server without it is skipped."""
        if self._real is None:
            return self.fake.endpoint
        if self._real.endpoint is None:
            pytest.skip(f"Apache RocketMQ {self.target} has no gRPC service")
        return self._real.endpoint

    @property
    def namesrv(self) -> str:
        """The name server, as clients of the remoting protocol take it."""
        return f"namesrv://{self.fake.remoting_endpoint if self._real is None else self._real.namesrv}"

    def at(self, wire: str) -> str:
        """Where clients connect that speak gRPC, or the remoting protocol."""
        return self.endpoint if wire == "grpc" else self.namesrv

    @property
    def is_real(self) -> bool:
        """Whether this is a server of Apache's."""
        return self._real is not None

    @property
    def fake(self) -> FakeBroker:
        """The fake, on places that have one."""
        assert self._fake is not None
        return self._fake

    @property
    def serves_pulls(self) -> bool:
        """Whether it has the calls of a PullConsumer."""
        return self.target == "documented"

    @property
    def is_old(self) -> bool:
        """Whether it is a server before 5.4: they garble batches (live-lessons.md, 6) and know no priorities."""
        return self.target.startswith(("5.2", "5.3"))

    def needs_5(self, why: str) -> None:
        """Skip the test on a server before 5.0, because of something that it does otherwise."""
        if self.target.startswith("4"):
            pytest.skip(f"Apache RocketMQ {self.target}: {why}")

    def name(self, kind: str) -> str:
        """An unused name."""
        return f"{kind}-{_RUN}-{next(_NUMBERS)}"

    async def topic(self, name: str | None = None, *, kind: str = "NORMAL", queues: int = 1) -> str:
        """A new topic."""
        name = name or self.name("topic")
        if self._real is None:
            await self.fake.create_topic(name, type=kind, queues=queues)
        else:
            async with Admin(f"namesrv://{self._real.namesrv}") as admin:
                await admin.create_topic(name, type=TopicType(kind), queues=queues)
        return name

    async def group(
        self,
        name: str | None = None,
        *,
        ordered: bool = False,
        max_attempts: int = 17,
        backoff: Sequence[float] = (),
    ) -> str:
        """A new group; `backoff` is the server's own when it is empty."""
        name = name or self.name("group")
        if self._real is None:
            await self.fake.create_group(name, ordered=ordered, max_attempts=max_attempts, backoff=backoff)
        else:
            async with Admin(f"namesrv://{self._real.namesrv}") as admin:
                await admin.create_group(
                    name, ordered=ordered, max_attempts=max_attempts, backoff=backoff or None
                )
        return name

    async def pass_time(self, seconds: float) -> None:
        """Let so much time pass at the server."""
        if self._real is None:
            await self.fake.clock.advance(seconds=seconds)
        else:
            await asyncio.sleep(seconds)

    async def hurry(self, seconds: float) -> None:
        """Let time pass where that costs none; a real server takes its own."""
        if self._real is None:
            await self.fake.clock.advance(seconds=seconds)

    async def restart(self) -> None:
        """Stop the server in good order and start it again."""
        await (self.fake if self._real is None else self._real).restart()

    async def crash(self) -> None:
        """Kill the server and start it again."""
        await self.kill()
        await self.start()

    async def kill(self) -> None:
        """Kill the server; return when it is gone."""
        await (self.fake.crash() if self._real is None else self._real.kill())

    async def start(self) -> None:
        """Start the server that was killed; return when it answers."""
        await (self.fake if self._real is None else self._real).start()


class Arrivals:
    """A handler that keeps what came, and lets one wait for it."""

    def __init__(self) -> None:
        self.messages: list[ReceivedMessage] = []
        self._news = asyncio.Event()

    async def __call__(self, message: ReceivedMessage) -> None:
        self.add(message)

    def add(self, *messages: ReceivedMessage) -> None:
        """Record what came in another way."""
        self.messages += messages
        self._news.set()

    @property
    def bodies(self) -> list[bytes]:
        """Of all messages, in the order of their arrival."""
        return [message.body for message in self.messages]

    async def contain(self, *bodies: bytes, patience: float = PATIENCE) -> None:
        """Wait until each of them has come."""
        wanted = set(bodies)
        async with asyncio.timeout(patience):
            while not wanted <= set(self.bodies):
                self._news.clear()
                await self._news.wait()


class HeldThreads(Executor):
    """An executor of one thread that starts work only when let go, and counts what it was given."""

    def __init__(self) -> None:
        self.given = 0
        self.was_given = asyncio.Event()
        self.go_on = threading.Event()
        self.is_busy = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(1)

    # Any: work of every kind, as of all executors
    def submit(self, function: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        """Keep the work until it is let go."""
        self.given += 1
        self.was_given.set()

        def work() -> Any:
            self._loop.call_soon_threadsafe(self.is_busy.set)
            assert self.go_on.wait(20)
            return function(*given, **named)

        return self._threads.submit(work)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the thread."""
        self._threads.shutdown(wait, cancel_futures=cancel_futures)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a list of versions that is none, instead of running nothing."""
    if not VERSIONS:
        raise pytest.UsageError('AIOROCKETMQ_REAL_VERSIONS is empty: name versions, such as "5.5.0 5.3.3"')


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what asks for a place on each server: profiles of the fake (`FAKES` of the module), versions of real ones."""
    if "target" in metafunc.fixturenames:
        fakes = getattr(metafunc.module, "FAKES", FAKES)
        real = [pytest.param(version, marks=pytest.mark.real) for version in VERSIONS]
        metafunc.parametrize("target", [*fakes, *real])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of each real server behind one another, so that it is started once."""

    def rank(item: pytest.Item) -> int:
        callspec = getattr(item, "callspec", None)
        target = callspec and callspec.params.get("target")
        return VERSIONS.index(target) + 1 if target in VERSIONS else 0

    items.sort(key=rank)


@pytest.fixture(scope="session")
def real_servers() -> Iterator[RealServers]:
    """Real servers for all tests of a run, one at a time."""
    with start_blocking_portal() as portal:
        servers = RealServers(portal)
        try:
            yield servers
        finally:
            servers.close()


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    """A fake broker on a real port, with the usual topic and group."""
    async with FakeBroker() as broker:
        await broker.create_topic("orders")
        await broker.create_group("billing")
        yield broker


@pytest.fixture
async def executor() -> AsyncIterator[HeldThreads]:
    """An executor that starts work only when let go."""
    executor = HeldThreads()
    yield executor
    executor.go_on.set()
    executor.shutdown()


LostLeases = Callable[[FakeBroker], AbstractAsyncContextManager[None]]


@pytest.fixture(scope="session")
def lost_leases() -> LostLeases:
    """Meanwhile, set a broker's clock forward to the end of each lease held for half a second.

    Only the server's time brings back what was given to a poll that crashed.
    """

    async def end(broker: FakeBroker) -> None:
        before: set[str] = set()
        while True:
            await asyncio.sleep(0.5)
            held = {lease.receipt_handle: lease.ends_at for lease in broker.leases()}
            if lost := before & held.keys():
                broker.clock.jump(max(held[handle] for handle in lost) - broker.clock.now() + 0.01)
            before = set(held)

    @asynccontextmanager
    async def ended(broker: FakeBroker) -> AsyncIterator[None]:
        ending = asyncio.create_task(end(broker))
        try:
            yield
        finally:
            ending.cancel()
            await asyncio.wait([ending])

    return ended


OpenPlace = Callable[..., AbstractAsyncContextManager[Place]]


@pytest.fixture
def open_place(request: pytest.FixtureRequest, target: str) -> OpenPlace:
    """Make a place on that server; keywords are those of a FakeBroker. Any: they are of several types."""

    @asynccontextmanager
    async def opened(**options: Any) -> AsyncIterator[Place]:
        async with AsyncExitStack() as stack:
            if target in VERSIONS:
                if MISSING:
                    pytest.skip(f"a real Apache server needs {' and '.join(MISSING)} on the search path")
                servers: RealServers = request.getfixturevalue("real_servers")
                yield Place(target, None, await asyncio.to_thread(servers, target))
            else:
                # As the real ones here.
                profile = replace(PROFILES[target], recall_enabled=True)
                fake = await stack.enter_async_context(
                    FakeBroker(profile=profile, remoting_port=0, **options)
                )
                yield Place(target, fake, None)

    return opened


@pytest.fixture
def arrivals() -> Arrivals:
    """A handler that keeps what came."""
    return Arrivals()


@pytest.fixture
async def place(open_place: OpenPlace) -> AsyncIterator[Place]:
    """A place where time passes as it does."""
    async with open_place() as place:
        yield place
