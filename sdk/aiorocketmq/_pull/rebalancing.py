"""Rebalancing: shares the queues of topics with the other members of a group."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Protocol

import anyio

from aiorocketmq._aio.tasks import Watch
from aiorocketmq._core.assignment import assignment_change
from aiorocketmq._core.offset import Offset
from aiorocketmq._core.pauses import FIRST_PAUSE
from aiorocketmq._pull.fetching import Fetching
from aiorocketmq._pull.interface import Broadcast
from aiorocketmq._pull.locking import QueueLocks
from aiorocketmq._pull.remoting_calls import RemotingPullCalls
from aiorocketmq._session.client import Client
from aiorocketmq._session.retrying import Tolerance
from aiorocketmq._transport.network import loop_time
from aiorocketmq.allocation import Allocation, Averagely, check_allocation, share
from aiorocketmq.errors import RocketMQError, ServerError, UnreachableError
from aiorocketmq.message import MessageQueue

logger = logging.getLogger("aiorocketmq.pull_consumer")

LOOK_EVERY = 20.0
"""Seconds between two rebalances without a notification of a broker, as in Java's clients."""
APART = 0.1
"""Seconds between two rebalances that servers cause: a broker may notify of changes at any rate."""
UNBALANCED = 0.5
"""Seconds until the next one if brokers do not know this member yet, or others hold locks."""
RENEW_EVERY = 20.0
"""Seconds between renewals of locks, as in Java's clients."""
LOCK_LASTS = 30.0
"""Seconds after which a lock that could not be renewed counts as lost: half of its time at brokers."""


class RebalanceListener(Protocol):
    """Called when queues move between the members of a group. Exceptions are logged and ignored."""

    async def revoked(self, queues: Sequence[MessageQueue]) -> None:
        """Queues are about to be revoked: nothing more of them is delivered, but commits are still accepted.

        It may take `Timeouts.stop` seconds; then it is cancelled and the queues are released."""

    async def assigned(self, queues: Sequence[MessageQueue]) -> None:
        """Queues are read from now on, each from the group's committed offset."""


def checked_allocation(
    start: Offset | datetime | None,
    allocation: Allocation | None,
    *,
    ordered: bool,
    broadcast: Broadcast | None,
) -> Allocation:
    """Return the allocation strategy, by default `Averagely()`. ValueError for combinations that are not allowed."""
    if broadcast is not None and (allocation is not None or ordered):
        raise ValueError("broadcast consumers share no queues: leave allocation and ordered out")
    if isinstance(start, datetime) and start.tzinfo is None:
        raise ValueError("start must be a datetime with a time zone")
    chosen = Averagely() if allocation is None else allocation
    check_allocation(chosen)
    return chosen


