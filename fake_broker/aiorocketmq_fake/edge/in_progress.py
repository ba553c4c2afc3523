"""Tracks requests in progress."""

from __future__ import annotations

import asyncio

__all__ = ["InProgress"]


class InProgress:
    """Counts calls in progress and answers not yet written; `wait()` returns when there are none.

    A parked poll does not count until its answer is there.
    """

    def __init__(self) -> None:
        self._working = 0
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def count(self) -> int:
        """How many calls and answers are in progress."""
        return self._working

    def enter(self) -> None:
        """Count one more request in progress."""
        self._working += 1

    def leave(self) -> None:
        """Count one less, and notify waiters at zero."""
        self._working -= 1
        if self._working == 0 and self._waiters:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()

    async def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` real seconds until nothing is in progress; return whether that is so."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        while True:
            # One turn of the loop runs tasks whose futures were just resolved.
            await asyncio.sleep(0)
            if self._working == 0:
                return True
            waiter = loop.create_future()
            self._waiters.append(waiter)
            try:
                # Not wait_for: up to Python 3.11 it loses a cancellation that coincides with the end of the work.
                async with asyncio.timeout_at(end):
                    await waiter
            except TimeoutError:
                return False
