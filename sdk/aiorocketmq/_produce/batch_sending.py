"""A batch on its way to a broker: its attempts and its events."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiorocketmq._core.batches import OVERHEAD
from aiorocketmq._core.route import RouteQueue
from aiorocketmq._produce.interface import Outgoing, SendCalls
from aiorocketmq._produce.sending import phase_of
from aiorocketmq._session.emitting import Sent
from aiorocketmq.errors import RocketMQError
from aiorocketmq.hooks import Phase
from aiorocketmq.message import Message, SendReceipt


class Parcel(Outgoing):
    """One message of a batch; all of a batch are compressed, or none (live-lessons.md, 6)."""

    __slots__ = ("batch", "receipt", "until")

    def __init__(self, message: Message, message_id: str, packed: bytes | None = None) -> None:
        super().__init__(message, message_id, packed=packed)
        self.receipt: asyncio.Future[SendReceipt] | None = None
        """What its send awaits; None in a batch that is awaited as a whole (`send_many`)."""
        self.until = 0.0
        """When the budget of its send is spent, if it has a receipt."""
        self.batch: BatchSending | None = None
        """What it has left with."""

    @property
    def is_wanted(self) -> bool:
        """Whether its send has neither ended nor been cancelled."""
        return self.receipt is None or not self.receipt.done()

    @property
    def lane(self) -> tuple[str, bool]:
        """What it may travel with: messages of the same topic and encoding."""
        return self.message.topic, self.packed is not None

    @property
    def size(self) -> int:
        """About how many bytes it takes at the server."""
        message = self.message
        size = len(message.body if self.packed is None else self.packed) + OVERHEAD
        if message.properties:
            size += sum(4 * (len(key) + len(value)) for key, value in message.properties.items())
        if message.keys:
            size += sum(4 * len(key) for key in message.keys)
        return size


class BatchSending:
    """Plain messages of one topic that travel in one request, over all its tries.

    Servers store them one behind the other in one queue."""

    __slots__ = ("_calls", "attempts", "has_slot", "may_be_stored", "parcels")

    message_group = None

    def __init__(self, calls: SendCalls, parcels: Sequence[Parcel]) -> None:
        self._calls = calls
        self.parcels = parcels
        self.attempts = 0
        self.may_be_stored = False
        self.has_slot = False

    def __str__(self) -> str:
        return f"a batch of {len(self.parcels)} messages"

    def may_repeat(self, error: RocketMQError) -> bool:
        """Whether another try does no harm: always, with the same ids."""
        return True

    async def attempt(self, chosen: RouteQueue) -> Sequence[SendReceipt | RocketMQError]:
        """Send what is still wanted once to `chosen`; the error of a single message stands in its place."""
        self.attempts += 1
        self.parcels = [each for each in self.parcels if each.is_wanted]
        if not self.parcels:
            raise asyncio.CancelledError
        client = self._calls.client
        telling = client.telling
        if not telling.is_watched:
            return await self._calls.store_batch(self.parcels, chosen, self.attempts)
        first = client.next_operations(len(self.parcels))
        told = [
            Sent(number, each.message, each.message_id, self.attempts)
            for number, each in enumerate(self.parcels, first)
        ]
        for sent in told:
            telling.sending(sent)
        try:
            outcomes = await self._calls.store_batch(self.parcels, chosen, self.attempts)
        except RocketMQError as error:
            for sent in told:
                telling.sent(sent, phase_of(error), error=error)
            raise
        except BaseException:
            for sent in told:
                telling.sent(sent, Phase.INFO)
            raise
        for sent, outcome in zip(told, outcomes, strict=True):
            if isinstance(outcome, RocketMQError):
                telling.sent(sent, phase_of(outcome), error=outcome)
            else:
                telling.sent(sent, Phase.OK, receipt=outcome)
        return outcomes
