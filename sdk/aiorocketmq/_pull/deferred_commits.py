"""Commits that are deferred until the master of their queue is available again, while a replica is read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from aiorocketmq._aio.tasks import Watch
from aiorocketmq._pull.fetching import Fetching
from aiorocketmq._pull.interface import PullCalls
from aiorocketmq._session.client import Client
from aiorocketmq._session.retrying import Tolerance
from aiorocketmq.errors import RocketMQError, UnreachableError
from aiorocketmq.message import MessageQueue

logger = logging.getLogger("aiorocketmq.pull_consumer")


class DeferredCommits:
    """Commits offsets, or keeps the newest of each queue until it can be committed."""

    def __init__(self, session: Client, calls: PullCalls, fetching: Fetching) -> None:
        self._session = session
        self._calls = calls
        self._fetching = fetching
        self._deferred: dict[MessageQueue, int] = {}
        self._storing: asyncio.Task[None] | None = None

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Commit the next offset of `queue`, or keep it while a replica is read; otherwise as `Fetching.commit`."""
        if queue in self._deferred:  # it must not overtake the previous one
            self._deferred[queue] = offset
            return
        try:
            await self._fetching.commit(queue, offset)
        except UnreachableError as error:
            if not self._calls.is_at_replica(queue):
                raise
            logger.warning(
                "%s: offset %d is committed when the master is available again: %s",
                queue,
                offset,
                error,
                extra=self._session.log_fields(),
            )
            self._deferred[queue] = offset
            if self._storing is None or self._storing.done():
                self._storing = self._session.supervise(
                    self._store_until_done, name="storing deferred commits"
                )

    async def give_up(self, queues: Collection[MessageQueue]) -> None:
        """Try once more for `queues`, which are revoked or released, and drop what cannot be committed."""
        deferred = self._deferred.keys() & set(queues)
        await asyncio.gather(*(self._store(queue) for queue in deferred))
        for queue in deferred & self._deferred.keys():
            self._drop(queue)

    async def close(self) -> None:
        """Try once more, and drop the rest."""
        if self._storing is not None:
            self._storing.cancel()
        await self.give_up(tuple(self._deferred))

    async def _store_until_done(self, watch: Watch) -> None:
        tolerance = Tolerance(self._session, watch)
        while self._deferred:
            pause = 0.0
            for queue in tuple(self._deferred):
                if (error := await self._store(queue)) is None:
                    continue
                delay = tolerance.delay_after(error)
                if delay is None:  # further commits go to the server, which refuses them as well
                    self._drop(queue, error)
                else:
                    pause = max(pause, delay)
            await asyncio.sleep(pause)

    def _drop(self, queue: MessageQueue, reason: RocketMQError | None = None) -> None:
        offset = self._deferred.pop(queue, None)
        if offset is not None:  # it was not dropped meanwhile
            logger.warning(
                "%s: offset %d was never committed, messages may be redelivered%s",
                queue,
                offset,
                "" if reason is None else f": {reason}",
                extra=self._session.log_fields(),
            )

    async def _store(self, queue: MessageQueue) -> RocketMQError | None:
        offset = self._deferred.get(queue)
        if offset is None:
            return None
        try:
            await self._fetching.commit(queue, offset)
        except RocketMQError as error:
            return error
        if self._deferred.get(queue) == offset:
            del self._deferred[queue]
        logger.info(
            "%s: the deferred offset %d is committed", queue, offset, extra=self._session.log_fields()
        )
        return None
