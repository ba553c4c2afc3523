"""Network connections to a RocketMQ cluster, and what its clients share: routes, heartbeat watches, periodic jobs."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, TypeAlias
from uuid import getnode
from weakref import WeakValueDictionary

from aiorocketmq._aio.forks import watch
from aiorocketmq._aio.scheduler import Scheduler
from aiorocketmq._core.bodies import DEFAULT_MAX_UNPACKED
from aiorocketmq._core.endpoint import NAMESRV, Endpoint, endpoint_of, parse_endpoint, parse_name_servers
from aiorocketmq._core.half_open import HalfOpenWatch
from aiorocketmq._core.message_ids import MessageIds
from aiorocketmq._core.route import Route
from aiorocketmq._transport.credentials import CredentialSource
from aiorocketmq._transport.interface import Transport
from aiorocketmq.clock import Clock, ClockUser, Timer
from aiorocketmq.config import Credentials, CredentialsProvider, Timeouts, Tls, check_client_properties
from aiorocketmq.errors import ClosedError

AddressMap: TypeAlias = Mapping[str, str] | Callable[[str], str]
"""Maps the `host:port` that a server announces to the one to use instead; what a mapping lacks is unchanged."""

_LAST_USES = 600.0
"""Seconds that a connection is kept after its server has left the routes: messages of that server may still be settled
there, which a server that is being drained allows on old connections only."""
_ONE_TIME = 1.0
"""Seconds within which requests to reconnect are for the same broken connection."""


@dataclass(slots=True)
class Environment:
    """What a client takes from its environment: wall clock, random numbers, names of machine and process. Simulations
    replace it."""

    wall: Callable[[], float] = time.time
    random: random.Random = field(default_factory=random.Random)
    host: str = field(default_factory=socket.gethostname)
    """The name of this machine, which servers show with clients and messages."""
    process: int | None = None
    """The number of this process in client ids; None: that of the running one."""
    message_ids: MessageIds | None = None
    """The source of message ids; None: the one that all clients of this process share."""


class Network:
    """The state behind a `Connection`; its parameters are those of that class."""

    def __init__(
        self,
        endpoint: str,
        *,
        credentials: Credentials | CredentialsProvider | None = None,
        tls: Tls | None = None,
        namespace: str = "",
        address_map: AddressMap | None = None,
        timeouts: Timeouts | None = None,
        client_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        max_decompressed_body: int = DEFAULT_MAX_UNPACKED,
        transport: Literal["auto", "grpcio"] | Transport = "auto",
        environment: Environment | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.is_remoting = names_servers(endpoint)
        """Whether its clients use the remoting protocol, with the brokers that name servers know."""
        self.endpoint = parse_name_servers(endpoint) if self.is_remoting else parse_endpoint(endpoint)
        if self.is_remoting and namespace:
            raise ValueError(
                "namespace is not known to name servers: leave it out, and write it into topics and groups "
                f"('{namespace}%orders')"
            )
        self.credentials = credentials
        self.tls = tls
        self.namespace = namespace
        self.timeouts = timeouts or Timeouts()
        self.client_properties = dict(client_properties or {})
        check_client_properties(self.client_properties)
        if not max_decompressed_body >= 1:
            raise ValueError(f"max_decompressed_body must be bytes from 1, not {max_decompressed_body!r}")
        self.executor = executor
        self.max_decompressed_body = max_decompressed_body
        self.environment = environment or Environment()
        self.clock: Clock = clock or LoopClock()
        self._address_map = address_map
        if isinstance(address_map, Mapping):
            for target in address_map.values():
                parse_endpoint(target)
        if isinstance(transport, str) and transport not in ("auto", "grpcio"):
            raise ValueError(f"transport must be 'auto', 'grpcio' or an object, not {transport!r}")
        self._given_transport = transport
        self._transport: Transport | None = None
        self._is_closed = False
        self._is_orphaned = False
        self.credential_source = CredentialSource(credentials, wall=self.environment.wall)
        """The source of credentials."""
        self.scheduler = Scheduler(self.environment.random)
        """The periodic jobs of all clients."""
        self._watches: dict[Endpoint, HalfOpenWatch] = {}
        self._reconnected_at: dict[Endpoint, float] = {}
        self._users: Counter[Endpoint] = Counter()
        """Settings streams to each server, of all clients."""
        self._left_at: dict[Endpoint, float] = {}
        """When the last of them was closed."""
        self._routes: WeakValueDictionary[str, Route] = WeakValueDictionary()
        self._asked_at: dict[str, float] = {}

    def open_transport(self) -> Transport:
        """Return the transport, created on first use; raises ClosedError after `close`."""
        self.check_open()
        if self._transport is None:
            self._transport = self._new_transport()
            watch(self)
        return self._transport

    def check_open(self) -> None:
        """Raise ClosedError after `close`."""
        if self._is_closed:
            why = (
                "belongs to the process that this one was forked from" if self._is_orphaned else "was closed"
            )
            raise ClosedError(f"the connection {why}; create a new one", endpoint=str(self.endpoint))

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    async def close(self) -> None:
        """Close the network connections; clients that still use them raise ClosedError. May be called more than
        once."""
        self._is_closed = True
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()

    def orphan(self) -> None:
        """Mark it as closed in a forked child process; its sockets belong to the parent."""
        self._is_closed = self._is_orphaned = True

    def shared(self, route: Route) -> Route:
        """Return the equal route of another client, so that many clients of a topic share one object."""
        self._asked_at[route.topic] = loop_time()
        current = self._routes.get(route.topic)
        if current == route:
            return current
        self._routes[route.topic] = route
        return route

    def fresh_route(self, topic: str, *, age: float) -> Route | None:
        """Return the route of `topic` that another client has looked up in the last `age` seconds."""
        if loop_time() - self._asked_at.get(topic, float("-inf")) >= age:
            return None
        return self._routes.get(topic)

    def watch(self, endpoint: Endpoint) -> HalfOpenWatch:
        """The detector of half-open connections to `endpoint`."""
        return self._watches.setdefault(endpoint, HalfOpenWatch())

    async def reconnect(self, endpoint: Endpoint, grace: float = 0.0) -> None:
        """Reconnect to `endpoint`, once for all clients that request it at about the same time."""
        now = loop_time()
        if self._transport is not None and now - self._reconnected_at.get(endpoint, -_ONE_TIME) >= _ONE_TIME:
            self._reconnected_at[endpoint] = now
            await self._transport.reconnect(endpoint, grace)

    def use(self, endpoint: Endpoint) -> None:
        """Keep the connection to `endpoint` for one more settings stream."""
        self._users[endpoint] += 1
        self._left_at.pop(endpoint, None)

    def leave(self, endpoint: Endpoint) -> None:
        """End one `use`."""
        self._users[endpoint] -= 1
        if not self._users[endpoint]:
            del self._users[endpoint]
            self._left_at[endpoint] = loop_time()

    async def close_unused(self) -> None:
        """Close connections to servers that no client has used for a while: routes of a cluster whose servers are
        replaced name ever new ones."""
        now = loop_time()
        for endpoint in [each for each, left_at in self._left_at.items() if now - left_at >= _LAST_USES]:
            del self._left_at[endpoint]
            self._watches.pop(endpoint, None)
            self._reconnected_at.pop(endpoint, None)
            if self._transport is not None and endpoint != self.endpoint:
                await self._transport.reconnect(endpoint)

    def mapped(self, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint to use for one that a server has announced."""
        if self._address_map is None:
            return endpoint
        look_up = self._address_map if callable(self._address_map) else self._from_mapping
        mapped = [parse_endpoint(look_up(str(address))) for address in endpoint.addresses]
        return endpoint_of(tuple(dict.fromkeys(address for each in mapped for address in each.addresses)))

    def _from_mapping(self, address: str) -> str:
        assert isinstance(self._address_map, Mapping)  # the caller has looked
        return self._address_map.get(address, address)

    def _new_transport(self) -> Transport:
        if not isinstance(self._given_transport, str):
            return self._given_transport
        # Imported late: grpc takes most of the import time, and a connection may bring its own transport.
        from aiorocketmq._transport.grpcio import GrpcioTransport

        return GrpcioTransport(self.tls)


