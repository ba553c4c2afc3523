"""Ends the transactions of one producer, and resolves checks of servers (client-behaviour.md, 9.6 and 9.7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from aiorocketmq._core.transactions import Answer, Decisions, Resolution
from aiorocketmq._produce.interface import EndCall, Half
from aiorocketmq._produce.sender import Sender
from aiorocketmq._session.client import Client
from aiorocketmq._transport.network import loop_time
from aiorocketmq.errors import ClosedError, RocketMQError, TransactionUnconfirmedError
from aiorocketmq.hooks import (
    SendCall,
    TransactionCheckEvent,
    TransactionEndEvent,
    around_send,
)
from aiorocketmq.message import Message, ReceivedMessage, SendReceipt

logger = logging.getLogger("aiorocketmq.producer")

TransactionChecker: TypeAlias = Callable[[ReceivedMessage], Awaitable[Resolution]]
"""Returns the outcome of the transaction of a half message, from what the application has stored."""

CHECKS_AT_ONCE = 16
"""Checkers that run concurrently; more checks wait."""
CHECKS_WAITING = 1000
"""Checks beyond this are dropped: the server checks again."""
CHECK_SECONDS = 25.0
"""Seconds that a checker may take: a server forgets a check after 30 s (R9.1)."""


class Transactions:
    """The transactions of one producer."""

    def __init__(self, client: Client, sender: Sender, checker: TransactionChecker) -> None:
        self._client = client
        self._sender = sender
        self._checker = checker
        self._decisions = Decisions()
        self._places = asyncio.Semaphore(CHECKS_AT_ONCE)
        self._waiting = 0

    # Called by transactions of the application

    def half_call(self, half: Half) -> SendCall:
        """Return the call that sends `half`, inside the producer's hooks."""

        async def send(message: Message) -> SendReceipt:
            return await self._sender.send(message, half)

        return around_send(self._client.hooks, send)

    def new_half(self, check_after: float | None) -> Half:
        """Return a half message to send; until it is decided or left, checks of it are not answered."""
        self._client.check_running()
        half = Half(self._sender.next_message_id(), check_after)
        self._decisions.opened(half.message_id)
        return half

    def abandoned(self, half: Half) -> None:
        """The block did not run: if the half message is stored nevertheless, a check rolls it back."""
        self._decisions.decided(half.message_id, Resolution.ROLLBACK, now=loop_time(), quiet=0.0)

    def left(self, half: Half) -> None:
        """The block left the decision to the checker."""
        self._decisions.left(half.message_id)

    async def end(self, half: Half, receipt: SendReceipt, resolution: Resolution) -> None:
        """Commit or roll back, once: the call is not repeated, and continues if the caller is cancelled.

        Raises TransactionUnconfirmedError without an OK."""
        assert half.end is not None  # there is a receipt
        self._decisions.decided(half.message_id, resolution, now=loop_time())
        transaction_id = receipt.transaction_id or half.message_id
        try:
            self._client.check_running()
            error = await self._finished(
                self._client.spawn(
                    self._end,
                    half.end,
                    receipt.topic,
                    half.message_id,
                    transaction_id,
                    resolution,
                    name="end of a transaction",
                )
            )
        except ClosedError as closed:
            error = closed
        if error is not None:
            raise _unconfirmed(error, half.message_id, resolution, receipt.topic) from error

    async def _finished(self, call: asyncio.Task[RocketMQError | None]) -> RocketMQError | None:
        """Result of a call, which continues if its waiter is cancelled; ClosedError if the producer ended it."""
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            if call.cancelled():
                self._client.check_running()
            raise

    # Called by servers

    async def on_check(
        self, server: str, message: ReceivedMessage, transaction_id: str, end: EndCall
    ) -> None:
        """Resolve a server's check; errors are logged, because the server checks again."""
        client = self._client
        if client.emitter.is_watched:
            client.emitter.event(
                TransactionCheckEvent(
                    client=client.emitter.client, message=message, transaction_id=transaction_id
                )
            )
        answer = self._decisions.on_check(message.message_id, now=loop_time())
        logger.info(
            "%s checks the transaction of message %s: %s",
            server,
            message.message_id,
            answer.value,
            extra=client.log_fields(),
        )
        if answer is Answer.SILENCE:
            return
        resolution = await self._check(message) if answer is Answer.ASK else Resolution(answer.value)
        if resolution is Resolution.UNKNOWN:
            return
        error = await self._end(
            end, message.topic, message.message_id, transaction_id, resolution, from_check=True
        )
        if error is not None:
            logger.warning(
                "the end of message %s was not confirmed, the server will check again: %s",
                message.message_id,
                error,
                extra=client.log_fields(),
            )

    async def _check(self, message: ReceivedMessage) -> Resolution:
        """Return the checker's result; UNKNOWN if it fails, takes too long, or too many checks wait."""
        if self._waiting >= CHECKS_WAITING:
            logger.warning(
                "%d checks are waiting, the check of message %s is dropped", self._waiting, message.message_id
            )
            return Resolution.UNKNOWN
        decisions, message_id = self._decisions, message.message_id
        decisions.opened(message_id)
        self._waiting += 1
        try:
            async with self._places:
                resolution = await self._checked(message)
            if resolution is not Resolution.UNKNOWN:
                decisions.decided(message_id, resolution, now=loop_time())
        finally:
            self._waiting -= 1
            decisions.left(message_id)
        return resolution

    async def _checked(self, message: ReceivedMessage) -> Resolution:
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                resolution = await self._checker(message)
            if isinstance(resolution, Resolution):
                return resolution
            logger.error("the transaction checker returned %r instead of a Resolution", resolution)
        except TimeoutError:
            logger.error("the transaction checker took over %s s for %r", CHECK_SECONDS, message)
        except Exception:  # of the application's code; the server checks again
            logger.exception("the transaction checker failed for %r", message)
        return Resolution.UNKNOWN

    # The call

    async def _end(
        self,
        end: EndCall,
        topic: str,
        message_id: str,
        transaction_id: str,
        resolution: Resolution,
        from_check: bool = False,
    ) -> RocketMQError | None:
        """Make one call that ends a transaction; an error is returned, since a task's exception would be logged."""
        event = TransactionEndEvent(
            client=self._client.emitter.client,
            topic=topic,
            message_id=message_id,
            transaction_id=transaction_id,
            resolution=resolution,
            from_check=from_check,
        )
        try:
            with self._client.observed(event):
                await end(resolution, from_check)
        except RocketMQError as error:
            return error
        return None


def _unconfirmed(
    error: RocketMQError, message_id: str, resolution: Resolution, topic: str
) -> TransactionUnconfirmedError:
    unconfirmed = TransactionUnconfirmedError(
        f"the {resolution.value} of message {message_id} was not confirmed, because {error.text}; "
        f"{TransactionUnconfirmedError.remedy}",
        code=error.code,
        server_text=error.server_text,
        request_id=error.request_id,
        endpoint=error.endpoint,
        topic=topic,
    )
    unconfirmed.may_have_taken_effect = error.may_have_taken_effect
    return unconfirmed
