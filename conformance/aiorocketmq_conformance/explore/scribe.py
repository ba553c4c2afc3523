"""Writes a history down: numbers its steps, and knows what had surely happened before a response was sent."""

from __future__ import annotations

import asyncio
import itertools
from bisect import bisect_left
from dataclasses import replace

from aiorocketmq_conformance.model.calls import Instant, Occurrence
from aiorocketmq_conformance.probe.clock import Clock, DrivenClock

LATENCY = 2.0
"""A real server sent a response at most so many seconds before its arrival."""


class Scribe:
    """The history of one execution, and its time."""

    def __init__(self, clock: Clock) -> None:
        self.history: list[Occurrence] = []
        self.clock = clock
        self.is_exact = isinstance(clock, DrivenClock)
        """Whether responses arrive at the moment at which the server decides."""
        self.started = clock.now()
        self.restarts = 0
        """How often the server was restarted: calls in progress have failed then."""
        self._numbers = itertools.count(1)
        self._times: list[float] = []
        """Time of every step, to find the last one before a moment."""
        self._settled = 0
        if isinstance(clock, DrivenClock):
            clock.on_settled = self._note_settled

    def now(self) -> float:
        """Return seconds since the start."""
        return self.clock.now() - self.started

    def wall(self, at: float) -> float:
        """Return a time of the history as Unix seconds."""
        return at + self.clock.wall() - self.now()

    def instant(self, at: float | None = None) -> Instant:
        """Return the next step of the history, now or at a time."""
        step = next(self._numbers)
        moment = self.now()
        self._times.append(moment)
        return Instant(moment if at is None else at, step)

    def add(self, begun: Instant, event: Occurrence) -> None:
        """Append a call that began at an instant and ends now."""
        self.history.append(replace(event, begun=begun, ended=self.instant()))

    async def settle(self) -> None:
        """Wait until the responses to what was done have arrived, as far as that can be known."""
        if isinstance(self.clock, DrivenClock):
            await self.clock.settle()
        else:
            await asyncio.sleep(0.01)

    def after(self, begun: Instant, at: float) -> Instant:
        """Return the point after which the server surely sent what arrived at a time, in a call begun then."""
        if self.is_exact:
            return Instant(at, max(begun.step, self._settled))
        sent = max(begun.at, at - LATENCY)
        return Instant(sent, max(begun.step, bisect_left(self._times, sent)))

    def _note_settled(self) -> None:
        self._settled = len(self._times)
