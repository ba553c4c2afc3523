"""Clocks: the machine's, or a manual one that only tests move."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["Clock", "ManualClock", "RealClock"]


class Clock(Protocol):
    """A source of Unix time in seconds that never runs backwards."""

    is_manual: bool

    def now(self) -> float:
        """Return the present."""
        ...

    def reach(self, instant: float) -> float:
        """Move on to `instant` if that is later than now, and return `now()`."""
        ...

    def catch_up(self, instant: float) -> None:
        """Continue from `instant` if that is later than now: a broker's time is monotonic over restarts."""
        ...


class RealClock:
    """The machine's clock, made monotonic: while the machine's clock is set back, it stops."""

    is_manual = False

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        """Read the machine's clock by `wall`."""
        self._wall = wall
        self._latest = wall()
        self._ahead = 0.0

    def now(self) -> float:
        """Return the machine's Unix time, or the latest returned one if that is later."""
        present = self._wall() + self._ahead
        if present > self._latest:
            self._latest = present
        return self._latest

    def reach(self, instant: float) -> float:
        """Count `instant` as reached: a loop may fire a timer slightly early, which the core must not see."""
        self._latest = max(self._latest, instant)
        return self.now()

    def catch_up(self, instant: float) -> None:
        """Run ahead of the machine's clock by as much as `instant` is ahead of it."""
        self.jump(max(0.0, instant - self.now()))

    def jump(self, seconds: float) -> None:
        """Shift the clock by so many seconds; set back, it stops until it has caught up."""
        self._ahead += seconds


class ManualClock:
    """A clock that only `reach` moves."""

    is_manual = True

    def __init__(self, start: float | None = None) -> None:
        """Start at Unix time `start`, by default the machine's present: clients send absolute delivery times."""
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
