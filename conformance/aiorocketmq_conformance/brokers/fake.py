"""The bundled fake, in this process: a fresh one with a manual clock for every case."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from aiorocketmq_fake.broker import FakeBroker
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.events import Event, TransactionChecked
from aiorocketmq_fake.core.profile import Profile
from aiorocketmq_fake.edge.tls import ServerTls

from aiorocketmq_conformance.brokers.controlled import FakeAccess, FakePreparation
from aiorocketmq_conformance.declaration import Declaration
from aiorocketmq_conformance.probe.clock import AutoClock
from aiorocketmq_conformance.registry import Case
from aiorocketmq_conformance.target import Target

REAL_SECONDS = 30.0
"""Longer than any case takes in real time when its clock is jumped."""
JOBS = 4
# A fake that stands for a server is held to the server's own list: it has to differ where the server does.
_SERVERS = {"apache-5.5": "apache-5.5.0", "apache-5.5-cluster": "apache-5.5.0-cluster"}


class BundledFake:
    """`FakeBroker` with one profile, by name or value; `core` makes its core, for brokers broken on purpose."""

    def __init__(
        self,
        profile: str | Profile,
        *,
        declaration: Declaration,
        core: Callable[..., Broker] = Broker,
        record: Path | None = None,
    ) -> None:
        """Prepare; `record` is a folder in which every case's broker leaves its own account of what happened."""
        name = profile if isinstance(profile, str) else profile.name
        self.spec = f"fake:{name}"
        self.deviations = _SERVERS.get(name, f"fake-{name}")
        self.declaration = declaration
        self.jobs = JOBS
        self._profile = profile
        self._core = core
        self._record = record
        self._run_id = f"conformance-{datetime.now(UTC):%Y%m%dT%H%M%S}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    @asynccontextmanager
    async def open(self, case: Case) -> AsyncIterator[Target]:
        """A broker of the case's own, whose clock jumps whenever the case and all of its calls wait."""
        tls = ServerTls.self_made(also_plain=True) if "tls" in case.needs else None
        async with FakeBroker(profile=self._profile, clock="manual", core=self._core, tls=tls) as broker:
            orders = _Orders()
            with self._recording(broker, case) as rebooted, broker.events.listen(orders.watch):
                clock = AutoClock(
                    now=broker.clock.now,
                    # A probe sends no heartbeats of its own: like a server, the fake may forget it in time.
                    advance_to=partial(broker.clock.advance_to, forget_clients=True),
                    next_deadline=broker.clock.next_deadline,
                    parked=lambda: broker.clock.parked,
                    orders=lambda: orders.count,
                )
                async with clock:
                    disturbance = _Disturbance(broker, rebooted)
                    preparation = FakePreparation(broker)
                    yield Target(
                        broker.endpoint,
                        self.declaration,
                        clock,
                        preparation,
                        disturbance,
                        access=FakeAccess(broker),
                        trust=tls.trust if tls else None,
                    )

    @contextmanager
    def _recording(self, broker: FakeBroker, case: Case) -> Iterator[Callable[[], None]]:
        """Record the case where that is wanted; what to call when the broker was started again."""
        if self._record is None:
            yield lambda: None
            return
        from aiorocketmq_fake.edge.recorder import Recorder

        recorder = Recorder(self._record, run_id=self._run_id, case_id=case.id, clock=broker.clock.now)
        with recorder, broker.events.listen(recorder.record):
            yield recorder.rebooted

    def real_seconds(self, case: Case) -> float:
        """A fixed number: the case's own timeout counts the fake's seconds, which cost nothing."""
        return REAL_SECONDS


class _Orders:
    """Counts what the broker pushes to clients unasked."""

    def __init__(self) -> None:
        self.count = 0

    def watch(self, events: Sequence[Event]) -> None:
        self.count += sum(isinstance(event, TransactionChecked) and bool(event.client_id) for event in events)


class _Disturbance:
    """What a case may do to a fake that is its own."""

    def __init__(self, broker: FakeBroker, rebooted: Callable[[], None]) -> None:
        self._broker = broker
        self._rebooted = rebooted

    async def restart(self) -> None:
        await self._broker.restart()
        self._rebooted()
