"""A broker in a container of an image: a real server or the fake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from aiorocketmq_fake.testcontainers.container import ServerContainer, image_variables
from aiorocketmq_fake.testcontainers.errors import ContainerError
from aiorocketmq_fake.testcontainers.fake_server import FakeRocketMQContainer
from aiorocketmq_fake.testcontainers.real_server import RocketMQContainer

from aiorocketmq_conformance.case import Case
from aiorocketmq_conformance.declaration import Declaration
from aiorocketmq_conformance.target import Target
from aiorocketmq_conformance.targets.address import JOBS, AddressBroker
from aiorocketmq_conformance.targets.declarations import ABILITIES, PREPARATION
from aiorocketmq_conformance.targets.interface import TargetUnavailableError


class DockerBroker:
    """The server in `image`, for one run: Apache RocketMQ of that version, or without a version the fake."""

    def __init__(
        self, image: str, version: str | None, *, declaration: Declaration, record: Path | None = None
    ) -> None:
        """Prepare; `record` is a folder for recordings of the suite's clients."""
        self.spec = f"docker:{image}"
        self.deviations = f"apache-{version}" if version else ""
        # As at any address, nobody restarts the server or moves its clock.
        capabilities = declaration.capabilities - ABILITIES - {"@proxies"}
        self.declaration = replace(declaration, capabilities=capabilities | PREPARATION | {"remoting"})
        self.jobs = JOBS
        self.is_virtual = False
        self._image = image
        self._is_fake = version is None
        self._record = record
        self._broker: AddressBroker | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            try:
                container = self._container()
                await asyncio.to_thread(container.start)
            except ContainerError as error:
                raise TargetUnavailableError(str(error)) from error
            stack.callback(container.stop)
            self._broker = await stack.enter_async_context(
                AddressBroker(
                    container.endpoint,
                    declaration=self.declaration,
                    namesrv=container.namesrv,
                    record=self._record,
                )
            )
            self._stack = stack.pop_all()
        return self

    def _container(self) -> ServerContainer:
        return FakeRocketMQContainer(self._image) if self._is_fake else RocketMQContainer(self._image)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @asynccontextmanager
    async def open(self, case: Case) -> AsyncIterator[Target]:
        """Return the view of the server at its published address."""
        assert self._broker is not None, "open() outside of `async with`"
        async with self._broker.open(case) as target:
            yield target

    def place(self, case: Case) -> str:
        """Return the same place for all cases."""
        return ""

    def real_seconds(self, case: Case) -> float:
        """Return the case's timeout: its clock is the real one."""
        return case.timeout


def apache_version(image: str) -> str | None:
    """Return the version of Apache RocketMQ in `image`, None if it is none of Apache's; TargetUnavailableError."""
    try:
        return image_variables(image).get("ROCKETMQ_VERSION")
    except ContainerError as error:
        raise TargetUnavailableError(str(error)) from error
