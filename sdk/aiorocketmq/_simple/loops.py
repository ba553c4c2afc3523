"""Loops over a simple consumer's messages; messages that were received and not yielded are always released.

A loop that is left with `break` ends when Python finalises its generator, which may be after its consumer has been
closed; so the consumer ends open loops when it closes."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable, Mapping

from aiorocketmq._consume.leases import LeaseKeeper
from aiorocketmq._consume.settler import LeaseSettler
from aiorocketmq._session.session import Session
from aiorocketmq.message import ReceivedMessage


class Loop:
    """The current batch of one loop, yielded message by message."""

    def __init__(self, settler: LeaseSettler, keeper: LeaseKeeper | None) -> None:
        self._settler = settler
        self._keeper = keeper
        self._rest: list[ReceivedMessage] = []
        self._ending: asyncio.Future[None] | None = None

    def fill(self, messages: Iterable[ReceivedMessage]) -> None:
        """Take the next batch."""
        self._rest = list(messages)
        if self._keeper is not None:
            for message in self._rest:
                self._keeper.add(message)
        self._rest.reverse()

    def next(self) -> ReceivedMessage | None:
        """Return the next message, None after the last one of the batch."""
        return self._rest.pop() if self._rest else None

    def work(self) -> Mapping[Hashable, str]:
        """The renewals under way."""
        return {} if self._keeper is None else self._keeper.work()

    async def end(self) -> None:
        """Stop renewing and release the rest; waits for an end that is in progress."""
        if self._ending is None:
            if self._keeper is not None:
                self._keeper.close()
            rest, self._rest = self._rest, []
            self._ending = asyncio.ensure_future(self._settler.abandon_all(rest))
        await asyncio.shield(self._ending)


class Loops:
    """The open loops of one consumer; while there is one, the session's clock waits for them (`ClockUser`)."""

    polls = 0
    """Nothing: what the application does after a receive is unknown to the clock."""

    def __init__(self, session: Session, settler: LeaseSettler) -> None:
        self._session = session
        self._settler = settler
        self._open: set[Loop] = set()

    def begin(self, keeper: LeaseKeeper | None) -> Loop:
        """Open a loop, whose leases `keeper` renews."""
        loop = Loop(self._settler, keeper)
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
        """Close all loops; never raises."""
        await asyncio.gather(*(self.end(loop) for loop in tuple(self._open)))
