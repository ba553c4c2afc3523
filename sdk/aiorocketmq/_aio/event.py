"""A flag that tasks can wait for, without the queue that an `asyncio.Event` brings along (760 bytes each)."""

from __future__ import annotations

import asyncio


class Signal:
    """Like `asyncio.Event`, but allocates a queue only while there are waiters: idle clients have many of these."""

    __slots__ = ("_futures", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._futures: tuple[asyncio.Future[None], ...] = ()

    def is_set(self) -> bool:
        """Whether `wait` returns at once."""
        return self._is_set

    def set(self) -> None:
        """Wake all waiters, and let later ones pass."""
        self._is_set = True
        futures, self._futures = self._futures, ()
        for future in futures:
            if not future.done():
                future.set_result(None)

    def clear(self) -> None:
        """Let later ones wait again."""
        self._is_set = False

    async def wait(self) -> None:
        """Wait until the flag is set."""
        if self._is_set:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._futures += (future,)
        try:
            await future
        except asyncio.CancelledError:
            self._futures = tuple(each for each in self._futures if each is not future)
            raise
