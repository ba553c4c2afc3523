"""The transport on grpcio: one channel for each endpoint, bytes in and out."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from functools import cache

from aiorocketmq._core.endpoint import Endpoint, Scheme
from aiorocketmq._transport.diagnosis import diagnose
from aiorocketmq._transport.interface import (
    Diagnosis,
    DuplexStream,
    Failure,
    Metadata,
    Take,
    TransportError,
)
from aiorocketmq._transport.trust import first_seen_certificate, read_pem
from aiorocketmq.config import Tls
from aiorocketmq.errors import UsageError
from aiorocketmq.wire.grpcio_settings import grpcio_settings

with grpcio_settings():
    import grpc
    import grpc.aio

from aiorocketmq._transport.failures import CALL_ERRORS, END_ERRORS, failed

logger = logging.getLogger("aiorocketmq.client")


_OPTIONS: tuple[tuple[str, int | str], ...] = (
    # No limits of our own: the server's settings declare how large a message may be.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Servers close a connection that pings more often than every five minutes (live-lessons.md, 9).
    ("grpc.keepalive_time_ms", 300_000),
    ("grpc.keepalive_timeout_ms", 30_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.min_reconnect_backoff_ms", 3_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.enable_retries", 0),
    # A new channel must not get the broken connection of the previous one.
    ("grpc.use_local_subchannel_pool", 1),
    # Bodies are compressed by their senders. A compressed frame would be expanded before any limit of ours applies.
    ("grpc.compression_enabled_algorithms_bitset", 1),
    # HTTP proxies do not work for brokers.
    ("grpc.enable_http_proxy", 0),
    # Without filters for compression and sizes, which we do not use: 2 KB less for each open stream.
    ("grpc.minimal_stack", 1),
)


class GrpcioTransport:
    """Implements `Transport` on `grpc.aio`; belongs to the event loop it is first used on."""

    def __init__(self, tls: Tls | None = None) -> None:
        if _Threads.are_lost:
            raise UsageError(
                "gRPC was used in this process before it was forked, and its threads stayed with the parent; "
                "open the first client after the fork, or start processes by 'spawn' or 'forkserver'"
            )
        self._tls = tls
        self._channels: dict[Endpoint, Channel] = {}
        self._opening: dict[Endpoint, asyncio.Lock] = {}
        self._retiring: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def unary(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> bytes:
        """Make a call with one answer, within `timeout` seconds."""
        channel = self._channels.get(endpoint) or await self._open(endpoint)
        return await channel.unary(path, payload, metadata, timeout)

    async def server_stream(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take
    ) -> None:
        """Make a call with many answers, all within `timeout` seconds; each is passed to `take` when it arrives."""
        channel = self._channels.get(endpoint) or await self._open(endpoint)
        await channel.server_stream(path, payload, metadata, timeout, take)

    async def duplex(self, endpoint: Endpoint, path: str, metadata: Metadata) -> DuplexStream:
        """Open a stream without a deadline; errors of opening show at the first read or write."""
        channel = self._channels.get(endpoint) or await self._open(endpoint)
        return channel.duplex(path, metadata)

    async def reconnect(self, endpoint: Endpoint, grace: float = 0.0) -> None:
        """Drop the connection to `endpoint`, so that the next call opens a new one; calls in flight have `grace`
        seconds."""
        channel = self._channels.pop(endpoint, None)
        if channel is None:
            return
        if not grace:
            await channel.close()
            return
        task = asyncio.get_running_loop().create_task(channel.retire(grace), name="retire a connection")
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def diagnose(self, endpoint: Endpoint, *, step: float) -> Diagnosis:
        """Diagnose why `endpoint` cannot be reached, in a few steps of at most `step` seconds."""
        return await diagnose(endpoint, self._tls, step=step)

    async def close(self) -> None:
        """Close all connections; calls in flight raise TransportError."""
        self._is_closed = True
        channels, self._channels = self._channels, {}
        for task in (retiring := tuple(self._retiring)):
            task.cancel()
        for channel in channels.values():
            await channel.close()
        if retiring:
            await asyncio.wait(retiring)

    async def _open(self, endpoint: Endpoint) -> Channel:
        if self._is_closed:
            raise TransportError(Failure.UNREACHABLE, "the connection was closed", was_sent=False)
        lock = self._opening.setdefault(endpoint, asyncio.Lock())
        async with lock:
            channel = self._channels.get(endpoint)
            if channel is None:
                channel = self._channels[endpoint] = Channel(await self._grpcio_channel(endpoint))
        return channel

    async def _grpcio_channel(self, endpoint: Endpoint) -> grpc.aio.Channel:
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


class _Threads:
    """State of the library's threads: it has one poller for a process, which does not run in a child."""

    are_running = False
    are_lost = False

    @classmethod
    def stay_behind(cls) -> None:
        """Called in a process that has just been forked."""
        cls.are_lost = cls.are_running


