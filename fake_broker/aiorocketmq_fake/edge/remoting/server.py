"""The port of the remoting protocol: reads requests, writes answers, and sends requests to clients."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from aiorocketmq_fake.core.values.classic_model import CloseChannel
from aiorocketmq_fake.core.values.codes import Refusal
from aiorocketmq_fake.core.values.model import ForChannels
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.endpoint import join
from aiorocketmq_fake.edge.front import BACKEND, Front, addresses
from aiorocketmq_fake.edge.in_progress import InProgress
from aiorocketmq_fake.edge.remoting.frames import FRAME_MAX, Frame, FrameError, decode, encode
from aiorocketmq_fake.edge.remoting.requests import HangUpError, Peer, Request
from aiorocketmq_fake.edge.remoting.service import Service
from aiorocketmq_fake.edge.tls import ServerTls

__all__ = ["RemotingServer"]

logger = logging.getLogger("aiorocketmq_fake.broker")

VERSION = 513
"""The number of 5.5.0 (live 0)."""
REQUESTS_MAX = 4096
"""Concurrent requests of one connection; further ones wait in the network."""
RESPONSE = 1


class _Connection:
    """One connection, with its requests in progress."""

    def __init__(self, peer: Peer, writer: asyncio.StreamWriter, in_progress: InProgress) -> None:
        self.peer = peer
        self._in_progress = in_progress
        self.writer = writer
        self.room = asyncio.Semaphore(REQUESTS_MAX)
        self.work: set[asyncio.Task[None]] = set()
        self.tasks: asyncio.TaskGroup | None = None
        """None once the connection accepts no more requests."""
        self.pushed = 0
        """Requests of the broker so far."""
        self.answers: dict[int, asyncio.Future[Frame]] = {}
        """Pending requests to the client, by number."""

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start work concurrently to reading, which counts as in progress; it ends with the connection."""
        assert self.tasks is not None
        task = self.tasks.create_task(work)
        self._in_progress.enter()
        self.work.add(task)
        # Not inside the task: one that is cancelled before its first turn never runs.
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self.work.discard(task)
        self._in_progress.leave()

    def abort(self) -> None:
        """Close the connection at once."""
        self.writer.transport.abort()


