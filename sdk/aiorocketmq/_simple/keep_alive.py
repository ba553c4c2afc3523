"""Renews the leases of messages that a loop has in hand."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from aiorocketmq._core.renewals import Renewals
from aiorocketmq._session import Session
from aiorocketmq._settling import Settling
from aiorocketmq.connection import loop_time
from aiorocketmq.errors import LeaseLost, RocketMQError, UsageError
from aiorocketmq.message import ReceivedMessage

logger = logging.getLogger(__name__)


class KeepAlive:
    """Keeps the messages it holds invisible until each is settled; one task while there is something to do."""

    def __init__(self, session: Session, settling: Settling, invisible: float) -> None:
        self._session = session
        self._settling = settling
        self._invisible = invisible
        self._renewals = Renewals[ReceivedMessage](invisible)
        self._task: asyncio.Task[None] | None = None

    def hold(self, messages: Iterable[ReceivedMessage]) -> None:
        """Renew the leases of `messages` from now on."""
        now = loop_time()
        for message in messages:
            self._renewals.hold(message, now=now)
        if self._task is None or self._task.done():
            self._task = self._session.spawn(self._run, name="keep leases alive")

    def stop(self) -> None:
        """Renew no more."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while (due := self._renewals.next_deadline()) is not None:
            await asyncio.sleep(max(0.0, due - loop_time()))
            waiting = self._renewals.due(max(due, loop_time()))
            await asyncio.gather(*(self._renew(message) for message in waiting))

    async def _renew(self, message: ReceivedMessage) -> None:
        if message.is_settled:
            self._renewals.release(message)
            return
        try:
            await self._settling.change(message, self._invisible)
        except (LeaseLost, UsageError) as error:
            self._renewals.release(message)
            if not message.is_settled:
                logger.warning("the lease of %r cannot be kept: %s", message, error)
        except RocketMQError as error:
            if not self._renewals.failed(message, now=loop_time()):
                logger.warning("the lease of %r ends, it will come again: %s", message, error)
        else:
            self._renewals.renewed(message, now=loop_time())
