"""Sends one message: finds its queue, and tries again where that can help."""

from __future__ import annotations

import logging
from dataclasses import replace

from aiorocketmq._core.codes import Code
from aiorocketmq._core.retries import send_delay
from aiorocketmq._core.route import QueueChoice, Route, RouteQueue
from aiorocketmq._produce.sending import Half, Sending
from aiorocketmq._retrying import retried
from aiorocketmq._session import Session
from aiorocketmq.config import SendRetry
from aiorocketmq.connection import loop_time, process_message_ids
from aiorocketmq.errors import (
    Busy,
    MessageTooLarge,
    PermissionDenied,
    RocketMQError,
    TypeMismatch,
    Unreachable,
)
from aiorocketmq.message import Message, MessageType, SendReceipt

logger = logging.getLogger(__name__)


class Sender:
    """The way of every single message of one producer."""

    def __init__(self, session: Session, retry: SendRetry) -> None:
        self._session = session
        self._retry = retry
        self._queues = QueueChoice(session.surroundings.random)

    async def send(self, message: Message, half: Half | None = None) -> SendReceipt:
        """Send `message`; with `half` as the half message of a transaction.

        The first try stands by itself, because nearly every send ends with it."""
        session = self._session
        session.check_running()
        topic = message.topic
        route = session.routes.cached.get(topic)
        if route is None:
            route = await session.route(topic)
            await self._declare(topic)
        kind = message.message_type if half is None else MessageType.TRANSACTION
        self._check(message, kind, route)
        turn = 0
        chosen: RouteQueue | None
        if message.message_group is not None:
            chosen = self._queues.of_message_group(route, message.message_group)
        else:
            first = self._queues.first(route, session.isolated)
            chosen, turn = first if first is not None else (None, 0)
        if chosen is None:
            raise PermissionDenied(
                f"topic {topic!r} has no writable queue; check its permission and that its brokers run",
                endpoint=str(session.access),
                topic=topic,
            )
        message_id = half.message_id if half is not None else self.next_message_id()
        sending = Sending(session, message, kind, message_id, half)
        try:
            return await sending.attempt(chosen)
        except RocketMQError as error:
            return await self._try_again(sending, route, chosen, turn, error)

    def next_message_id(self) -> str:
        """A fresh id, unique among all clients."""
        return process_message_ids().next(self._session.surroundings.wall())

    async def _try_again(
        self, sending: Sending, route: Route, chosen: RouteQueue, turn: int, error: RocketMQError
    ) -> SendReceipt:
        """Carry out the retries that `_core/retries.py` decides on, after the first try has failed with `error`."""
        session = self._session
        failed: RocketMQError | None = error
        until = None if self._retry.total is None else sending.begun + self._retry.total

        async def attempt() -> SendReceipt:
            nonlocal chosen, failed
            if failed is not None:
                earlier, failed = failed, None
                raise earlier
            if sending.message.message_group is None:
                candidates = self._queues.candidates(route, turn, self._retry.attempts, session.isolated)
                chosen = candidates[sending.attempts % len(candidates)]
            return await sending.attempt(chosen)

        def delay_after(error: RocketMQError) -> float | None:
            if error.may_retry:
                session.isolated.add(chosen.endpoint)
            delay = send_delay(
                attempt=sending.attempts,
                may_retry=error.may_retry and sending.may_repeat(error),
                throttled=isinstance(error, Busy),
                unreachable=isinstance(error, Unreachable),
                backoff=replace(session.settings.backoff, max_attempts=self._retry.attempts),
                random=session.surroundings.random,
            )
            if delay is None or (until is not None and loop_time() + delay >= until):
                return None
            logger.info(
                "send %d of message %s failed, trying again: %s",
                sending.attempts,
                sending.message_id,
                error,
                extra=session.log_facts(),
            )
            return delay

        return await retried(attempt, delay_after)

    def _check(self, message: Message, kind: MessageType, route: Route) -> None:
        """Refuse what the server's settings say it would refuse, before it travels."""
        settings = self._session.settings
        if len(message.body) > settings.max_body:
            raise MessageTooLarge(
                f"the body of {len(message.body)} bytes for topic {message.topic!r} is over the server's limit of "
                f"{settings.max_body} bytes; send less, or raise the server's limit",
                code=Code.MESSAGE_BODY_TOO_LARGE,
                topic=message.topic,
            )
        accepts = route.accepts
        if accepts and settings.validate_message_type and kind.value not in accepts:
            raise TypeMismatch(
                f"topic {message.topic!r} takes {' or '.join(sorted(accepts))} messages, not {kind.value}; "
                "send to a topic of the right type",
                code=Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                endpoint=str(self._session.access),
                topic=message.topic,
            )

    async def _declare(self, topic: str) -> None:
        """Tell the servers of a topic that was not declared, because they look producers up by topic."""
        declaration = self._session.declaration
        if topic not in declaration.topics:
            self._session.declaration = replace(declaration, topics=(*declaration.topics, topic))
            await self._session.write_settings()
