"""Sends messages back to brokers, which hand them out again later, or move them to the dead letters."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from aiorocketmq._core.outcomes import ForwardToDeadLetters, GiveBack
from aiorocketmq._core.pauses import failure_pause
from aiorocketmq._core.remoting.delays import level_of
from aiorocketmq._remoting.codes import RequestCode
from aiorocketmq._remoting.session import RemotingSession
from aiorocketmq._session.retrying import retried
from aiorocketmq.errors import BusyError, ClosedError, RocketMQError
from aiorocketmq.message import ReceivedMessage

logger = logging.getLogger(__name__)

DEAD_LETTERS, USUAL = -1, 0
"""Delay levels: none, the message is given up; what the broker's table has for this attempt."""


class SendingBack:
    """Sends back the messages of one group; brokers know each by its place in their log."""

    def __init__(self, session: RemotingSession, group: str) -> None:
        self._session = session
        self._group = group
        self._watch = session.watch("sending messages back")

    async def send(
        self,
        message: ReceivedMessage,
        log_offset: int,
        outcome: GiveBack | ForwardToDeadLetters,
        *,
        is_chosen: bool,
    ) -> bool:
        """Have the broker hand out `message` again, by its own table unless its handler has chosen the delay, or move
        it to the dead letters. Tried again for as long as the consumer runs; whether it was done."""
        level = DEAD_LETTERS
        if isinstance(outcome, GiveBack):
            level = level_of(outcome.delay) if is_chosen else USUAL
        fields = {
            "offset": str(log_offset),
            "group": self._group,
            "delayLevel": str(level),
            "originMsgId": message.message_id,
            "originTopic": message.topic,
            "unitMode": "false",
            "bname": message.queue.broker,
        }

        async def attempt() -> None:
            await self._session.call_broker(message.queue.broker, RequestCode.CONSUMER_SEND_MSG_BACK, fields)

        try:
            await self._until_done(attempt)
        except RocketMQError as error:
            logger.warning("%r could not be sent back, it is read again: %s", message, error)
            return False
        return True

    async def _until_done(self, attempt: Callable[[], Awaitable[None]]) -> None:
        def delay_after(error: RocketMQError) -> float | None:
            if isinstance(error, ClosedError):
                return None
            failures = self._watch.failed(error)
            rng = self._session.environment.random
            return failure_pause(failures, throttled=isinstance(error, BusyError), rng=rng)

        await retried(attempt, delay_after)
        self._watch.worked()