def names_servers(endpoint: str) -> bool:
    """Whether `endpoint` is a list of name servers, whose clients use the remoting protocol."""
    return str(endpoint).strip().startswith(NAMESRV)


@cache
def process_message_ids() -> MessageIds:
    """The source of message ids of this process; a forked child gets one of its own, or both would generate the
    same."""
    os.register_at_fork(after_in_child=process_message_ids.cache_clear)
    return MessageIds(getnode().to_bytes(6, "big"), os.getpid())


def new_client_id(environment: Environment, *, is_remoting: bool) -> str:
    """Return a new client id, unique among all: servers identify settings and consumers by it. Its form shows other
    members of the group which protocol the client uses; see `_core.pop_members`."""
    number = "" if is_remoting else "0@"
    process = os.getpid() if environment.process is None else environment.process
    return f"{environment.host}@{process}@{number}{environment.random.getrandbits(48):012x}"


class LoopClock:
    """The clock of the running event loop."""

    def time(self) -> float:
        """Return the loop's time in seconds."""
        return asyncio.get_running_loop().time()

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Run `callback` at the loop's time `when`."""
        return asyncio.get_running_loop().call_at(when, callback)

    def join(self, user: ClockUser) -> None:
        """Do nothing: real time does not depend on its users."""

    def leave(self, user: ClockUser) -> None:
        """Nothing to forget."""


def loop_time() -> float:
    """The event loop's clock, in seconds."""
    return asyncio.get_running_loop().time()
