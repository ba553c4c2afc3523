"""The bundled fake, in this process: a fresh one with a manual clock for every case."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self
from zlib import crc32

from aiorocketmq_fake.broker import FakeBroker
from aiorocketmq_fake.core.values.choices import LiteService
from aiorocketmq_fake.core.values.events import Event, TransactionChecked
from aiorocketmq_fake.core.values.profile import Profile
from aiorocketmq_fake.core.values.profiles import PROFILES
from aiorocketmq_fake.edge.grpc_server import GrpcServer
from aiorocketmq_fake.edge.memory_port import MemoryHost
from aiorocketmq_fake.edge.tls import ServerTls

from aiorocketmq_conformance.case import Case
from aiorocketmq_conformance.declaration import Declaration
from aiorocketmq_conformance.probe.clock import AutoClock, Clock, DrivenClock
from aiorocketmq_conformance.target import Target, Verified
from aiorocketmq_conformance.targets.absences import absences
from aiorocketmq_conformance.targets.fake_admin import FakeAccess, FakeAdmin
from aiorocketmq_conformance.targets.memory_channel import MemoryChannel

REAL_SECONDS = 30.0
"""Longer than any case takes in real time with a manual clock."""
JOBS = 6
START = datetime(2026, 1, 1, tzinfo=UTC)
"""Start of a driven clock: a history is a function of its seed."""
# A fake with a server's profile has the server's deviations.
_SERVERS = {"apache-5.5": "apache-5.5.0", "apache-5.5-cluster": "apache-5.5.0-cluster"}
# Disabled in such a server as shipped, and enabled for the cases that need it (targets/apache/setups.py).
_CLOSED: Mapping[str, Mapping[str, object]] = {
    "closed": {"auto_create_topics": False, "auto_create_groups": False}
}
_LOCAL: Mapping[str, Mapping[str, object]] = {
    "recall": {"recall_enabled": True},
    "type.mixed": {"mixed_topics": True},
    **_CLOSED,
}
_SWITCHED_ON = {
    "documented": _CLOSED,
    "apache-5.5": _LOCAL,
    "apache-5.5-cluster": {**_LOCAL, "type.lite": {"lite_service": LiteService.SERVED}},
}


class BundledFake:
    """`FakeBroker` with one profile, by name or value."""

    def __init__(
        self,
        profile: str | Profile,
        *,
        declaration: Declaration,
        record: Path | None = None,
        driven: bool = False,
    ) -> None:
        """Prepare; `record` is a folder for recordings by every case's broker.

        `driven` is for a case that is one task: its clock moves only while that task sleeps, from a fixed start.
        """
        name = profile if isinstance(profile, str) else profile.name
        self.spec = f"fake:{name}"
        self.deviations = _SERVERS.get(name, f"fake-{name}")
        self.jobs = JOBS
        self.is_virtual = True
        # Exact times, so that runs are reproducible; real servers spread them.
        self._profile = replace(PROFILES[profile], revive_spread=0.0) if isinstance(profile, str) else profile
        self._switches = _SWITCHED_ON.get(name, {})
        self._shipped = declaration
        if name in _SERVERS:
            mode = "cluster" if name.endswith("-cluster") else "local"
            self._shipped = replace(declaration, absences=absences((5, 5, 0), mode))
        self.declaration = self._shipped.having(frozenset(self._switches))
        self._record = record
        self._driven = driven
        self.is_in_memory = driven
        """Whether its ports are in the memory of this process, which no proxy can reach."""
        self._run_id = f"conformance-{datetime.now(UTC):%Y%m%dT%H%M%S}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    @asynccontextmanager
    async def open(self, case: Case) -> AsyncIterator[Target]:
        """Start a broker for the case alone, whose clock jumps whenever the case and all of its calls wait."""
        tls = ServerTls.self_made(also_plain=True) if "tls" in case.needs else None
        host = MemoryHost()
        enabled = [need for need in case.needs if need in self._switches]
        profile = self._profile
        for need in enabled:
            profile = replace(profile, **self._switches[need])  # type: ignore[arg-type]  # fields of many types
        async with FakeBroker(
            profile=profile,
            clock="manual",
            start=START if self._driven else None,
            tls=tls,
            remoting_port=0 if "remoting" in case.needs else None,
            make_port=host.port if self.is_in_memory else GrpcServer,
        ) as broker:
            with self._recording(broker, case) as rebooted:
                async with AsyncExitStack() as stack:
                    clock = await stack.enter_async_context(self._clock(broker))
                    second = None
                    if "@proxies" in case.needs:
                        second = await stack.enter_async_context(broker.another_proxy())
                    process_control = _ProcessControl(broker, rebooted, clock)
                    admin = FakeAdmin(broker)
                    yield Target(
                        broker.endpoint,
                        self._shipped.having(frozenset(enabled)),
                        clock,
                        admin,
                        connect=partial(MemoryChannel, host) if self.is_in_memory else None,
                        process_control=process_control,
                        privileges=_Privileges(broker),
                        access=FakeAccess(broker),
                        second_proxy=second,
                        name_server=broker.remoting_endpoint,
                        trust=tls.trust if tls else None,
                        # Its broker is new, so names may be the same in each run, and with them queues and hashes.
                        run_id=f"{crc32(case.id.encode()):08x}",
                    )

    @asynccontextmanager
    async def _clock(self, broker: FakeBroker) -> AsyncIterator[AutoClock | DrivenClock]:
        # A probe sends no heartbeats by itself: like a server, the fake may expire it.
        advance_to = partial(broker.clock.advance_to, forget_clients=True)
        if self._driven:
            yield DrivenClock(
                now=broker.clock.now,
                advance_to=advance_to,
                next_deadline=broker.clock.next_deadline,
                parked=lambda: broker.clock.parked,
            )
            return
        commands = _Commands()
        with broker.events.listen(commands.watch):
            clock = AutoClock(
                now=broker.clock.now,
                advance_to=advance_to,
                next_deadline=broker.clock.next_deadline,
                parked=lambda: broker.clock.parked,
                commands=lambda: commands.count,
            )
            async with clock:
                yield clock

    @contextmanager
    def _recording(self, broker: FakeBroker, case: Case) -> Iterator[Callable[[], None]]:
        """Record the case if wanted; yields what to call after a restart of the broker."""
        if self._record is None:
            yield lambda: None
            return
        from aiorocketmq_fake.edge.recorder import Recorder

        recorder = Recorder(self._record, run_id=self._run_id, case_id=case.id, clock=broker.clock.now)
        with recorder, broker.events.listen(recorder.record):
            yield recorder.rebooted

    def place(self, case: Case) -> str:
        """Return the same place for all cases."""
        return ""

    def real_seconds(self, case: Case) -> float:
        """Return a fixed number: the case's timeout counts the fake's seconds, which take no real time."""
        return REAL_SECONDS


class _Commands:
    """Counts the broker's commands to clients."""

    def __init__(self) -> None:
        self.count = 0

    def watch(self, events: Sequence[Event]) -> None:
        self.count += sum(isinstance(event, TransactionChecked) and bool(event.client_id) for event in events)


