"""Locks of message groups: one send at a time in each, in the order of the calls, as concurrent ones could overtake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class GroupLocks:
    """The message groups with a send in progress, and their waiters."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], _Group] = {}

    def __len__(self) -> int:
        return len(self._groups)

    @asynccontextmanager
    async def of(self, topic: str, message_group: str, until: float) -> AsyncIterator[bool]:
        """Acquire the lock of a message group; False if that does not succeed before `until` of the loop's time."""
        name = (topic, message_group)
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group()
        group.members += 1
        try:
            # Waiters are served in order; without any, no timer is needed.
            is_free = group.members == 1
            has_lock: bool = await (group.turn.acquire() if is_free else acquired(group.turn, until))
            try:
                yield has_lock
            finally:
                if has_lock:
                    group.turn.release()
        finally:
            group.members -= 1
            if not group.members:
                del self._groups[name]


class _Group:
    __slots__ = ("members", "turn")

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.members = 0


async def acquired(lock: asyncio.Lock | asyncio.Semaphore, until: float) -> bool:
    """Acquire `lock` and return whether that succeeded before `until` of the loop's time."""
    try:
        async with asyncio.timeout_at(until):
            return await lock.acquire()
    except TimeoutError:
        return False
