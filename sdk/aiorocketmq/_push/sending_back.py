"""Sends failed messages back to brokers, which redeliver them later, or move them to the dead letters."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from aiorocketmq._core.outcomes import ForwardToDeadLetters, Release
from aiorocketmq._core.pauses import failure_pause
from aiorocketmq._core.remoting.delays import level_of
from aiorocketmq._remoting.codes import RequestCode
from aiorocketmq._remoting.session import RemotingSession
from aiorocketmq._session.retrying import retried
from aiorocketmq.errors import BusyError, ClosedError, RocketMQError
from aiorocketmq.message import ReceivedMessage

logger = logging.getLogger("aiorocketmq.push_consumer")

DEAD_LETTERS, USUAL = -1, 0
"""Delay levels: to the dead letters; the level of the broker's table for this attempt."""


class SendingBack:
    """Sends back the messages of one group; brokers identify each by its offset in their commit log."""

    def __init__(self, session: RemotingSession, group: str) -> None:
        self._session = session
        self._group = group
        self._watch = session.watch("sending messages back")

    async def send(
        self,
        message: ReceivedMessage,
        log_offset: int,
        outcome: Release | ForwardToDeadLetters,
        *,
        is_chosen: bool,
    ) -> bool:
        """Send `message` back, to be redelivered after the broker's delay or the one that its handler has chosen, or as
        a dead letter. Retried while the consumer is running; return whether it succeeded."""
        level = DEAD_LETTERS
        if isinstance(outcome, Release):
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
            logger.warning("%r could not be sent back, it will be read again: %s", message, error)
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
