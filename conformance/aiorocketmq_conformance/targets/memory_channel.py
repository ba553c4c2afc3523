"""A channel to ports in memory: what probes use of `grpc.aio.Channel`, without sockets and threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from typing import Any

import grpc
import grpc.aio
from aiorocketmq_fake.edge.memory_port import Exchange, MemoryHost

# Any in this module: requests and responses are of the classes of their methods.
Serialize = Callable[[Any], bytes]
Deserialize = Callable[[bytes], Any]


class MemoryChannel:
    """One connection to a port; belongs to one event loop."""

    def __init__(self, host: MemoryHost, address: str) -> None:
        self._host = host
        self._address = address
        self._calls: dict[_Call, None] = {}
        """In progress, in the order of their begins: they end in it, too."""

    def unary_unary(self, path: str, serialize: Serialize, deserialize: Deserialize) -> Callable[..., _Call]:
        """Return a function that calls a method with one response; awaiting the call returns that."""
        return self._method(path, serialize, deserialize)

    def unary_stream(self, path: str, serialize: Serialize, deserialize: Deserialize) -> Callable[..., _Call]:
        """Return a function that calls a method with many responses, which iterating over the call yields."""
        return self._method(path, serialize, deserialize)

    def stream_stream(
        self, path: str, serialize: Serialize, deserialize: Deserialize
    ) -> Callable[..., Duplex]:
        """Return a function that opens a stream in both directions."""
        return lambda *, metadata: Duplex(self._begin(_Call(path, metadata, None, serialize, deserialize)))

    async def close(self) -> None:
        """Cancel all calls in progress."""
        for call in tuple(self._calls):
            call.cancel()

    def _forget(self, call: _Call) -> None:
        self._calls.pop(call, None)

    def _method(self, path: str, serialize: Serialize, deserialize: Deserialize) -> Callable[..., _Call]:
        def begin(
            request: Any, *, metadata: Sequence[tuple[str, str]], timeout: float | None = None
        ) -> _Call:
            call = _Call(path, metadata, timeout, serialize, deserialize)
            call.requests.put_nowait(serialize(request))
            return self._begin(call)

        return begin

    def _begin(self, call: _Call) -> _Call:
        port = self._host.listening(self._address)
        if port is None:
            call.end("UNAVAILABLE", f"failed to connect to {self._address}")
            return call
        self._calls[call] = None
        call.on_end = self._forget
        call.task = port.serve(call)
        return call


class _Call(Exchange):
    """One call, from both sides."""

    def __init__(
        self,
        path: str,
        metadata: Sequence[tuple[str, str]],
        timeout: float | None,
        serialize: Serialize,
        deserialize: Deserialize,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.path, self.metadata, self.peer = path, metadata, "ipv4:127.0.0.1:40000"
        self.deadline = None if timeout is None else loop.time() + timeout
        self.requests: asyncio.Queue[bytes] = asyncio.Queue()
        self.task: asyncio.Task[None] | None = None
        self.on_end: Callable[[_Call], None] = lambda call: None
        self._serialize = serialize
        self._deserialize = deserialize
        self._responses: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._end: tuple[str, str] | None = None
        self._timer = None if timeout is None else loop.call_later(timeout, self._expire)

    # The port's side; `read` and `write` of the client have other types

    async def read(self) -> Any:
        """Return the next request to the port."""
        return await self.requests.get()

    def write(self, payload: bytes) -> None:
        """Pass a response to the client."""
        if self._end is None:
            self._responses.put_nowait(payload)

    def end(self, status: str, text: str) -> None:
        """End the call; a second end does nothing."""
        if self._end is None:
            self._end = (status, text)
            if self._timer is not None:
                self._timer.cancel()
            self._responses.put_nowait(None)
            self.on_end(self)

    # The client's side

    def __await__(self) -> Generator[Any, None, Any]:
        return self._only().__await__()

    async def __aiter__(self) -> AsyncIterator[Any]:
        while (response := await self._next()) is not grpc.aio.EOF:
            yield response

    def cancel(self) -> None:
        """Give the call up."""
        if self.task is not None:
            self.task.cancel()
        self.end("CANCELLED", "Locally cancelled by application!")

    async def _only(self) -> Any:
        try:
            return await self._next()
        except asyncio.CancelledError:
            self.cancel()
            raise

    async def _next(self) -> Any:
        payload = await self._responses.get()
        if payload is not None:
            return self._deserialize(payload)
        assert self._end is not None
        self._responses.put_nowait(None)
        status, text = self._end
        if status == "OK":
            return grpc.aio.EOF
        if status == "CANCELLED":
            raise asyncio.CancelledError
        code = grpc.StatusCode[status]
        raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=text)

    def _expire(self) -> None:
        if self.task is not None:
            self.task.cancel()
        self.end("DEADLINE_EXCEEDED", "Deadline Exceeded")


class Duplex:
    """The client's side of a stream in both directions."""

    def __init__(self, call: _Call) -> None:
        self._call = call

    async def write(self, request: Any) -> None:
        """Send one request."""
        self._call.requests.put_nowait(self._call._serialize(request))

    async def read(self) -> Any:
        """Return the next response, EOF at the end."""
        return await self._call._next()

    def cancel(self) -> None:
        """Give the stream up."""
        self._call.cancel()

    async def code(self) -> grpc.StatusCode:
        """Return the status of an ended stream."""
        assert self._call._end is not None
        return grpc.StatusCode[self._call._end[0]]

    async def details(self) -> str:
        """Return the text of the status."""
        assert self._call._end is not None
        return self._call._end[1]
