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
    """What a client that owns its connection takes for it; see `Connection`."""

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
    """The way to a cluster: where it is, who we are, how we speak; and the network connections that it takes.

    Clients that are given the same `Connection` share one network connection for each server. `endpoint` is
    `"host:port"`, several IP addresses `"10.0.0.1:8081;10.0.0.2:8081"`, or IPv6 in brackets; a bad one is a ValueError
    at once. Nothing is contacted before the first client starts. `"namesrv://host:9876"` (several with `;`) are name
    servers: brokers are spoken to by the remoting protocol then, and each client has network connections of its own.

    `address_map` replaces addresses that servers name but this machine cannot reach (Docker, NAT): a mapping
    `{"10.0.0.5:8081": "localhost:18081"}` or a function. `namespace` is put before every topic and group.
    `client_properties` travel to the server, which may show them to its operators. `clock` is what leases and retries
    in ordered groups go by, by default the event loop's; a test gives that of its fake broker.

    A received body of more than `max_decompressed_body` bytes (default 32 MiB, 8 times what servers store) is not
    decompressed: its message is corrupted. Bodies of more than 8 KiB compressed or 64 KiB decompressed are decompressed
    by `executor` (threads or processes; default the event loop's own threads), which the caller shuts down, after its
    clients were closed."""

    def __init__(self, endpoint: str, **options: Unpack[ConnectionOptions]) -> None:
        self._network = Network(endpoint, **options)

    async def __aenter__(self) -> Self:
        if not self._network.is_remoting:
            self._network.open_transport()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def endpoint(self) -> str:
        """The address or addresses, in one form for all ways to write them."""
        return str(self._network.endpoint)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._network.is_closed

    async def close(self) -> None:
        """Close the network connections; clients that still use them get ClosedError. Calling it twice is harmless."""
        await self._network.close()


def is_remoting(endpoint: str | Connection) -> bool:
    """Whether a client's first parameter means name servers, and with them the remoting protocol."""
    if isinstance(endpoint, Connection):
        return endpoint._network.is_remoting
    return names_servers(endpoint)


def network_of(endpoint: str | Connection | Network, options: ConnectionOptions) -> tuple[Network, bool]:
    """The network connections that a client's first parameter means, and whether the client owns them."""
    if isinstance(endpoint, Network):
        return endpoint, False
    if isinstance(endpoint, Connection):
        if options:
            names = ", ".join(sorted(options))
            raise TypeError(f"{names} belong to the Connection; give them when it is made")
        return endpoint._network, False
    return Network(endpoint, **options), True
