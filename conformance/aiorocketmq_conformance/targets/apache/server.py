"""One Apache RocketMQ server with a fresh store, started and stopped with its run."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from aiorocketmq.admin import Admin
from aiorocketmq.config import Credentials
from aiorocketmq.errors import UnreachableError
from aiorocketmq_fake.testcontainers.apache import LOOPBACK, Ports, programs

from aiorocketmq_conformance.targets.apache.jars import fetch_jars, find_java, has_proxy
from aiorocketmq_conformance.targets.apache.layout import free_ports, write_configuration
from aiorocketmq_conformance.targets.apache.process import ServerProcess
from aiorocketmq_conformance.targets.apache.unavailable import ApacheUnavailableError

# Seconds that processes have to exit. Those whose store is deleted have nothing to flush.
_GRACE, _NO_GRACE = 5.0, 0.2
_LOOK_EVERY = 0.1
# A separate proxy exits at start if its broker, on a busy machine, takes more than three seconds for a response.
_STARTS = 3


class ApacheServer:
    """A name server and a broker with its proxy on free ports of this machine, as an `async with` block.

    Entering takes about 6 s on two cores (more the first time: see `fetch_jars`) and raises
    ApacheUnavailableError if Java or Maven is missing, the version is unavailable, or a process is not ready
    within `start_timeout` seconds. The processes end with the block, and if this Python process dies in any other
    way. The server listens on all interfaces (its gRPC port has no bind address): keep it short-lived.
    """

    def __init__(
        self,
        version: str,
        *,
        mode: str = "local",
        start_timeout: float = 120.0,
        settings: Mapping[str, str] | None = None,
        proxy_settings: Mapping[str, object] | None = None,
        administrator: Credentials | None = None,
        directory: Path | None = None,
    ) -> None:
        """Prepare a server of `version`; `mode` is `local` or `cluster` (ignored by 4.x, which has no proxy).

        `settings` are further lines of broker.conf, `proxy_settings` further entries of the proxy's JSON;
        `administrator` is a super user if these enable authentication. `directory` is kept for logs and
        store; without it they live in a temporary one.
        """
        if mode not in {"local", "cluster"}:
            raise ValueError(f"mode must be local or cluster, got {mode!r}")
        self.version = version
        self.mode = mode if has_proxy(version) else "broker"
        self._start_timeout = start_timeout
        self._settings = settings or {}
        self._proxy_settings = proxy_settings or {}
        self._administrator = administrator
        self._directory = directory
        self._ports: Ports | None = None
        self._processes: dict[str, ServerProcess] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        java = find_java()
        jars = await fetch_jars(self.version)
        async with AsyncExitStack() as stack:
            home = self._directory or Path(tempfile.mkdtemp(prefix="aiorocketmq-apache-"))
            if self._directory is None:
                stack.callback(shutil.rmtree, home, ignore_errors=True)
            self._ports = free_ports(random.Random())
            write_configuration(home, self._ports, self._settings, self._proxy_settings)
            for program in programs(java, jars, home, self._ports, mode=self.mode):
                process = ServerProcess(program, home, grace=self._grace)
                self._processes[program.name] = process
                stack.push_async_callback(process.end)
                await self._begin(process)
            await self._registered()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def restart(self) -> None:
        """Restart the broker gracefully: same ports, same store; the name server keeps running.

        A proxy in the broker's process is restarted, too. Takes 10 to 20 s on two idle cores. Raises
        ApacheUnavailableError if it does not start.
        """
        await self.stop()
        await self.start()

    async def stop(self) -> None:
        """Stop the broker gracefully."""
        await self._broker_process.finish(timeout=self._start_timeout)

    async def start(self) -> None:
        """Start a broker that was stopped or killed; ApacheUnavailableError if it does not start."""
        await self._begin(self._broker_process)
        await self._registered()

    @asynccontextmanager
    async def another_proxy(self) -> AsyncIterator[str]:
        """Run a second proxy of the broker for the duration of the block; yields `host:port` of its gRPC service.

        ApacheUnavailableError if it does not start, or in a mode without a separate proxy.
        """
        if self.mode != "cluster":
            raise ApacheUnavailableError(
                f"Apache RocketMQ {self.version} has no separate proxy in mode {self.mode}."
            )
        own = free_ports(random.Random())
        ports = replace(self._started, grpc=own.grpc, remoting=own.remoting)
        with tempfile.TemporaryDirectory(
            prefix="aiorocketmq-apache-", ignore_cleanup_errors=True
        ) as directory:
            home = Path(directory)
            write_configuration(home, ports, self._settings, self._proxy_settings)
            *_, program = programs(find_java(), await fetch_jars(self.version), home, ports, mode=self.mode)
            process = ServerProcess(program, home, grace=_NO_GRACE)
            try:
                await self._begin(process)
                yield f"{LOOPBACK}:{ports.grpc}"
            finally:
                await process.end()

    @asynccontextmanager
    async def replica(self, settings: Mapping[str, str] | None = None) -> AsyncIterator[str]:
        """Run a replica of the broker for the duration of the block; yields `host:port` of its classic port.

        It replicates messages at once, and topics, groups and offsets every 10 s. `settings` are further lines of
        its broker.conf. ApacheUnavailableError if it does not start.
        """
        ports = replace(free_ports(random.Random()), namesrv=self._started.namesrv)
        with tempfile.TemporaryDirectory(
            prefix="aiorocketmq-apache-", ignore_cleanup_errors=True
        ) as directory:
            home = Path(directory)
            write_configuration(
                home, ports, {**self._settings, "brokerId": "1", "brokerRole": "SLAVE", **(settings or {})}
            )
            _, program = programs(find_java(), await fetch_jars(self.version), home, ports, mode="broker")
            process = ServerProcess(program, home, grace=_NO_GRACE)
            try:
                await self._begin(process)
                yield f"{LOOPBACK}:{ports.broker}"
            finally:
                await process.end()

    async def kill(self) -> None:
        """Kill the broker as kill -9 does."""
        await self._broker_process.kill()

    def pause(self) -> None:
        """Pause the broker, as SIGSTOP does."""
        self._broker_process.pause()

    def resume(self) -> None:
        """Resume it."""
        self._broker_process.resume()

    @property
    def _broker_process(self) -> ServerProcess:
        return self._processes["proxy" if self.mode == "local" else "broker"]

    @property
    def grpc(self) -> str:
        """`host:port` of the proxy's gRPC service; ApacheUnavailableError for 4.x servers, which have none."""
        if self.mode == "broker":
            raise ApacheUnavailableError(
                f"Apache RocketMQ {self.version} has no gRPC service: use a 5.x version."
            )
        return f"{LOOPBACK}:{self._started.grpc}"

    @property
    def namesrv(self) -> str:
        """`host:port` of the name server."""
        return f"{LOOPBACK}:{self._started.namesrv}"

    @property
    def broker(self) -> str:
        """`host:port` of the broker's classic port."""
        return f"{LOOPBACK}:{self._started.broker}"

    async def _begin(self, process: ServerProcess) -> None:
        for left in reversed(range(_STARTS)):
            try:
                await process.start(timeout=self._start_timeout)
            except ApacheUnavailableError as error:
                if left == 0 or not process.has_ended:
                    raise ApacheUnavailableError(f"Apache RocketMQ {self.version}: {error}") from error
                await process.end()
            else:
                return

    async def _registered(self) -> None:
        """Wait until the name server knows the broker, which reports that it is ready a moment before."""
        try:
            async with asyncio.timeout(self._start_timeout):
                while True:
                    try:
                        async with Admin(f"namesrv://{self.namesrv}", credentials=self._administrator):
                            return
                    except UnreachableError:
                        await asyncio.sleep(_LOOK_EVERY)
        except TimeoutError:
            raise ApacheUnavailableError(
                f"the broker of Apache RocketMQ {self.version} did not register with its name server "
                f"within {self._start_timeout:g} s"
            ) from None

    @property
    def _grace(self) -> float:
        return _NO_GRACE if self._directory is None else _GRACE

    @property
    def _started(self) -> Ports:
        if self._ports is None:
            raise RuntimeError("the server has no addresses outside of `async with`")
        return self._ports
