"""Steps that fail on a target, so that cases that need them are skipped as blocked."""

from __future__ import annotations

import asyncio
from enum import Enum

from aiorocketmq_conformance.verdicts import Blocked


class Step(Enum):
    """An operation that all cases, or all cases of a kind, need."""

    PREPARE = "topic creation"
    """Create a topic and a group."""
    SEND = "send"
    """Store a message of a producer that sent its settings."""
    RECEIVE = "receive"
    """Deliver it to a consumer that sent its settings."""
    ACKNOWLEDGE = "acknowledgement"
    """Accept the acknowledgement of that delivery."""
    CHECK = "transaction check"
    """Check an unresolved transaction with its producer."""


class Blocks:
    """Steps that fail on one target, each with the reason; shared by the cases of a run."""

    def __init__(self) -> None:
        self._reasons: dict[Step, str] = {}
        self._working: set[Step] = set()
        self._blocked = {step: asyncio.Event() for step in Step}

    def block(self, step: Step, reason: str) -> None:
        """Block a step unless it has succeeded before; the first reason is kept."""
        if step not in self._working:
            self._reasons.setdefault(step, reason)
            self._blocked[step].set()

    def works(self, step: Step) -> None:
        """Record that a step succeeded: later failures concern their own case only."""
        self._working.add(step)
        self._reasons.pop(step, None)
        self._blocked[step].clear()

    def reason(self, *steps: Step) -> str:
        """Return why the first of `steps` that is blocked is so; empty if none is."""
        return next((self._reasons[step] for step in steps if step in self._reasons), "")

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why each blocked step is so, in the order in which they were blocked."""
        return tuple(self._reasons.values())

    def require(self, *steps: Step) -> None:
        """Raise Blocked if one of `steps` is blocked."""
        if reason := self.reason(*steps):
            raise Blocked(reason)

    async def blocked(self, step: Step) -> None:
        """Return when a step is blocked."""
        await self._blocked[step].wait()
