"""Detects half-open connections by heartbeats without answers (client-behaviour.md, 8.2)."""

from __future__ import annotations

from enum import Enum

_TIMEOUTS_IN_A_ROW = 2
_PAUSE = 30.0
"""Minimum seconds between two reconnections of one endpoint."""


class Beat(Enum):
    """How a heartbeat ended."""

    ANSWERED = "answered"
    TIMED_OUT = "timed out"
    FAILED = "failed"
    """The transport detected the failure, and reconnects by itself."""


class HalfOpenWatch:
    """Tracks the heartbeats of all clients of a connection to one endpoint."""

    __slots__ = ("_last_timeout", "_reconnected_at", "_timeouts")

    def __init__(self) -> None:
        self._timeouts = 0
        self._last_timeout = float("-inf")
        self._reconnected_at = float("-inf")

    def should_reconnect(self, beat: Beat, now: float, *, begun: float) -> bool:
        """Record the end of a heartbeat begun at `begun`; return whether to reconnect now.

        Heartbeats of several clients that were in flight at the same time show the same failure, and count once."""
        if beat is not Beat.TIMED_OUT:
            self._timeouts = 0
            return False
        if begun < self._last_timeout:
            return False
        self._last_timeout = now
        self._timeouts += 1
        if self._timeouts < _TIMEOUTS_IN_A_ROW or now - self._reconnected_at < _PAUSE:
            return False
        self._timeouts = 0
        self._reconnected_at = now
        return True
