"""A server for the live lessons: the fake as Apache's 5.5, and a real 5.5.0 (marker `real`)."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest
from aiorocketmq.admin import Admin, TopicType
from aiorocketmq_conformance.apache.server import ApacheServer
from aiorocketmq_fake import FakeBroker
from anyio.from_thread import start_blocking_portal

_NUMBERS = itertools.count()


@dataclass(frozen=True)
class RealAddresses:
    """Where a real server listens."""

    grpc: str
    namesrv: str


class Server:
    """What the lessons need of a server; names are fresh ones."""

    def __init__(self, fake: FakeBroker | None, real: RealAddresses | None) -> None:
        self._fake = fake
        self._real = real
        self._prefix = f"lesson-{int(time.time() * 1000):x}"

    @property
    def endpoint(self) -> str:
        """Where clients connect."""
        if self._fake is not None:
            return self._fake.endpoint
        assert self._real is not None
        return self._real.grpc

    def name(self, kind: str) -> str:
        """A name that nobody has used."""
        return f"{self._prefix}-{kind}-{next(_NUMBERS)}"

    async def topic(self, name: str | None = None, *, fifo: bool = False) -> str:
        """A new topic of one queue."""
        name = name or self.name("topic")
        if self._fake is not None:
            await self._fake.create_topic(name, type="FIFO" if fifo else "NORMAL", queues=1)
            return name
        assert self._real is not None
        async with Admin(f"namesrv://{self._real.namesrv}") as admin:
            await admin.create_topic(name, type=TopicType.FIFO if fifo else TopicType.NORMAL, queues=1)
        return name

    async def group(self, *, ordered: bool = False, max_attempts: int = 17) -> str:
        """A new group."""
        name = self.name("group")
        if self._fake is not None:
            await self._fake.create_group(name, ordered=ordered, max_attempts=max_attempts)
            return name
        assert self._real is not None
        async with Admin(f"namesrv://{self._real.namesrv}") as admin:
            await admin.create_group(name, ordered=ordered, max_attempts=max_attempts)
        return name

    async def pass_time(self, seconds: float) -> None:
        """Let so much time pass at the server."""
        if self._fake is not None:
            await self._fake.clock.advance(seconds=seconds)
        else:
            await asyncio.sleep(seconds)


@pytest.fixture(scope="session", name="real_addresses")
def _real_addresses() -> Iterator[RealAddresses]:
    """One real server for all lessons; a running one where AIOROCKETMQ_REAL_SERVER is GRPC,NAMESRV."""
    running = os.environ.get("AIOROCKETMQ_REAL_SERVER")
    if running:
        grpc, _, namesrv = running.partition(",")
        yield RealAddresses(grpc, namesrv)
        return
    missing = [program for program in ("java", "mvn") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"a real Apache server needs {' and '.join(missing)} on the search path")
    server = ApacheServer("5.5.0")
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(server):
        yield RealAddresses(server.grpc, server.namesrv)


@pytest.fixture(params=["apache-5.5", pytest.param("real", marks=pytest.mark.real)])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    """The server of a lesson."""
    if request.param == "real":
        yield Server(None, request.getfixturevalue("real_addresses"))
        return
    async with FakeBroker(profile=request.param, clock="manual") as broker:
        yield Server(broker, None)
