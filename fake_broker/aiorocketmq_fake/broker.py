"""`FakeBroker`: a RocketMQ broker on a real port of this process, for tests."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from anyio.from_thread import BlockingPortal, start_blocking_portal

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.commands.access import User
from aiorocketmq_fake.core.values.profile import Profile
from aiorocketmq_fake.core.values.profiles import PROFILES
from aiorocketmq_fake.edge.address import Address
from aiorocketmq_fake.edge.clock import Clock, ManualClock, RealClock
from aiorocketmq_fake.edge.cluster import Cluster
from aiorocketmq_fake.edge.endpoint import split
from aiorocketmq_fake.edge.event_lines import EventLog
from aiorocketmq_fake.edge.grpc_server import GrpcServer
from aiorocketmq_fake.edge.node import MakePort, Node
from aiorocketmq_fake.edge.tls import ServerTls
from aiorocketmq_fake.settings import Value, with_settings

if TYPE_CHECKING:
    from aiorocketmq_fake.edge.storage.journal import Journal

__all__ = ["FakeBroker"]

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class _Persistence:
    """Where and how brokers persist their data."""

    folder: Path
    memory: int
    """Bytes for the stored messages of one broker."""
    repair: bool


def _profile(given: str | Profile, clock: str) -> Profile:
    """Return the profile of that name or value; ValueError for an unknown name."""
    if isinstance(given, Profile):
        return given
    if given not in PROFILES:
        raise ValueError(f"profile must be one of {', '.join(sorted(PROFILES))}, got {given!r}")
    # A test that moves time expects deadlines without spread.
    return replace(PROFILES[given], revive_spread=0.0) if clock == "manual" else PROFILES[given]


class FakeBroker(Cluster):
    """A whole broker, fresh and empty, that real clients of any language can use.

    `async with FakeBroker() as broker:` listens on `broker.endpoint` until the block ends. It needs asyncio: its port
    lives on the event loop that entered the block. Inspection and faults are plain calls; what changes the broker is
    awaited, as it is with a broker elsewhere (`FakeBrokerClient`).

    `with FakeBroker() as broker:` is for synchronous code: the event loop runs in a thread of its own until the block
    ends. `broker.portal.call(broker.create_topic, "orders")` calls what changes the broker.
    """

    def __init__(
        self,
        *,
        profile: str | Profile = "documented",
        settings: Mapping[str, Value] | None = None,
        clock: Literal["real", "manual"] = "real",
        start: datetime | None = None,
        listen: str = "127.0.0.1:0",
        advertise: str | None = None,
        control: str | None = None,
        tls: ServerTls | None = None,
        users: Iterable[User] = (),
        rates: Mapping[str, float] | None = None,
        record: Path | str | None = None,
        event_log: Path | str | None = None,
        metrics: str | None = None,
        seed: int = 0,
        core: Callable[..., Broker] = Broker,
        data: Path | str | None = None,
        data_memory: int = 64 * 1024 * 1024,
        repair: bool = False,
        brokers: int = 1,
        remoting_port: int | None = None,
        make_port: MakePort = GrpcServer,
    ) -> None:
        """Prepare a broker; ValueError for an invalid value.

        `profile` chooses the behaviour by name or value, `settings` change it as an operator changes a server, by the
        server's names (`{"transactionCheckInterval": 5000}`) or ours (`{"check_interval": 5.0}`), see `aiorocketmq
        fake settings`; with `clock="manual"` time passes only by `clock.advance`, from `start` on (an aware datetime;
        by default the present). `listen` is HOST:PORT, port 0 picks a free one; `advertise` is the host in routes (a
        server's `brokerIP1`), by default the one listened on, or on a wildcard the one that each client used;
        `control` opens the control service as well. With `users` every call must be signed by one of them, those of
        the control service by one with all rights; without users, no call is authenticated. `rates` limits
        calls per second by RPC; others are refused as by a busy server. `record` names a folder for a
        recording, `event_log` a file to which every event is appended as a line of JSON; `metrics` is the
        HOST:PORT for Prometheus to scrape. `seed` is that of
        all random choices. `core` makes the core: one with a fault proves that a test detects it.

        `data` names a folder for everything a broker must not lose: nothing is acknowledged before it is on disk, and
        the next broker with this folder continues from there, even after kill -9. `data_memory` bounds the memory of
        stored messages in bytes. `repair` keeps what can be read of a damaged folder. OSError if the folder cannot be
        used: another broker has it open (`DataInUseError`), it is damaged (`DamagedDataError`), or was written under
        another profile or version (`ForeignDataError`).

        `brokers` is the number of brokers of a cluster, each on its own port and all in one route:
        `brokers[1].crash()`, `broker("broker-b").partition()`. Topics, groups, offsets, the clock and inspection of
        this object are about all of them, everything else about `broker-a`.

        `remoting_port` opens a port for the classic remoting protocol on the host of `listen`, 0 picks a free one: a
        name server and a broker in one, for clients at `namesrv://` + `remoting_endpoint`. Every broker of a cluster
        has one. `tls` and `users` apply to it as well.

        `make_port` makes the gRPC ports: `MemoryHost().port` for ports in the memory of this process.
        """
        if clock not in ("real", "manual"):
            raise ValueError(f"clock must be 'real' or 'manual', got {clock!r}")
        if start is not None and (clock == "real" or start.tzinfo is None):
            raise ValueError(
                f"start must be an aware datetime, with clock='manual'; got {start} and {clock!r}"
            )
        users = tuple(users)
        if users and control is not None and not any(user.is_administrator for user in users):
            raise ValueError(
                "control needs an administrator among users: add one with all rights (access key and secret only)."
            )
        moment = ManualClock(start.timestamp() if start else None) if clock == "manual" else RealClock()
        host, port = split(listen)
        make_address = partial(Address, host, advertised=advertise)
        if not 1 <= brokers <= len(LETTERS):
            raise ValueError(f"brokers must be 1 to {len(LETTERS)}, got {brokers}")
        make = partial(core, with_settings(_profile(profile, clock), settings or {}))
        persistence = _Persistence(Path(data), data_memory // brokers, repair) if data is not None else None
        remoting = make_address(remoting_port) if remoting_port is not None else None
        self._journals: list[Journal] = []
        try:
            make_node = partial(self._make_node, make, moment, persistence, tls, make_port)
            leader = make_node("broker-a", make_address(port), remoting, seed)
            others = [
                make_node(
                    f"broker-{letter}",
                    make_address(0),
                    remoting and make_address(0),
                    seed + number,
                    leader,
                )
                for number, letter in enumerate(LETTERS[1:brokers], start=1)
            ]
        except BaseException:
            for opened in self._journals:
                opened.abandon()
            raise
        super().__init__([leader, *others])
        for node in self.brokers:
            for user in users:
                node._core.put_user(user, now=moment.now())
            for rpc, per_second in (rates or {}).items():
                node._core.limit_rate(rpc, per_second, now=moment.now())
        if users or rates:
            for kept in self._journals:
                # These commands bypassed the journal.
                kept.checkpoint()
        self._control_address = Address(*split(control)) if control is not None else None
        self._metrics_address = Address(*split(metrics)) if metrics is not None else None
        self._record = record
        self._event_log = event_log
        self._open = AsyncExitStack()
        self._portal: BlockingPortal | None = None
        self._thread = ExitStack()

    def _make_node(
        self,
        make: Callable[..., Broker],
        clock: Clock,
        persistence: _Persistence | None,
        tls: ServerTls | None,
        make_port: MakePort,
        name: str,
        address: Address,
        remoting: Address | None,
        seed: int,
        leader: Node | None = None,
    ) -> Node:
        """Make a broker with a new core, or with the one of its data file."""
        make = partial(make, host=address.reachable_host, port=address.port, name=name)
        if persistence is None:
            core = make(now=clock.now(), rng=random.Random(seed))
            return Node(core, clock, address, tls, None, leader, seed, remoting, make_port)
        # Imported here: few brokers are persistent, and every test run would pay for the import.
        from aiorocketmq_fake.edge.storage.recovery import open_data

        # The history of deliveries must not hold messages in memory that are on disk.
        history = max(100, persistence.memory // 16_384)
        core, journal = open_data(
            persistence.folder / f"{name}.db",
            lambda now: make(now=now, rng=random.Random(seed), history=history),
            clock.now(),
            memory=persistence.memory,
            repair=persistence.repair,
        )
        clock.catch_up(core.now)
        self._journals.append(journal)
        return Node(core, clock, address, tls, journal, leader, seed, remoting, make_port)

    async def __aenter__(self) -> FakeBroker:
        """Open all ports. OSError if a port is unavailable; nothing is left open then."""
        async with AsyncExitStack() as opening:
            for journal in self._journals:
                opening.callback(journal.close)
            for node in self.brokers:
                opening.callback(node.events.end)
                opening.push_async_callback(node.crash)
            if self._event_log is not None:
                log = opening.enter_context(EventLog(self._event_log))
                for node in self.brokers:
                    opening.enter_context(node.events.listen(log.write))
            if self._metrics_address is not None:
                await self._open_metrics(self._metrics_address, opening)
            for node in self.brokers:
                await node.start()
            if self._record is not None:
                self._start_recording(self._record, opening)
            if self._control_address is not None:
                await self._open_control(self._control_address, opening)
            self._open = opening.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every call and close the ports; no task or socket of the broker remains."""
        await self._open.aclose()

    def __enter__(self) -> FakeBroker:
        """Open all ports on an event loop in a thread of its own.

        OSError if a port is unavailable, RuntimeError on an event loop, which `async with` would use.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise RuntimeError("`with FakeBroker()` would block this event loop: write `async with`.")
        with ExitStack() as opening:
            portal = opening.enter_context(start_blocking_portal(name="fake broker"))
            # Clients that a test has left open must not keep the thread alive.
            opening.callback(portal.call, portal.stop, True)
            opening.enter_context(portal.wrap_async_context_manager(self))
            self._portal = portal
            self._thread = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every call and close the ports, cancel what else runs in the portal, and end its thread."""
        self._portal = None
        self._thread.close()

    @property
    def portal(self) -> BlockingPortal:
        """The event loop of a broker that was opened by `with`, for calls from other threads.

        `portal.call(function, *arguments)` runs a method of the broker or of a client there, and returns its result;
        `with portal.wrap_async_context_manager(Producer(broker.endpoint)) as producer:` opens a client. RuntimeError
        if the broker was not opened by `with`.
        """
        if self._portal is None:
            raise RuntimeError(
                "only `with FakeBroker()` has a portal: await the method, or open the broker by `with`."
            )
        return self._portal

    @property
    def repaired(self) -> str | None:
        """What was damaged in the data folder and what `repair` kept of it; None without damage."""
        reports = [journal.repaired for journal in self._journals if journal.repaired is not None]
        return "\n".join(reports) or None

    @property
    def control_endpoint(self) -> str | None:
        """`host:port` of the control service; None without one."""
        return self._control_address.endpoint if self._control_address else None

    @property
    def metrics_endpoint(self) -> str | None:
        """`host:port` for Prometheus to scrape; None without one."""
        return self._metrics_address.endpoint if self._metrics_address else None

    async def _open_control(self, address: Address, opening: AsyncExitStack) -> None:
        # Imported here: few brokers have a control port, and every test run would pay for the import.
        from aiorocketmq_fake.edge.control_server import control_service

        control = GrpcServer((control_service(self),))
        opening.push_async_callback(control.close)
        address.port = await control.open(address.host, address.port)

    async def _open_metrics(self, address: Address, opening: AsyncExitStack) -> None:
        # Imported here: it needs prometheus-client, an extra.
        try:
            from aiorocketmq_fake.edge.metrics import Metrics
        except ModuleNotFoundError as missing:
            raise ModuleNotFoundError(
                "metrics need prometheus-client: run pip install 'aiorocketmq[metrics]'.", name=missing.name
            ) from missing
        from aiorocketmq_fake.edge.metrics_port import MetricsPort

        metrics = Metrics()
        port = MetricsPort(metrics)
        for node in self.brokers:
            opening.enter_context(node.events.listen(metrics.observer(node._core)))
        opening.push_async_callback(port.close)
        address.port = await port.open(address.host, address.port)

    def _start_recording(self, folder: Path | str, opening: AsyncExitStack) -> None:
        # Imported here: it needs pyarrow, an extra.
        from aiorocketmq_fake.edge.recorder import Recorder

        for node in self.brokers:
            recorder = Recorder(
                folder, clock=self.clock.now if self.clock.is_manual else None, broker=node.name
            )
            opening.callback(recorder.close)
            opening.enter_context(node.events.listen(recorder.record))
            node.rebooted = recorder.rebooted
