"""One send at a time for each message group, in the order of the calls: side by side they could overtake each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Who sends to which message group now, and who waits."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], _Group] = {}

    def __len__(self) -> int:
        return len(self._groups)

    @asynccontextmanager
    async def of(self, topic: str, message_group: str, until: float) -> AsyncIterator[bool]:
        """Wait for the turn of a message group, and have it; False if it has not come at `until` of the loop's time."""
        name = (topic, message_group)
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group()
        group.members += 1
        try:
            # Waiters are served in order; without any, no timer is needed.
            is_free = group.members == 1
            has_turn: bool = await (group.turn.acquire() if is_free else acquired(group.turn, until))
            try:
                yield has_turn
            finally:
                if has_turn:
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
    """Acquire `lock` and return whether that came true before `until` of the loop's time."""
    try:
        async with asyncio.timeout_at(until):
            return await lock.acquire()
    except TimeoutError:
        return False
