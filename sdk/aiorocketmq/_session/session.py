"""Session of a client with gRPC servers: routes, settings streams, heartbeats, recovery, termination.

Roles (producer, consumers) are composed on a session, never derived from it. The state tables of clients and streams
are in `_core/session_states.py`; periodic jobs are in `upkeep.py`."""

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
from aiorocketmq._session.client import Client, description
from aiorocketmq._session.metrics_export import MetricsExport
from aiorocketmq._session.routes import Routes
from aiorocketmq._session.rpcs import Calling
from aiorocketmq._session.settings_stream import SettingsStream
from aiorocketmq._session.start import FirstCall, start_within
from aiorocketmq._session.upkeep import Upkeep
from aiorocketmq._transport.credentials import Signing
from aiorocketmq._transport.interface import Transport
from aiorocketmq._transport.network import Network, loop_time
from aiorocketmq._version import version
from aiorocketmq.clock import Clock
from aiorocketmq.config import Credentials
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

logger = logging.getLogger("aiorocketmq.client")

MOST_COMMANDS = 2000
"""Commands in progress, beyond which further ones are dropped: a server that does not read replies would make them
wait without end. More than the checks of transactions that wait."""
_COMMANDS_APART = 1.0
"""Seconds between two new connections that a server commands: some may command one in each answer to settings."""

CommandHandler: TypeAlias = Callable[[Endpoint, pb.TelemetryCommand], Awaitable[None]]
"""Executes a server's command, in a task of its own; exceptions are logged."""


