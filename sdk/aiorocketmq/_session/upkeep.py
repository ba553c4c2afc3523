"""Periodic jobs of a running client: heartbeats, refresh of routes, settings and credentials."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from aiorocketmq._aio.scheduler import Member
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.half_open import Beat
from aiorocketmq._session.calls import HEARTBEAT
from aiorocketmq._session.routes import Routes
from aiorocketmq._transport.credentials import PERIOD
from aiorocketmq._transport.network import loop_time
from aiorocketmq.errors import RocketMQError, SessionLostError, UnreachableError
from aiorocketmq.wire import messages as pb

if TYPE_CHECKING:
    from aiorocketmq._session.session import Session

_FRESH = 2 / 3
"""Part of a period for which a route that another client has looked up is reused."""


@dataclass(frozen=True, slots=True)
class Periods:
    """Seconds between two runs of each job (client-behaviour.md, 1.3)."""

    heartbeat: float = 10.0
    """Servers forget a client after 120 s without one."""
    routes: float = 30.0
    credentials: float = PERIOD
    settings: float = 300.0


class Upkeep:
    """The periodic jobs of one client, run by the scheduler of its connection."""

    def __init__(self, session: Session, routes: Routes, *, periods: Periods | None = None) -> None:
        self._session = session
        self._routes = routes
        self._periods = periods or Periods()

    def begin(self, member: Member) -> None:
        """Schedule the jobs until the member leaves."""
        periods, session = self._periods, self._session
        member.every(periods.heartbeat, self.beat, name="heartbeat")
        member.every(
            periods.routes, partial(self._routes.refresh, age=periods.routes * _FRESH), name="routes"
        )
        member.every(periods.settings, session.write_settings, name="settings")
        if callable(session.network.credentials):
            member.every(periods.credentials, session.sign, name="credentials")

    async def beat(self) -> None:
        """Send one heartbeat to each server and act on the results at once.

        Raises the first error, after all servers have been tried."""
        endpoints = tuple(self._session.streams)
        if len(endpoints) == 1:
            errors = [await self._beat(endpoints[0])]
        else:
            errors = await asyncio.gather(*(self._beat(each) for each in endpoints))
        for error in errors:
            if error is not None:
                raise error

    async def _beat(self, endpoint: Endpoint) -> RocketMQError | None:
        session = self._session
        request = pb.HeartbeatRequest(client_type=pb.ClientType.Value(session.declaration.client_type))
        if session.group is not None:
            request.group.CopyFrom(session.group_resource)
        beat, begun = Beat.FAILED, loop_time()
        failure: RocketMQError | None = None
        try:
            await session.call_early(endpoint, HEARTBEAT, request, group=session.group)
            beat = Beat.ANSWERED
            session.isolated.discard(endpoint)
        except SessionLostError:
            beat = Beat.ANSWERED
            try:
                await session.resync(endpoint)
            except RocketMQError as error:
                failure = error
        except UnreachableError as error:
            beat = Beat.TIMED_OUT if error.timed_out else Beat.FAILED
            failure = error
        except RocketMQError as error:
            beat = Beat.ANSWERED
            failure = error
        if session.network.watch(endpoint).should_reconnect(beat, loop_time(), begun=begun):
            await session.reconnect(endpoint)
        return failure
