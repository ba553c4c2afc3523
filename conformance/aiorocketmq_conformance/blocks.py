"""Steps that a target was shown not to do, so that the cases that need them are not judged one by one."""

from __future__ import annotations

import asyncio
from enum import Enum

from aiorocketmq_conformance.verdicts import Blocked


class Step(Enum):
    """What nearly every case, or every case of a kind, needs a target to do."""

    PREPARE = "topic creation"
    """Create a topic and a group."""
    SEND = "send"
    """Store a message of a producer that sent its settings."""
    RECEIVE = "receive"
    """Deliver it to a consumer that sent its settings."""
    ACKNOWLEDGE = "acknowledgement"
    """Accept the acknowledgement of that delivery."""
    CHECK = "transaction check"
    """Ask a producer about a transaction that nobody ended."""


class Blocks:
    """The steps that do not work on one target, each with the reason; shared by the cases of a run."""

    def __init__(self) -> None:
        self._reasons: dict[Step, str] = {}
        self._working: set[Step] = set()
        self._blocked = {step: asyncio.Event() for step in Step}

    def block(self, step: Step, reason: str) -> None:
        """Block a step, unless it was seen to work; the first reason is kept."""
        if step not in self._working:
            self._reasons.setdefault(step, reason)
            self._blocked[step].set()

    def works(self, step: Step) -> None:
        """Record that a step was seen to work: every other failure is one of its case alone."""
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