os.register_at_fork(after_in_child=_Threads.stay_behind)


def _target(endpoint: Endpoint) -> str:
    addresses = ",".join(map(str, endpoint.addresses))
    if endpoint.scheme is Scheme.IPV4:
        return f"ipv4:{addresses}"
    if endpoint.scheme is Scheme.IPV6:
        return f"ipv6:{addresses}"
    return f"dns:///{addresses}"


_POLITE_SECONDS = 0.1
"""Seconds to write the end of a stream."""


class Channel:
    """Makes calls by grpcio's public interface; they raise TransportError, and are cancelled with their caller."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel
        self._unary = cache(channel.unary_unary)
        self._streams = cache(channel.unary_stream)
        self._in_flight: set[grpc.aio.Call] = set()
        self._emptied: asyncio.Event | None = None

    @property
    def in_flight(self) -> int:
        """The number of calls in flight, without streams in both directions, which never complete.

        Counted here because grpcio before 1.82 looks for them among the frames of tasks, and misses most of ours."""
        return len(self._in_flight)

    async def unary(self, path: str, payload: bytes, metadata: Metadata, timeout: float) -> bytes:
        """Make a call with one answer, within `timeout` seconds."""
        try:
            call = self._unary(path)(payload, timeout=timeout, metadata=tuple(metadata))
            self._in_flight.add(call)
            try:
                await _completed(call)
                answer: bytes | None = await call
            finally:
                self._ended(call)
        except CALL_ERRORS as error:
            raise failed(error) from None
        if answer is None:  # a status of OK without an answer
            raise TransportError(
                Failure.INTERNAL, "the server ended the call without an answer", was_sent=True
            )
        return answer

    async def server_stream(
        self, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take
    ) -> None:
        """Make a call with many answers, all within `timeout` seconds; each is passed to `take` when it arrives."""
        try:
            call = self._streams(path)(payload, timeout=timeout, metadata=tuple(metadata))
            self._in_flight.add(call)
            try:
                async for answer in call:
                    take(answer)
            finally:
                call.cancel()
                self._ended(call)
        except CALL_ERRORS as error:
            raise failed(error) from None

    def duplex(self, path: str, metadata: Metadata) -> DuplexStream:
        """Open a stream without a deadline; errors of opening show at the first read or write."""
        return _Stream(self._channel.stream_stream(path)(metadata=tuple(metadata)))

    async def close(self) -> None:
        """Close at once; calls in flight raise TransportError."""
        for call in tuple(self._in_flight):
            call.cancel()
        await self._channel.close()

    async def retire(self, grace: float) -> None:
        """Close when the last call in flight has completed, after `grace` seconds at most, or at once if cancelled.

        The channel must get no new calls."""
        try:
            if self._in_flight:
                self._emptied = asyncio.Event()
                with suppress(TimeoutError):
                    async with asyncio.timeout(grace):
                        await self._emptied.wait()
        finally:
            await self.close()

    def _ended(self, call: grpc.aio.Call) -> None:
        self._in_flight.discard(call)
        if self._emptied is not None and not self._in_flight:
            self._emptied.set()


async def _completed(call: grpc.aio.Call) -> None:
    """Wait for the end of a call; if cancelled, cancel it.

    grpcio raises a cancellation of its own instead of ours, without the text by which anyio knows that of a scope."""
    completed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    call.add_done_callback(lambda _: None if completed.done() else completed.set_result(None))
    try:
        await completed
    except asyncio.CancelledError:
        call.cancel()
        raise


class _Stream:
    """One stream open in both directions."""

    def __init__(self, call: grpc.aio.StreamStreamCall[bytes, bytes]) -> None:
        self._call = call

    async def write(self, payload: bytes) -> None:
        """Send one message."""
        try:
            await self._call.write(payload)
        except CALL_ERRORS as error:
            raise failed(error) from None

    async def read(self) -> bytes | None:
        """The next message, or None after a regular end."""
        try:
            answer = await self._call.read()
        except CALL_ERRORS as error:
            raise failed(error) from None
        return answer if isinstance(answer, bytes) else None

    async def close(self) -> None:
        """End the stream from this side."""
        if not self._call.done():
            try:
                # A stream that still waits for its connection cannot be half-closed, and need not be.
                async with asyncio.timeout(_POLITE_SECONDS):
                    await self._call.done_writing()
            except (*END_ERRORS, TimeoutError):
                logger.debug("the stream had ended before it was closed")
        self._call.cancel()
