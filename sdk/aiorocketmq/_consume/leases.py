"""Renews the leases of received messages, with one timer for all of them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping

from aiorocketmq._aio.tasks import Watch
from aiorocketmq._core.renewals import Renewals
from aiorocketmq.clock import Clock, Timer
from aiorocketmq.errors import LeaseLostError, RocketMQError, UsageError
from aiorocketmq.message import ReceivedMessage

logger = logging.getLogger("aiorocketmq.consumer")

Change = Callable[[ReceivedMessage, float], Awaitable[None]]
Spawn = Callable[..., object]


class LeaseKeeper:
    """Renews by ChangeInvisibleDuration: servers of 5.2 and 5.3 never do it themselves (live-lessons.md 1).

    A push consumer renews from the arrival of a message on, also while it waits for a free handler: otherwise its lease
    would expire and cost one of its attempts without any call of a handler. Each renewal is a task of its own, so that
    one without an answer delays no other."""

    def __init__(self, *, invisible: float, change: Change, spawn: Spawn, clock: Clock, watch: Watch) -> None:
        self.invisible = invisible
        self._change = change
        self._spawn = spawn
        self._watch = watch
        self._clock = clock
        self._renewals = Renewals[ReceivedMessage](invisible)
        self._timer: Timer | None = None
        self._armed_for = 0.0
        self._is_closed = False

    def add(self, message: ReceivedMessage) -> None:
        """Renew its lease until discard()."""
        lease = message._lease
        if lease is None:
            return
        due = self._renewals.add(message, ends_at=lease.ends_at)
        if (
            self._timer is None or due < self._armed_for
        ):  # usually one is set already, and for an earlier time
            self._arm()

    def discard(self, message: ReceivedMessage) -> None:
        """Stop renewing: settling begins, or the lease is lost."""
        self._renewals.discard(message)
        self._watch.ended(message)

    def close(self) -> None:
        """Stop renewing; renewals in flight end by themselves."""
        self._is_closed = True
        self._watch.end()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def work(self) -> Mapping[Hashable, str]:
        """The renewals in flight, see `ClockUser`."""
        return {("renewal", message): f"renewal of {message!r}" for message in self._renewals.in_flight}

    def _arm(self) -> None:
        """Set the timer for the next deadline, unless it fires by then; if it fires too early, it is set again."""
        deadline = self._renewals.next_deadline()
        if deadline is None or self._is_closed:
            return
        if self._timer is not None:
            if self._armed_for <= deadline:
                return
            self._timer.cancel()
        self._armed_for = deadline
        self._timer = self._clock.call_at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        # A loop may fire slightly early; the core must never see a time before the one it asked for.
        for message in self._renewals.due(max(self._armed_for, self._clock.time())):
            lease = message._lease
            if message.is_settled or lease is None or lease.is_ending:
                # By its handler; if that has failed, renewals would keep the message from others forever.
                self.discard(message)
            else:
                self._spawn(self._renew, message, name="renew lease")
        self._arm()

    async def _renew(self, message: ReceivedMessage) -> None:
        lease = message._lease
        assert lease is not None  # hold() has looked
        try:
            await self._change(message, self.invisible)
        except (LeaseLostError, UsageError) as error:
            # UsageError: the answer to an earlier change was lost, and a second one could copy the message.
            self.discard(message)
            if lease.is_open or isinstance(error, LeaseLostError):
                logger.warning("cannot keep the lease of %r, it may be redelivered: %s", message, error)
        except Exception as error:  # also an unexpected one: one malformed answer must not cost the lease
            if not isinstance(error, RocketMQError):
                self._watch.crashed(error)
            self._watch.failed(error, message)
            if not self._renewals.failed(message, now=self._clock.time()):
                logger.warning("the lease of %r expires, it will be redelivered: %s", message, error)
                self._watch.ended(message)
        else:
            self._watch.ended(message)
            self._renewals.renewed(message, ends_at=lease.ends_at)
        self._arm()
