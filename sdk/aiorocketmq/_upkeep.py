"""What a running client does regularly: heartbeats, fresh routes, settings again, fresh credentials."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from aiorocketmq._calls import HEARTBEAT
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.half_open import Beat, HalfOpenWatch
from aiorocketmq._core.retries import jittered
from aiorocketmq._routes import Routes
from aiorocketmq._standing import Standing
from aiorocketmq.connection import loop_time
from aiorocketmq.errors import RocketMQError, SessionForgotten, Unreachable
from aiorocketmq.wire import messages as pb

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Periods:
    """Seconds between two runs of each job (client-behaviour.md, 1.3)."""

    heartbeat: float = 10.0
    """Servers forget a client after 120 s without one."""
    routes: float = 30.0
    credentials: float = 60.0
    settings: float = 300.0


class Upkeep:
    """One task for all regular jobs of one client, each a little off its period so that clients do not march in
    step."""

    def __init__(self, session: Standing, routes: Routes, *, periods: Periods | None = None) -> None:
        self._session = session
        self._routes = routes
        self._periods = periods or Periods()
        self._watches: dict[Endpoint, HalfOpenWatch] = {}

    async def run(self) -> None:
        """Do each job when it is due, until cancelled."""
        jobs = (
            (self._periods.heartbeat, self.beat),
            (self._periods.routes, self._routes.refresh),
            (self._periods.credentials, self._session.sign),
            (self._periods.settings, self._session.write_settings),
        )
        random = self._session.surroundings.random
        due = [loop_time() + jittered(period, random) for period, _ in jobs]
        while True:
            await asyncio.sleep(max(0.0, min(due) - loop_time()))
            for number, (period, job) in enumerate(jobs):
                if due[number] > loop_time():
                    continue
                due[number] = loop_time() + jittered(period, random)
                try:
                    await job()
                except (
                    Exception
                ):  # the outer border of a task that must go on, whatever a credentials provider does
                    logger.exception("a regular job of client %s failed", self._session.client_id)

    async def beat(self) -> None:
        """Send one heartbeat to each server; what it shows is acted upon at once."""
        endpoints = tuple(self._session.links)
        self._watches = {each: self._watches.get(each) or HalfOpenWatch() for each in endpoints}
        if len(endpoints) == 1:
            await self._beat(endpoints[0])
        else:
            await asyncio.gather(*(self._beat(each) for each in endpoints))

    async def _beat(self, endpoint: Endpoint) -> None:
        session = self._session
        request = pb.HeartbeatRequest(client_type=pb.ClientType.Value(session.declaration.client_type))
        if session.group is not None:
            request.group.CopyFrom(session.resource(session.group))
        beat = Beat.FAILED
        try:
            await session.call_early(endpoint, HEARTBEAT, request, group=session.group)
            beat = Beat.ANSWERED
            session.isolated.discard(endpoint)
        except SessionForgotten:
            beat = Beat.ANSWERED
            await self._introduce_again(endpoint)
        except Unreachable as error:
            beat = Beat.TIMED_OUT if error.timed_out else Beat.FAILED
            logger.warning("no heartbeat: %s", error, extra=session.log_facts())
        except RocketMQError as error:
            beat = Beat.ANSWERED
            logger.warning("heartbeat refused: %s", error, extra=session.log_facts())
        if self._watches[endpoint].should_reconnect(beat, loop_time()):
            await session.reconnect(endpoint)

    async def _introduce_again(self, endpoint: Endpoint) -> None:
        try:
            await self._session.resync(endpoint)
        except RocketMQError as error:
            logger.warning("%s does not take our settings: %s", endpoint, error)
