"""Restarting a broker that several cases share: once for all of them, when all of them want it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager


class SharedRestart:
    """Every case that takes part stops at `restart` until the others stand there too or have ended."""

    def __init__(self, restart: Callable[[], Awaitable[None]]) -> None:
        self._restart = restart
        self._parties = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._restarting = False

    @asynccontextmanager
    async def party(self) -> AsyncIterator[None]:
        """Take part, from before anything is prepared that a restart may disturb."""
        self._parties += 1
        try:
            yield
        finally:
            self._parties -= 1
            if self._everybody_waits():
                await self._restart_for_all()

    async def restart(self) -> None:
        """Return when the broker was restarted; raises what the restart raised."""
        wanted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(wanted)
        try:
            if self._everybody_waits():
                await self._restart_for_all()
            await wanted
        finally:
            if wanted in self._waiting:
                self._waiting.remove(wanted)

    def _everybody_waits(self) -> bool:
        return bool(self._waiting) and len(self._waiting) == self._parties and not self._restarting

    async def _restart_for_all(self) -> None:
        self._restarting = True
        # What those who wait are told if this very call is cancelled half-way.
        error: Exception | None = RuntimeError("the restart was broken off")
        try:
            await self._restart()
            error = None
        except Exception as caught:
            # Everybody who waits has to hear of it, whoever made the call.
            error = caught
        finally:
            self._restarting = False
            waiting, self._waiting = self._waiting, []
            for wanted in waiting:
                if not wanted.done():
                    _tell(wanted, error)


def _tell(wanted: asyncio.Future[None], error: Exception | None) -> None:
    if error is None:
        wanted.set_result(None)
    else:
        wanted.set_exception(error)
