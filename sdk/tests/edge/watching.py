"""A hook that keeps every event."""

from __future__ import annotations

import asyncio

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
        async with asyncio.timeout(10):
            while phase not in self.told(kind):
                self._more.clear()
                await self._more.wait()

    async def more(self, kind: type[Event], than: int) -> None:
        """Wait until more such events were seen, of any phase."""
        async with asyncio.timeout(10):
            while len(self.told(kind)) <= than:
                self._more.clear()
                await self._more.wait()

    def told(self, kind: type[Event]) -> list[str]:
        """The phases of one kind of event, in order."""
        return [event.phase.value for event in self.events if type(event) is kind]
