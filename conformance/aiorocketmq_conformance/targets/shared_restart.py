"""Restarts a broker that several cases share: once for all of them, when all of them want it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager


class SharedRestart:
    """A barrier: every participating case waits in `restart` until the others do or have ended."""

    def __init__(self, restart: Callable[[], Awaitable[None]]) -> None:
        self._restart = restart
        self._parties = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._restarting = False

    @asynccontextmanager
    async def party(self) -> AsyncIterator[None]:
        """Participate, before anything is created that a restart may affect."""
        self._parties += 1
        try:
            yield
        finally:
            self._parties -= 1
            if self._everybody_waits():
                await self._restart_for_all()

    async def restart(self) -> None:
        """Wait until the broker is restarted; raises the exception of the restart."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            if self._everybody_waits():
                await self._restart_for_all()
            await waiter
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def _everybody_waits(self) -> bool:
        return bool(self._waiting) and len(self._waiting) == self._parties and not self._restarting

    async def _restart_for_all(self) -> None:
        self._restarting = True
        # Raised in the waiters if this call is cancelled.
        error: Exception | None = RuntimeError("the restart was broken off")
        try:
            await self._restart()
            error = None
        except Exception as caught:
            # All waiters have to be notified, whoever made the call.
            error = caught
        finally:
            self._restarting = False
            waiting, self._waiting = self._waiting, []
            for waiter in waiting:
                if not waiter.done():
                    _complete(waiter, error)


def _complete(waiter: asyncio.Future[None], error: Exception | None) -> None:
    if error is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(error)
