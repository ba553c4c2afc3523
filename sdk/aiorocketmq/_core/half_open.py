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
    """Watches the heartbeats to one endpoint, those of all clients of a connection."""

    __slots__ = ("_last_timeout", "_reconnected_at", "_timeouts")

    def __init__(self) -> None:
        self._timeouts = 0
        self._last_timeout = float("-inf")
        self._reconnected_at = float("-inf")

    def should_reconnect(self, beat: Beat, now: float, *, begun: float) -> bool:
        """Take in the end of a heartbeat begun at `begun`; whether the connection has to be made anew now.

        Heartbeats of several clients that were out at the same time show the same thing, and count once."""
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
