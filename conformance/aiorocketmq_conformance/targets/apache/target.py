"""Real Apache servers on this machine, started for the run and ended with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from aiorocketmq_conformance.case import Case
from aiorocketmq_conformance.declaration import Declaration
from aiorocketmq_conformance.probe.clock import RealClock
from aiorocketmq_conformance.target import Access, Target, TopicAdmin
from aiorocketmq_conformance.targets.address import JOBS
from aiorocketmq_conformance.targets.apache.jars import has_proxy
from aiorocketmq_conformance.targets.apache.retention import RetentionAdmin
from aiorocketmq_conformance.targets.apache.server import ApacheServer
from aiorocketmq_conformance.targets.apache.setups import AS_SHIPPED, Setup, setups
from aiorocketmq_conformance.targets.apache.unavailable import ApacheUnavailableError
from aiorocketmq_conformance.targets.declarations import PREPARATION
from aiorocketmq_conformance.targets.interface import TargetUnavailableError
from aiorocketmq_conformance.targets.readiness import STARTING, wait_until_ready
from aiorocketmq_conformance.targets.recordings import RecordFault, Recordings
from aiorocketmq_conformance.targets.remoting_admin import RemotingAccess, RemotingAdmin, open_admin
from aiorocketmq_conformance.targets.shared_restart import SharedRestart


@dataclass(frozen=True, slots=True)
class _Running:
    """A running server, and how its cases use it."""

    server: ApacheServer
    endpoint: str
    declaration: Declaration
    admin: TopicAdmin
    restart: SharedRestart
    access: Access | None


class ApacheBroker:
    """Apache RocketMQ `version` with a fresh store.

    Most cases share a server as shipped. Those that need what is disabled there, users, or restarts get servers
    of the same version that are configured for it, each started for its first case.
    """

    def __init__(
        self, version: str, *, mode: str, declaration: Declaration, record: Path | None = None
    ) -> None:
        """Prepare; `record` is a folder for recordings of the suite's clients."""
        suffix = ":cluster" if mode == "cluster" else ""
        self.spec = f"apache:{version}{suffix}"
        self.deviations = self.spec.replace(":", "-")
        self.jobs = JOBS
        self.is_virtual = False
        self._version = version
        self._mode = mode
        self._recordings = Recordings(record)
        self._setups = setups(version, mode)
        self._shipped = declaration.having(PREPARATION | {"remoting"})
        if mode == "cluster":
            self._shipped = self._shipped.having(frozenset({"@proxies"}))
        self.declaration = self._shipped.having(self._setups.serves)
        self._running: dict[str, _Running | TargetUnavailableError] = {}
        # One at a time: starting a server uses all of a small machine.
        self._starting = asyncio.Lock()
        # Deletion affects messages of other cases.
        self._trimming = asyncio.Lock()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._server(AS_SHIPPED)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @asynccontextmanager
    async def open(self, case: Case) -> AsyncIterator[Target]:
        """Return a view with real time on the server that is configured for the case."""
        server = await self._server(self._setups.of(case.needs))
        clock = RealClock()
        target = Target(
            server.endpoint,
            server.declaration,
            clock,
            server.admin,
            access=server.access,
            name_server=server.server.namesrv,
        )
        async with AsyncExitStack() as stack:
            if "@trim" in case.needs:
                await stack.enter_async_context(self._trimming)
            record_fault = await stack.enter_async_context(
                self._recordings.of(case, clock, self.declaration.order_grain)
            )
            if "@proxies" in case.needs:
                target.second_proxy = await stack.enter_async_context(_another_proxy(server.server))
            if "@restart" in case.needs:
                await stack.enter_async_context(server.restart.party())
                target.process_control = _Process(server.server, server.restart.restart, record_fault)
            elif "@process" in case.needs:
                target.process_control = _Process(server.server, server.server.restart, record_fault)
            yield target

    async def _server(self, setup: Setup) -> _Running:
        """Return the running server of that configuration; TargetUnavailableError, each time, if it did not start."""
        async with self._starting:
            if setup.name not in self._running:
                try:
                    self._running[setup.name] = await self._start(setup)
                except TargetUnavailableError as error:
                    self._running[setup.name] = error
        running = self._running[setup.name]
        if isinstance(running, TargetUnavailableError):
            raise TargetUnavailableError(str(running))
        return running

    async def _start(self, setup: Setup) -> _Running:
        server = ApacheServer(
            self._version,
            mode=self._mode,
            settings=setup.broker,
            proxy_settings=setup.proxy,
            administrator=setup.administrator,
        )

        async def restart() -> None:
            await server.restart()
            await _answers(server)

        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(server)
                endpoint = _endpoint(server)
            except ApacheUnavailableError as error:
                raise TargetUnavailableError(str(error)) from error
            await _answers(server)
            admin = await stack.enter_async_context(open_admin(server.namesrv, setup.administrator))
            topic_admin = RemotingAdmin(admin)
            if "@trim" in setup.serves:
                topic_admin = RetentionAdmin(admin, server.namesrv, server.broker)
            self._stack.push_async_exit(stack.pop_all())
        return _Running(
            server,
            endpoint,
            self._shipped.having(setup.serves),
            topic_admin,
            SharedRestart(restart),
            RemotingAccess(admin) if setup.administrator else None,
        )

    def place(self, case: Case) -> str:
        """Return the name of the configuration that the case needs."""
        return self._setups.of(case.needs).name

    def real_seconds(self, case: Case) -> float:
        """Return the case's timeout: its clock is the real one."""
        return case.timeout


def _endpoint(server: ApacheServer) -> str:
    """Return its gRPC service; empty for a server that has none."""
    return server.grpc if has_proxy(server.version) else ""


async def _answers(server: ApacheServer) -> None:
    """Wait until its gRPC service answers; not at all if there is none, as the broker is registered at its name
    server."""
    if endpoint := _endpoint(server):
        await wait_until_ready(endpoint, patience=STARTING)


@asynccontextmanager
async def _another_proxy(server: ApacheServer) -> AsyncIterator[str]:
    async with AsyncExitStack() as stack:
        try:
            endpoint = await stack.enter_async_context(server.another_proxy())
        except ApacheUnavailableError as error:
            raise TargetUnavailableError(str(error)) from error
        await wait_until_ready(endpoint, patience=STARTING)
        yield endpoint


class _Process:
    """Faults of the server: restarts are shared, others are done by one case at a time."""

    def __init__(
        self, server: ApacheServer, restart: Callable[[], Awaitable[None]], record_fault: RecordFault
    ) -> None:
        self._server = server
        self._restart = restart
        self._record_fault = record_fault

    async def restart(self) -> None:
        with self._record_fault("restart"):
            await self._restart()

    async def down(self, seconds: float) -> None:
        with self._record_fault("restart"):
            await self._server.stop()
            await asyncio.sleep(seconds)
            await self._start()

    async def kill(self, seconds: float = 0.0) -> None:
        with self._record_fault("crash"):
            await self._server.kill()
            await asyncio.sleep(seconds)
            await self._start()

    async def pause(self, seconds: float) -> None:
        with self._record_fault("pause"):
            self._server.pause()
            try:
                await asyncio.sleep(seconds)
            finally:
                self._server.resume()

    async def _start(self) -> None:
        await self._server.start()
        await _answers(self._server)
