"""A hook that keeps every event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiorocketmq.hooks import Event, Hook


class Watching(Hook):
    """A hook that keeps every event."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._more = asyncio.Event()

    def observe(self, event: Event) -> None:
        self.events.append(event)
        self._more.set()

    async def until(self, kind: type[Event], phase: str) -> None:
        """Wait until such an event was seen."""
        await self._wait(lambda: phase in self.told(kind))

    async def more(self, kind: type[Event], than: int) -> None:
        """Wait until more such events were seen, of any phase."""
        await self._wait(lambda: len(self.told(kind)) > than)

    async def _wait(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not holds():
                self._more.clear()
                await self._more.wait()

    def told(self, kind: type[Event]) -> list[str]:
        """The phases of one kind of event, in order."""
        return [event.phase.value for event in self.events if type(event) is kind]