class Rebalancing:
    """Keeps one consumer's share of its topics' queues."""

    def __init__(
        self,
        client: Client,
        calls: RemotingPullCalls,
        fetching: Fetching,
        *,
        topics: Collection[str],
        allocation: Allocation,
        listener: RebalanceListener | None,
        locks: QueueLocks | None,
        assign: Callable[[Sequence[MessageQueue]], object],
        flush: Callable[[Collection[MessageQueue]], Awaitable[None]],
    ) -> None:
        """With `locks`, a queue is read only while this member has its lock. `assign` sets the consumer's queues;
        `flush` commits the progress of some queues."""
        self._client = client
        self._calls = calls
        self._fetching = fetching
        self.topics = list(topics)
        """The shared topics; call `look` after a change."""
        self._allocation = allocation
        self._listener = listener
        self._locks = locks
        self._locked_at: dict[MessageQueue, float] = {}
        self._turn = asyncio.Lock()
        self._assign = assign
        self._flush = flush
        self._changed = asyncio.Event()
        self._changed.set()
        self._earliest = 0.0
        self._soon: asyncio.TimerHandle | None = None

    def look(self) -> None:
        """Rebalance as soon as possible: the topics of this member have changed, or a lock was lost."""
        self._changed.set()

    def look_soon(self) -> None:
        """Rebalance, at least APART seconds after the last time: members, or the route of a topic, may have changed."""
        if self._soon is None:
            wait = max(0.0, self._earliest - loop_time())
            self._soon = asyncio.get_running_loop().call_later(wait, self._look_now)

    def _look_now(self) -> None:
        self._soon = None
        self.look()

    async def run(self, watch: Watch) -> None:
        """Rebalance whenever something may have changed, forever."""
        pause, tolerance = LOOK_EVERY, Tolerance(self._client, watch)
        while True:
            with anyio.move_on_after(pause):
                await self._changed.wait()
            self._changed.clear()
            self._earliest = loop_time() + APART
            try:
                pause = LOOK_EVERY if await self.balance() else UNBALANCED
                watch.worked()
                tolerance = Tolerance(self._client, watch)
            except RocketMQError as error:
                delay = tolerance.delay_after(error)
                if delay is None:  # the group must not be shared
                    try:
                        await self.leave()
                    finally:
                        self._client.fail(error)
                    return
                # A server that closes the connection at each request would cause a change each time.
                await asyncio.sleep(min(delay, FIRST_PAUSE))
                pause = delay

    async def keep_locks(self, watch: Watch) -> None:
        """Renew the locks of assigned queues, and release queues whose lock is lost, forever."""
        while True:
            await asyncio.sleep(RENEW_EVERY)
            try:
                await self._renew()
                watch.worked()
            except RocketMQError as error:
                watch.failed(error)
            lost = [queue for queue, at in self._locked_at.items() if loop_time() - at >= LOCK_LASTS]
            if lost:
                logger.warning("the locks of %d queues are lost", len(lost), extra=self._client.log_fields())
                async with self._turn:
                    await self._move([queue for queue in self._assigned if queue not in lost])
                self.look()

    async def balance(self) -> bool:
        """Release and add queues until this member has its share; False if it is not a member yet, or waits for a
        lock."""
        async with self._turn:
            own_queues: list[MessageQueue] = []
            is_member = True
            failure: RocketMQError | None = None
            for topic in tuple(self.topics):
                try:
                    queues = await self._calls.queues(topic)
                    consumers = await self._members(topic, queues)
                except RocketMQError as error:
                    failure = failure or error
                    own_queues += [queue for queue in self._assigned if queue.topic == topic]
                    continue
                is_member = is_member and self._client.client_id in consumers
                own_queues += share(self._allocation, queues, consumers, self._client.client_id)
            is_settled = await self._move(own_queues)
            if failure is not None:  # its topic waits, the others do not
                raise failure
            return is_settled and is_member

    async def _members(self, topic: str, queues: Sequence[MessageQueue]) -> Sequence[str]:
        try:
            return await self._calls.consumers(topic)
        except ServerError:
            with suppress(UnreachableError):
                for queue in queues[:1]:
                    await self._calls.check_group(queue)
            raise

    async def leave(self) -> None:
        """Give up everything."""
        async with self._turn:
            await self._move([])

    async def _move(self, wanted: Collection[MessageQueue]) -> bool:
        """Assign exactly `wanted`, except for queues that another member has locked; return whether there are none of
        these."""
        change = assignment_change(self._assigned, wanted)
        if change.dropped:
            try:
                await self._revoke(change.dropped)
            finally:  # even after an error: paused queues must not stay assigned
                self._assign([queue for queue in self._assigned if queue not in change.dropped])
                for queue in change.dropped:
                    self._locked_at.pop(queue, None)
            if self._locks is not None:
                await self._locks.unlock(change.dropped)
        added, failure = await self._locked(change.added)
        if added:
            self._assign([*self._assigned, *added])
        if change.dropped or added:
            logger.info(
                "%d queues added, %d revoked, %d assigned",
                len(added),
                len(change.dropped),
                len(self._assigned),
                extra=self._client.log_fields(),
            )
        if added and self._listener is not None:
            await self._notify(self._listener.assigned, added)
        if failure is not None:
            raise failure
        return len(added) == len(change.added)

    async def _locked(
        self, queues: Sequence[MessageQueue]
    ) -> tuple[Sequence[MessageQueue], RocketMQError | None]:
        """Return those of `queues` that may be read, and why a broker has locked none."""
        if self._locks is None or not queues:
            return queues, None
        now = loop_time()
        locking = await self._locks.lock(queues)
        self._locked_at |= dict.fromkeys(locking.locked, now)
        return [queue for queue in queues if queue in locking.locked], locking.failure

    async def _renew(self) -> None:
        if self._locks is not None and self._locked_at:
            now, queues = loop_time(), tuple(self._locked_at)
            locking = await self._locks.lock(queues)
            for queue in (self._locked_at.keys() & queues) - locking.unknown:
                # What another member has locked is lost at once.
                self._locked_at[queue] = now if queue in locking.locked else now - LOCK_LASTS
            if locking.failure is not None:
                raise locking.failure

    @property
    def _assigned(self) -> Collection[MessageQueue]:
        return self._fetching.positions.queues

    async def _revoke(self, queues: Sequence[MessageQueue]) -> None:
        """Deliver nothing more of `queues`, call the listener, and commit their progress."""
        for queue in queues:
            self._fetching.positions.pause(queue)
        if self._listener is not None:
            await self._notify(self._listener.revoked, queues)
        await self._flush(queues)

    async def _notify(
        self, notify: Callable[[Sequence[MessageQueue]], Awaitable[None]], queues: Sequence[MessageQueue]
    ) -> None:
        with anyio.move_on_after(self._client.timeouts.stop) as scope:
            try:
                await notify(queues)
            except Exception:  # the application's own code
                logger.exception("the rebalance listener failed", extra=self._client.log_fields())
        if scope.cancelled_caught:
            logger.warning(
                "the rebalance listener took more than %g s, and the queues move without waiting for it",
                self._client.timeouts.stop,
                extra=self._client.log_fields(),
            )
