"""Keeps one pull in flight for every assigned queue whose last batch was taken, and keeps the answer until it is
taken."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import NoReturn

from aiorocketmq._aio.tasks import Watch
from aiorocketmq._core.offset import Offset
from aiorocketmq._core.pull_positions import PullPositions, PullTicket
from aiorocketmq._core.settings import FilterText
from aiorocketmq._pull.interface import RETRY, PullCalls
from aiorocketmq._session.client import Client
from aiorocketmq._session.events import Answer
from aiorocketmq._session.retrying import Tolerance, retried
from aiorocketmq.errors import RocketMQError, UsageError
from aiorocketmq.hooks import AssignEvent, CommitEvent, Grain, SeekEvent
from aiorocketmq.message import MessageQueue, ReceivedMessage
from aiorocketmq.subscription import Sql, Tags

logger = logging.getLogger("aiorocketmq.pull_consumer")


@dataclass(frozen=True, slots=True)
class Fetched:
    """One answer that waits to be taken."""

    ticket: PullTicket[MessageQueue]
    messages: Sequence[ReceivedMessage]
    next_offset: int
    log_offsets: Sequence[int] = ()


def emit_delivery(client: Client, fetched: Fetched, wanted: FilterText) -> None:
    """Emit deliveries without leases and handles, identified by their offsets."""
    if client.emitter.is_watched:
        filter_ = Sql(wanted.expression) if wanted.is_sql else Tags(wanted.expression)
        client.emitter.delivered(
            fetched.messages, Answer(operation=None, broker=fetched.ticket.queue.broker, filter=filter_)
        )


class Fetching:
    """The pulls of one consumer: one task per queue, each with one pull in flight or one batch that waits."""

    def __init__(self, session: Client, calls: PullCalls, *, start: Offset | datetime, grain: Grain) -> None:
        """A queue without committed offset is read from `start`; `grain` is what members of the group share."""
        self.positions = PullPositions[MessageQueue]()
        self._start_at = start
        self._grain = grain
        self._session = session
        self._calls = calls
        self._tasks: dict[MessageQueue, asyncio.Task[None]] = {}
        self._wake: dict[MessageQueue, asyncio.Event] = {}
        self._ready: deque[Fetched] = deque()
        self._changed = asyncio.Condition()
        self._watches: dict[MessageQueue, Watch] = {}
        self._generation = 0
        self._failures: dict[MessageQueue, RocketMQError] = {}
        """Why queues are not pulled any more; an assignment without them, or a seek, clears it."""
        self._is_closed = False
        session.on_failure.append(partial(session.spawn, self._tell, name="report the end"))

    def assign(self, queues: Iterable[MessageQueue]) -> bool:
        """Fetch exactly `queues` from now on; True if that is a change."""
        added, dropped = self.positions.assign(queues)
        for queue in dropped:
            self._tasks.pop(queue).cancel()
            del self._wake[queue]
            self._forget(queue)
        for queue in added:
            self._wake[queue] = asyncio.Event()
            self._start(queue)
        if dropped:
            self._session.spawn(self._tell, name="report an assignment")
        emitter = self._session.emitter
        if (added or dropped) and emitter.is_watched:
            self._generation += 1
            emitter.event(
                AssignEvent(
                    client=emitter.client,
                    queues=tuple(self.positions.queues),
                    generation=self._generation,
                    revoked=tuple(dropped),
                    grain=self._grain,
                )
            )
        return bool(added or dropped)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at `offset`; a pull in flight and a waiting batch are dropped."""
        self.positions.seek(queue, offset)
        self._tasks[queue].cancel()
        self._start(queue)
        await self._tell()
        emitter = self._session.emitter
        if emitter.is_watched:
            emitter.event(SeekEvent(client=emitter.client, queue=queue, offset=offset))

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Commit the group's next offset of any queue; raises the server's refusal."""
        await self._calls.commit(queue, offset)
        self.positions.note_committed(queue, offset)
        emitter = self._session.emitter
        if emitter.is_watched:
            emitter.event(CommitEvent(client=emitter.client, queue=queue, offset=offset))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Deliver and fetch again after a pause."""
        for queue in queues:
            self.positions.resume(queue)
            self._wake[queue].set()
        self._session.spawn(self._tell, name="report a resumption")

    async def position(self, queue: MessageQueue) -> int:
        """Return the offset of the next message for the user; waits until a new queue has its first one."""
        async with self._changed:
            while True:
                self._session.check_usable()
                if queue in self._failures:
                    self._raise(self._failures[queue])
                if queue not in self.positions.queues:
                    raise UsageError(f"{queue} is not assigned any more", topic=queue.topic)
                position = self.positions.position(queue)
                if position is not None:
                    return position
                await self._changed.wait()

    async def take(self) -> Fetched | None:
        """Wait for a batch that may be delivered; None once closed. A cancelled call takes nothing.

        Raises what stopped the client, or an assigned queue, if no other batch is left."""
        async with self._changed:
            while True:
                if self._is_closed:
                    return None
                fetched = self._take_now()
                if fetched is not None:
                    self._wake[fetched.ticket.queue].set()
                    return fetched
                self._session.check_usable()
                for failure in self._failures.values():
                    self._raise(failure)
                await self._changed.wait()

    async def close(self) -> None:
        """Cancel all pulls; waiters in take() get None."""
        self._is_closed = True
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
        await self._tell()

    def _take_now(self) -> Fetched | None:
        for _ in range(len(self._ready)):
            fetched = self._ready.popleft()
            if self.positions.take(fetched.ticket):
                return fetched
            if self.positions.is_current(fetched.ticket):  # its queue is paused
                self._ready.append(fetched)
        return None

    @staticmethod
    def _raise(failure: RocketMQError) -> NoReturn:
        raise copy(failure) from failure.__cause__  # several may raise it, each with a traceback of its own

    def _start(self, queue: MessageQueue) -> None:
        self._forget(queue)
        # It outlives the task: a failed queue is part of the client's health while it is assigned.
        watch = self._session.watch(f"pulling from {queue.topic}/{queue.broker}/{queue.id}")
        self._watches[queue] = watch
        self._tasks[queue] = self._session.supervise(self._fetch, queue, name=watch.name, watch=watch)

    def _forget(self, queue: MessageQueue) -> None:
        self._failures.pop(queue, None)
        if queue in self._watches:
            self._watches.pop(queue).end()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _fetch(self, watch: Watch, queue: MessageQueue) -> None:
        tolerance = Tolerance(self._session, watch)
        fetch = partial(self._fetch_on, tolerance, queue, self._wake[queue])
        try:
            while True:
                brings = await retried(fetch, tolerance.delay_after)
                if brings is None:
                    continue
                tolerance.worked()
                await tolerance.rest(brings=brings)
        except RocketMQError as error:
            logger.error("%s failed permanently: %s", watch.name, error, extra=self._session.log_fields())
            watch.failed(error)
            self._failures[queue] = error
            await self._tell()

    async def _place(self, queue: MessageQueue) -> None:
        """Find where reading begins."""
        # What failed before anything was committed must not be skipped, wherever reading begins; nor what arrives
        # during the request.
        start = Offset.BEGIN if queue.topic.startswith(RETRY) else self._start_at
        end = await self._calls.resolve(queue, start) if start is Offset.END else None
        committed = await self._calls.committed(queue)
        offset = end if committed is None else committed
        if offset is None:
            offset = await self._calls.resolve(queue, start)
        self.positions.start_at(queue, offset, committed=committed)

    async def _fetch_on(self, tolerance: Tolerance, queue: MessageQueue, wake: asyncio.Event) -> bool | None:
        """Set the first position, wait for the next pull, or pull: whichever is next.

        Return whether a pull brought messages, or passed over some that are filtered out; None without a pull."""
        if self.positions.position(queue) is None:
            await self._place(queue)
            await self._tell()
        wake.clear()
        ticket = self.positions.ticket(queue)
        if ticket is None:
            await wake.wait()
            return None
        try:
            answer = await self._calls.pull(queue, ticket.offset, tolerance.poll_length)
        except BaseException:
            self.positions.failed(ticket)
            raise
        if self.positions.pulled(ticket, next_offset=answer.next_offset, has_messages=bool(answer.messages)):
            offset = answer.continued_at
            if offset is not None and self._session.emitter.is_watched:
                client = self._session.emitter.client
                self._session.emitter.event(
                    SeekEvent(client=client, queue=queue, offset=offset, instead_of=ticket.offset)
                )
            if answer.messages:
                self._ready.append(Fetched(ticket, answer.messages, answer.next_offset, answer.log_offsets))
            await self._tell()
        passes_over = answer.continued_at is None and answer.next_offset > ticket.offset
        return bool(answer.messages) or passes_over
