"""The time that the core is told: the machine's clock, or one that moves only when a test moves it."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "ManualClock", "RealClock"]


class Clock(Protocol):
    """A source of Unix time in seconds that never runs backwards."""

    is_manual: bool

    def now(self) -> float:
        """Return the present."""
        ...

    def reach(self, instant: float) -> float:
        """Make sure that `now()` is not before `instant` any more, and return `now()`."""
        ...

    def catch_up(self, instant: float) -> None:
        """Go on from `instant`, if that is later than now: a broker's time does not fall between two runs of it."""
        ...


class RealClock:
    """The machine's clock; it stands still while the machine's is set back, because time must never fall."""

    is_manual = False

    def __init__(self) -> None:
        self._latest = time.time()
        self._ahead = 0.0

    def now(self) -> float:
        """Return the machine's Unix time, or the latest one seen where that is later."""
        present = time.time() + self._ahead
        if present > self._latest:
            self._latest = present
        return self._latest

    def reach(self, instant: float) -> float:
        """Count `instant` as seen: a loop may fire a timer a hair early, the core must not see that."""
        self._latest = max(self._latest, instant)
        return self.now()

    def catch_up(self, instant: float) -> None:
        """Run ahead of the machine's clock from now on, by as much as `instant` is ahead of it."""
        self.jump(max(0.0, instant - self.now()))

    def jump(self, seconds: float) -> None:
        """Run so much later from now on than before; set back, it stands still until it has caught up."""
        self._ahead += seconds


class ManualClock:
    """A clock that stands still between two calls of `reach`."""

    is_manual = True

    def __init__(self, start: float | None = None) -> None:
        """Begin at Unix time `start`, by default at the machine's present: clients send absolute delivery times."""
        self._now = time.time() if start is None else start

    def now(self) -> float:
        """Return the instant reached last."""
        return self._now

    def reach(self, instant: float) -> float:
        """Move to `instant` if that is later than now."""
        self._now = max(self._now, instant)
        return self._now

    def catch_up(self, instant: float) -> None:
        """Move to `instant` if that is later than now."""
        self._now = max(self._now, instant)
