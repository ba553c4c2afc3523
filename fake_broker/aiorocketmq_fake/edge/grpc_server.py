"""A gRPC port, plain or with TLS."""

from __future__ import annotations

import logging

import grpc
from grpc import aio

from aiorocketmq_fake.edge.endpoint import join
from aiorocketmq_fake.edge.front import BACKEND, Front
from aiorocketmq_fake.edge.tls import ServerTls

__all__ = ["GrpcServer"]

logger = logging.getLogger("aiorocketmq_fake.broker")

# R1.4: larger messages are RESOURCE_EXHAUSTED before any handler runs.
MESSAGE_CAP = 130 * 1024 * 1024
# Calls at a time on one connection, long polls included.
STREAMS_MAX = 10_000
OPTIONS = (
    # Two brokers on one port must be an error, not a random choice.
    ("grpc.so_reuseport", 0),
    ("grpc.max_send_message_length", -1),
    # Session §10: header lists above 8 KiB are refused; without the second line the result near the limit is random.
    ("grpc.max_metadata_size", 8192),
    ("grpc.absolute_max_metadata_size", 8192),
    # Bounds the cost of one connection for others, see tools/doors: each stream that is opened and abandoned takes
    # memory and time.
    ("grpc.max_concurrent_streams", STREAMS_MAX),
    # R2.17; pings more often than every five minutes end the connection by gRPC's own default, as observed (session
    # §10).
    ("grpc.max_connection_idle_ms", 120_000),
)


class GrpcServer:
    """One listening port with its services. Opened and closed by its owner, on a running event loop."""

    def __init__(
        self,
        handlers: tuple[grpc.GenericRpcHandler, ...],
        tls: ServerTls | None = None,
        *,
        message_cap: int = MESSAGE_CAP,
    ) -> None:
        self._handlers = handlers
        self._options = (*OPTIONS, ("grpc.max_receive_message_length", message_cap))
        self._tls = tls
        self._server: aio.Server | None = None
        self._front: Front | None = None

    @property
    def is_open(self) -> bool:
        """Whether the port accepts calls."""
        return self._server is not None

    async def open(self, host: str, port: int) -> int:
        """Listen on `host`; port 0 picks a free one. Return the port; OSError if it is unavailable."""
        server = aio.server(options=self._options)
        server.add_generic_rpc_handlers(self._handlers)
        front = None
        if self._tls is not None and self._tls.also_plain:
            front = Front(plain=_bind(server, BACKEND, 0, None), secure=_bind(server, BACKEND, 0, self._tls))
            bound = await front.open(host, port)
        else:
            bound = _bind(server, host, port, self._tls)
        await server.start()
        self._server, self._front = server, front
        logger.debug("listening on %s", join(host, bound))
        return bound

    async def close(self, grace: float | None = None) -> None:
        """Stop listening and end the calls that are still open after `grace` seconds; a second call does nothing."""
        server, self._server = self._server, None
        front, self._front = self._front, None
        if front is not None:
            front.stop_listening()
        if server is not None:
            await server.stop(grace)
        if front is not None:
            await front.close()


def _bind(server: aio.Server, host: str, port: int, tls: ServerTls | None) -> int:
    """Bind a server to a port, plain or TLS; OSError if it is unavailable."""
    address = join(host, port)
    try:
        bound = (
            server.add_insecure_port(address)
            if tls is None
            else server.add_secure_port(address, _credentials(tls))
        )
    except RuntimeError:
        bound = 0
    if not bound:
        raise OSError(f"cannot listen on {address}: the port is taken or the address is not this machine's.")
    return bound


def _credentials(tls: ServerTls) -> grpc.ServerCredentials:
    return grpc.ssl_server_credentials(
        [(tls.private_key, tls.certificate_chain)],
        root_certificates=tls.client_trust or None,
        require_client_auth=bool(tls.client_trust),
    )
