"""The bundled fake, in this process: a fresh one with a manual clock for every case."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from aiorocketmq_fake import FakeBroker

from aiorocketmq_conformance.declaration import Declaration
from aiorocketmq_conformance.probe.clock import AutoClock
from aiorocketmq_conformance.registry import Case
from aiorocketmq_conformance.target import Target

REAL_SECONDS = 30.0
"""Longer than any case takes in real time when its clock is jumped."""
JOBS = 4


class BundledFake:
    """`FakeBroker` with one profile."""

    def __init__(self, profile: str, *, declaration: Declaration) -> None:
        self.spec = f"fake:{profile}"
        self.deviations = f"fake-{profile}"
        self.declaration = declaration
        self.jobs = JOBS
        self._profile = profile

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    @asynccontextmanager
    async def open(self, case: Case) -> AsyncIterator[Target]:
        """A broker of the case's own, whose clock jumps whenever the case and all of its calls wait."""
        async with FakeBroker(profile=self._profile, clock="manual") as broker:
            clock = AutoClock(
                now=broker.clock.now,
                advance_to=broker.clock.advance_to,
                next_deadline=broker.clock.next_deadline,
                parked=lambda: broker.clock.parked,
            )
            async with clock:
                yield Target(broker.endpoint, self.declaration, clock, broker)

    def real_seconds(self, case: Case) -> float:
        """A fixed number: the case's own timeout counts the fake's seconds, which cost nothing."""
        return REAL_SECONDS
