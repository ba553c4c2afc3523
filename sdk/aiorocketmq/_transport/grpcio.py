"""The transport on grpcio: one channel for each endpoint, bytes in and out."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TypeAlias

from aiorocketmq._core.endpoint import Endpoint, Scheme
from aiorocketmq._transport.diagnosis import diagnose
from aiorocketmq._transport.environment import lacking
from aiorocketmq._transport.interface import Diagnosis, DuplexStream, Failure, Metadata, TransportError
from aiorocketmq._transport.trust import first_seen_certificate, read_pem
from aiorocketmq.config import Tls
from aiorocketmq.errors import UsageError

os.environ.update(lacking(os.environ, grpcio=version("grpcio")))

import grpc
import grpc.aio

logger = logging.getLogger(__name__)

_OPTIONS: tuple[tuple[str, int | str], ...] = (
    # No limits of our own: the server's settings say how large a message may be.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Servers end a connection that pings more often than every five minutes (live-lessons.md, 9).
    ("grpc.keepalive_time_ms", 300_000),
    ("grpc.keepalive_timeout_ms", 30_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.min_reconnect_backoff_ms", 3_000),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    ("grpc.enable_retries", 0),
    # A replaced channel must not be handed the broken connection of the one before.
    ("grpc.use_local_subchannel_pool", 1),
    # The proxy of the web is none for brokers.
    ("grpc.enable_http_proxy", 0),
    # Without filters for compression and sizes, which we do not use: 2 KB less for each open stream.
    ("grpc.minimal_stack", 1),
)

_POLITE_SECONDS = 0.1
"""How long the end of a stream may take to be written."""

_FAILURES = {
    grpc.StatusCode.UNAVAILABLE: Failure.UNREACHABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED: Failure.TIMEOUT,
    grpc.StatusCode.UNIMPLEMENTED: Failure.UNIMPLEMENTED,
    grpc.StatusCode.UNAUTHENTICATED: Failure.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED: Failure.UNAUTHENTICATED,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Failure.EXHAUSTED,
    grpc.StatusCode.INVALID_ARGUMENT: Failure.REFUSED,
    grpc.StatusCode.NOT_FOUND: Failure.REFUSED,
    grpc.StatusCode.FAILED_PRECONDITION: Failure.REFUSED,
    grpc.StatusCode.OUT_OF_RANGE: Failure.REFUSED,
    grpc.StatusCode.CANCELLED: Failure.CANCELLED,
}

# Texts of the library that say that a request never left: there was no connection to send it on.
_NEVER_SENT = (
    "failed to connect",
    "dns resolution failed",
    "connection refused",
    "name or service not known",
)

_CALL_ERRORS = (
    grpc.aio.AioRpcError,
    grpc.aio.UsageError,
    asyncio.InvalidStateError,
    asyncio.CancelledError,
)

_Unary: TypeAlias = "grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]"
_Stream: TypeAlias = "grpc.aio.UnaryStreamMultiCallable[bytes, bytes]"


@dataclass(slots=True)
class _Line:
    """One channel, and the calls that were prepared on it."""

    channel: grpc.aio.Channel
    unary: dict[str, _Unary] = field(default_factory=dict)
    stream: dict[str, _Stream] = field(default_factory=dict)
    under_way: int = 0
    """Calls that have not ended; streams in both directions do not count, they never would."""
    emptied: asyncio.Event | None = None
    """Set when the last call of a channel that is being retired has ended."""

    def call_ended(self) -> None:
        """Count a call out."""
        self.under_way -= 1
        if self.emptied is not None and not self.under_way:
            self.emptied.set()


class GrpcioTransport:
    """Implements `Transport` on `grpc.aio`; belongs to the event loop it is first used on."""

    def __init__(self, tls: Tls | None = None) -> None:
        if _Threads.are_lost:
            raise UsageError(
                "gRPC was used in this process before it was forked, and its threads stayed with the parent; "
                "open the first client after the fork, or start processes by 'spawn' or 'forkserver'"
            )
        self._tls = tls
        self._lines: dict[Endpoint, _Line] = {}
        self._opening: dict[Endpoint, asyncio.Lock] = {}
        self._retiring: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def unary(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> bytes:
        """One request, one answer, within `timeout` seconds."""
        line = self._lines.get(endpoint) or await self._open(endpoint)
        call = line.unary.get(path)
        if call is None:
            call = line.unary[path] = line.channel.unary_unary(path)
        line.under_way += 1
        try:
            return await call(payload, timeout=timeout, metadata=_FixedMetadata(metadata))
        except _CALL_ERRORS as error:
            raise _failed(error) from None
        finally:
            line.call_ended()

    async def server_stream(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> AsyncIterator[bytes]:
        """One request, many answers, all within `timeout` seconds; leaving the loop early ends the call."""
        line = self._lines.get(endpoint) or await self._open(endpoint)
        opened = line.stream.get(path)
        if opened is None:
            opened = line.stream[path] = line.channel.unary_stream(path)
        call = opened(payload, timeout=timeout, metadata=_FixedMetadata(metadata))
        line.under_way += 1
        try:
            # One turn of the loop, in which the library sends the request; nothing may be read before.
            await asyncio.sleep(0)
            read = _reader(call)
            while isinstance(answer := await read(), bytes):
                yield answer
            code = await call.code()
            if code is not grpc.StatusCode.OK:
                if call.cancelled():
                    raise asyncio.CancelledError
                raise _ended(code, await call.details())
        except _CALL_ERRORS as error:
            raise _failed(error) from None
        finally:
            call.cancel()
            line.call_ended()

    async def duplex(self, endpoint: Endpoint, path: str, metadata: Metadata) -> DuplexStream:
        """Open a stream without a deadline; errors of opening show at the first read or write."""
        line = self._lines.get(endpoint) or await self._open(endpoint)
        return _GrpcioStream(line.channel.stream_stream(path)(metadata=_FixedMetadata(metadata)))

    async def reconnect(self, endpoint: Endpoint, grace: float = 0.0) -> None:
        """Drop the connection to `endpoint`, so that the next call makes a new one; calls under way have `grace`."""
        line = self._lines.pop(endpoint, None)
        if line is None:
            return
        if not grace:
            await line.channel.close()
            return
        task = asyncio.get_running_loop().create_task(_retire(line, grace), name="retire a connection")
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def diagnose(self, endpoint: Endpoint, *, step: float) -> Diagnosis:
        """Find out why `endpoint` cannot be reached, in a few steps of at most `step` seconds."""
        return await diagnose(endpoint, self._tls, step=step)

    async def close(self) -> None:
        """Close all connections; calls in flight end with TransportError."""
        self._is_closed = True
        lines, self._lines = self._lines, {}
        for task in (retiring := tuple(self._retiring)):
            task.cancel()
        for line in lines.values():
            await line.channel.close()
        if retiring:
            await asyncio.wait(retiring)

    async def _open(self, endpoint: Endpoint) -> _Line:
        if self._is_closed:
            raise TransportError(Failure.UNREACHABLE, "the connection was closed", was_sent=False)
        lock = self._opening.setdefault(endpoint, asyncio.Lock())
        async with lock:
            line = self._lines.get(endpoint)
            if line is None:
                line = self._lines[endpoint] = _Line(await self._channel(endpoint))
        return line

    async def _channel(self, endpoint: Endpoint) -> grpc.aio.Channel:
        _Threads.are_running = True
        target, options = _target(endpoint), list(_OPTIONS)
        if self._tls is None:
            return grpc.aio.insecure_channel(target, options=options)
        tls = self._tls
        name = tls.server_name
        roots = read_pem(tls.ca)
        if tls.insecure:
            try:
                roots, shown = await first_seen_certificate(endpoint.addresses[0])
            except OSError as error:
                raise TransportError(
                    Failure.UNREACHABLE, f"no TLS certificate: {error}", was_sent=False
                ) from None
            name = name or shown
        if name is not None:
            options.append(("grpc.ssl_target_name_override", name))
        credentials = grpc.ssl_channel_credentials(roots, read_pem(tls.key), read_pem(tls.certificate))
        return grpc.aio.secure_channel(target, credentials, options=options)


def _reader(call: grpc.aio.UnaryStreamCall[bytes, bytes]) -> Callable[[], Awaitable[object]]:
    """What reads the next answer, or something else than bytes after the last; see `call.code()` then.

    The library's own way waits for the headers of the answer before it asks for the answer, which comes with them: one
    more turn of its poller and of our loop, and some layers, for each call. What is below it is not public."""
    below: Callable[[], Awaitable[object]] = getattr(
        getattr(call, "_cython_call", None), "receive_serialized_message", call.read
    )
    return below


async def _retire(line: _Line, grace: float) -> None:
    """Let the calls of a channel end, and close it; at once when cancelled."""
    # grpcio's own grace looks for calls among the frames of tasks, and misses most of ours.
    try:
        if line.under_way:
            line.emptied = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await line.emptied.wait()
    finally:
        await line.channel.close()


class _Threads:
    """What became of the library's threads: it has one poller for a process, and nothing starts it in a child."""

    are_running = False
    are_lost = False

    @classmethod
    def stay_behind(cls) -> None:
        """Called in a process that has just been forked."""
        cls.are_lost = cls.are_running


