"""Start of a client: retried until it succeeds, cannot succeed, or the deadline expires; then one clear error."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from aiorocketmq._core.retries import start_delay
from aiorocketmq._session.retrying import retried
from aiorocketmq._session.routes import Routes
from aiorocketmq._session.transport_errors import about
from aiorocketmq._transport.credentials import as_the_provider_failed
from aiorocketmq._transport.interface import Diagnosis
from aiorocketmq.errors import (
    BusyError,
    GroupNotFoundError,
    RocketMQError,
    ServerError,
    SessionLostError,
    TopicNotFoundError,
    UnreachableError,
)

if TYPE_CHECKING:
    from aiorocketmq._session.session import Session

logger = logging.getLogger("aiorocketmq.client")

_PASSING = (
    UnreachableError,
    BusyError,
    ServerError,
    SessionLostError,
    TopicNotFoundError,
    GroupNotFoundError,
)
_GROUP_TRIES = 3
"""A group that was just created may be unknown for a moment; one that stays unknown is reported soon (live-lessons.md,
8)."""


FirstCall: TypeAlias = Callable[[], Awaitable[None]]
"""A call to the server before settings are sent; its error ends the start, unless it is transient."""


async def start_within(session: Session, routes: Routes, first_call: FirstCall | None) -> None:
    """Find every declared topic and send settings to its servers, or raise one error within the deadline."""
    attempt = _Attempt(session, routes, first_call)
    try:
        async with asyncio.timeout(session.timeouts.start) as scope:
            with as_the_provider_failed():
                await session.sign()
            await attempt.until_it_works()
    except TimeoutError:
        if not scope.expired():  # the application's own
            raise
        raise attempt.failure_after_deadline() from attempt.last


class _Attempt:
    """The attempts of one start, and their results."""

    def __init__(self, session: Session, routes: Routes, first_call: FirstCall | None) -> None:
        self._first_call = first_call
        self._session = session
        self._routes = routes
        self._diagnosis: Diagnosis | None = None
        self._tried: list[str] = []
        self._group_unknown = 0
        self.last: RocketMQError | None = None

    async def until_it_works(self) -> None:
        """Retry after transient failures; a permanent one is raised."""
        await retried(self._once, self._delay_after)

    def _delay_after(self, error: RocketMQError) -> float | None:
        """Return the delay after a failed attempt, None if another one is useless."""
        if not isinstance(error, _PASSING) or (self._diagnosis is not None and self._diagnosis.is_final):
            return None
        self.last = error
        self._tried.append(error.text)
        failures = len(self._tried)
        self._group_unknown += isinstance(error, GroupNotFoundError)
        if self._group_unknown >= _GROUP_TRIES:
            return None
        level = logging.WARNING if failures == 1 else logging.DEBUG
        logger.log(level, "start at %s failed, retrying: %s", self._session.access, error)
        return start_delay(failures, self._session.environment.random)

    async def _once(self) -> None:
        try:
            await self._introduce()
        except UnreachableError as error:
            await self._diagnose(error)
            raise

    async def _introduce(self) -> None:
        session = self._session
        if self._first_call is not None:
            await self._first_call()
        topics = session.declaration.all_topics
        for topic in topics:
            await self._routes.fetch(topic)
        if not topics:
            # No topic is declared, but the start must show whether there is a server.
            await self._routes.introduce((session.access,))

    async def _diagnose(self, error: UnreachableError) -> None:
        """Examine the connection itself, once: raises what makes further attempts useless."""
        if self._diagnosis is not None or error.endpoint not in (None, str(self._session.access)):
            return
        step = min(1.0, self._session.timeouts.start / 8)
        self._diagnosis = await self._session.transport.diagnose(self._session.access, step=step)
        if self._diagnosis.is_final:
            raise self._unreachable("", self._diagnosis.text) from error

    def failure_after_deadline(self) -> RocketMQError:
        """Return the error to raise after the deadline."""
        if self.last is not None and not isinstance(self.last, UnreachableError):
            return self.last
        if self.last is not None and self.last.endpoint not in (None, str(self._session.access)):
            return self.last
        patience = f" within {self._session.timeouts.start:g} s"
        return self._unreachable(patience, self._diagnosis.text if self._diagnosis else "it does not answer")

    def _unreachable(self, patience: str, why: str) -> UnreachableError:
        session = self._session
        topics = session.declaration.all_topics
        topic = topics[0] if len(topics) == 1 else None
        context = about(topic or (", ".join(topics) or None), session.group)
        return UnreachableError(
            f"no RocketMQ server could be reached at {session.access}{context}{patience}: {why}",
            tried=tuple(self._tried),
            endpoint=str(session.access),
            topic=topic,
            group=session.group,
        )
