"""A TCP relay that a test can disturb, below everything that a client knows of."""

import asyncio
import struct
from types import TracebackType
from typing import Self

NO_ERROR = 0
ENHANCE_YOUR_CALM = 11
_GOAWAY = 7
_LAST_STREAM = 0x7FFFFFFF


class Wire:
    """A TCP relay in front of a broker, as an `async with` block; of HTTP/2, it can put a frame between two."""

    def __init__(self, target: str, *, is_http2: bool = True) -> None:
        self._target = target
        self._is_http2 = is_http2
        self.endpoint = ""
        self.connections = 0
        self._writers: list[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = []
        self._frozen: list[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._connected = asyncio.Event()
        self._to_clients: list[asyncio.Queue[bytes]] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.endpoint = f"{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await self.close()
        await self._server.wait_closed()

    async def connected(self, times: int) -> None:
        """Wait until that many connections were made in all."""
        async with asyncio.timeout(30):
            while self.connections < times:
                self._connected.clear()
                await self._connected.wait()

    def freeze(self) -> None:
        """Let open connections go silent without an end, as behind a firewall that forgot them; new ones work."""
        for pair in self._writers:
            for writer in pair:
                writer.transport.pause_reading()  # type: ignore[attr-defined]  # it is a socket's
        self._frozen += self._writers
        self._writers = []

    def cut(self) -> None:
        """Break every open connection off."""
        for pair in (*self._writers, *self._frozen):
            for writer in pair:
                writer.transport.abort()
        self._writers, self._frozen = [], []

    def say_goaway(self, code: int = NO_ERROR, text: bytes = b"draining") -> None:
        """Tell every client that its connection takes no new calls, as a server does before it goes."""
        payload = struct.pack(">II", _LAST_STREAM, code) + text
        frame = struct.pack(">I", len(payload))[1:] + bytes([_GOAWAY, 0]) + bytes(4) + payload
        for queue in self._to_clients:
            queue.put_nowait(frame)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one connection."""
        host, _, port = self._target.rpartition(":")
        try:
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return
        self._writers.append((writer, far_writer))
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._to_clients.append(queue)
        self.connections += 1
        self._connected.set()
        for relay in (
            self._to_server(reader, far_writer),
            self._from_server(far_reader, queue),
            self._to_client(queue, writer),
        ):
            task = asyncio.get_running_loop().create_task(relay)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _to_server(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while part := await reader.read(65536):
                writer.write(part)
        except OSError:
            pass
        writer.close()

    async def _from_server(self, reader: asyncio.StreamReader, queue: asyncio.Queue[bytes]) -> None:
        try:
            while part := await (_frame(reader) if self._is_http2 else reader.read(65536)):
                queue.put_nowait(part)
        except (asyncio.IncompleteReadError, OSError):
            pass
        queue.put_nowait(b"")

    async def _to_client(self, queue: asyncio.Queue[bytes], writer: asyncio.StreamWriter) -> None:
        while frame := await queue.get():
            writer.write(frame)
        writer.close()

    async def close(self) -> None:
        """Break everything off."""
        self.cut()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(9)
    length = int.from_bytes(head[:3], "big")
    return head + (await reader.readexactly(length) if length else b"")
