"""Session of a client with name servers and brokers: routes, heartbeats, and requests of servers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeAlias

import anyio

from aiorocketmq._aio.tasks import Watch
from aiorocketmq._core.endpoint import Address, Endpoint, endpoint_of
from aiorocketmq._core.pauses import failure_pause
from aiorocketmq._core.remoting.frame import Frame, OtherProtocol
from aiorocketmq._core.retries import start_delay
from aiorocketmq._core.route import MessageQueue
from aiorocketmq._remoting.codes import RequestCode
from aiorocketmq._remoting.name_servers import NameServers
from aiorocketmq._remoting.pool import Pool
from aiorocketmq._remoting.replicas import Ask, Replicas, master_of
from aiorocketmq._remoting.routes import READABLE, BrokerAddresses, Route
from aiorocketmq._session.client import Client, description
from aiorocketmq._session.retrying import retried
from aiorocketmq._transport.credentials import PERIOD, as_the_provider_failed
from aiorocketmq._transport.trust import ssl_context
from aiorocketmq.connection import Connection, ConnectionOptions, network_of
from aiorocketmq.errors import (
    BusyError,
    CredentialsProviderError,
    MalformedAnswerError,
    RefusedError,
    RocketMQError,
    ServerError,
    TopicNotFoundError,
    UnreachableError,
)
from aiorocketmq.hooks import Hook, Role

logger = logging.getLogger("aiorocketmq.client")

HEARTBEAT = 30.0
"""Seconds between heartbeats; brokers forget a client after 120."""
ROUTES = 30.0
"""Seconds between refreshes of routes, as in Java's clients."""
_PASSING = (UnreachableError, BusyError, ServerError, TopicNotFoundError)

ServerRequest: TypeAlias = Callable[[Address, Frame], "Frame | None"]
"""Handles the request of the server at an address, and returns the answer to a two-way one."""


