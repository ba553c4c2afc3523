"""What the runner needs of a broker under test."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Protocol, Self

from aiorocketmq_conformance.case import Case
from aiorocketmq_conformance.declaration import Declaration
from aiorocketmq_conformance.target import Target


class TargetUnavailableError(Exception):
    """The target could not be reached or started, or is not what it should be; one sentence."""


class BrokerUnderTest(Protocol):
    """A broker, from `async with` to its end, that gives every case a `Target` of its own.

    Entering raises TargetUnavailableError when the broker cannot be had.
    """

    spec: str
    """As given to `--target`."""
    deviations: str
    """Name of the suite's deviation file for it."""
    declaration: Declaration
    jobs: int
    """How many cases run side by side at one place unless somebody asks for another number."""

    async def __aenter__(self) -> Self:
        """Start or reach the broker."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what was started."""

    def open(self, case: Case) -> AbstractAsyncContextManager[Target]:
        """The view of the broker for one case; leaving it ends what was made for the case alone."""

    def place(self, case: Case) -> str:
        """Which of the target's servers `case` is run on; cases at different places do not disturb each other."""

    def real_seconds(self, case: Case) -> float:
        """Real seconds after which `case` has failed to end."""
