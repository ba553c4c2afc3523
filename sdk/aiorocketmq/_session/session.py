"""What every client does besides its own work: find servers, introduce itself, stay known, recover, say good-bye.

Roles (producer, consumers) are composed on a session, never derived from it. Its life and that of its streams are the
tables of `_core/session_states.py`; what it keeps doing in the background stands in `_upkeep.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from aiorocketmq._aio.scheduler import Job, Member, Work
from aiorocketmq._core.bounds import Adjustment, bounded_answer
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.headers import Headers, HeaderSource
from aiorocketmq._core.route import Route
from aiorocketmq._core.session_states import (
    ClientState,
    StreamState,
)
from aiorocketmq._core.settings import LITE_PUSH, LITE_SIMPLE, Backoff, Declaration, ServerSettings
from aiorocketmq._session import conversion
from aiorocketmq._session.calls import TERMINATE, Call, Request, Response
from aiorocketmq._session.client import Client
from aiorocketmq._session.metrics_export import MetricsExport
from aiorocketmq._session.routes import Routes
from aiorocketmq._session.rpcs import Calling
from aiorocketmq._session.settings_stream import Link
from aiorocketmq._session.start import FirstCall, start_within
from aiorocketmq._session.upkeep import Upkeep
from aiorocketmq._transport.credentials import Signing
from aiorocketmq._transport.interface import Transport
from aiorocketmq._transport.network import Network
from aiorocketmq._version import version
from aiorocketmq.clock import Clock
from aiorocketmq.connection import (
    Connection,
    ConnectionOptions,
    network_of,
)
from aiorocketmq.errors import (
    PermissionDeniedError,
    RocketMQError,
    SessionLostError,
    UsageError,
)
from aiorocketmq.hooks import (
    Hook,
    Role,
    SettingsEvent,
    metric_sources,
)
from aiorocketmq.wire import messages as pb

logger = logging.getLogger(__name__)

CommandHandler: TypeAlias = Callable[[Endpoint, pb.TelemetryCommand], Awaitable[None]]
"""Carries out a server's command; runs in a task of its own, and what it raises is logged."""


