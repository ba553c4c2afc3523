"""Runs handlers: as many at a time as allowed, each message when its order lets it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Hashable
from typing import Generic, Protocol, TypeVar

import anyio

from aiorocketmq._aio.event import Signal
from aiorocketmq._aio.tasks import Watch
from aiorocketmq._consume.handlers import watched
from aiorocketmq._core.dispatch import ConcurrentDispatch, FifoDispatch
from aiorocketmq._push.handlers import Handlers
from aiorocketmq._session.client import Client
from aiorocketmq.message import ReceivedMessage

logger = logging.getLogger(__name__)

CANCELLED_HANDLERS_END = 1.0
"""Seconds that cancelled handlers have for their own clean-up."""
TURNS = 32
"""Handlers that one task runs before it lets others have the loop, in case none of them awaits anything."""


class Waiting(Protocol):
    """A message that waits for its handler."""

    message: ReceivedMessage
    lane: Hashable | None
    """What it keeps its order with; None where it has no order."""


HeldT = TypeVar("HeldT", bound=Waiting)


class Workers(Generic[HeldT]):
    """Tasks that take messages one after the other; they live only while there is something to do.

    `finished` is called when a handler has ended (None: well, else what it raised), `dropped` if that fails: nothing
    more is done about the message then, and it comes again by itself.

    Only as many tasks wait for their first turn as handlers run, and at least one: handlers that await nothing are
    all run by one task, and where handlers wait the number of tasks doubles with each turn of the loop up to
    `concurrency`. So no task is made per message under load, and none waits when idle.
    """

    def __init__(
        self,
        session: Client,
        handlers: Handlers,
        *,
        concurrency: int,
        is_lost: Callable[[HeldT], bool],
        finished: Callable[[HeldT, Exception | None], None],
        dropped: Callable[[HeldT], None],
    ) -> None:
        self._session = session
        self._handlers = handlers
        self._concurrency = concurrency
        self._is_lost = is_lost
        self._finished = finished
        self._dropped = dropped
        self._watch = session.watch("handling messages")
        self._unordered = ConcurrentDispatch[HeldT]()
        self._ordered = FifoDispatch[HeldT]()
        self._again: list[HeldT] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._handling: set[HeldT] = set()
        self._fresh: set[asyncio.Task[None] | None] = set()
        """Tasks that have not had their first turn."""
        self._may_start = True
        self._idle = Signal()
        self._idle.set()

    def add(self, held: HeldT) -> None:
        """Queue a message; wake() starts the handlers, once per batch."""
        if held.lane is None:
            self._unordered.add(None, held)
        else:
            self._ordered.add(held.lane, held)

    def run_again(self, held: HeldT) -> None:
        """Run the handler of an ordered group's message once more, before those behind it."""
        self._again.append(held)
        self.wake()

    def settled(self, held: HeldT) -> list[HeldT]:
        """Let the next message of its lane start; once no handler may start any more, return those that waited."""
        if held.lane is None:
            return []
        self._ordered.finish(held.lane)
        if self._may_start:
            self.wake()
            return []
        return _without_lane(self._ordered.drain())

    def unsettled(self, held: HeldT) -> list[HeldT]:
        """Return the messages of its lane that waited behind one that comes again; they are in no lane any more."""
        if held.lane is None:
            return []
        return _without_lane(self._ordered.abandon(held.lane))

    def wake(self) -> None:
        """Start tasks for what may start, up to the limit."""
        if not self._may_start:
            return
        fresh = min(self._startable, max(1, len(self._handling))) - len(self._fresh)
        for _ in range(min(fresh, self._concurrency - len(self._tasks))):
            task = self._session.supervise(self._work, name=self._watch.name, watch=self._watch)
            self._fresh.add(task)
            self._tasks.add(task)
            task.add_done_callback(self._task_ended)
            self._idle.clear()

    @property
    def waiting(self) -> int:
        """Messages that wait for a handler."""
        return len(self._again) + self._ordered.waiting + self._unordered.waiting

    @property
    def _startable(self) -> int:
        return len(self._again) + self._ordered.startable + self._unordered.startable

    @property
    def may_take(self) -> bool:
        """Whether a message waits whose handler is about to start."""
        return self._may_start and self._startable > 0 and len(self._handling) < self._concurrency

    @property
    def handling(self) -> Collection[HeldT]:
        """The messages whose handlers run."""
        return self._handling

    @property
    def running(self) -> int:
        """Handlers that run."""
        return len(self._handling)

    def stop_starting(self) -> list[HeldT]:
        """Start no handler any more; returns what waited, but for those behind a message that is not settled yet."""
        self._may_start = False
        again = list(self._again)  # still the heads of their lanes
        self._again.clear()
        return [*again, *self._unordered.drain(), *_without_lane(self._ordered.drain())]

    async def wait_idle(self) -> None:
        """Wait until no handler runs."""
        await self._idle.wait()

    async def drain(
        self, grace: anyio.CancelScope, cancelled: Callable[[HeldT], object] = lambda held: None
    ) -> None:
        """Let the handlers that run end within `grace`, then cancel them, and call `cancelled` for each."""
        with grace:
            await self.wait_idle()
        for task in self._tasks:
            task.cancel()
        for held in tuple(self._handling):
            logger.warning("the handler of %r did not end within the grace and is cancelled", held.message)
            cancelled(held)
        with anyio.move_on_after(CANCELLED_HANDLERS_END):
            await self.wait_idle()

    def _next(self) -> HeldT | None:
        while self._may_start:
            if self._again:
                held = self._again.pop(0)
            elif (taken := self._ordered.take() or self._unordered.take()) is not None:
                held = taken[1]
            else:
                return None
            if not self._is_lost(held):
                return held
        return None

    async def _work(self, watch: Watch) -> None:
        self._fresh.discard(asyncio.current_task())
        turns = 0
        while (held := self._next()) is not None:
            self._handling.add(held)
            if not self._fresh:
                self.wake()
            try:
                if self._session.telling.is_watched:
                    failure = await watched(self._session, held.message, self._handlers.run)
                else:
                    failure = await self._handlers.run(held.message)
                self._finished(held, failure)
            except Exception:  # of ours: a handler's is a value
                self._dropped(held)
                raise
            finally:
                self._handling.discard(held)
            watch.worked()
            turns += 1
            if turns % TURNS == 0:
                await asyncio.sleep(0)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._fresh.discard(task)
        # A message that came after the task had found nothing to do, but before this, has nobody else to start it.
        self.wake()
        if not self._tasks:
            self._idle.set()


def _without_lane(waiting: list[HeldT]) -> list[HeldT]:
    for held in waiting:
        held.lane = None
    return waiting
