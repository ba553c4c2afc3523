"""One port for plain and TLS connections, as a real server's (R14.6), distinguished by the first byte."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeAlias

__all__ = ["BACKEND", "Front", "addresses"]

logger = logging.getLogger("aiorocketmq_fake.broker")

SocketAddress: TypeAlias = tuple[str, int]

# First byte of a TLS handshake; no plain HTTP/2 connection begins with it, and no frame of remoting of a legal length.
HANDSHAKE = 0x16
# Both backends listen here, on unpublished ports.
BACKEND = "127.0.0.1"


class Front:
    """Proxies each connection to one of two local ports, by its first byte.

    gRPC's server cannot adopt an accepted connection, and serves either plain or TLS on a port. Copying costs time on
    every call, so only a broker with both kinds has a front. For a backend, the front is the peer; `origin` maps it
    to the client.
    """

    def __init__(self, plain: int, secure: int) -> None:
        self._plain = plain
        self._secure = secure
        self._server: asyncio.Server | None = None
        self._ends: set[_End] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._origins: dict[int, _End] = {}
        """Clients by the local port of their connection to a backend."""

    def origin(self, port: int) -> tuple[SocketAddress, SocketAddress] | None:
        """Return the addresses of a client and of the port it connected to, by the front's local port; None if
        unknown."""
        client = self._origins.get(port)
        return None if client is None else client.addresses

    async def open(self, host: str, port: int) -> int:
        """Listen; return the port. OSError if it is unavailable."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _End(self._ends, self._decide), host, port)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def stop_listening(self) -> None:
        """Stop accepting connections; existing ones continue."""
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        """Stop listening and break open connections; a second call does nothing."""
        self.stop_listening()
        for task in tuple(self._connecting):
            task.cancel()
        for end in tuple(self._ends):
            end.break_off()
        self._server = None

    def _decide(self, client: _End) -> None:
        port = self._secure if client.early[0] == HANDSHAKE else self._plain
        task = asyncio.get_running_loop().create_task(self._connect(client, port))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, client: _End, port: int) -> None:
        try:
            _, backend = await asyncio.get_running_loop().create_connection(
                lambda: _End(self._ends, lambda end: None), BACKEND, port
            )
        except OSError as error:
            logger.debug("backend port %d is unreachable: %s", port, error)
            client.break_off()
            return
        own_port = backend.addresses[1][1]
        self._origins[own_port] = client
        backend.on_lost = lambda: self._origins.pop(own_port)
        client.join(backend)


def addresses(transport: asyncio.BaseTransport) -> tuple[SocketAddress, SocketAddress]:
    """Return remote and local address of a connection; a disconnected peer has none."""
    peer = transport.get_extra_info("peername") or ("", 0)
    return peer[:2], transport.get_extra_info("sockname")[:2]


class _End(asyncio.Protocol):
    """One end of a proxied connection; what it reads is written to its partner."""

    def __init__(self, ends: set[_End], decide: Callable[[_End], None]) -> None:
        self._ends = ends
        self._decide = decide
        self.on_lost: Callable[[], object] = lambda: None
        self._partner: _End | None = None
        self._transport: asyncio.Transport | None = None
        self.addresses: tuple[SocketAddress, SocketAddress] = ("", 0), ("", 0)
        """Remote and local address."""
        self.early = bytearray()
        """Bytes read before there was a partner."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.addresses = addresses(transport)
        self._ends.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._ends.discard(self)
        self.on_lost()
        if self._partner is not None:
            self._partner.finish()

    def data_received(self, data: bytes) -> None:
        if self._partner is not None:
            self._partner.write(data)
            return
        self.early += data
        if len(self.early) == len(data):
            self._decide(self)
        elif self._transport is not None:
            # Reading pauses until the backend is connected, within microseconds.
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        if self._partner is not None:
            self._partner.read(wanted=False)

    def resume_writing(self) -> None:
        if self._partner is not None:
            self._partner.read(wanted=True)

    def join(self, partner: _End) -> None:
        """Connect two ends; buffered bytes are sent first."""
        if self._transport is None or self._transport.is_closing():
            partner.break_off()
            return
        self._partner, partner._partner = partner, self
        partner.write(bytes(self.early))
        self.read(wanted=True)

    def write(self, data: bytes) -> None:
        """Send bytes to the other side of this end."""
        if self._transport is not None:
            self._transport.write(data)

    def read(self, *, wanted: bool) -> None:
        """Resume or pause reading."""
        if self._transport is not None and not self._transport.is_closing():
            (self._transport.resume_reading if wanted else self._transport.pause_reading)()

    def finish(self) -> None:
        """Close once everything is sent."""
        if self._transport is not None:
            self._transport.close()

    def break_off(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()
