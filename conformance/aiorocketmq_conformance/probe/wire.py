"""A piece of wire between a client and a broker that can be cut without anybody being told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Wire:
    """Carries bytes both ways until it is cut; the connections stay open then, as behind a dead router."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._flows: set[asyncio.Task[None]] = set()
        self._ends: list[asyncio.StreamWriter] = []
        self.is_cut = False

    def cut(self) -> None:
        """Carry nothing more, and close nothing."""
        self.is_cut = True

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a client's connection."""
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
async def wire_to(endpoint: str) -> AsyncIterator[tuple[str, Wire]]:
    """A port on loopback whose connections lead to `endpoint`; yields its own endpoint and the wire."""
    host, _, port = endpoint.rpartition(":")
    wire = Wire(host.strip("[]"), int(port))
    server = await asyncio.start_server(wire.join, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", wire
    finally:
        server.close()
        await wire.end()
