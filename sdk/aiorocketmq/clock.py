"""Interfaces between a client and the clock of its leases and retries."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Protocol

__all__ = ["Clock", "ClockUser", "Timer"]


class Timer(Protocol):
    """A scheduled callback."""

    def cancel(self) -> None:
        """Do not run the callback; no effect if it has run or was cancelled."""


class ClockUser(Protocol):
    """A client that uses a clock: a clock that is advanced by hand must know when the client has no work left."""

    @property
    def client_id(self) -> str:
        """The name that servers know the client by."""

    @property
    def polls(self) -> int:
        """The number of receives in flight: sent, and the answer not processed yet."""

    def work(self) -> Mapping[Hashable, str]:
        """Return all work in progress by a key, each with a short description; what waits for a time is not included.

        Must not block."""


class Clock(Protocol):
    """Time for leases and their renewal, for retries in ordered groups, and nothing else.

    Pass one to `Connection` or to a client as `clock=`; by default it is the event loop's. Network timeouts, heartbeats
    and back-off use the event loop's clock in any case. All calls come from the event loop's thread and must not block.
    """

    def time(self) -> float:
        """Return the time in seconds since an arbitrary moment; it never decreases."""

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Run `callback` once at `when` (seconds of `time()`) or later, never within this call.

        If `when` has passed, it runs in the next turn of the event loop."""

    def join(self, user: ClockUser) -> None:
        """Register a client that uses this clock from now on."""

    def leave(self, user: ClockUser) -> None:
        """Unregister a client; no effect if it has not joined."""