class Session(Client):
    """The session of one client with gRPC servers.

    Created by a role, which starts and stops it once. Between `start` and `stop`, every endpoint of a route has a
    settings stream and heartbeats, and every call but the query for routes goes only to endpoints that have our
    settings."""

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
                f"a {role.value} client does not use the remoting protocol: give the address of a gRPC proxy, "
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
        self.on_failure.append(self._fail_streams)
        self.on_settings: list[Callable[[ServerSettings], None]] = []
        """Called with the current settings after each answer of a server."""
        self.isolated: set[Endpoint] = set()
        """Endpoints that sends avoid, because a call failed there and no heartbeat has been answered since."""
        self.overfull: set[Endpoint] = set()
        """Endpoints for which a warning was logged, because an answer contained more messages than requested."""
        sources = metric_sources(self.hooks)
        if sources:
            self.on_settings.append(MetricsExport(self, sources).follow)
        self.streams: dict[Endpoint, SettingsStream] = {}
        self.routes = Routes(self)
        self._commands = dict(commands or {})
        self._commands_running = 0
        self._overrun_by: set[Endpoint] = set()
        """Endpoints for which a warning was logged, because a command was dropped."""
        self._first_call = first_call
        self._upkeep = Upkeep(self, self.routes)
        self._stream_tasks: dict[Endpoint, asyncio.Task[None]] = {}
        self._membership: Member | None = None
        self._announced: ServerSettings | None = None
        self._adjusted: set[frozenset[str]] = set()
        """Sets of fields of settings for whose adjustment a warning was logged."""
        self._made_calling: Calling | None = None
        self._signing = Signing(self.network.credential_source)

    # Life

    async def _open(self) -> None:
        self._made_calling = self._new_calling()
        await start_within(self, self.routes, self._first_call)

    def _opened(self) -> None:
        self._membership = self.network.scheduler.join(self._tasks)
        self._upkeep.begin(self._membership)

    async def _terminate_session(self) -> None:
        if self._membership is not None:
            self._membership.leave()
        endpoints = [each for each, stream in self.streams.items() if stream.state is StreamState.READY]
        await asyncio.gather(*(self._terminate(endpoint) for endpoint in endpoints))

    async def _disconnect(self) -> None:
        for endpoint in self.streams:
            self.network.leave(endpoint)
        self.streams.clear()

    async def _terminate(self, endpoint: Endpoint) -> None:
        request = pb.NotifyClientTerminationRequest()
        if self.group is not None:
            request.group.CopyFrom(self.group_resource)
        try:
            await self.call_early(endpoint, TERMINATE, request, group=self.group)
        except RocketMQError as error:
            logger.debug("termination request to %s failed: %s", endpoint, error)

    def _fail_streams(self) -> None:
        if self.failure is not None:
            for stream in self.streams.values():
                stream.fail(self.failure)

    # Facts

    def description(self) -> str:
        """What the client is, for logs."""
        limits = self.settings.limits(is_producer=self.declaration.is_producer)
        return description(self.role, "gRPC", self.group, self.declaration.all_topics, limits)

    @property
    def is_connected(self) -> bool:
        """Whether the settings stream to every endpoint is open and answered."""
        return bool(self.streams) and all(
            stream.state is StreamState.READY for stream in self.streams.values()
        )

    @property
    def has_settings(self) -> bool:
        """Whether a server's settings have been received."""
        return self._announced is not None

    @property
    def in_order(self) -> bool:
        """Whether messages are delivered in order: in ordered groups, and within each lite topic."""
        return self.settings.ordered or self.declaration.client_type in (LITE_PUSH, LITE_SIMPLE)

    @property
    def clock(self) -> Clock:
        """The clock of leases and of retries in ordered groups."""
        return self.network.clock

    @property
    def transport(self) -> Transport:
        """The transport; raises ClosedError before the start."""
        return self._calling.transport

    def resource(self, name: str) -> pb.Resource:
        """A topic or group in this client's namespace."""
        return pb.Resource(resource_namespace=self.namespace, name=name)

    @property
    def group_resource(self) -> pb.Resource:
        """The consumer group in this client's namespace."""
        assert self.group is not None  # only consumers ask
        return self.resource(self.group)

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

        Otherwise raises the error of the status or of the network. If the server has forgotten this client, which it
        reports before it does anything, our settings are sent again and the call is repeated once."""
        if self._state is not ClientState.RUNNING:
            raise self._closed()
        unary, seconds = self._calling.unary, timeout or self.timeouts.request
        signed_with = self.credentials
        try:
            return await unary(endpoint, call, request, seconds, topic, group, accept)
        except SessionLostError:
            await self.resync(endpoint)
            return await unary(endpoint, call, request, seconds, topic, group, accept)
        except PermissionDeniedError as error:
            if not await self.sign_anew(error, signed_with):
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
        """Make one call that is allowed before the client is usable; it is not repeated."""
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
        """Make one call with many answers, each passed to `take` when it arrives.

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
        """Use the current credentials for all later calls."""
        await self._signing.sign(self._calling.headers)

    async def sign_anew(self, refused: PermissionDeniedError, signed_with: Credentials | None) -> bool:
        """Use other credentials after a server has refused those of a call; return whether there are any."""
        return await self._signing.sign_anew(self._calling.headers, refused, signed_with)

    @property
    def credentials(self) -> Credentials | None:
        """The credentials that calls are signed with now."""
        return self._signing.current

    # Routes

    async def route(self, topic: str) -> Route:
        """Return the route of `topic`, from the cache or from the server; its endpoints have our settings."""
        return self.routes.cached.get(topic) or await self.routes.look_up(topic)

    # Settings

    async def declare(self, declaration: Declaration) -> None:
        """Change the client's settings: look up routes of new topics, then send the settings on every stream."""
        self.check_running()
        for topic in declaration.all_topics:
            await self.route(topic)
        self.declaration = declaration
        await self.write_settings()

    async def write_settings(self) -> None:
        """Send our settings on every open stream; a broken one sends them when it is open again."""
        for stream in tuple(self.streams.values()):
            try:
                await stream.write(self.settings_command())
            except RocketMQError as error:
                logger.debug("settings for %s wait for its stream: %s", stream.endpoint, error)

    async def resync(self, endpoint: Endpoint) -> None:
        """Send our settings to `endpoint` again, after a call has shown that it does not have them."""
        stream = self.streams.get(endpoint)
        if stream is not None:
            logger.info(
                "%s has forgotten our settings, sending them again", endpoint, extra=self.log_fields()
            )
            await stream.resync()

    def settings_command(self) -> pb.TelemetryCommand:
        """Our current settings as a command."""
        return pb.TelemetryCommand(
            settings=conversion.settings_to_wire(
                self.declaration, self.access, self.namespace, version(), self.environment.host
            )
        )

    def take_settings(self, endpoint: Endpoint, settings: pb.Settings) -> None:
        """Apply a server's settings; those of another kind of client are ignored."""
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
        before, self._announced = self._announced, self.settings
        if before is not None:
            changes = self.settings.changes(before)
            logger.info("settings from %s changed: %s", endpoint, changes, extra=self.log_fields())
        for listener in self.on_settings:
            listener(self.settings)
        if self.emitter.is_watched and self.group is not None:
            self.emitter.event(
                SettingsEvent(
                    client=self.emitter.client,
                    ordered=self.settings.ordered,
                    max_attempts=self.settings.backoff.max_attempts,
                    steps=self.settings.backoff.steps,
                )
            )

    def _warn_of(self, endpoint: Endpoint, adjustments: Sequence[Adjustment]) -> None:
        """Log a warning for values out of bounds, once for each set of fields: servers repeat them every five
        minutes."""
        fields = frozenset(each.field for each in adjustments)
        if not fields or fields in self._adjusted:
            return
        self._adjusted.add(fields)
        values = "; ".join(each.text for each in adjustments)
        logger.warning("settings from %s are out of bounds: %s", endpoint, values, extra=self.log_fields())

    # Commands

    def take_command(self, endpoint: Endpoint, name: str, command: pb.TelemetryCommand) -> None:
        """Execute a command of the server in a task of its own."""
        if name == "reconnect_endpoints_command":
            self._reconnect_on_command(endpoint)
            return
        handler = self._commands.get(name)
        if handler is None:
            logger.warning("%s sent %s, which this client does not support", endpoint, name)
            return
        if self._commands_running >= MOST_COMMANDS:
            level = logging.DEBUG if endpoint in self._overrun_by else logging.WARNING
            self._overrun_by.add(endpoint)
            logger.log(level, "%s sends more commands than can be executed, %s is dropped", endpoint, name)
            return
        self._commands_running += 1
        self._tasks.spawn(self._carry_out, handler, endpoint, command, name=name)

    def _reconnect_on_command(self, endpoint: Endpoint) -> None:
        stream = self.streams.get(endpoint)
        if stream is None or loop_time() - stream.commanded_at < _COMMANDS_APART:
            logger.debug("%s has just commanded a new connection, another one is not made", endpoint)
            return
        stream.commanded_at = loop_time()
        self._tasks.spawn(self.reconnect, endpoint, self.timeouts.request, name="reconnect")

    async def _carry_out(
        self, handler: CommandHandler, endpoint: Endpoint, command: pb.TelemetryCommand
    ) -> None:
        try:
            await handler(endpoint, command)
        finally:
            self._commands_running -= 1

    async def reply(self, endpoint: Endpoint, command: pb.TelemetryCommand) -> None:
        """Answer a command on the stream of its endpoint; raises UnreachableError if that is broken."""
        stream = self.streams.get(endpoint)
        if stream is not None:
            await stream.write(command)

    async def reconnect(self, endpoint: Endpoint, grace: float = 0.0) -> None:
        """Reconnect to `endpoint` and open its stream again; calls in flight have `grace` seconds to complete."""
        logger.warning("reconnecting to %s", endpoint, extra=self.log_fields())
        await self.network.reconnect(endpoint, grace)
        stream = self.streams.get(endpoint)
        if stream is not None:
            await stream.renew()

    # Background

    def every(self, period: float, work: Work, *, name: str) -> Job:
        """Run `work` every `period` seconds, or after the seconds that it returns, while the client is running."""
        if self._membership is None:
            raise self._closed()
        return self._membership.every(period, work, name=name)

    def open_stream(self, endpoint: Endpoint) -> SettingsStream:
        """Keep a settings stream to `endpoint` open from now on."""
        stream = self.streams[endpoint] = SettingsStream(self, endpoint, answer_timeout=self.timeouts.request)
        self.network.use(endpoint)
        self._stream_tasks[endpoint] = self._tasks.supervise(
            stream.run, name=f"the settings stream to {endpoint}"
        )
        return stream

    def close_stream(self, endpoint: Endpoint) -> None:
        """Close the settings stream of an endpoint that is in no route any more."""
        del self.streams[endpoint]
        self.network.leave(endpoint)
        self._stream_tasks.pop(endpoint).cancel()
        logger.info("%s serves none of our topics any more", endpoint, extra=self.log_fields())

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
