"""One message on its way to a broker: its request, its receipt, its events."""

from __future__ import annotations

from aiorocketmq import _convert
from aiorocketmq._calls import SEND
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.route import RouteQueue
from aiorocketmq._session import Session
from aiorocketmq._telling import Sent
from aiorocketmq.errors import RocketMQError, ServerFault, refusal
from aiorocketmq.hooks import Phase
from aiorocketmq.message import Message, MessageType, SendReceipt
from aiorocketmq.wire import messages as pb

ACCEPTED = frozenset({int(pb.Code.OK), 0})
"""Codes of an entry that is stored; some servers leave it out (R4.12)."""


class Half:
    """What a half message needs beyond its message, and what ending its transaction needs of its send."""

    __slots__ = ("check_after", "endpoint", "message_id")

    def __init__(self, message_id: str, check_after: float | None) -> None:
        self.message_id = message_id
        self.check_after = check_after
        """Seconds after which the server may ask; None leaves it to the server."""
        self.endpoint: Endpoint | None = None
        """Who stored it and remembers the transaction (R9.4)."""


class Sending:
    """One message on its way, over all its tries."""

    __slots__ = (
        "_due_us",
        "_half",
        "_kind",
        "_packed",
        "_session",
        "attempts",
        "has_slot",
        "may_be_stored",
        "message",
        "message_group",
        "message_id",
    )

    def __init__(
        self,
        session: Session,
        message: Message,
        kind: MessageType,
        message_id: str,
        half: Half | None = None,
        packed: bytes | None = None,
    ) -> None:
        self._session = session
        self._packed = packed
        self._kind = kind
        self._half = half
        self.message = message
        self.message_id = message_id
        self.message_group = message.message_group
        self.attempts = 0
        self.may_be_stored = False
        self.has_slot = False
        # The moment of delivery counts from the first try, or a retry would move it.
        self._due_us = None if kind is not MessageType.DELAY else self._due(message)

    def _due(self, message: Message) -> int:
        if message.deliver_at is not None:
            return round(message.deliver_at.timestamp() * 1_000_000)
        return round((self._session.surroundings.wall() + (message.delay or 0.0)) * 1_000_000)

    def __str__(self) -> str:
        return f"message {self.message_id}"

    def may_repeat(self, error: RocketMQError) -> bool:
        """Whether another try does no harm: a half message that is stored twice could be committed twice."""
        return self._half is None or not error.may_have_taken_effect

    async def attempt(self, chosen: RouteQueue) -> SendReceipt:
        """Send once to `chosen`."""
        self.attempts += 1
        if not self._session.telling.is_watched:
            return await self._call(chosen)
        telling = self._session.telling
        sent = Sent(
            operation=self._session.next_operations(1),
            message=self.message,
            message_id=self.message_id,
            attempt=self.attempts,
            due_us=self._due_us,
            is_half=self._half is not None,
        )
        telling.sending(sent)
        try:
            receipt = await self._call(chosen)
        except RocketMQError as error:
            telling.sent(sent, phase_of(error), error=error)
            raise
        except BaseException:
            telling.sent(sent, Phase.INFO)
            raise
        telling.sent(sent, Phase.OK, receipt=receipt)
        return receipt

    async def _call(self, chosen: RouteQueue) -> SendReceipt:
        session, half, topic = self._session, self._half, self.message.topic
        request = pb.SendMessageRequest()
        _convert.fill_message(
            request.messages.add(),
            self.message,
            message_id=self.message_id,
            now=session.surroundings.wall(),
            host=session.surroundings.host,
            queue_id=chosen.queue.id,
            namespace=session.namespace,
            message_type=self._kind,
            due_us=self._due_us,
            check_after=None if half is None else half.check_after,
            packed=self._packed,
        )
        response = await session.call(chosen.endpoint, SEND, request, topic=topic)
        if len(response.entries) != 1:
            raise miscounted(len(response.entries), 1, chosen, topic)
        entry = response.entries[0]
        if entry.status.code not in ACCEPTED:
            raise refusal(
                entry.status.code,
                entry.status.message,
                endpoint=str(chosen.endpoint),
                topic=topic,
                topic_known=True,
            )
        session.note_success()
        if half is not None:
            half.endpoint = chosen.endpoint
        return SendReceipt(
            message_id=entry.message_id or self.message_id,
            topic=topic,
            queue=chosen.queue,
            offset=entry.offset,
            attempts=self.attempts,
            recall_handle=entry.recall_handle or None,
            transaction_id=entry.transaction_id or None,
            endpoint=str(chosen.endpoint),
        )


def phase_of(error: RocketMQError) -> Phase:
    """How a try ended that raised `error`."""
    return Phase.INFO if error.may_have_taken_effect else Phase.FAIL


def miscounted(results: int, wanted: int, chosen: RouteQueue, topic: str) -> ServerFault:
    """The error for an answer with another number of results."""
    return ServerFault(
        f"{chosen.endpoint} answered a send to topic {topic!r} with {results} results instead of {wanted}; "
        "look at the server's log",
        endpoint=str(chosen.endpoint),
        topic=topic,
    )
