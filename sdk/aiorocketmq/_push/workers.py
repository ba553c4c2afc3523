"""Runs handlers: at most `concurrency` at a time, each message when its order permits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Hashable
from typing import Generic, Protocol, TypeVar

from aiorocketmq._aio.event import Signal
from aiorocketmq._aio.limit import Limit
from aiorocketmq._aio.tasks import Watch
from aiorocketmq._consume.handlers import watched
from aiorocketmq._core.dispatch import ConcurrentDispatch, FifoDispatch
from aiorocketmq._push.handlers import Handlers
from aiorocketmq._session.client import Client
from aiorocketmq.message import ReceivedMessage

logger = logging.getLogger("aiorocketmq.push_consumer")

CANCELLED_HANDLERS_END = 1.0
"""Seconds that cancelled handlers have for their own clean-up."""
TURNS = 32
"""Handlers that one task runs before it yields to the loop, in case none of them awaits anything."""


class Waiting(Protocol):
    """A message that waits for its handler."""

    message: ReceivedMessage
    order_key: Hashable | None
    """Messages with equal keys are handled in order; None if it has no order."""


DeliveryT = TypeVar("DeliveryT", bound=Waiting)


class Workers(Generic[DeliveryT]):
    """Tasks that handle messages one after the other; they exist only while there are messages.

    `finished` is called when a handler has returned (None) or raised (its exception), `dropped` if that fails: the
    message is not processed further then, and is redelivered.

    Only as many tasks wait for their first turn as handlers run, and at least one: handlers that await nothing are all
    run by one task, and if handlers wait, the number of tasks doubles with each turn of the loop up to `concurrency`.
    So no task is created per message under load, and none waits when idle."""

    def __init__(
        self,
        session: Client,
        handlers: Handlers,
        *,
        concurrency: int,
        is_lost: Callable[[DeliveryT], bool],
        finished: Callable[[DeliveryT, Exception | None], None],
        dropped: Callable[[DeliveryT], None],
    ) -> None:
        self._session = session
        self._handlers = handlers
        self._concurrency = concurrency
        self._is_lost = is_lost
        self._finished = finished
        self._dropped = dropped
        self._watch = session.watch("handling messages")
        self._unordered = ConcurrentDispatch[DeliveryT]()
        self._ordered = FifoDispatch[DeliveryT]()
        self._again: list[DeliveryT] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._handling: set[DeliveryT] = set()
        self._fresh: set[asyncio.Task[None] | None] = set()
        """Tasks that have not had their first turn."""
        self._may_start = True
        self._idle = Signal()
        self._idle.set()

    def add(self, delivery: DeliveryT) -> None:
        """Queue a message; wake() starts the handlers, once per batch."""
        if delivery.order_key is None:
            self._unordered.add(None, delivery)
        else:
            self._ordered.add(delivery.order_key, delivery)

    def retry_locally(self, delivery: DeliveryT) -> None:
        """Call the handler of an ordered group's message again, before those behind it."""
        self._again.append(delivery)
        self.wake()

    def settled(self, delivery: DeliveryT) -> list[DeliveryT]:
        """Let the next message of its order key start; after stop_starting(), return those that waited."""
        if delivery.order_key is None:
            return []
        self._ordered.finish(delivery.order_key)
        if self._may_start:
            self.wake()
            return []
        return _without_order(self._ordered.drain())

    def unsettled(self, delivery: DeliveryT) -> list[DeliveryT]:
        """Return the messages of its order key behind one that will be redelivered; they have no order key any more."""
        if delivery.order_key is None:
            return []
        return _without_order(self._ordered.abandon(delivery.order_key))

    def wake(self) -> None:
        """Start tasks for messages that may start, up to the limit."""
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
    def handling(self) -> Collection[DeliveryT]:
        """The messages whose handlers run."""
        return self._handling

    @property
    def running(self) -> int:
        """Handlers that run."""
        return len(self._handling)

    def stop_starting(self) -> list[DeliveryT]:
        """Start no more handlers; return the waiting messages, except for those behind a message that is not settled
        yet."""
        self._may_start = False
        again = list(self._again)  # still the first of their order keys
        self._again.clear()
        return [*again, *self._unordered.drain(), *_without_order(self._ordered.drain())]

    async def wait_idle(self) -> None:
        """Wait until no handler runs."""
        await self._idle.wait()

    async def drain(
        self, grace: Limit, cancelled: Callable[[DeliveryT], object] = lambda delivery: None
    ) -> None:
        """Wait for running handlers within `grace`, then cancel them, and call `cancelled` for each."""
        async with grace:
            await self.wait_idle()
        for task in self._tasks:
            task.cancel()
        for delivery in tuple(self._handling):
            logger.warning(
                "the handler of %r did not end within the shutdown timeout and is cancelled", delivery.message
            )
            cancelled(delivery)
        async with Limit(CANCELLED_HANDLERS_END):
            await self.wait_idle()

    def _next(self) -> DeliveryT | None:
        while self._may_start:
            if self._again:
                delivery = self._again.pop(0)
            elif (taken := self._ordered.take() or self._unordered.take()) is not None:
                delivery = taken[1]
            else:
                return None
            if not self._is_lost(delivery):
                return delivery
        return None

    async def _work(self, watch: Watch) -> None:
        self._fresh.discard(asyncio.current_task())
        turns = 0
        while (delivery := self._next()) is not None:
            self._handling.add(delivery)
            if not self._fresh:
                self.wake()
            try:
                if self._session.emitter.is_watched:
                    failure = await watched(self._session, delivery.message, self._handlers.run)
                else:
                    failure = await self._handlers.run(delivery.message)
                self._finished(delivery, failure)
            except Exception:  # of this library: a handler's exception is a value
                self._dropped(delivery)
                raise
            finally:
                self._handling.discard(delivery)
            watch.worked()
            turns += 1
            if turns % TURNS == 0:
                await asyncio.sleep(0)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._fresh.discard(task)
        # A message may have arrived after the task had found none, but before this call.
        self.wake()
        if not self._tasks:
            self._idle.set()


def _without_order(waiting: list[DeliveryT]) -> list[DeliveryT]:
    for delivery in waiting:
        delivery.order_key = None
    return waiting
