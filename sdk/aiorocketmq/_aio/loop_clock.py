"""The default clock of clients: the event loop's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiorocketmq.clock import ClockUser, Timer


class LoopClock:
    """The clock of the running event loop."""

    def time(self) -> float:
        """Return the loop's time in seconds."""
        return asyncio.get_running_loop().time()

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Run `callback` at the loop's time `when`."""
        return asyncio.get_running_loop().call_at(when, callback)

    def join(self, user: ClockUser) -> None:
        """Do nothing: real time does not depend on its users."""

    def leave(self, user: ClockUser) -> None:
        """Nothing to forget."""
