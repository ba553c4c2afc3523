"""A batch on its way to a broker: its request, its receipts, its events."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiorocketmq import _convert
from aiorocketmq._calls import SEND
from aiorocketmq._core.batches import OVERHEAD
from aiorocketmq._core.route import RouteQueue
from aiorocketmq._produce.sending import ACCEPTED, miscounted, phase_of
from aiorocketmq._session import Session
from aiorocketmq._telling import Sent
from aiorocketmq.errors import RocketMQError, refusal
from aiorocketmq.hooks import Phase
from aiorocketmq.message import Message, MessageType, SendReceipt
from aiorocketmq.wire import messages as pb


class Parcel:
    """One message of a batch; all of a batch are compressed, or none (live-lessons.md, 6)."""

    # No dataclass: one is made for every message, and a frozen one costs three times as much.
    __slots__ = ("batch", "message", "message_id", "packed", "receipt", "until")

    def __init__(self, message: Message, message_id: str, packed: bytes | None = None) -> None:
        self.message = message
        self.message_id = message_id
        self.packed = packed
        """Its body, if it travels compressed."""
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

    Servers store them one behind the other in one queue, and most give one receipt for all: its offset is that of the
    first message, and its id is none of theirs (R4.15)."""

    __slots__ = ("_session", "attempts", "has_slot", "may_be_stored", "parcels")

    message_group = None

    def __init__(self, session: Session, parcels: Sequence[Parcel]) -> None:
        self._session = session
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
        if not self._session.telling.is_watched:
            return await self._call(chosen)
        telling, first = self._session.telling, self._session.next_operations(len(self.parcels))
        told = [
            Sent(number, each.message, each.message_id, self.attempts)
            for number, each in enumerate(self.parcels, first)
        ]
        for sent in told:
            telling.sending(sent)
        try:
            outcomes = await self._call(chosen)
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

    async def _call(self, chosen: RouteQueue) -> Sequence[SendReceipt | RocketMQError]:
        session, topic = self._session, self.parcels[0].message.topic
        request = pb.SendMessageRequest()
        now = session.surroundings.wall()
        for parcel in self.parcels:
            _convert.fill_message(
                request.messages.add(),
                parcel.message,
                message_id=parcel.message_id,
                now=now,
                host=session.surroundings.host,
                queue_id=chosen.queue.id,
                namespace=session.namespace,
                message_type=MessageType.NORMAL,
                due_us=None,
                packed=parcel.packed,
            )
        response = await session.call(chosen.endpoint, SEND, request, topic=topic)
        outcomes = self._outcomes(response.entries, chosen, topic)
        session.note_success()
        return outcomes

    def _outcomes(
        self, entries: Sequence[pb.SendResultEntry], chosen: RouteQueue, topic: str
    ) -> Sequence[SendReceipt | RocketMQError]:
        count = len(self.parcels)
        endpoint = str(chosen.endpoint)
        for_all = len(entries) == 1
        if not for_all and len(entries) != count:
            raise miscounted(len(entries), count, chosen, topic)
        outcomes: list[SendReceipt | RocketMQError] = []
        for place, parcel in enumerate(self.parcels):
            entry = entries[0 if for_all else place]
            if entry.status.code not in ACCEPTED:
                error = refusal(
                    entry.status.code, entry.status.message, endpoint=endpoint, topic=topic, topic_known=True
                )
                if for_all:
                    raise error
                outcomes.append(error)
                continue
            outcomes.append(
                SendReceipt(
                    message_id=parcel.message_id,
                    topic=topic,
                    queue=chosen.queue,
                    offset=entry.offset + place if for_all else entry.offset,
                    attempts=self.attempts,
                    transaction_id=None if for_all else entry.transaction_id or None,
                    endpoint=endpoint,
                )
            )
        return outcomes
