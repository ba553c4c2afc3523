"""Route cache of one client: concurrent look-ups are shared, routes are refreshed, new servers get our settings
first."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.retries import start_delay
from aiorocketmq._core.route import Route, RouteQueue
from aiorocketmq._session import conversion
from aiorocketmq._session.calls import QUERY_ROUTE
from aiorocketmq._session.retrying import retried
from aiorocketmq._session.transport_errors import malformed_answer
from aiorocketmq._transport.network import loop_time
from aiorocketmq.errors import MalformedAnswerError, RocketMQError, TopicNotFoundError, UnreachableError
from aiorocketmq.wire import messages as pb

if TYPE_CHECKING:
    from aiorocketmq._session.session import Session

logger = logging.getLogger("aiorocketmq.client")

_TRIES = 3
"""Attempts of a look-up that fails for another reason than an unknown topic."""


class Routes:
    """The routes by topic; a route is in `cached` only after all of its endpoints have answered our settings."""

    def __init__(self, session: Session) -> None:
        self.cached: dict[str, Route] = {}
        self._session = session
        self._in_flight: dict[str, asyncio.Task[Route | RocketMQError]] = {}
        self._introducing: list[tuple[Endpoint, ...]] = []
        """Endpoints of routes that are cached once these have answered."""
        self.unknown: set[str] = set()
        """Topics that are looked up again because their server has not known them so far."""
        self._waited_for: set[str] = set()
        """Topics whose look-up has timed out: they are looked up once per call, until they exist."""

    async def look_up(self, topic: str) -> Route:
        """Look up a route that is not cached; concurrent calls share one request.

        The first time, an unknown topic is looked up again for `timeouts.start`: servers remember for up to 20 s that a
        topic did not exist (live-lessons.md, 13)."""
        self._session.check_running()
        task = self._in_flight.get(topic)
        if task is None:
            task = self._session.spawn(self._look_up_for_all, topic, name=f"route of {topic}")
            self._in_flight[topic] = task
            task.add_done_callback(lambda _: self._in_flight.pop(topic, None))
        # Shielded from the caller's cancellation; the session cancels the task when it closes.
        await asyncio.wait((task,))
        if task.cancelled():
            self._session.check_running()
            raise UnreachableError(
                f"the query for the route of topic {topic!r} was cancelled; try again", topic=topic
            )
        outcome = task.result()
        if isinstance(outcome, RocketMQError):
            raise outcome
        return outcome

    async def fetch(self, topic: str) -> Route:
        """Request the route once, send our settings to every new endpoint, and cache the route."""
        return await self._keep(topic, self._session.network.shared(await self._query(topic)))

    async def _keep(self, topic: str, route: Route) -> Route:
        await self.introduce(route.endpoints)
        self.cached[topic] = route
        self._waited_for.discard(topic)
        self._close_unused_streams()
        return route

    async def refresh(self, *, age: float = 0.0) -> None:
        """Request every cached route again; after an error the cached one stays.

        Results of other clients of the connection from the last `age` seconds are reused: a thousand consumers of a
        topic send as many requests as one. A deleted topic that the client does not declare is removed. Raises the
        first error, after all topics have been tried."""
        failure: RocketMQError | None = None
        for topic, route in tuple(self.cached.items()):
            try:
                fresh = self._session.network.fresh_route(topic, age=age)
                if fresh is None:
                    await self.fetch(topic)
                elif fresh is not route:
                    await self._keep(topic, fresh)
            except TopicNotFoundError as error:
                # Clients that use it get TopicNotFoundError from the server; there is no need to hurry here.
                if topic in self._session.declaration.all_topics:
                    logger.info("keeping the old route of topic %r: %s", topic, error)
                else:
                    del self.cached[topic]
                    self._close_unused_streams()
            except RocketMQError as error:
                failure = failure or error
        await self._session.network.close_unused()
        if failure is not None:
            raise failure

    async def introduce(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Wait until each of `endpoints` has answered our settings; raises the error of the first that does not."""
        session = self._session
        streams = [session.streams.get(each) or session.open_stream(each) for each in endpoints]
        self._introducing.append(endpoints)
        try:
            for stream in streams:
                try:
                    await stream.ready()
                except UnreachableError as error:
                    raise self._about_route(stream.endpoint, error) from error
        finally:
            self._introducing.remove(endpoints)

    def mapped(self, queue: RouteQueue) -> RouteQueue:
        """Return a queue with its endpoint mapped by `address_map`."""
        endpoint = self._session.network.mapped(queue.endpoint)
        return queue if endpoint is queue.endpoint else replace(queue, endpoint=endpoint)

    async def _look_up_for_all(self, topic: str) -> Route | RocketMQError:
        # An error is a result here: it belongs to the callers, not to the task.
        try:
            return await self._look_up_patiently(topic)
        except RocketMQError as error:
            return error
        finally:
            self.unknown.discard(topic)

    async def _look_up_patiently(self, topic: str) -> Route:
        session = self._session
        until = loop_time() + (0.0 if topic in self._waited_for else session.timeouts.start)
        failures = 0

        def delay_after(error: RocketMQError) -> float | None:
            nonlocal failures
            failures += 1
            pause = start_delay(failures, session.environment.random)
            is_late = loop_time() + pause >= until
            if isinstance(error, TopicNotFoundError):
                if is_late:
                    self._waited_for.add(topic)
                    return None
                self.unknown.add(topic)
                level = logging.WARNING if failures == 1 else logging.DEBUG
                logger.log(level, "topic %r is not known to %s yet, retrying", topic, session.access)
                return pause
            may_pass = isinstance(error, (UnreachableError, MalformedAnswerError)) and failures < _TRIES
            return pause if may_pass and not is_late else None

        return await retried(partial(self.fetch, topic), delay_after)

    async def _query(self, topic: str) -> Route:
        session = self._session
        request = pb.QueryRouteRequest(
            topic=session.resource(topic), endpoints=conversion.endpoint_to_wire(session.access)
        )
        response = await session.call_early(
            session.access, QUERY_ROUTE, request, topic=topic, group=session.group
        )
        try:
            route = conversion.route_from_wire(topic, response, session.access)
        except ValueError as error:
            raise malformed_answer(
                str(error), what=QUERY_ROUTE.name, endpoint=session.access, topic=topic, group=session.group
            ) from None
        return Route(topic, (self.mapped(each) for each in route.queues))

    def _close_unused_streams(self) -> None:
        routes = (*(route.endpoints for route in self.cached.values()), *self._introducing)
        used = {endpoint for endpoints in routes for endpoint in endpoints}
        for endpoint in tuple(self._session.streams):
            if endpoint not in used:
                self._session.close_stream(endpoint)

    def _about_route(self, endpoint: Endpoint, error: UnreachableError) -> UnreachableError:
        """Add where the address comes from to an error of an endpoint that the user did not configure."""
        if endpoint == self._session.access:
            return error
        return UnreachableError(
            f"{error.text}; {self._session.access} announces {endpoint} as a broker: if that cannot be "
            f"reached from here (Docker, NAT), give address_map={{'{endpoint}': 'HOST:PORT'}}",
            may_have_taken_effect=False,
            timed_out=error.timed_out,
            endpoint=str(endpoint),
            group=self._session.group,
        )
