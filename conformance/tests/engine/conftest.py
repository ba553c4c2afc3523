"""Fixtures of the engine: a broker that is none, and cases made for a test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import pytest
from aiorocketmq_conformance.case import Case
from aiorocketmq_conformance.declaration import Declaration
from aiorocketmq_conformance.probe.clock import RealClock
from aiorocketmq_conformance.target import Target
from aiorocketmq_conformance.targets.remoting_admin import NoAdmin


class Nothing:
    """A broker under test that cases of these tests never speak to."""

    def __init__(self, *, jobs: int = 2, seconds: float = 5.0) -> None:
        self.spec = "nothing"
        self.deviations = ""
        self.declaration = Declaration("nothing", "1", frozenset({"type.fifo"}), {"order.grain": "queue"})
        self.jobs = jobs
        self.is_virtual = False
        self.seconds = seconds
        self.places: dict[str, str] = {}
        self.opened: list[str] = []
        self.closed: list[str] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    @asynccontextmanager
    async def open(self, case: Case) -> AsyncIterator[Target]:
        self.opened.append(case.id)
        try:
            yield Target("127.0.0.1:1", self.declaration, RealClock(), NoAdmin())
        finally:
            self.closed.append(case.id)

    def place(self, case: Case) -> str:
        return self.places.get(case.id, "")

    def real_seconds(self, case: Case) -> float:
        return self.seconds


@pytest.fixture
def broker() -> Nothing:
    return Nothing()
