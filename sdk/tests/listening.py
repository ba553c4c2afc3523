"""A TCP server of one behaviour, for strangers that speak some other protocol, or none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

Peer: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[object]]


@asynccontextmanager
async def listening(peer: Peer) -> AsyncIterator[str]:
    """A server on a free port that does `peer` with every connection; gives its endpoint."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            # The other side may go, which is its right.
            with suppress(OSError, EOFError, asyncio.CancelledError):
                await peer(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"{host}:{port}"
    finally:
        server.close()
        # A connection that was just accepted shows up here some turns of the loop later.
        for _ in range(3):
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks)