os.register_at_fork(after_in_child=_Threads.stay_behind)


class _FixedMetadata(grpc.aio.Metadata):
    """Headers that are only read: grpcio's own class copies them twice, which costs a tenth of a call."""

    def __init__(self, pairs: Metadata) -> None:
        self._pairs = pairs

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)


class _GrpcioStream:
    """One stream open in both directions."""

    def __init__(self, call: grpc.aio.StreamStreamCall[bytes, bytes]) -> None:
        self._call = call

    async def write(self, payload: bytes) -> None:
        """Send one message."""
        try:
            await self._call.write(payload)
        except _CALL_ERRORS as error:
            raise _failed(error) from None

    async def read(self) -> bytes | None:
        """The next message, or None after a regular end."""
        try:
            answer = await self._call.read()
        except _CALL_ERRORS as error:
            raise _failed(error) from None
        return answer if isinstance(answer, bytes) else None

    async def close(self) -> None:
        """End the stream from this side."""
        if not self._call.done():
            try:
                # A stream that still waits for its connection cannot be ended politely, and need not be.
                async with asyncio.timeout(_POLITE_SECONDS):
                    await self._call.done_writing()
            except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError, TimeoutError):
                logger.debug("the stream was over before it was closed")
        self._call.cancel()


def _target(endpoint: Endpoint) -> str:
    addresses = ",".join(map(str, endpoint.addresses))
    if endpoint.scheme is Scheme.IPV4:
        return f"ipv4:{addresses}"
    if endpoint.scheme is Scheme.IPV6:
        return f"ipv6:{addresses}"
    return f"dns:///{addresses}"


def _failed(error: BaseException) -> TransportError:
    """The error of the interface for one of grpcio's; a cancellation that the caller asked for goes on as it is."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise error
        # grpcio cancels what is in flight on a channel that we close, and the caller has to be told otherwise.
        return TransportError(Failure.CANCELLED, "the connection was closed", was_sent=True)
    if not isinstance(error, grpc.aio.AioRpcError):
        return TransportError(Failure.UNREACHABLE, str(error), was_sent=False)
    return _ended(error.code(), error.details())


def _ended(code: grpc.StatusCode, details: str | None) -> TransportError:
    """The error of a call that ended with this status."""
    failure = _FAILURES.get(code, Failure.INTERNAL)
    text = details or code.name
    lowered = text.lower()
    was_sent = not (failure is Failure.UNREACHABLE and any(each in lowered for each in _NEVER_SENT))
    return TransportError(failure, text, was_sent=was_sent)
