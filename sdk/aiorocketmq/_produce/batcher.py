"""Batches the messages of concurrent sends, and returns to each its own outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import copy
from functools import partial

import anyio

from aiorocketmq._core.batches import Batches
from aiorocketmq._produce.requests import BatchMember, BatchRequest
from aiorocketmq._produce.sender import Sender
from aiorocketmq._session.client import Client
from aiorocketmq.errors import ClosedError, RocketMQError
from aiorocketmq.message import Message, MessageType, SendReceipt


class Batcher:
    """The lingering messages of one producer."""

    def __init__(self, client: Client, sender: Sender, *, linger: float, max_batch: int) -> None:
        self._client = client
        self._sender = sender
        self._batches = Batches[tuple[str, bool], BatchMember](linger=linger, max_count=max_batch)
        self._timer: asyncio.TimerHandle | None = None
        self._in_flight: dict[BatchRequest, asyncio.Task[Sequence[SendReceipt | RocketMQError]]] = {}
        self._is_closed = False

    async def send(self, message: Message) -> SendReceipt:
        """Send in a batch if the protocol permits, alone otherwise."""
        if not can_be_batched(message):
            return await self._sender.send(message)
        until = self._sender.until()
        member = self._sender.member_at_once(message) or await self._sender.member(message, until)
        return await self._sent(member, until)

    async def send_within(self, message: Message, seconds: float) -> SendReceipt:
        """Send, and give up after `seconds`, including lingering and all attempts."""
        if not can_be_batched(message):
            return await self._sender.send_within(message, seconds)
        member: BatchMember | None = None
        until = self._sender.until()
        try:
            async with asyncio.timeout(seconds):
                member = await self._sender.member(message, until)
                return await self._sent(member, until)
        except TimeoutError as error:
            # No later attempt of its batch includes it.
            batch = None if member is None else member.batch
            may_be_stored = batch is not None and batch.may_be_stored
            raise self._sender.gave_up(message.topic, seconds, may_be_stored) from error

    async def close(self, within: float) -> None:
        """Send lingering messages, refuse new ones, and wait up to `within` seconds for batches in flight."""
        self._is_closed = True
        self._disarm()
        for batch in self._batches.drain():
            self._leave(batch)
        if self._in_flight:
            with anyio.CancelScope(shield=True):
                await asyncio.wait(self._in_flight.values(), timeout=within)

    async def _sent(self, member: BatchMember, until: float) -> SendReceipt:
        """Add `member` to a batch and wait for its receipt."""
        if self._is_closed:
            raise self._closed(member.message.topic)
        loop = self._sender.loop
        member.until = until
        receipt: asyncio.Future[SendReceipt] = loop.create_future()
        member.receipt = receipt
        for batch in self._batches.add(member.batch_key, member, member.size, now=loop.time()):
            self._leave(batch)
        if self._timer is None:
            self._arm(loop)
        try:
            return await receipt
        except asyncio.CancelledError:
            self._withdraw(member)
            raise

    def _withdraw(self, member: BatchMember) -> None:
        """Remove a message whose send was cancelled: now, before the next attempt of its batch, or with the whole
        batch."""
        batch = member.batch
        if batch is None:
            self._batches.remove(member.batch_key, member)
        elif batch in self._in_flight and not any(each.is_wanted for each in batch.members):
            self._in_flight[batch].cancel()

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
        # A loop may fire slightly early: the deadline has been reached then as well.
        now = max(loop.time(), self._batches.next_deadline() or 0.0)
        for batch in self._batches.due(now=now):
            self._leave(batch)
        self._arm(loop)

    def _leave(self, members: Sequence[BatchMember]) -> None:
        batch = self._sender.batch(members)
        for member in members:
            member.batch = batch
        until = min(member.until for member in members)
        task = self._client.spawn(self._sender.send_batch, batch, until, name="send a batch")
        self._in_flight[batch] = task
        task.add_done_callback(partial(self._arrived, batch))

    def _arrived(
        self, batch: BatchRequest, task: asyncio.Task[Sequence[SendReceipt | RocketMQError]]
    ) -> None:
        del self._in_flight[batch]
        members = batch.members
        fault = None if task.cancelled() else task.exception()
        outcomes: Sequence[SendReceipt | BaseException]
        if task.cancelled() or fault is not None:
            outcomes = [fault or self._closed(member.message.topic) for member in members]
        else:
            outcomes = task.result()
        for member, outcome in zip(members, outcomes, strict=True):
            receipt = member.receipt
            if receipt is None or receipt.done():  # its send was cancelled
                continue
            if isinstance(outcome, SendReceipt):
                receipt.set_result(outcome)
            else:
                # An exception that is raised in many tasks would collect the tracebacks of all of them.
                own = copy(outcome)
                own.__cause__ = outcome.__cause__
                receipt.set_exception(own)

    def _closed(self, topic: str) -> ClosedError:
        return ClosedError("this producer client was closed", endpoint=str(self._client.access), topic=topic)


def can_be_batched(message: Message) -> bool:
    """Whether a batch keeps the protocol's guarantees for it: an ordered message would lose its queue, a delayed one
    its time (live-lessons.md, 6)."""
    return message.message_type is MessageType.NORMAL
