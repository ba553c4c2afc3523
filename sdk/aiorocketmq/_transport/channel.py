"""One channel of grpcio: its calls, which of them are in flight, and how it is closed."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import cache

import grpc.aio

from aiorocketmq._transport.failures import CALL_ERRORS, failed
from aiorocketmq._transport.interface import DuplexStream, Metadata, Take

logger = logging.getLogger(__name__)

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
                answer: bytes = await call
                return answer
            finally:
                self._ended(call)
        except CALL_ERRORS as error:
            raise failed(error) from None

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
            except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError, TimeoutError):
                logger.debug("the stream had ended before it was closed")
        self._call.cancel()
