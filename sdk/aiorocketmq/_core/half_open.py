"""Tells from heartbeats that a connection is dead though nobody closed it (client-behaviour.md, 8.2)."""

from __future__ import annotations

from enum import Enum

_TIMEOUTS_IN_A_ROW = 2
_PAUSE = 30.0
"""Seconds between two reconnections of one endpoint, at least."""


class Beat(Enum):
    """How a heartbeat ended."""

    ANSWERED = "answered"
    TIMED_OUT = "timed out"
    FAILED = "failed"
    """The transport noticed by itself, and reconnects by itself."""


class HalfOpenWatch:
    """Watches the heartbeats to one endpoint."""

    __slots__ = ("_reconnected_at", "_timeouts")

    def __init__(self) -> None:
        self._timeouts = 0
        self._reconnected_at = float("-inf")

    def should_reconnect(self, beat: Beat, now: float) -> bool:
        """Take in the end of one heartbeat; whether the connection has to be made anew now."""
        self._timeouts = self._timeouts + 1 if beat is Beat.TIMED_OUT else 0
        if self._timeouts < _TIMEOUTS_IN_A_ROW or now - self._reconnected_at < _PAUSE:
            return False
        self._timeouts = 0
        self._reconnected_at = now
        return True