class _ProcessControl:
    """Faults of a fake."""

    def __init__(self, broker: FakeBroker, rebooted: Callable[[], None], clock: Clock) -> None:
        self._broker = broker
        self._rebooted = rebooted
        self._clock = clock

    async def restart(self) -> None:
        await self._broker.restart()
        self._rebooted()

    async def down(self, seconds: float) -> None:
        await self._broker.stop()
        await self._clock.sleep(seconds)
        await self._broker.start()
        self._rebooted()

    async def kill(self, seconds: float = 0.0) -> None:
        await self._broker.crash()
        await self._clock.sleep(seconds)
        await self._broker.start()
        self._rebooted()

    async def pause(self, seconds: float) -> None:
        with self._broker.pause():
            await self._clock.sleep(seconds)


class _Privileges:
    """Operations that only a fake in this process supports."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker

    async def verify_message(self, client_id: str, topic: str, message_id: str) -> Verified | None:
        reply = await self._broker.verify_message(client_id, topic, message_id)
        return None if reply is None else Verified(reply.code)

    async def limit_rate(self, rpc: str, per_second: float | None) -> None:
        await self._broker.limit_rate(rpc, per_second)

    async def bound_lite_topics(self, topic: str, *, seconds: float | None = None, count: int = 0) -> None:
        (topic_view,) = (one for one in self._broker.topics() if one.name == topic)
        await self._broker.update_topic(
            topic, type="LITE", queues=topic_view.read_queues, lite_expiration=seconds, lite_limit=count
        )

    async def jump_clock(self, seconds: float) -> None:
        self._broker.clock.jump(seconds)
