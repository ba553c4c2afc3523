"""One connection to a RocketMQ cluster, shared by any number of clients."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from types import TracebackType
from typing import Literal, Self, TypedDict, Unpack

from aiorocketmq._transport.interface import Transport
from aiorocketmq._transport.network import AddressMap, Environment, Network, names_servers
from aiorocketmq.clock import Clock
from aiorocketmq.config import Credentials, CredentialsProvider, Timeouts, Tls

__all__ = ["AddressMap", "Connection", "ConnectionOptions", "Environment"]


class ConnectionOptions(TypedDict, total=False):
    """Keyword arguments of `Connection`, which a client that owns its connection accepts as well."""

    credentials: Credentials | CredentialsProvider | None
    tls: Tls | None
    namespace: str
    address_map: AddressMap | None
    timeouts: Timeouts | None
    client_properties: Mapping[str, str] | None
    executor: Executor | None
    max_decompressed_body: int
    transport: Literal["auto", "grpcio"] | Transport
    environment: Environment | None
    clock: Clock | None


class Connection:
    """Address, credentials and network connections of a cluster.

    Clients that are created with the same `Connection` share one network connection for each server. `endpoint` is
    `"host:port"`, several IP addresses `"10.0.0.1:8081;10.0.0.2:8081"`, or IPv6 in brackets; a malformed one is a
    ValueError. `"namesrv://host:9876"` (several with `;`) are name servers: clients then use the remoting protocol, and
    each of them has network connections of its own. Nothing is connected before the first client starts, and entering
    `async with` does not wait.

    `address_map` replaces addresses that servers announce but this machine cannot reach (Docker, NAT): a mapping
    `{"10.0.0.5:8081": "localhost:18081"}` or a function. `namespace` is the prefix of every topic and group.
    `client_properties` (at most 32) are sent to the server, which may show them to its operators. `clock` is the clock
    of leases and of retries in ordered groups, by default the event loop's; tests pass that of their fake broker.

    A received body of more than `max_decompressed_body` bytes (default 32 MiB, 8 times what servers store) is not
    decompressed: its message is marked as corrupted. Bodies of more than 8 KiB compressed or 64 KiB decompressed are
    decompressed by `executor` (threads or processes; default: the event loop's own threads), which the caller shuts
    down after its clients are closed."""

    def __init__(self, endpoint: str, **options: Unpack[ConnectionOptions]) -> None:
        self._network = Network(endpoint, **options)

    async def __aenter__(self) -> Self:
        if self._network.is_remoting:
            self._network.check_open()
        else:
            self._network.open_transport()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def endpoint(self) -> str:
        """The address or addresses in normalised form."""
        return str(self._network.endpoint)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._network.is_closed

    async def close(self) -> None:
        """Close the network connections; clients that still use them raise ClosedError. May be called more than once.

        Clients over the remoting protocol, which have connections of their own, continue, but no more can be started.
        Calls in flight have a moment to complete; cancelled, it closes at once."""
        await self._network.close()


def is_remoting(endpoint: str | Connection) -> bool:
    """Whether a client's first parameter is a set of name servers, which are used with the remoting protocol."""
    if isinstance(endpoint, Connection):
        return endpoint._network.is_remoting
    return names_servers(endpoint)


def network_of(endpoint: str | Connection | Network, options: ConnectionOptions) -> tuple[Network, bool]:
    """Return the network connections for a client's first parameter, and whether the client owns them."""
    if isinstance(endpoint, Network):
        return endpoint, False
    if isinstance(endpoint, Connection):
        if options:
            names = ", ".join(sorted(options))
            raise TypeError(f"{names} belong to the Connection; pass them when it is created")
        return endpoint._network, False
    return Network(endpoint, **options), True
