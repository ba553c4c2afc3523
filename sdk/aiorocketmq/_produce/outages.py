"""Servers that a producer cannot connect to: their sends wait here, and one at a time probes the server for all.

A waiting send costs a future and a timer instead of repeated attempts, so a producer under load recovers as soon as an
idle one. The schedule is that of `_core/retries.py`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from random import Random

from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.retries import Outage
from aiorocketmq._core.route import Route
from aiorocketmq.config import Retry
from aiorocketmq.errors import BusyError, RefusedError, RocketMQError, UnreachableError

logger = logging.getLogger("aiorocketmq.producer")

LOG_PERIOD = 10.0
"""Seconds within which failures at one server that are no outage are logged once; the others at debug level."""


class _Waiting:
    """One unavailable server, and the sends that wait for it."""

    __slots__ = ("reason", "schedule", "sends", "timer")

    def __init__(self, schedule: Outage, reason: str) -> None:
        self.schedule = schedule
        self.reason = reason
        self.sends: dict[asyncio.Future[bool], None] = {}  # in order of arrival
        self.timer: asyncio.TimerHandle | None = None

    def wake(self, is_attempt: bool, count: int) -> None:
        """Wake the first `count` sends."""
        for send in tuple(self.sends)[:count]:
            del self.sends[send]
            if not send.done():
                send.set_result(is_attempt)


class Outages:
    """The unavailable servers of one producer. `routes` are its current ones, by topic."""

    def __init__(
        self,
        retry: Retry,
        random: Random,
        log_fields: Callable[[], dict[str, object]],
        routes: Mapping[str, Route],
    ) -> None:
        self._retry = retry
        self._random = random
        self._log_facts = log_fields
        self._routes = routes
        self._followed: dict[str, Route] = {}
        """The routes of topics that were sent to since an outage began."""
        self._of: dict[Endpoint, _Waiting] = {}
        self._logged: dict[Endpoint, float] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def __contains__(self, endpoint: Endpoint) -> bool:
        return endpoint in self._of

    @property
    def waiting(self) -> int:
        """How many sends wait."""
        return sum(len(outage.sends) for outage in self._of.values())

    def failed(self, endpoint: Endpoint, error: RocketMQError, what: object) -> None:
        """Record a failed attempt at `endpoint`."""
        if isinstance(error, RefusedError | BusyError):
            self.over(endpoint)  # it answers
        elif isinstance(error, UnreachableError) and not error.timed_out and not error.may_have_taken_effect:
            self._unavailable(endpoint, error)
            return
        if error.may_retry:
            now = asyncio.get_running_loop().time()
            is_news = now >= self._logged.get(endpoint, now)
            if is_news:
                self._logged = {each: until for each, until in self._logged.items() if until > now}
                self._logged[endpoint] = now + LOG_PERIOD
            logger.log(
                logging.INFO if is_news else logging.DEBUG,
                "attempt to send %s failed: %s",
                what,
                error,
                extra=self._log_facts(),
            )

    def over(self, endpoint: Endpoint) -> None:
        """Wake all waiting sends, because `endpoint` has answered; those of other servers wait again."""
        outage = self._of.get(endpoint)
        if outage is None:
            return
        logger.info(
            "%s is available again after %.1f s and %d attempts",
            endpoint,
            asyncio.get_running_loop().time() - outage.schedule.since,
            outage.schedule.attempts,
            extra=self._log_facts(),
        )
        self._end([endpoint])

    def follow(self, topic: str) -> None:
        """Wake all waiting sends if the route of `topic` has changed since the last call: they choose again.

        Outages of servers that are in no route any more end. Cheap while the route stays the same: it is called for
        every send during an outage."""
        route, followed = self._routes.get(topic), self._followed.get(topic)
        if route is None or route is followed:
            return
        self._followed[topic] = route
        unnamed = [
            endpoint
            for endpoint in self._of
            if not any(endpoint in each.endpoints for each in self._routes.values())
        ]
        for endpoint in unnamed:
            logger.info("%s serves none of our topics any more", endpoint, extra=self._log_facts())
        if unnamed or followed is not None:
            self._end(unnamed)

    def close(self) -> None:
        """Wake all waiting sends, because the producer has failed or closes: they raise its error."""
        self._end(tuple(self._of))

    def _end(self, endpoints: Sequence[Endpoint]) -> None:
        """End the outages of `endpoints`, and wake all waiting sends."""
        for outage in self._of.values():
            outage.wake(False, len(outage.sends))
        for endpoint in endpoints:
            timer = self._of.pop(endpoint).timer
            if timer is not None:
                timer.cancel()
        if not self._of:
            self._followed.clear()

    async def turn(self, endpoint: Endpoint, until: float) -> bool:
        """Wait until this send may probe `endpoint` for all: True; or until any server has answered: False.

        Raises TimeoutError at `until` of the loop's time."""
        outage = self._of[endpoint]
        loop = asyncio.get_running_loop()
        send: asyncio.Future[bool] = loop.create_future()
        outage.sends[send] = None
        if outage.timer is None:
            outage.timer = loop.call_at(outage.schedule.next_attempt, self._due, loop, outage)
        try:
            async with asyncio.timeout_at(until):
                return await send
        finally:
            outage.sends.pop(send, None)

    def reason(self, endpoint: Endpoint) -> str:
        """A clause about why `endpoint` is unavailable, and for how long."""
        outage = self._of.get(endpoint)
        if outage is None:
            return f"{endpoint} was unavailable"
        seconds = asyncio.get_running_loop().time() - outage.schedule.since
        return f"{endpoint} has been unavailable for {seconds:.1f} s: {outage.reason}"

    def _unavailable(self, endpoint: Endpoint, error: UnreachableError) -> None:
        outage = self._of.get(endpoint)
        if outage is not None:
            outage.reason = error.text
            logger.debug("%s is still unavailable: %s", endpoint, error, extra=self._log_facts())
            return
        retry = self._retry
        schedule = Outage(
            now=asyncio.get_running_loop().time(),
            initial=retry.initial,
            maximum=retry.maximum,
            random=self._random,
        )
        self._of[endpoint] = _Waiting(schedule, error.text)
        logger.warning(
            "%s is unavailable, sends wait for it up to %g s: %s",
            endpoint,
            retry.budget,
            error,
            extra=self._log_facts(),
        )

    def _due(self, loop: asyncio.AbstractEventLoop, outage: _Waiting) -> None:
        outage.timer = None
        if not outage.sends:
            return
        outage.schedule.attempted(now=loop.time())
        outage.wake(True, 1)
        if outage.sends:
            outage.timer = loop.call_at(outage.schedule.next_attempt, self._due, loop, outage)