class RemotingSession(Client):
    """The session of one client with name servers and brokers.

    With a `heartbeat`, the body that it makes from the client's id is sent to every broker of `topics`, so that they
    know the client as a member of its group."""

    def __init__(
        self,
        endpoint: str | Connection,
        *,
        role: Role,
        group: str,
        hooks: Sequence[Hook],
        topics: Collection[str] = (),
        heartbeat: Callable[[str], bytes] | None = None,
        options: ConnectionOptions | None = None,
    ) -> None:
        network, owns_network = network_of(endpoint, options or {})
        super().__init__(network, owns_network=owns_network, role=role, group=group, hooks=hooks)
        self.topics = tuple(topics)
        self.isolated: set[Endpoint] = set()
        """Brokers that sends avoid, because a request failed there and no heartbeat has been answered since."""
        self._heartbeat = heartbeat
        self.before_joining: Callable[[], Awaitable[None]] | None = None
        """May refuse to join, after routes are known and before any heartbeat."""
        self.requests: dict[int, ServerRequest] = {}
        """Handlers of requests of servers, by code."""
        self.on_change: list[Callable[[], object]] = []
        """Called when the members of the group, or the route of a topic, may have changed."""
        self._open_pool: Pool | None = None
        self._open_name_servers: NameServers | None = None
        self._routes: dict[str, Route] = {}
        self._known_by: dict[Address, int] = {}
        """Brokers that have answered a heartbeat on the current connection, with their versions."""
        self._due = asyncio.Event()
        self.replicas = Replicas(self, self._greet_master)

    # Life

    async def _open(self) -> None:
        self.network.check_open()
        tls = self.network.tls
        self._open_pool = Pool(
            credentials=self.network.credential_source.in_use,
            other_credentials=self.network.credential_source.other_than,
            ssl=None if tls is None else await asyncio.to_thread(ssl_context, tls),
            server_name=None if tls is None else tls.server_name,
            mapped=self._mapped,
            on_request=self._on_request,
            on_lost=self._on_lost,
        )
        self._open_name_servers = NameServers(
            self._open_pool, self.access.addresses, timeout=self.timeouts.request
        )
        failures: list[RocketMQError] = []

        def delay_after(error: RocketMQError) -> float | None:
            failures.append(error)
            may_pass = isinstance(error, _PASSING) and not isinstance(error.__cause__, OtherProtocol)
            return start_delay(len(failures), self.environment.random) if may_pass else None

        try:
            async with asyncio.timeout(self.timeouts.start) as scope:
                with as_the_provider_failed():
                    await self.network.credential_source.now()
                await retried(self._introduce, delay_after)
        except TimeoutError:
            if not scope.expired():  # the application's own
                raise
            if not failures:
                raise self._unanswered() from None
            raise failures[-1] from None

    async def _introduce(self) -> None:
        if not self.topics:
            await self._name_servers.brokers()
        for topic in self.topics:
            await self.look_up(topic)
        if self.before_joining is not None:
            await self.before_joining()
        if self._heartbeat is not None and self.topics:
            failures = await self._beat(self._heartbeat(self.client_id))
            if failures:
                raise failures[0]

    def _unanswered(self) -> UnreachableError:
        return UnreachableError(
            f"no name server could be reached at {self.access} within {self.timeouts.start:g} s",
            timed_out=True,
            endpoint=str(self.access),
            group=self.group,
        )

    def _opened(self) -> None:
        self.supervise(self._keep_routes, name="looking for routes")
        if callable(self.network.credentials):
            self.supervise(self._keep_credentials, name="credentials")
        if self._heartbeat is not None:
            self.supervise(self._keep_known, self._heartbeat, name="heartbeats")

    async def _terminate_session(self) -> None:
        if self._heartbeat is None:
            return
        kind = "producerGroup" if self.role is Role.PRODUCER else "consumerGroup"
        fields = {"clientID": self.client_id, kind: self.group or ""}
        await asyncio.gather(
            *(self._ask(address, RequestCode.UNREGISTER_CLIENT, fields) for address in self._known_by)
        )

    async def _disconnect(self) -> None:
        if self._open_pool is not None:
            await self._open_pool.close()
        self._known_by.clear()
        self.replicas.forget()

    def description(self) -> str:
        """What the client is, for logs."""
        brokers = ", ".join(sorted({broker.name for broker in self._brokers(self._routes)}))
        return description(self.role, "remoting", self.group, self.topics, f"brokers {brokers or 'unknown'}")

    @property
    def is_connected(self) -> bool:
        """Whether all brokers of the topics in use are connected, and have accepted the heartbeat of a group's
        member."""
        if self._open_pool is None:
            return False
        is_member = self._heartbeat is not None and bool(self.topics)
        # Brokers of other topics, which a member has only looked up, get no heartbeats.
        brokers = self._brokers(self.topics if is_member else self._routes)
        masters = {broker.master for broker in brokers if broker.master is not None}
        if is_member:
            return bool(masters) and masters <= self._known_by.keys()
        return any(map(self._open_pool.is_open, masters or self.access.addresses))

    @property
    def has_settings(self) -> bool:
        """Whether a broker has accepted this client; without a group or topics, none needs to."""
        return self._open_pool is not None and not (self._heartbeat and self.topics and not self._known_by)

    # Calls

    async def call(
        self,
        queue: MessageQueue,
        code: RequestCode,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Frame:
        """Make a request to the master of `queue`; see `Pool.call`. TopicNotFoundError; UnreachableError if it is
        unavailable."""
        broker = await self._broker_of(queue)
        return await self.replicas.change(queue.topic, broker, self._call_to(queue, code, fields, body))

    async def read(
        self,
        queue: MessageQueue,
        code: RequestCode,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout: float | None = None,
        accept: Collection[int] = (),
        is_usable: Callable[[Frame], bool] = lambda _: True,
    ) -> Frame:
        """Make a request to the master of `queue`, or while it is unavailable to a replica; see `Replicas.read`; raises
        as `call`."""
        broker = await self._broker_of(queue)
        ask = self._call_to(queue, code, fields, body, timeout=timeout, accept=accept)
        return await self.replicas.read(queue.topic, broker, ask, is_usable)

    async def call_broker(
        self, broker: str, code: RequestCode, fields: Mapping[str, str], body: bytes = b""
    ) -> Frame:
        """Make a request to a master by the name of its broker in a route."""
        return await self._pool.call(
            master_of(self._broker(broker, self._brokers(self._routes))),
            code,
            fields,
            body,
            timeout=self.timeouts.request,
            group=self.group,
        )

    async def call_at(
        self,
        address: Address,
        code: RequestCode,
        fields: Mapping[str, str],
        body: bytes = b"",
        *,
        topic: str | None = None,
        repeats: bool = True,
    ) -> Frame:
        """Make a request to the broker at `address`; see `Pool.call`. Brokers may make requests before the start is
        complete."""
        return await self._pool.call(
            address, code, fields, body, timeout=self.timeouts.request, topic=topic, repeats=repeats
        )

    async def call_any(self, topic: str, code: RequestCode, fields: Mapping[str, str]) -> Frame:
        """Make a request to one broker of `topic`, a master if there is one; all know the same about a group."""
        route = await self.route(topic)
        if not route.brokers:
            raise UnreachableError(
                f"topic {topic!r} has no broker at the moment", topic=topic, group=self.group
            )
        ask = partial(
            self._pool.call,
            code=code,
            fields=fields,
            timeout=self.timeouts.request,
            topic=topic,
            group=self.group,
        )
        return await self.replicas.read(topic, self.environment.random.choice(route.brokers), ask)

    def malformed(self, what: str, error: Exception) -> MalformedAnswerError:
        """The error for a broker's answer that does not fit the protocol."""
        return MalformedAnswerError(
            f"a broker's answer about {what} cannot be used: {error}; {MalformedAnswerError.remedy}",
            group=self.group,
        )

    async def route(self, topic: str) -> Route:
        """Return the route of `topic`, at most half a minute old. Raises TopicNotFoundError, UnreachableError."""
        return self._routes.get(topic) or await self.look_up(topic)

    async def look_up(self, topic: str) -> Route:
        """Request the route of `topic` from name servers; raises as `route`."""
        route = await self._name_servers.route(topic)
        before = self._routes.get(topic)
        self._routes[topic] = route
        if before is not None and before != route:
            logger.info("the route of topic %r has changed", topic, extra=self.log_fields())
            self.send_heartbeats()  # new ones do not know this client
            self._changed()
        return route

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The readable queues of `topic`, sorted."""
        route = await self.route(topic)
        return tuple(
            sorted(
                MessageQueue(topic, counts.broker, number)
                for counts in route.queues
                if counts.permission & READABLE
                for number in range(counts.readable)
            )
        )

    @property
    def routes(self) -> Mapping[str, Route]:
        """The cached routes by topic."""
        return self._routes

    async def add_topic(self, topic: str) -> None:
        """Register with the brokers of `topic` from now on; those that do not answer get later heartbeats."""
        if topic in self.topics or self._heartbeat is None:
            return
        await self.route(topic)
        self.topics += (topic,)
        if await self._beat(self._heartbeat(self.client_id)):
            self._due.set()

    def remove_topic(self, topic: str) -> None:
        """Leave `topic` out of the heartbeats from now on."""
        self.topics = tuple(each for each in self.topics if each != topic)
        self.send_heartbeats()

    def send_heartbeats(self) -> None:
        """Send a heartbeat now: its content has changed."""
        self._due.set()

    async def version_of(self, address: Address) -> int:
        """Return the version of the broker at `address`; raises UnreachableError if it does not answer."""
        if address not in self._known_by and self._heartbeat is not None:
            error = await self._beat_at(address, self._heartbeat(self.client_id))
            if error is not None:
                raise error
        return self._known_by[address]

    def _brokers(self, topics: Iterable[str]) -> list[BrokerAddresses]:
        routes = (self._routes[topic] for topic in topics if topic in self._routes)
        return [broker for route in routes for broker in route.brokers]

    async def _broker_of(self, queue: MessageQueue) -> BrokerAddresses:
        self.check_running()
        return self._broker(queue.broker, (await self.route(queue.topic)).brokers)

    def _broker(self, name: str, among: Iterable[BrokerAddresses]) -> BrokerAddresses:
        for broker in among:
            if broker.name == name and broker.addresses:
                return broker
        raise UnreachableError(
            f"the name servers at {self.access} know no address of broker {name!r} at the moment",
            endpoint=str(self.access),
            group=self.group,
        )

    def _call_to(
        self,
        queue: MessageQueue,
        code: RequestCode,
        fields: Mapping[str, str] | None,
        body: bytes,
        *,
        timeout: float | None = None,
        accept: Collection[int] = (),
    ) -> Ask:
        named = {"topic": queue.topic, "queueId": str(queue.id), "bname": queue.broker, **(fields or {})}
        return partial(
            self._pool.call,
            code=code,
            fields=named,
            body=body,
            timeout=timeout or self.timeouts.request,
            topic=queue.topic,
            group=self.group,
            accept=accept,
        )

    async def _greet_master(self, topic: str, broker: str) -> None:
        master = master_of(self._broker(broker, (await self.look_up(topic)).brokers))
        with suppress(RefusedError):  # an answer as good as any
            await self._call_to(MessageQueue(topic, broker, 0), RequestCode.GET_MIN_OFFSET, None, b"")(master)

    async def _ask(self, address: Address, code: RequestCode, fields: Mapping[str, str]) -> None:
        try:
            await self._pool.call(address, code, fields, timeout=self.timeouts.request, group=self.group)
        except RocketMQError as error:
            logger.debug("%s at %s failed: %s", code.name, address, error)

    # What is done regularly

    async def _keep_routes(self, watch: Watch) -> None:
        while True:
            await asyncio.sleep(ROUTES)
            # Also without a topic, or name servers would close an idle connection.
            jobs: list[Callable[[], Awaitable[object]]]
            jobs = [partial(self.look_up, topic) for topic in self._routes]
            failure: RocketMQError | None = None
            for job in jobs or [self._name_servers.brokers]:
                try:
                    await job()
                except RocketMQError as error:
                    failure = failure or error
            if failure is None:
                watch.worked()
            else:
                watch.failed(failure)

    async def _keep_credentials(self, watch: Watch) -> None:
        pause = PERIOD
        while True:
            await asyncio.sleep(pause)
            try:
                await self.network.credential_source.now()
            except CredentialsProviderError as error:  # those in use are kept
                rng = self.environment.random
                pause = failure_pause(watch.failed(error), throttled=False, rng=rng)
            else:
                watch.worked()
                pause = PERIOD

    async def _keep_known(self, watch: Watch, heartbeat: Callable[[str], bytes]) -> None:
        pause = HEARTBEAT
        while True:
            with anyio.move_on_after(pause):
                await self._due.wait()
            self._due.clear()
            failures = await self._beat(heartbeat(self.client_id))
            if failures:
                count = watch.failed(failures[0])
                pause = failure_pause(count, throttled=False, rng=self.environment.random)
            else:
                watch.worked()
                pause = HEARTBEAT

    async def _beat(self, body: bytes) -> list[RocketMQError]:
        """Send a heartbeat to every broker of our topics, masters and replicas; return why masters have not
        answered."""
        addresses = {
            address: broker.master == address
            for topic in self.topics
            if topic in self._routes
            for broker in self._routes[topic].brokers
            for address in broker.addresses.values()
        }
        outcomes = await asyncio.gather(*(self._beat_at(address, body) for address in addresses))
        return [
            error
            for error, is_master in zip(outcomes, addresses.values(), strict=True)
            if error is not None and is_master
        ]

    async def _beat_at(self, address: Address, body: bytes) -> RocketMQError | None:
        try:
            answer = await self._pool.call(
                address, RequestCode.HEART_BEAT, {}, body, timeout=self.timeouts.request, group=self.group
            )
        except RocketMQError as error:
            self._known_by.pop(address, None)
            return error
        self.isolated.discard(endpoint_of((address,)))
        is_new = address not in self._known_by
        self._known_by[address] = answer.version
        if is_new:
            self._changed()
        return None

    # Requests of servers, and broken connections

    def _on_request(self, address: Address, frame: Frame) -> Frame | None:
        if frame.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._changed()
            return None
        handler = self.requests.get(frame.code)
        if handler is None:
            logger.debug("%s sent request %d, which this client does not support", address, frame.code)
            return None
        return handler(address, frame)

    def _on_lost(self, address: Address) -> None:
        """Send a heartbeat as soon as possible: until then the group rebalances without this member."""
        if address in self._known_by:
            del self._known_by[address]
            self._due.set()

    def _changed(self) -> None:
        for listener in self.on_change:
            listener()

    def _mapped(self, address: Address) -> Address:
        return self.network.mapped(endpoint_of((address,))).addresses[0]

    @property
    def _pool(self) -> Pool:
        if self._open_pool is None:
            raise self._closed()
        return self._open_pool

    @property
    def _name_servers(self) -> NameServers:
        if self._open_name_servers is None:
            raise self._closed()
        return self._open_name_servers
