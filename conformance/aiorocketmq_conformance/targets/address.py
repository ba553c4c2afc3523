"""A running broker at an address."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from aiorocketmq_conformance.case import Case
from aiorocketmq_conformance.declaration import Declaration
from aiorocketmq_conformance.probe.clock import RealClock
from aiorocketmq_conformance.target import Target, TopicAdmin
from aiorocketmq_conformance.targets.declarations import AT_FIRST_USE, PREPARATION
from aiorocketmq_conformance.targets.readiness import wait_until_ready
from aiorocketmq_conformance.targets.recordings import Recordings
from aiorocketmq_conformance.targets.remoting_admin import remoting_admin

JOBS = 24


class AddressBroker:
    """The broker at `endpoint`.

    Topics and groups are created through the name server at `namesrv` (or by the broker itself at
    `broker://host:port`), through the control service of a fake at `control`, or at first use if it creates them
    then.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        declaration: Declaration,
        namesrv: str | None = None,
        control: str | None = None,
        creates_topics: bool = False,
        record: Path | None = None,
    ) -> None:
        """Prepare; `record` is a folder for recordings of the suite's clients."""
        abilities = (
            PREPARATION if namesrv or control else AT_FIRST_USE if creates_topics else frozenset[str]()
        )
        self.spec = endpoint
        self.deviations = ""
        # Classic clients query routes at a name server.
        self._name_server = None
        if namesrv and not namesrv.startswith("broker://"):
            self._name_server = namesrv.removeprefix("namesrv://")
        if creates_topics:
            declaration = replace(declaration, numbers={**declaration.numbers, "send.unknown-topic": "OK"})
        self.declaration = declaration.having(abilities | {"remoting"} if self._name_server else abilities)
        self.jobs = JOBS
        self.is_virtual = False
        self._endpoint = endpoint
        self._namesrv = namesrv
        self._control = control
        self._creates_topics = creates_topics
        self._recordings = Recordings(record)
        self._admin: TopicAdmin | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await wait_until_ready(self._endpoint)
        self._admin = await self._stack.enter_async_context(self._prepared())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _prepared(self) -> AbstractAsyncContextManager[TopicAdmin]:
        if self._control is None:
            return remoting_admin(self._namesrv)
        from aiorocketmq_conformance.targets.fake_admin import control_admin

        return control_admin(self._control)

    @asynccontextmanager
    async def open(self, case: Case) -> AsyncIterator[Target]:
        """Return a view with real time; topics and groups of the case stay on the broker, under unique names."""
        assert self._admin is not None, "open() outside of `async with`"
        clock = RealClock()
        async with self._recordings.of(case, clock, self.declaration.order_grain):
            target = Target(
                self._endpoint, self.declaration, clock, self._admin, name_server=self._name_server
            )
            if self._creates_topics:
                from aiorocketmq_conformance.targets.first_use import FirstUse

                target.admin = FirstUse(target)
            yield target

    def place(self, case: Case) -> str:
        """Return the same place for all cases."""
        return ""

    def real_seconds(self, case: Case) -> float:
        """Return the case's timeout: its clock is the real one."""
        return case.timeout