class RemotingServer:
    """One listening port. Opened and closed by its owner, on a running event loop."""

    def __init__(self, driver: Driver, service: Service, tls: ServerTls | None = None) -> None:
        self._driver = driver
        self._service = service
        self._tls = tls
        self._servers: list[asyncio.Server] = []
        self._front: Front | None = None
        self._count = 0
        self._connections: dict[int, _Connection] = {}
        self._serving: set[asyncio.Task[None]] = set()
        driver.deliver_to_channels = self._push_all
        service.ask = self._ask

    async def open(self, host: str, port: int) -> int:
        """Listen; port 0 picks a free one. Return the port; OSError if it is unavailable."""
        try:
            if self._tls is None or not self._tls.also_plain:
                return await self._listen(host, port, self._tls)
            plain, secure = await self._listen(BACKEND, 0, None), await self._listen(BACKEND, 0, self._tls)
            self._front = Front(plain=plain, secure=secure)
            return await self._front.open(host, port)
        except OSError as failed:
            self._stop_listening()
            raise OSError(
                f"cannot listen on {join(host, port)} for remoting: the port is taken or the address is not this "
                "machine's; give another remoting_port, or 0 for a free one."
            ) from failed

    async def _listen(self, host: str, port: int, tls: ServerTls | None) -> int:
        accept = partial(self._accept, None if tls is None else tls.context())
        server = await asyncio.start_server(accept, host, port)
        self._servers.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    def _stop_listening(self) -> None:
        if self._front is not None:
            self._front.stop_listening()
        for server in self._servers:
            server.close()
        self._servers.clear()

    async def close(self, grace: float = 0.0) -> None:
        """Stop listening, wait `grace` seconds for requests, then close all connections."""
        self._stop_listening()
        if grace and (work := [task for each in self._connections.values() for task in each.work]):
            await asyncio.wait(work, timeout=grace)
        serving = list(self._serving)
        for task in serving:
            task.cancel()
        if serving:
            await asyncio.wait(serving)
        front, self._front = self._front, None
        if front is not None:
            await front.close()

    # Connections

    def _accept(
        self, tls: ssl.SSLContext | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if tls is not None:
            assert isinstance(writer.transport, asyncio.Transport)
            # The handshake is done here, so that closing the port ends it, too.
            writer.transport.pause_reading()
        task = asyncio.get_running_loop().create_task(self._serve(tls, reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(
        self, tls: ssl.SSLContext | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._count += 1
        connection = _Connection(Peer(self._count), writer, self._driver.in_progress)
        number = connection.peer.channel
        self._connections[number] = connection
        try:
            # If cancelled because the port is closed, nothing is left to do.
            with suppress(asyncio.CancelledError):
                async with asyncio.TaskGroup() as connection.tasks:
                    try:
                        # A client that disconnects or sends a malformed frame gets no answer.
                        with suppress(OSError, asyncio.IncompleteReadError, FrameError):
                            if tls is not None:
                                await writer.start_tls(tls)
                            await self._read(connection, reader)
                        # Requests just before the end are handled: many consumers commit last.
                        await asyncio.sleep(0)
                    finally:
                        connection.tasks = None
                        for work in connection.work:
                            work.cancel()
        finally:
            del self._connections[number]
            connection.abort()
            if connection.peer.client_id:
                # A failed journal accepts no commands; the registration expires instead.
                with suppress(Refusal):
                    self._driver.run(self._driver.core.close_channel, number)

    async def _read(self, connection: _Connection, reader: asyncio.StreamReader) -> None:
        while True:
            size = int.from_bytes(await reader.readexactly(4), signed=True)
            if not connection.peer.address:
                # Not before its first bytes: only then a front knows the client.
                self._locate(connection)
            if not 4 <= size <= FRAME_MAX - 4:
                raise FrameError(f"a frame of {size} bytes is none")
            frame = decode(await reader.readexactly(size))
            if frame.is_response:
                answer = connection.answers.get(frame.opaque)
                if answer is not None and not answer.done():
                    answer.set_result(frame)
                continue
            await connection.room.acquire()
            connection.start(self._work(connection, frame))

    def _locate(self, connection: _Connection) -> None:
        origin, arrival = addresses(connection.writer.transport)
        if self._front is not None:
            origin, arrival = self._front.origin(origin[1]) or (origin, arrival)
        connection.peer.address, connection.peer.local_host = join(*origin), arrival[0]

    async def _work(self, connection: _Connection, frame: Frame) -> None:
        try:
            await self._driver.gate.wait()
            answer = await self._service.serve(Request(frame, connection.peer))
            if answer is not None and not frame.is_one_way:
                await self._write(connection, replace(answer, opaque=frame.opaque, flag=RESPONSE))
        except HangUpError:
            connection.abort()
        finally:
            connection.room.release()

    async def _write(self, connection: _Connection, frame: Frame) -> None:
        await self._driver.gate.wait()
        with suppress(OSError):
            connection.writer.write(encode(replace(frame, version=VERSION)))
            await connection.writer.drain()

    # Requests to clients

    async def _ask(self, channel: int, frame: Frame) -> Frame:
        """Send a request to a client, and wait for its answer; a disconnected one does not answer."""
        pending: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        connection = self._connections.get(channel)
        if connection is None or connection.tasks is None:
            return await pending
        connection.pushed += 1
        number = connection.pushed
        connection.answers[number] = pending
        try:
            await self._write(connection, replace(frame, opaque=number, flag=0))
            return await pending
        finally:
            del connection.answers[number]

    def _push_all(self, output: ForChannels) -> None:
        command = output.command
        for number in output.channels:
            connection = self._connections.get(number)
            if connection is None or connection.tasks is None:
                continue
            if isinstance(command, CloseChannel):
                connection.abort()
                continue
            connection.pushed += 1
            frame = replace(self._service.command(command), opaque=connection.pushed)
            connection.start(self._push(connection, frame))

    async def _push(self, connection: _Connection, frame: Frame) -> None:
        if connection.writer.transport.get_write_buffer_size() > FRAME_MAX:
            logger.warning("closing connection to %s: it does not read", connection.peer.address)
            connection.abort()
            return
        await self._write(connection, frame)
