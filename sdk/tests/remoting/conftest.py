"""Fixtures of the classic protocol: servers on loopback that answer as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
from aiorocketmq._core.endpoint import Address

from sdk.tests.remoting.script import Reply, Script, Server, Start


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


@pytest.fixture
def start(serve: Callable[[Reply], Awaitable[Server]]) -> Start:
    """Start a name server and broker of a script, which learns its address."""

    async def begin(script: Script) -> Server:
        server = await serve(script)
        script.address = str(server.address)
        return server

    return begin
