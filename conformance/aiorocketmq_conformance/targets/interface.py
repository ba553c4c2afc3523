"""The interface of a broker under test."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Protocol, Self

from aiorocketmq_conformance.case import Case
from aiorocketmq_conformance.declaration import Declaration
from aiorocketmq_conformance.target import Target


class TargetUnavailableError(Exception):
    """The target could not be reached or started, or is of another kind; one sentence."""


class BrokerUnderTest(Protocol):
    """A broker, for the duration of an `async with`, that opens a `Target` for every case.

    Entering raises TargetUnavailableError if the broker cannot be reached or started.
    """

    spec: str
    """As given to `--target`."""
    deviations: str
    """Name of the suite's deviation file for it."""
    declaration: Declaration
    jobs: int
    """How many cases run concurrently at one place by default."""
    is_virtual: bool
    """Whether each case has a broker of its own, in this process, whose time takes no real time."""

    async def __aenter__(self) -> Self:
        """Start or reach the broker."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what was started."""

    def open(self, case: Case) -> AbstractAsyncContextManager[Target]:
        """Open the view of the broker for one case; leaving it ends what was started for the case alone."""

    def place(self, case: Case) -> str:
        """Return which of the target's servers `case` runs on; cases at different places are independent."""

    def real_seconds(self, case: Case) -> float:
        """Return the real seconds after which `case` is aborted."""