class Session(Client):
    """One client's standing with its servers.

    Made by a role, started and stopped by it once. Between `start` and `stop`, every endpoint that a route names has a
    settings stream and heartbeats, and every call but the query for routes goes only where our settings are known."""

    def __init__(
        self,
        endpoint: str | Connection | Network,
        declaration: Declaration,
        *,
        role: Role,
        hooks: Sequence[Hook] = (),
        commands: Mapping[str, CommandHandler] | None = None,
        first_call: FirstCall | None = None,
        options: ConnectionOptions | None = None,
    ) -> None:
        network, owns_network = network_of(endpoint, options or {})
        if network.is_remoting:
            raise UsageError(
                f"a {role.value} client does not speak the remoting protocol: give the address of a gRPC proxy, "
                f"such as 'host:8081', instead of name servers ({network.endpoint})",
                group=declaration.group,
            )
        super().__init__(network, owns_network=owns_network, role=role, group=declaration.group, hooks=hooks)
        self.declaration = replace(
            declaration,
            request_timeout=self.network.timeouts.request,
            client_properties=self.network.client_properties,
        )
        self.settings = ServerSettings(backoff=Backoff(max_attempts=declaration.attempts))
        if not declaration.is_producer:
            self.settings = ServerSettings()
        self.on_failure.append(self._fail_links)
        self.on_settings: list[Callable[[ServerSettings], None]] = []
        """Called with the settings in force after each answer of a server."""
        self.isolated: set[Endpoint] = set()
        """Endpoints that sends avoid, because a call failed there and no heartbeat has been answered since."""
        self.overfull: set[Endpoint] = set()
        """Endpoints that were warned of, because an answer brought more messages than were requested."""
        sources = metric_sources(self.hooks)
        if sources:
            self.on_settings.append(MetricsExport(self, sources).follow)
        self.links: dict[Endpoint, Link] = {}
        self.routes = Routes(self)
        self._commands = dict(commands or {})
        self._first_call = first_call
        self._upkeep = Upkeep(self, self.routes)
        self._link_tasks: dict[Endpoint, asyncio.Task[None]] = {}
        self._rounds: Member | None = None
        self._announced: ServerSettings | None = None
        self._adjusted: set[frozenset[str]] = set()
        """Sets of fields of settings whose adjustment was warned of."""
        self._made_calling: Calling | None = None
        self._signing = Signing(self.network.credential_source)

    # Life

    async def _open(self) -> None:
        self._made_calling = self._new_calling()
        await start_within(self, self.routes, self._first_call)

    def _opened(self) -> None:
        self._rounds = self.network.rounds.join(self._tasks)
        self._upkeep.begin(self._rounds)

    async def _say_goodbye(self) -> None:
        if self._rounds is not None:
            self._rounds.leave()
        known = [each for each, link in self.links.items() if link.state is StreamState.READY]
        await asyncio.gather(*(self._terminate(endpoint) for endpoint in known))

    async def _disconnect(self) -> None:
        self.links.clear()

    async def _terminate(self, endpoint: Endpoint) -> None:
        request = pb.NotifyClientTerminationRequest()
        if self.group is not None:
            request.group.CopyFrom(self.resource(self.group))
        try:
            await self.call_early(endpoint, TERMINATE, request, group=self.group)
        except RocketMQError as error:
            logger.debug("termination request to %s failed: %s", endpoint, error)

    def _fail_links(self) -> None:
        if self.failure is not None:
            for link in self.links.values():
                link.fail(self.failure)

    # Facts

    @property
    def is_connected(self) -> bool:
        """Whether the settings stream to every endpoint is open and answered."""
        return bool(self.links) and all(link.state is StreamState.READY for link in self.links.values())

    @property
    def has_settings(self) -> bool:
        """Whether a server's settings have been received."""
        return self._announced is not None

    @property
    def in_order(self) -> bool:
        """Whether messages are handed out in order: in ordered groups, and within each lite topic."""
        return self.settings.ordered or self.declaration.client_type in (LITE_PUSH, LITE_SIMPLE)

    @property
    def clock(self) -> Clock:
        """What leases and retries in ordered groups go by."""
        return self.network.clock

    @property
    def transport(self) -> Transport:
        """The network; raises ClosedError before the start."""
        return self._calling.transport

    def resource(self, name: str) -> pb.Resource:
        """A topic or group, in this client's namespace."""
        return pb.Resource(resource_namespace=self.namespace, name=name)

    # Calls

    async def call(
        self,
        endpoint: Endpoint,
        call: Call[Request, Response],
        request: Request,
        *,
        timeout: float | None = None,
        topic: str | None = None,
        group: str | None = None,
        accept: Sequence[int] = (),
    ) -> Response:
        """Make one call and return its answer, whose status is OK, MULTIPLE_RESULTS or one of `accept`.

        Raises the error of the status or of the network otherwise. Where the server has forgotten this client, which
        it says before it does anything, our settings are sent again and the call is made once more."""
        if self._state is not ClientState.RUNNING:
            raise self._closed()
        unary, seconds = self._calling.unary, timeout or self.timeouts.request
        try:
            return await unary(endpoint, call, request, seconds, topic, group, accept)
        except SessionLostError:
            await self.resync(endpoint)
            return await unary(endpoint, call, request, seconds, topic, group, accept)
        except PermissionDeniedError as error:
            if not await self.sign_anew(error):
                raise
            return await unary(endpoint, call, request, seconds, topic, group, accept)

    async def call_early(
        self,
        endpoint: Endpoint,
        call: Call[Request, Response],
        request: Request,
        *,
        topic: str | None = None,
        group: str | None = None,
    ) -> Response:
        """Make one call that is allowed before the client is usable, and is not repeated."""
        return await self._calling.unary(endpoint, call, request, self.timeouts.request, topic, group)

    def stream(
        self,
        endpoint: Endpoint,
        call: Call[Request, Response],
        request: Request,
        *,
        timeout: float,
        topic: str | None = None,
        group: str | None = None,
        take: Callable[[Response], None],
    ) -> Coroutine[object, None, None]:
        """Make one call with many answers, each given to `take` when it arrives.

        Network errors are raised; statuses are answers."""
        self.check_running()
        # In order, no message may overtake one that could not be decoded.
        return self._calling.stream(
            endpoint, call, request, timeout, topic, group, take=take, in_order=self.in_order
        )

    def next_headers(self) -> tuple[Headers, str]:
        """Headers and request id of a new call."""
        return self._calling.next_headers()

    async def sign(self) -> None:
        """Take the credentials as they are now for all later calls."""
        await self._signing.sign(self._calling.headers)

    async def sign_anew(self, refused: PermissionDeniedError) -> bool:
        """Take other credentials where a server does not accept ours any more; whether there are some."""
        return await self._signing.sign_anew(self._calling.headers, refused)

    # Routes

    async def route(self, topic: str) -> Route:
        """Where the queues of `topic` are, from the cache or from the server; its endpoints know our settings."""
        return self.routes.cached.get(topic) or await self.routes.look_up(topic)

    # Settings

    async def declare(self, declaration: Declaration) -> None:
        """Change what servers know of this client: routes of new topics first, then our settings on every stream."""
        self.check_running()
        for topic in declaration.all_topics:
            await self.route(topic)
        self.declaration = declaration
        await self.write_settings()

    async def write_settings(self) -> None:
        """Send our settings on every open stream; a broken one sends them when it is open again."""
        for link in tuple(self.links.values()):
            try:
                await link.write(self.settings_command())
            except RocketMQError as error:
                logger.debug("settings for %s wait for its stream: %s", link.endpoint, error)

    async def resync(self, endpoint: Endpoint) -> None:
        """Make `endpoint` know our settings again, after it has shown that it forgot them."""
        link = self.links.get(endpoint)
        if link is not None:
            logger.info("%s has forgotten our settings, sending them again", endpoint, extra=self.log_facts())
            await link.resync()

    def settings_command(self) -> pb.TelemetryCommand:
        """Our settings as they are now."""
        return pb.TelemetryCommand(
            settings=conversion.settings_to_wire(
                self.declaration, self.access, self.namespace, version(), self.environment.host
            )
        )

    def take_settings(self, endpoint: Endpoint, settings: pb.Settings) -> None:
        """Put a server's settings into force; those of another kind of client are ignored."""
        fits = (
            settings.HasField("publishing")
            if self.declaration.is_producer
            else settings.HasField("subscription")
        )
        if not fits:
            logger.warning("%s sent settings of another kind of client, they are ignored", endpoint)
            return
        answer, adjustments = bounded_answer(conversion.answer_from_wire(settings, self.access))
        self._warn_of(endpoint, adjustments)
        self.settings = self.settings.merged(
            answer,
            own_attempts=self.declaration.attempts if self.declaration.is_producer else None,
        )
        if self.settings == self._announced:
            return
        self._announced = self.settings
        logger.info("settings from %s: %s", endpoint, self.settings, extra=self.log_facts())
        for listener in self.on_settings:
            listener(self.settings)
        if self.telling.is_watched and self.group is not None:
            self.telling.event(
                SettingsEvent(
                    client=self.telling.client,
                    ordered=self.settings.ordered,
                    max_attempts=self.settings.backoff.max_attempts,
                    steps=self.settings.backoff.steps,
                )
            )

    def _warn_of(self, endpoint: Endpoint, adjustments: Sequence[Adjustment]) -> None:
        """Warn of values beyond their bounds, once for each set of fields: servers repeat them every five minutes."""
        fields = frozenset(each.field for each in adjustments)
        if not fields or fields in self._adjusted:
            return
        self._adjusted.add(fields)
        values = "; ".join(each.text for each in adjustments)
        logger.warning("settings from %s are out of bounds: %s", endpoint, values, extra=self.log_facts())

    # Commands

    def take_command(self, endpoint: Endpoint, name: str, command: pb.TelemetryCommand) -> None:
        """Carry out a command of the server, outside of the reader."""
        if name == "reconnect_endpoints_command":
            self._tasks.spawn(self.reconnect, endpoint, self.timeouts.request, name="reconnect")
            return
        handler = self._commands.get(name)
        if handler is None:
            logger.warning("%s sent %s, which this client does not carry out", endpoint, name)
            return
        self._tasks.spawn(self._carry_out, handler, endpoint, command, name=name)

    async def _carry_out(
        self, handler: CommandHandler, endpoint: Endpoint, command: pb.TelemetryCommand
    ) -> None:
        await handler(endpoint, command)

    async def reply(self, endpoint: Endpoint, command: pb.TelemetryCommand) -> None:
        """Answer a command on the stream of its endpoint; raises UnreachableError where that is broken."""
        link = self.links.get(endpoint)
        if link is not None:
            await link.write(command)

    async def reconnect(self, endpoint: Endpoint, grace: float = 0.0) -> None:
        """Make the connection to `endpoint` anew, and its stream; calls under way have `grace` seconds to end."""
        logger.warning("connecting to %s anew", endpoint, extra=self.log_facts())
        await self.network.reconnect(endpoint, grace)
        link = self.links.get(endpoint)
        if link is not None:
            await link.renew()

    # Background

    def every(self, period: float, work: Work, *, name: str) -> Job:
        """Do `work` every `period` seconds, or after as many as it returns, for as long as the client runs."""
        if self._rounds is None:
            raise self._closed()
        return self._rounds.every(period, work, name=name)

    def keep_link(self, endpoint: Endpoint) -> Link:
        """Keep a settings stream to `endpoint` open from now on."""
        link = self.links[endpoint] = Link(self, endpoint, answer_timeout=self.timeouts.request)
        self._link_tasks[endpoint] = self._tasks.supervise(
            link.run, name=f"the settings stream to {endpoint}"
        )
        return link

    def drop_link(self, endpoint: Endpoint) -> None:
        """Close the settings stream of an endpoint that no route names any more."""
        del self.links[endpoint]
        self._link_tasks.pop(endpoint).cancel()
        logger.info("%s serves none of our topics any more", endpoint, extra=self.log_facts())

    @property
    def _calling(self) -> Calling:
        if self._made_calling is None:
            raise self._closed()
        return self._made_calling

    def _new_calling(self) -> Calling:
        headers = HeaderSource(
            client_id=self.client_id,
            version=version(),
            namespace=self.namespace,
            request_prefix=f"{self.environment.random.getrandbits(64):016x}",
        )
        return Calling(
            self.network.open_transport(),
            headers,
            wall=self.environment.wall,
            closed=lambda: self._closed() if self._is_over or self.network.is_closed else None,
            knows=self.routes.cached.__contains__,
        )
