"""Keeps the leases of messages in hand alive, with one timer for all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aiorocketmq._core.renewals import Renewals
from aiorocketmq._push.held import Held
from aiorocketmq.errors import LeaseLost, RocketMQError, UsageError
from aiorocketmq.message import ReceivedMessage

logger = logging.getLogger(__name__)

Change = Callable[[ReceivedMessage, float], Awaitable[None]]
Spawn = Callable[..., object]


class LeaseKeeper:
    """Renews by ChangeInvisibleDuration: servers of 5.2 and 5.3 never do it themselves (live-lessons.md 1).

    A message is in hand from its arrival on, also while it waits for a free handler: letting its lease end then would
    cost one of its attempts without any handler having seen it.
    """

    def __init__(self, *, invisible: float, change: Change, spawn: Spawn) -> None:
        self.invisible = invisible
        self._change = change
        self._spawn = spawn
        self._renewals = Renewals[Held](invisible)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def hold(self, held: Held, now: float) -> None:
        """Renew from `now` on, the loop's time, until release()."""
        self._renewals.hold(held, now=now)
        if self._timer is None:
            self._arm()

    def release(self, held: Held) -> None:
        """Renew no more: settling begins, or the lease is lost."""
        self._renewals.release(held)

    def close(self) -> None:
        """Drop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        deadline = self._renewals.next_deadline()
        self._timer = None if deadline is None else self._loop.call_at(deadline, self._on_timer, deadline)

    def _on_timer(self, deadline: float) -> None:
        # A loop may fire a hair early; the core must never see a time before the one it asked for.
        for held in self._renewals.due(max(deadline, self._loop.time())):
            if held.lease.is_open:
                self._spawn(self._renew, held, name="renew lease")
            else:  # the handler has settled its message itself
                self._renewals.release(held)
        self._arm()

    async def _renew(self, held: Held) -> None:
        message = held.message
        try:
            await self._change(message, self.invisible)
        except (LeaseLost, UsageError) as error:
            # UsageError: the answer to an earlier change was lost, and a second one could copy the message.
            self._renewals.release(held)
            logger.warning("cannot keep the lease of %r, it may be delivered again: %s", message, error)
        except RocketMQError as error:
            if self._renewals.failed(held, now=self._loop.time()):
                logger.info("renewing the lease of %r failed, trying again: %s", message, error)
            else:
                logger.warning("the lease of %r ends, it will be delivered again: %s", message, error)
        else:
            self._renewals.renewed(held, now=self._loop.time())
        if self._timer is None:
            self._arm()
