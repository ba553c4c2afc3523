"""A port in the memory of this process: the same services as behind `GrpcServer`, without sockets and threads.

Whoever carries requests to it (a simulated network, a client for tests) implements `Exchange`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

import grpc
from grpc import aio

from aiorocketmq_fake.edge.endpoint import join
from aiorocketmq_fake.edge.tls import ServerTls

__all__ = ["Exchange", "MemoryHost", "MemoryPort", "Port"]

logger = logging.getLogger("aiorocketmq_fake.broker")

FIRST_PORT = 8081


class Port(Protocol):
    """A listening port of a broker."""

    @property
    def is_open(self) -> bool:
        """Whether it accepts calls."""

    async def open(self, host: str, port: int) -> int:
        """Listen on `host`; port 0 picks a free one. Return the port; OSError if it is unavailable."""

    async def close(self, grace: float | None = None) -> None:
        """Stop listening and end the calls that are still open after `grace` seconds; a second call does nothing."""


class Exchange(Protocol):
    """One call, as its port sees it."""

    path: str
    """Service and method, as in HTTP/2."""
    metadata: Sequence[tuple[str, str]]
    peer: str
    """The client's address, such as `ipv4:10.0.0.5:40000`."""
    deadline: float | None
    """The event loop's time at which the client gives up; None without a deadline."""

    async def read(self) -> bytes | None:
        """Return the next request; None if there is none any more."""

    def write(self, payload: bytes) -> None:
        """Send one response."""

    def end(self, status: str, text: str) -> None:
        """End the call with a gRPC status, by name."""


class MemoryHost:
    """All ports of one process, by `host:port`."""

    def __init__(self) -> None:
        self._listening: dict[str, MemoryPort] = {}
        self._next = FIRST_PORT

    def port(self, handlers: tuple[grpc.GenericRpcHandler, ...], tls: ServerTls | None = None) -> MemoryPort:
        """Make a port of this host that does not listen yet; it has no TLS, as no bytes leave the process."""
        return MemoryPort(handlers, self)

    def listening(self, address: str) -> MemoryPort | None:
        """Return the port that listens on `host:port`; None if nothing does."""
        return self._listening.get(address)

    def bind(self, host: str, port: int, at: MemoryPort) -> int:
        """Listen; OSError if the port is taken."""
        if not port:
            port, self._next = self._next, self._next + 1
        address = join(host, port)
        if address in self._listening:
            raise OSError(f"cannot listen on {address}: the port is taken")
        self._listening[address] = at
        return port

    def release(self, at: MemoryPort) -> None:
        """Stop listening."""
        self._listening = {address: port for address, port in self._listening.items() if port is not at}


class MemoryPort:
    """One listening port with its services."""

    def __init__(self, handlers: tuple[grpc.GenericRpcHandler, ...], host: MemoryHost) -> None:
        self._handlers = handlers
        self._host = host
        self._calls: dict[asyncio.Task[None], Exchange] = {}
        self._is_open = False

    @property
    def is_open(self) -> bool:
        """Whether it accepts calls."""
        return self._is_open

    async def open(self, host: str, port: int) -> int:
        """Listen on `host`; port 0 picks a free one. Return the port; OSError if it is taken."""
        bound = self._host.bind(host, port, self)
        self._is_open = True
        return bound

    async def close(self, grace: float | None = None) -> None:
        """Stop listening and end the calls that are still open after `grace` seconds; a second call does nothing."""
        self._is_open = False
        self._host.release(self)
        if grace and self._calls:
            await asyncio.wait(tuple(self._calls), timeout=grace)
        calls, self._calls = self._calls, {}
        for task, exchange in calls.items():
            task.cancel()
            exchange.end("UNAVAILABLE", "the server is shutting down")
        if calls:
            await asyncio.wait(tuple(calls))

    def serve(self, exchange: Exchange) -> asyncio.Task[None]:
        """Serve a call; cancel the returned task when its client is gone."""
        task = asyncio.create_task(self._serve(exchange), name=exchange.path)
        self._calls[task] = exchange
        task.add_done_callback(lambda done: self._calls.pop(done, None))
        return task

    async def _serve(self, exchange: Exchange) -> None:
        details = _Details(exchange)
        found = (handler.service(details) for handler in self._handlers)
        handler: Any = next((each for each in found if each is not None), None)
        if handler is None:
            exchange.end("UNIMPLEMENTED", "Method not found!")
            return
        context = _Context(exchange, handler.response_serializer)
        try:
            if handler.request_streaming:
                await handler.stream_stream(None, context)
            elif handler.response_streaming:
                await handler.unary_stream(await exchange.read(), context)
            else:
                await context.write(await handler.unary_unary(await exchange.read(), context))
            exchange.end("OK", "")
        except aio.AbortError:
            exchange.end(context.status, context.text)
        except Exception as error:
            logger.exception("%s failed", exchange.path)
            exchange.end("UNKNOWN", f"Unexpected {type(error)}: {error}")


class _Details(grpc.HandlerCallDetails):
    """What a handler is found by."""

    def __init__(self, exchange: Exchange) -> None:
        self.method = exchange.path
        self.invocation_metadata = tuple(exchange.metadata)


class _Context:
    """What handlers use of `grpc.aio.ServicerContext`. Any: handlers have types of their own."""

    def __init__(self, exchange: Exchange, serialize: Any) -> None:
        self._exchange = exchange
        self._serialize = serialize
        self.status = self.text = ""

    def invocation_metadata(self) -> Sequence[tuple[str, str]]:
        return self._exchange.metadata

    def peer(self) -> str:
        return self._exchange.peer

    def time_remaining(self) -> float | None:
        deadline = self._exchange.deadline
        return None if deadline is None else max(deadline - asyncio.get_running_loop().time(), 0.0)

    async def read(self) -> Any:
        payload = await self._exchange.read()
        return aio.EOF if payload is None else payload

    async def write(self, message: Any) -> None:
        self._exchange.write(self._serialize(message))

    async def abort(self, code: grpc.StatusCode, details: str = "") -> NoReturn:
        self.status, self.text = code.name, details
        raise aio.AbortError
