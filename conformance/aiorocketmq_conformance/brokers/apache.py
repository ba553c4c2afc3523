"""A real Apache server of this machine, started for the run and ended with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from types import TracebackType
from typing import Self

from aiorocketmq_conformance.apache.server import ApacheServer
from aiorocketmq_conformance.apache.unavailable import ApacheUnavailable
from aiorocketmq_conformance.brokers.address import JOBS, AddressBroker
from aiorocketmq_conformance.brokers.greeting import greet
from aiorocketmq_conformance.brokers.interface import TargetUnavailable
from aiorocketmq_conformance.brokers.shared_restart import SharedRestart
from aiorocketmq_conformance.declaration import Declaration
from aiorocketmq_conformance.registry import Case
from aiorocketmq_conformance.target import Target

GREETINGS = 6
"""On a busy machine a proxy that calls itself ready may need a minute for its first answer."""


class ApacheBroker:
    """Apache RocketMQ `version` with a fresh store."""

    def __init__(self, version: str, *, mode: str, declaration: Declaration) -> None:
        suffix = ":cluster" if mode == "cluster" else ""
        self.spec = f"apache:{version}{suffix}"
        self.deviations = self.spec.replace(":", "-")
        self.declaration = declaration
        self.jobs = JOBS
        self._server = ApacheServer(version, mode=mode)
        self._inner: AddressBroker | None = None
        self._restart = SharedRestart(self._restart_server)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._server)
                endpoint = self._server.grpc
            except ApacheUnavailable as error:
                raise TargetUnavailable(str(error)) from error
            broker = AddressBroker(
                endpoint,
                declaration=self.declaration,
                namesrv=self._server.namesrv,
                greetings=GREETINGS,
            )
            self._inner = await stack.enter_async_context(broker)
            capabilities = broker.declaration.capabilities | {"@restart"}
            self.declaration = replace(broker.declaration, capabilities=capabilities)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @asynccontextmanager
    async def open(self, case: Case) -> AsyncIterator[Target]:
        """A view with real time on the one server of the run."""
        assert self._inner is not None, "open() outside of `async with`"
        async with AsyncExitStack() as stack:
            target = await stack.enter_async_context(self._inner.open(case))
            target.declaration = self.declaration
            if "@restart" in case.needs:
                await stack.enter_async_context(self._restart.party())
                target.disturbance = self._restart
            yield target

    async def _restart_server(self) -> None:
        await self._server.restart()
        await greet(self._server.grpc, attempts=GREETINGS)

    def real_seconds(self, case: Case) -> float:
        """The case's own timeout: its clock is the real one."""
        return case.timeout
