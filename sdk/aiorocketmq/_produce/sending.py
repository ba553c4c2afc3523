"""One message on its way to a broker, over all its attempts, with its events."""

from __future__ import annotations

from aiorocketmq._core.route import RouteQueue
from aiorocketmq._produce.interface import Half, Outgoing, SendCalls
from aiorocketmq._session.emitting import Sent
from aiorocketmq.errors import RocketMQError
from aiorocketmq.hooks import Phase
from aiorocketmq.message import Message, MessageType, SendReceipt


class Sending(Outgoing):
    """One message on its way, over all its tries."""

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
        # The moment of delivery counts from the first try, or a retry would move it.
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
        """Whether another try does no harm: a half message that is stored twice could be committed twice."""
        return self.half is None or not error.may_have_taken_effect

    async def attempt(self, chosen: RouteQueue) -> SendReceipt:
        """Send once to `chosen`."""
        self.attempts += 1
        client = self._calls.client
        telling = client.telling
        if not telling.is_watched:
            return await self._calls.store(self, chosen, self.attempts)
        sent = Sent(
            operation=client.next_operations(1),
            message=self.message,
            message_id=self.message_id,
            attempt=self.attempts,
            due_us=self.due_us,
            is_half=self.half is not None,
        )
        telling.sending(sent)
        try:
            receipt = await self._calls.store(self, chosen, self.attempts)
        except RocketMQError as error:
            telling.sent(sent, phase_of(error), error=error)
            raise
        except BaseException:
            telling.sent(sent, Phase.INFO)
            raise
        telling.sent(sent, Phase.OK, receipt=receipt)
        return receipt


def due(message: Message, now: float) -> int:
    """When a delayed message is to be delivered, in microseconds since 1970."""
    if message.deliver_at is not None:
        return round(message.deliver_at.timestamp() * 1_000_000)
    return round((now + (message.delay or 0.0)) * 1_000_000)


def phase_of(error: RocketMQError) -> Phase:
    """How a try ended that raised `error`."""
    return Phase.INFO if error.may_have_taken_effect else Phase.FAIL
