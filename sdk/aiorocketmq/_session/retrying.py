"""Retries: performs those of calls, and decides how long a consumer retries after its server has refused it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from aiorocketmq._aio.tasks import Watch
from aiorocketmq._core.pauses import AT_ONCE, failure_pause, idle_pause
from aiorocketmq._core.retries import start_delay
from aiorocketmq._session.client import Client
from aiorocketmq._transport.network import loop_time
from aiorocketmq.errors import (
    BusyError,
    ClosedError,
    GroupNotFoundError,
    IllegalFilterError,
    NotSupportedError,
    PermissionDeniedError,
    RocketMQError,
    TopicNotFoundError,
    TypeMismatchError,
    UsageError,
)

logger = logging.getLogger("aiorocketmq.client")

Result = TypeVar("Result")


async def retried(
    attempt: Callable[[], Awaitable[Result]],
    delay_after: Callable[[RocketMQError], float | None],
    *,
    failed: RocketMQError | None = None,
) -> Result:
    """Return the result of `attempt`, repeated after each error for which `delay_after` returns a delay in seconds.

    None makes an error final: it is raised unchanged. Errors that are not RocketMQError are always final. `failed` is
    the error of a first attempt that the caller has made already. Without an error, it costs no more than calling
    `attempt`."""
    if failed is None:
        try:
            return await attempt()
        except RocketMQError as error:
            failed = error
    wait = delay_after(failed)
    try:
        if wait is None:
            raise failed
    finally:
        failed = None  # or error and frame would keep each other alive until the garbage collector finds them
    await asyncio.sleep(wait)
    # Imported late: most programs never fail, and the import takes longer than connecting.
    from tenacity import AsyncRetrying, RetryCallState

    def decide(state: RetryCallState) -> bool:
        nonlocal wait
        error = state.outcome.exception() if state.outcome is not None else None
        wait = delay_after(error) if isinstance(error, RocketMQError) else None
        return wait is not None

    retrying = AsyncRetrying(sleep=asyncio.sleep, retry=decide, wait=lambda _: wait or 0.0, reraise=True)
    return await retrying(attempt)


async def tried_until(until: float, attempt: Callable[[], Awaitable[Result]], *, random: Random) -> Result:
    """Return the result of `attempt`, retried after transient errors until `until` of the loop's time."""
    failures = 0

    def delay_after(error: RocketMQError) -> float | None:
        nonlocal failures
        failures += 1
        delay = start_delay(failures, random)
        return delay if error.may_retry and asyncio.get_running_loop().time() + delay < until else None

    return await retried(attempt, delay_after)


SHORT_POLL = 5.0
"""Seconds; Apache's servers extend shorter polls to this length (live-broker-consumption.md, 2)."""

REFUSED = (IllegalFilterError, PermissionDeniedError, TypeMismatchError)
"""Errors that only a change of the program or of the server's configuration can resolve."""
_NOT_FOUND = (TopicNotFoundError, GroupNotFoundError, NotSupportedError, UsageError)
"""Errors that also occur for a while after a restart, when a route lacks a broker, or a gateway its server: permanent
after `Timeouts.not_found_grace`."""


class Tolerance:
    """Decides for one receive loop when it polls again after an answer, and whether, and when, after an error."""

    __slots__ = ("_has_worked", "_idle_answers", "_not_found_since", "_polled_at", "_session", "_watch")

    def __init__(self, session: Client, watch: Watch) -> None:
        self._session = session
        self._watch = watch
        self._has_worked = False
        self._not_found_since: float | None = None
        self._polled_at = 0.0
        self._idle_answers = 0

    def worked(self) -> None:
        """Note that a receive was answered."""
        self._has_worked = True
        self._not_found_since = None
        self._watch.worked()
        self._session.note_success()

    def poll_length(self, usual: float) -> float:
        """Seconds for the poll that begins now: short after a failure, to find out soon whether receiving works."""
        self._polled_at = self._session.network.clock.time()
        return min(usual, SHORT_POLL) if self._watch.failures else usual

    def pause_after(self, *, brings: bool) -> float:
        """Seconds until the next poll, after an answer that brings something or nothing; see `idle_pause`.

        By the clock of leases: a wait that ended because a test has advanced it was a wait."""
        waited = self._session.network.clock.time() - self._polled_at
        self._idle_answers = 0 if brings or waited >= AT_ONCE else self._idle_answers + 1
        return idle_pause(self._idle_answers, rng=self._session.environment.random)

    async def rest(self, *, brings: bool) -> None:
        """Wait for `pause_after` this answer."""
        if pause := self.pause_after(brings=brings):
            await asyncio.sleep(pause)

    def delay_after(self, error: RocketMQError) -> float | None:
        """Seconds until the next attempt after `error`; None if it is permanent.

        Refusals are permanent at once; an unknown topic or group after `Timeouts.not_found_grace`, or if nothing was
        ever received, `Timeouts.start` after the start."""
        if isinstance(error, REFUSED) or self._is_final_at_first(error):
            return None
        if isinstance(error, ClosedError) and (
            self._session.network.is_closed or not self._session.is_running
        ):
            return None
        if isinstance(error, _NOT_FOUND):
            if self._is_grace_over():
                return None
        else:
            self._not_found_since = None
        failures = self._watch.failed(error)
        rng = self._session.environment.random
        return failure_pause(failures, throttled=isinstance(error, BusyError), rng=rng)

    def _is_final_at_first(self, error: RocketMQError) -> bool:
        """Whether `error` is only worth a retry if receiving has worked before."""
        if isinstance(error, NotSupportedError):
            return self._session.last_success is None
        return isinstance(error, UsageError) and not self._has_worked

    def _is_grace_over(self) -> bool:
        session, now = self._session, loop_time()
        if self._not_found_since is None:
            self._not_found_since = now
            logger.warning(
                "%s: fails in %g s unless the error is resolved",
                self._watch.name,
                max(0.0, self._not_found_until(now) - now),
                extra=session.log_fields(),
            )
        return now >= self._not_found_until(self._not_found_since)

    def _not_found_until(self, since: float) -> float:
        session = self._session
        if session.last_success is None:
            return session.started_at + session.timeouts.start
        return since + session.timeouts.not_found_grace
