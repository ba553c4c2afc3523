"""A TCP relay between a client and a broker that can stop without closing connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Relay:
    """Forwards bytes both ways until it is cut; connections stay open then, as behind a dead router."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._flows: set[asyncio.Task[None]] = set()
        self._ends: list[asyncio.StreamWriter] = []
        self.is_cut = False

    def cut(self) -> None:
        """Stop forwarding, without closing connections."""
        self.is_cut = True

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Accept a client's connection."""
        self._ends.append(writer)
        broker_reader, broker_writer = await asyncio.open_connection(self._host, self._port)
        self._ends.append(broker_writer)
        for source, sink in ((reader, broker_writer), (broker_reader, writer)):
            task = asyncio.create_task(self._carry(source, sink))
            self._flows.add(task)
            task.add_done_callback(self._flows.discard)

    async def end(self) -> None:
        """Close everything."""
        for task in self._flows:
            task.cancel()
        await asyncio.gather(*self._flows, return_exceptions=True)
        for writer in self._ends:
            writer.close()

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while chunk := await source.read(65536):
                if not self.is_cut:
                    sink.write(chunk)
                    await sink.drain()
            if not self.is_cut:
                sink.close()


@asynccontextmanager
async def relay_to(endpoint: str) -> AsyncIterator[tuple[str, Relay]]:
    """Listen on loopback and forward to `endpoint`; yields the relay's endpoint and the relay."""
    host, _, port = endpoint.rpartition(":")
    relay = Relay(host.strip("[]"), int(port))
    server = await asyncio.start_server(relay.join, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", relay
    finally:
        server.close()
        await relay.end()
