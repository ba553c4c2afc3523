"""Requests to store one message or a batch, over all their attempts, with their events."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiorocketmq._core.batches import OVERHEAD
from aiorocketmq._core.route import RouteQueue
from aiorocketmq._produce.interface import Half, Outgoing, SendCalls
from aiorocketmq._session.events import Sent
from aiorocketmq.errors import RocketMQError
from aiorocketmq.hooks import Phase
from aiorocketmq.message import Message, MessageType, SendReceipt


class SingleRequest(Outgoing):
    """A request to store one message, over all its attempts."""

    __slots__ = ("_calls", "attempts", "has_slot", "may_be_stored", "message_group")

    def __init__(
        self,
        calls: SendCalls,
        message: Message,
        kind: MessageType,
        message_id: str,
        half: Half | None = None,
        packed: bytes | None = None,
    ) -> None:
        # The delivery time counts from the first attempt; otherwise a retry would move it.
        due_us = None
        if kind is MessageType.DELAY:
            due_us = due(message, calls.client.environment.wall())
        super().__init__(message, message_id, kind=kind, packed=packed, half=half, due_us=due_us)
        self._calls = calls
        self.message_group = message.message_group
        self.attempts = 0
        self.may_be_stored = False
        self.has_slot = False

    def __str__(self) -> str:
        return f"message {self.message_id}"

    def may_repeat(self, error: RocketMQError) -> bool:
        """Whether another attempt does no harm: a half message that is stored twice could be committed twice."""
        return self.half is None or not error.may_have_taken_effect

    async def attempt(self, chosen: RouteQueue) -> SendReceipt:
        """Make one attempt at `chosen`."""
        self.attempts += 1
        client = self._calls.client
        emitter = client.emitter
        if not emitter.is_watched:
            return await self._calls.store(self, chosen, self.attempts)
        sent = Sent(
            operation=client.next_operations(1),
            message=self.message,
            message_id=self.message_id,
            attempt=self.attempts,
            due_us=self.due_us,
            is_half=self.half is not None,
        )
        emitter.sending(sent)
        try:
            receipt = await self._calls.store(self, chosen, self.attempts)
        except RocketMQError as error:
            emitter.sent(sent, phase_of(error), error=error)
            raise
        except BaseException:
            emitter.sent(sent, Phase.INFO)
            raise
        emitter.sent(sent, Phase.OK, receipt=receipt)
        return receipt


class BatchMember(Outgoing):
    """One message of a batch; either all of a batch are compressed, or none (live-lessons.md, 6)."""

    __slots__ = ("batch", "receipt", "until")

    def __init__(self, message: Message, message_id: str, packed: bytes | None = None) -> None:
        super().__init__(message, message_id, packed=packed)
        self.receipt: asyncio.Future[SendReceipt] | None = None
        """The future that its send awaits; None in a batch that is awaited as a whole (`send_many`)."""
        self.until = 0.0
        """When the budget of its send ends, if it has a receipt."""
        self.batch: BatchRequest | None = None
        """The batch that it was sent with."""

    @property
    def is_wanted(self) -> bool:
        """Whether its send has neither completed nor been cancelled."""
        return self.receipt is None or not self.receipt.done()

    @property
    def batch_key(self) -> tuple[str, bool]:
        """The key of messages that may share a batch: topic and encoding."""
        return self.message.topic, self.packed is not None

    @property
    def size(self) -> int:
        """Approximate bytes that it takes at the server."""
        message = self.message
        size = len(message.body if self.packed is None else self.packed) + OVERHEAD
        if message.properties:
            size += sum(4 * (len(key) + len(value)) for key, value in message.properties.items())
        if message.keys:
            size += sum(4 * len(key) for key in message.keys)
        return size


class BatchRequest:
    """A request to store plain messages of one topic, over all its attempts.

    Servers store them consecutively in one queue."""

    __slots__ = ("_calls", "attempts", "has_slot", "may_be_stored", "members")

    message_group = None

    def __init__(self, calls: SendCalls, members: Sequence[BatchMember]) -> None:
        self._calls = calls
        self.members = members
        self.attempts = 0
        self.may_be_stored = False
        self.has_slot = False

    def __str__(self) -> str:
        return f"a batch of {len(self.members)} messages"

    def may_repeat(self, error: RocketMQError) -> bool:
        """Whether another attempt does no harm: always, with the same ids."""
        return True

    async def attempt(self, chosen: RouteQueue) -> Sequence[SendReceipt | RocketMQError]:
        """Send the messages that are still wanted to `chosen`; outcomes of single messages may be errors."""
        self.attempts += 1
        self.members = [each for each in self.members if each.is_wanted]
        if not self.members:
            raise asyncio.CancelledError
        client = self._calls.client
        emitter = client.emitter
        if not emitter.is_watched:
            return await self._calls.store_batch(self.members, chosen, self.attempts)
        first = client.next_operations(len(self.members))
        sends = [
            Sent(number, each.message, each.message_id, self.attempts)
            for number, each in enumerate(self.members, first)
        ]
        for sent in sends:
            emitter.sending(sent)
        try:
            outcomes = await self._calls.store_batch(self.members, chosen, self.attempts)
        except RocketMQError as error:
            for sent in sends:
                emitter.sent(sent, phase_of(error), error=error)
            raise
        except BaseException:
            for sent in sends:
                emitter.sent(sent, Phase.INFO)
            raise
        for sent, outcome in zip(sends, outcomes, strict=True):
            if isinstance(outcome, RocketMQError):
                emitter.sent(sent, phase_of(outcome), error=outcome)
            else:
                emitter.sent(sent, Phase.OK, receipt=outcome)
        return outcomes


def due(message: Message, now: float) -> int:
    """The delivery time of a delayed message in microseconds since 1970."""
    if message.deliver_at is not None:
        return round(message.deliver_at.timestamp() * 1_000_000)
    return round((now + (message.delay or 0.0)) * 1_000_000)


def phase_of(error: RocketMQError) -> Phase:
    """The final phase of an attempt that raised `error`."""
    return Phase.INFO if error.may_have_taken_effect else Phase.FAIL
