"""The calls of one channel by grpcio's public interface, and what is common to the ways of making them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol, TypeAlias

import grpc
import grpc.aio

from aiorocketmq._transport.failures import CALL_ERRORS, failed
from aiorocketmq._transport.interface import Metadata, Take

_Unary: TypeAlias = "grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]"
_Stream: TypeAlias = "grpc.aio.UnaryStreamMultiCallable[bytes, bytes]"


class UnderWay:
    """Counts the calls of a channel that have not ended; streams in both directions do not count, they never would."""

    def __init__(self) -> None:
        self.count = 0
        self._emptied: asyncio.Event | None = None

    def ended(self) -> None:
        """Count a call out."""
        self.count -= 1
        if self._emptied is not None and not self.count:
            self._emptied.set()

    async def over(self, grace: float) -> None:
        """Wait until the last call has ended, `grace` seconds at most; for a channel that gets no new ones."""
        # grpcio's own grace looks for calls among the frames of tasks, and misses most of ours.
        if self.count:
            self._emptied = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._emptied.wait()


class Calls(Protocol):
    """A way of making the calls of one channel; they raise TransportError, and end when they are cancelled."""

    under_way: UnderWay

    async def unary(self, path: str, payload: bytes, metadata: Metadata, timeout: float) -> bytes:
        """One request, one answer, within `timeout` seconds."""

    async def stream(self, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take) -> None:
        """One request, many answers, all within `timeout` seconds; each is given to `take` when it arrives."""

    def end(self) -> None:
        """End what is under way, before the channel is closed."""


class PublicCalls:
    """The documented way, which every version of grpcio has."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.under_way = UnderWay()
        self._channel = channel
        self._unary: dict[str, _Unary] = {}
        self._streams: dict[str, _Stream] = {}

    async def unary(self, path: str, payload: bytes, metadata: Metadata, timeout: float) -> bytes:
        """See Calls."""
        call = self._unary.get(path)
        if call is None:
            call = self._unary[path] = self._channel.unary_unary(path)
        self.under_way.count += 1
        try:
            return await call(payload, timeout=timeout, metadata=FixedMetadata(metadata))
        except CALL_ERRORS as error:
            raise failed(error) from None
        finally:
            self.under_way.ended()

    async def stream(self, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take) -> None:
        """See Calls."""
        opened = self._streams.get(path)
        if opened is None:
            opened = self._streams[path] = self._channel.unary_stream(path)
        self.under_way.count += 1
        try:
            call = opened(payload, timeout=timeout, metadata=FixedMetadata(metadata))
            try:
                async for answer in call:
                    take(answer)
            finally:
                call.cancel()
        except CALL_ERRORS as error:
            raise failed(error) from None
        finally:
            self.under_way.ended()

    def end(self) -> None:
        """See Calls; a channel ends these calls by itself when it is closed."""


class FixedMetadata(grpc.aio.Metadata):
    """Headers that are only read: grpcio's own class copies them twice, which costs a tenth of a call."""

    def __init__(self, pairs: Metadata) -> None:
        self._pairs = pairs

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)
