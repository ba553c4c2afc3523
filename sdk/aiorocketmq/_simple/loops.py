"""The loops over a simple consumer's messages: what one has received and not handed out is given back in any case.

A loop that is left with `break` ends when Python gets round to it, which may be after its consumer has been closed;
so the consumer ends the loops that are open before it goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiorocketmq._settling import Settling
from aiorocketmq.message import ReceivedMessage


class Loop:
    """The batch that one loop hands out, message by message."""

    def __init__(self, settling: Settling) -> None:
        self._settling = settling
        self._rest: list[ReceivedMessage] = []
        self._ending: asyncio.Future[None] | None = None

    def fill(self, messages: Iterable[ReceivedMessage]) -> None:
        """Take the next batch."""
        self._rest = list(messages)
        self._rest.reverse()

    def next(self) -> ReceivedMessage | None:
        """The next message, None where the batch is used up."""
        return self._rest.pop() if self._rest else None

    async def end(self) -> None:
        """Give the rest back, and wait for that if somebody else does it already."""
        if self._ending is None:
            rest, self._rest = self._rest, []
            self._ending = asyncio.ensure_future(self._settling.abandon_all(rest))
        await asyncio.shield(self._ending)


class Loops:
    """The loops of one consumer that are open."""

    def __init__(self, settling: Settling) -> None:
        self._settling = settling
        self._open: set[Loop] = set()

    def begin(self) -> Loop:
        """Open one."""
        loop = Loop(self._settling)
        self._open.add(loop)
        return loop

    async def end(self, loop: Loop) -> None:
        """Close it."""
        try:
            await loop.end()
        finally:
            self._open.discard(loop)

    async def end_all(self) -> None:
        """Close them all; never raises."""
        await asyncio.gather(*(self.end(loop) for loop in tuple(self._open)))
