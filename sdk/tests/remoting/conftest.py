"""Fixtures of the classic protocol: servers on loopback that answer as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress

import pytest
from aiorocketmq._core.endpoint import Address
from aiorocketmq._core.remoting.frame import Frame, FrameReader, MalformedFrame, encode

Reply = Callable[[Frame], "Frame | bytes | None"]


class Server:
    """One loopback server; `seen` are the frames it got, `reply` makes the answer (None: none, b"": hang up)."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.seen: list[Frame] = []
        self.arrived = asyncio.Event()
        self.address = Address("127.0.0.1", 0)
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        frames = FrameReader()
        with suppress(ConnectionError, MalformedFrame):
            while data := await reader.read(65536):
                for frame in frames.feed(data):
                    self.seen.append(frame)
                    self.arrived.set()
                    answer = self.reply(frame)
                    if answer == b"":
                        writer.close()
                        return
                    if answer is not None:
                        writer.write(answer if isinstance(answer, bytes) else encode(answer))
        writer.close()


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[Reply], Awaitable[Server]]]:
    """Start a server that answers by the function given; all end with the test."""
    async with AsyncExitStack() as stack:

        async def start(reply: Reply) -> Server:
            server = Server(reply)
            listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
            stack.callback(listening.close)
            host, port = listening.sockets[0].getsockname()
            server.address = Address(host, port)
            return server

        yield start
