"""The loops over a simple consumer's messages: what one has received and not handed out is given back in any case.

A loop that is left with `break` ends when Python gets round to it, which may be after its consumer has been closed;
so the consumer ends the loops that are open before it goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable, Mapping

from aiorocketmq._consume.leases import LeaseKeeper
from aiorocketmq._consume.settle import Settling
from aiorocketmq._session.session import Session
from aiorocketmq.message import ReceivedMessage


class Loop:
    """The batch that one loop hands out, message by message."""

    def __init__(self, settling: Settling, keeper: LeaseKeeper | None) -> None:
        self._settling = settling
        self._keeper = keeper
        self._rest: list[ReceivedMessage] = []
        self._ending: asyncio.Future[None] | None = None

    def fill(self, messages: Iterable[ReceivedMessage]) -> None:
        """Take the next batch."""
        self._rest = list(messages)
        if self._keeper is not None:
            for message in self._rest:
                self._keeper.hold(message)
        self._rest.reverse()

    def next(self) -> ReceivedMessage | None:
        """The next message, None where the batch is used up."""
        return self._rest.pop() if self._rest else None

    def work(self) -> Mapping[Hashable, str]:
        """The renewals under way."""
        return {} if self._keeper is None else self._keeper.work()

    async def end(self) -> None:
        """Renew no more and release the rest; waits for an end that is under way."""
        if self._ending is None:
            if self._keeper is not None:
                self._keeper.close()
            rest, self._rest = self._rest, []
            self._ending = asyncio.ensure_future(self._settling.abandon_all(rest))
        await asyncio.shield(self._ending)


class Loops:
    """The loops of one consumer that are open; while there is one, they go by the session's clock (`ClockUser`)."""

    polls = 0
    """What is done with the answer of a receive is the caller's business, so no clock waits for it."""

    def __init__(self, session: Session, settling: Settling) -> None:
        self._session = session
        self._settling = settling
        self._open: set[Loop] = set()

    def begin(self, keeper: LeaseKeeper | None) -> Loop:
        """Open one, whose messages `keeper` holds."""
        loop = Loop(self._settling, keeper)
        self._open.add(loop)
        self._session.clock.join(self)
        return loop

    async def end(self, loop: Loop) -> None:
        """Close it."""
        try:
            await loop.end()
        finally:
            self._open.discard(loop)
            if not self._open:
                self._session.clock.leave(self)

    @property
    def client_id(self) -> str:
        """See `ClockUser`."""
        return self._session.client_id

    def work(self) -> Mapping[Hashable, str]:
        """Renewals, see `ClockUser`."""
        return dict(item for loop in self._open for item in loop.work().items())

    async def end_all(self) -> None:
        """Close them all; never raises."""
        await asyncio.gather(*(self.end(loop) for loop in tuple(self._open)))
