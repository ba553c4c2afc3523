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
from aiorocketmq._session.client import Client
from aiorocketmq.errors import ClosedError, RocketMQError
from aiorocketmq.message import Message, MessageType, SendReceipt


class Gathering:
    """The lingering messages of one producer."""

    def __init__(self, client: Client, sender: Sender, *, linger: float, max_batch: int) -> None:
        self._client = client
        self._sender = sender
        self._batches = Batches[tuple[str, bool], Parcel](linger=linger, max_count=max_batch)
        self._timer: asyncio.TimerHandle | None = None
        self._under_way: dict[BatchSending, asyncio.Task[Sequence[SendReceipt | RocketMQError]]] = {}
        self._is_closed = False

    async def send(self, message: Message) -> SendReceipt:
        """Send with others where the protocol allows it, alone otherwise."""
        if not may_travel_together(message):
            return await self._sender.send(message)
        until = self._sender.until()
        parcel = self._sender.parcel_at_once(message) or await self._sender.parcel(message, until)
        return await self._sent(parcel, until)

    async def send_within(self, message: Message, seconds: float) -> SendReceipt:
        """Send, and give up after `seconds`, lingering and all tries included."""
        if not may_travel_together(message):
            return await self._sender.send_within(message, seconds)
        parcel: Parcel | None = None
        until = self._sender.until()
        try:
            async with asyncio.timeout(seconds):
                parcel = await self._sender.parcel(message, until)
                return await self._sent(parcel, until)
        except TimeoutError as error:
            # No later attempt of its batch includes it.
            batch = None if parcel is None else parcel.batch
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
                await asyncio.wait(self._under_way.values(), timeout=within)

    async def _sent(self, parcel: Parcel, until: float) -> SendReceipt:
        """Let `parcel` travel with others, and wait for its receipt."""
        if self._is_closed:
            raise self._closed(parcel.message.topic)
        loop = self._sender.loop
        parcel.until = until
        receipt: asyncio.Future[SendReceipt] = loop.create_future()
        parcel.receipt = receipt
        for batch in self._batches.add(parcel.lane, parcel, parcel.size, now=loop.time()):
            self._leave(batch)
        if self._timer is None:
            self._arm(loop)
        try:
            return await receipt
        except asyncio.CancelledError:
            self._withdraw(parcel)
            raise

    def _withdraw(self, parcel: Parcel) -> None:
        """Take out a message whose send was cancelled: now, or by the next attempt of its batch, or with the batch."""
        batch = parcel.batch
        if batch is None:
            self._batches.remove(parcel.lane, parcel)
        elif batch in self._under_way and not any(each.is_wanted for each in batch.parcels):
            self._under_way[batch].cancel()

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

    def _leave(self, parcels: Sequence[Parcel]) -> None:
        batch = self._sender.batch(parcels)
        for parcel in parcels:
            parcel.batch = batch
        until = min(parcel.until for parcel in parcels)
        task = self._client.spawn(self._sender.send_batch, batch, until, name="send a batch")
        self._under_way[batch] = task
        task.add_done_callback(partial(self._arrived, batch))

    def _arrived(
        self, batch: BatchSending, task: asyncio.Task[Sequence[SendReceipt | RocketMQError]]
    ) -> None:
        del self._under_way[batch]
        parcels = batch.parcels
        fault = None if task.cancelled() else task.exception()
        outcomes: Sequence[SendReceipt | BaseException]
        if task.cancelled() or fault is not None:
            outcomes = [fault or self._closed(parcel.message.topic) for parcel in parcels]
        else:
            outcomes = task.result()
        for parcel, outcome in zip(parcels, outcomes, strict=True):
            receipt = parcel.receipt
            if receipt is None or receipt.done():  # its send was cancelled
                continue
            if isinstance(outcome, SendReceipt):
                receipt.set_result(outcome)
            else:
                # One exception that is raised in many tasks would collect the tracebacks of all.
                own = copy(outcome)
                own.__cause__ = outcome.__cause__
                receipt.set_exception(own)

    def _closed(self, topic: str) -> ClosedError:
        return ClosedError("this producer client was closed", endpoint=str(self._client.access), topic=topic)


def may_travel_together(message: Message) -> bool:
    """Whether a batch keeps the protocol's promises for it: an ordered message would lose its queue, a delayed one its
    time (live-lessons.md, 6)."""
    return message.message_type is MessageType.NORMAL
