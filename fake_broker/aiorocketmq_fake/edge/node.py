"""One broker with its ports: starting and stopping, cutting it off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from types import TracebackType
from typing import TypeAlias

import grpc

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.edge.address import Address
from aiorocketmq_fake.edge.broker_clock import BrokerClock
from aiorocketmq_fake.edge.clock import Clock
from aiorocketmq_fake.edge.data_plane import messaging_service
from aiorocketmq_fake.edge.driver import CommandLog, Driver
from aiorocketmq_fake.edge.endpoint import join
from aiorocketmq_fake.edge.events import Events
from aiorocketmq_fake.edge.faults import Faults
from aiorocketmq_fake.edge.grpc_server import GrpcServer
from aiorocketmq_fake.edge.memory_port import Port
from aiorocketmq_fake.edge.operations import Operations
from aiorocketmq_fake.edge.peers import PeerBroker, PeerBrokers
from aiorocketmq_fake.edge.remoting.server import RemotingServer
from aiorocketmq_fake.edge.remoting.service import Service
from aiorocketmq_fake.edge.telemetry import Telemetry
from aiorocketmq_fake.edge.tls import ServerTls

__all__ = ["MakePort", "Node"]

MakePort: TypeAlias = Callable[[tuple[grpc.GenericRpcHandler, ...], ServerTls | None], Port]

# How long a graceful stop waits for calls to end, in real seconds.
STOPPING = 1.0
# A name server drops a broker after so many seconds without heartbeats.
UNNOTICED = 120.0


class Partition(AbstractContextManager[None]):
    """A partition or pause of a broker, until the block is left."""

    def __init__(self, heal: Callable[[], None]) -> None:
        self._heal = heal

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._heal()


class Node(Operations):
    """A core behind a port. Inspection and faults are plain calls; what changes the broker is awaited."""

    def __init__(
        self,
        core: Broker,
        clock: Clock,
        address: Address,
        tls: ServerTls | None,
        journal: CommandLog | None = None,
        leader: Node | None = None,
        seed: int = 0,
        remoting: Address | None = None,
        make_port: MakePort = GrpcServer,
    ) -> None:
        """Make a broker; with `leader`, one of its cluster that shares its clock.

        With `remoting` it serves the classic protocol at that address. `make_port` makes its gRPC ports.
        """
        self.name = core.name
        """Its name in routes and receipt handles."""
        self.profile = core.profile
        """How this broker behaves where documents and servers differ."""
        self.faults = Faults(seed)
        """Scripted faults: `with broker.faults.drop_reply("AckMessage", times=1): ...`."""
        self.events = Events()
        """The event stream."""
        self.tls = tls
        """The certificate of its ports; None for plain ones."""
        self._core = core
        self._address = address
        self._driver = Driver(core, clock, self.events, journal)
        self._drivers = (self._driver,)
        self._telemetry = Telemetry(self._driver, self.faults, address)
        self.clock: BrokerClock = BrokerClock() if leader is None else leader.clock
        """The broker's clock; a manual one is moved here."""
        self.clock.add(self._driver, self._telemetry)
        self._peers: PeerBrokers = PeerBrokers() if leader is None else leader._peers
        self._peers.join(PeerBroker(self._driver, address, self._is_listed, remoting))
        self._gone_at: float | None = None
        self.rebooted: Callable[[], object] = lambda: None
        """Called on every start."""
        self._service = messaging_service(self._driver, self.faults, self._telemetry, address, self._peers)
        self._make_port = make_port
        self._server = make_port((self._service,), tls)
        self._remoting_address = remoting
        self._remoting: RemotingServer | None = None
        if remoting is not None:
            service = Service(self._driver, self.faults, remoting, self._peers)
            self._remoting = RemotingServer(self._driver, service, tls)

    # Endpoints

    @property
    def endpoint(self) -> str:
        """`host:port` for clients; the port stays the same over `restart`."""
        return self._address.endpoint

    @property
    def remoting_endpoint(self) -> str | None:
        """`host:port` of the classic protocol, where clients connect with `namesrv://host:port`; None without one.

        The port is a name server and a broker in one, and stays the same over `restart`."""
        return self._remoting_address.endpoint if self._remoting_address is not None else None

    @property
    def is_running(self) -> bool:
        """Whether the port accepts calls."""
        return self._server.is_open

    @asynccontextmanager
    async def another_proxy(self) -> AsyncIterator[str]:
        """Serve this broker on a second port, as a second proxy does, until the block is left; yields `host:port`.

        Routes keep naming the first one; both share the state of clients.
        """
        server = self._make_port((self._service,), self.tls)
        port = await server.open(self._address.host, 0)
        try:
            yield join(self._address.host, port)
        finally:
            await server.close()

    # Stopping and starting

    async def start(self) -> None:
        """Listen (again, on the same port) with all stored data; clients must register again (R12.7)."""
        if self.is_running:
            return
        self._driver.begin()
        self._address.port = await self._server.open(self._address.host, self._address.port)
        self._core.port = self._address.port
        if self._remoting is not None and self._remoting_address is not None:
            there = self._remoting_address
            try:
                there.port = await self._remoting.open(there.host, there.port)
            except OSError:
                await self._server.close()
                raise
        self._gone_at = None
        self.rebooted()
        self._driver.reach(self._driver.clock.now())

    async def stop(self) -> None:
        """Stop gracefully: calls are finished, parked polls answered empty, telemetry streams ended.

        Calls that take longer than a second are aborted. Stored data is kept.
        """
        if self.is_running:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._server.close(STOPPING))
                if self._remoting is not None:
                    tasks.create_task(self._remoting.close(STOPPING))
                # Once the port accepts no new calls, clients cannot poll or open streams again.
                await asyncio.sleep(0)
                self._driver.end_polls()
                self._telemetry.cut(text="the fake broker is stopped")
        self._forget()

    async def crash(self) -> None:
        """Close the port at once, in the middle of calls. Stored data is kept."""
        if self.is_running:
            self._gone_at = self.clock.now()
        await self._server.close()
        if self._remoting is not None:
            await self._remoting.close()
        self._forget()

    async def restart(self) -> None:
        """Stop and start again: same port, stored state kept, settings and streams of clients lost (R12.7)."""
        await self.stop()
        await self.start()

    # Partitions and pauses

    @property
    def is_partitioned(self) -> bool:
        """Whether it is partitioned from all its clients."""
        return self._driver.gate.is_shut

    def partition(self) -> Partition:
        """Cut the broker off from all its clients: calls and frames hang on both sides, without an error.

        Routes keep naming it, and its clock runs. `heal()` ends that, as does leaving `with broker.partition():`.
        Calls that have not timed out until then succeed, as the network retransmits. Pings of a connection are
        answered all the time.
        """
        self._driver.gate.shut()
        return Partition(self.heal)

    def heal(self) -> None:
        """End a partition; without one, nothing happens."""
        self._driver.gate.open()

    @property
    def is_paused(self) -> bool:
        """Whether it is paused."""
        return self._driver.frozen

    def pause(self) -> Partition:
        """Pause the broker like a process after SIGSTOP: partitioned, and no timer fires.

        `resume()` ends that, as does leaving `with broker.pause():`; timers that became due fire then, once.
        """
        self._driver.frozen = True
        self.partition()
        return Partition(self.resume)

    def resume(self) -> None:
        """End a pause; without one, nothing happens."""
        if self._driver.frozen:
            try:
                self._driver.leap(self.clock.now())
            finally:
                self.heal()

    def _is_listed(self) -> bool:
        """Return whether it is in routes: while it runs, and for a while after a crash."""
        if self._gone_at is not None:
            return self.clock.now() < self._gone_at + UNNOTICED
        return self.is_running

    def _forget(self) -> None:
        """Drop the state of the proxy (R12.7)."""
        polling = self._driver.polling()
        self._driver.run(self._core.restart)
        self._driver.parked.forget(polling)
        self._driver.stop()
