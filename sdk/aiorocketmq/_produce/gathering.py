"""Gathers the messages of many concurrent sends into batches, and gives each sender its own outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import copy
from functools import partial

import anyio

from aiorocketmq._core.batches import Batches
from aiorocketmq._produce.batch_sending import BatchSending, Parcel
from aiorocketmq._produce.sender import Sender
from aiorocketmq._session import Session
from aiorocketmq.errors import Closed, RocketMQError
from aiorocketmq.message import Message, MessageType, SendReceipt


class Waiting:
    """One message that waits for its batch, and the send that waits for its receipt."""

    __slots__ = ("batch", "parcel", "receipt")

    def __init__(self, parcel: Parcel, receipt: asyncio.Future[SendReceipt]) -> None:
        self.parcel = parcel
        self.receipt = receipt
        self.batch: BatchSending | None = None
        """What it has left with."""


class Gathering:
    """The lingering messages of one producer."""

    def __init__(self, session: Session, sender: Sender, *, linger: float, max_batch: int) -> None:
        self._session = session
        self._sender = sender
        self._batches = Batches[tuple[str, bool], Waiting](linger=linger, max_count=max_batch)
        self._timer: asyncio.TimerHandle | None = None
        self._under_way: set[asyncio.Task[Sequence[SendReceipt | RocketMQError]]] = set()
        self._is_closed = False

    async def send(self, message: Message) -> SendReceipt:
        """Send with others where the protocol allows it, alone otherwise."""
        if not may_travel_together(message):
            return await self._sender.send(message)
        parcel = self._sender.parcel_at_once(message) or await self._sender.parcel(message)
        return await self._sent(self._put(parcel))

    async def send_within(self, message: Message, seconds: float) -> SendReceipt:
        """Send, and give up after `seconds`, lingering and all tries included."""
        if not may_travel_together(message):
            return await self._sender.send_within(message, seconds)
        waiting: Waiting | None = None
        try:
            async with asyncio.timeout(seconds):
                waiting = self._put(await self._sender.parcel(message))
                return await self._sent(waiting)
        except TimeoutError as error:
            batch = None if waiting is None else waiting.batch
            may_be_stored = batch is not None and batch.may_be_stored
            raise self._sender.gave_up(message.topic, seconds, may_be_stored) from error

    async def close(self, within: float) -> None:
        """Send what lingers, take nothing more, and wait up to `within` seconds for what is under way."""
        self._is_closed = True
        self._disarm()
        for batch in self._batches.drain():
            self._leave(batch)
        if self._under_way:
            with anyio.CancelScope(shield=True):
                await asyncio.wait(self._under_way, timeout=within)

    def _put(self, parcel: Parcel) -> Waiting:
        if self._is_closed:
            raise self._closed(parcel.message.topic)
        loop = self._sender.loop
        waiting = Waiting(parcel, loop.create_future())
        for batch in self._batches.add(parcel.lane, waiting, parcel.size, now=loop.time()):
            self._leave(batch)
        if self._timer is None:
            self._arm(loop)
        return waiting

    async def _sent(self, waiting: Waiting) -> SendReceipt:
        try:
            return await waiting.receipt
        except asyncio.CancelledError:
            # What has left cannot be held any more; the others of the batch are not harmed.
            self._batches.remove(waiting.parcel.lane, waiting)
            raise

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        deadline = self._batches.next_deadline()
        if deadline is not None:
            self._timer = loop.call_at(deadline, self._on_time, loop)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        # A loop may fire a hair early: the deadline that was asked for is reached then, too.
        now = max(loop.time(), self._batches.next_deadline() or 0.0)
        for batch in self._batches.due(now=now):
            self._leave(batch)
        self._arm(loop)

    def _leave(self, batch: Sequence[Waiting]) -> None:
        sending = self._sender.batch([waiting.parcel for waiting in batch])
        for waiting in batch:
            waiting.batch = sending
        task = self._session.spawn(self._sender.send_batch, sending, name="send a batch")
        self._under_way.add(task)
        task.add_done_callback(partial(self._arrived, batch))

    def _arrived(
        self, batch: Sequence[Waiting], task: asyncio.Task[Sequence[SendReceipt | RocketMQError]]
    ) -> None:
        self._under_way.discard(task)
        fault = None if task.cancelled() else task.exception()
        if task.cancelled() or fault is not None:
            closed = self._closed(batch[0].parcel.message.topic)
            outcomes: Sequence[SendReceipt | BaseException] = [fault or closed] * len(batch)
        else:
            outcomes = task.result()
        for waiting, outcome in zip(batch, outcomes, strict=True):
            if waiting.receipt.done():  # its sender was cancelled
                continue
            if isinstance(outcome, SendReceipt):
                waiting.receipt.set_result(outcome)
            else:
                # One exception that is raised in many tasks would collect the tracebacks of all.
                own = copy(outcome)
                own.__cause__ = outcome.__cause__
                waiting.receipt.set_exception(own)

    def _closed(self, topic: str) -> Closed:
        return Closed("this producer client was closed", endpoint=str(self._session.access), topic=topic)


def may_travel_together(message: Message) -> bool:
    """Whether a batch keeps the protocol's promises for it: an ordered message would lose its queue, a delayed one its
    time (live-lessons.md, 6)."""
    return message.message_type is MessageType.NORMAL
