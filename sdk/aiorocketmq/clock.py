"""What a clock for the leases and retries of a client must have, and what a client shows to it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Protocol

__all__ = ["Clock", "ClockUser", "Timer"]


class Timer(Protocol):
    """A callback that is to run at its time."""

    def cancel(self) -> None:
        """Drop it; without effect when it has run or was cancelled."""


class ClockUser(Protocol):
    """A client that works by a clock, as the clock sees it: a paused clock must know when all work is done."""

    @property
    def client_id(self) -> str:
        """The name that servers know the client by."""

    @property
    def polls(self) -> int:
        """Receives that are under way: sent, and the answer not yet taken over."""

    def work(self) -> Mapping[Hashable, str]:
        """Everything it is doing now, each with a few words for people; what only waits for a time is not among it."""


class Clock(Protocol):
    """Time for leases and their renewal, for retries in ordered groups, and nothing else.

    Give one to `Connection` or to a client as `clock=`; by default it is the event loop's. Network timeouts, heartbeats
    and pauses after errors go by the event loop whatever the clock is. All calls come from the event loop's thread.
    """

    def time(self) -> float:
        """Return the present in seconds from any moment on; it never decreases."""

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Run `callback` once at `when` or later, never from within this call; at once if that has passed."""

    def join(self, user: ClockUser) -> None:
        """A client goes by this clock from now on."""

    def leave(self, user: ClockUser) -> None:
        """It does no more; without effect if it had not joined."""
