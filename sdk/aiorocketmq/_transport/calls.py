"""The calls of one channel by grpcio's public interface, and what is common to the ways of making them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any, Generic, Protocol, TypeVar

import grpc
import grpc.aio

from aiorocketmq._transport.failures import CALL_ERRORS, failed
from aiorocketmq._transport.interface import Metadata, Take

CallT = TypeVar("CallT")


class UnderWay(Generic[CallT]):
    """The calls of a channel that have not ended, but for streams in both directions, which never would.

    Versions of grpcio before 1.82 look for them among the frames of tasks, and miss most of ours."""

    def __init__(self) -> None:
        self.calls: set[CallT] = set()
        self._emptied: asyncio.Event | None = None

    def ended(self, call: CallT) -> None:
        """Take a call out."""
        self.calls.discard(call)
        if self._emptied is not None and not self.calls:
            self._emptied.set()

    async def over(self, grace: float) -> None:
        """Wait until the last call has ended, `grace` seconds at most; for a channel that gets no new ones."""
        if self.calls:
            self._emptied = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._emptied.wait()


class Calls(Protocol):
    """A way of making the calls of one channel; they raise TransportError, and end when they are cancelled."""

    @property
    def under_way(self) -> UnderWay[Any]:
        """What has not ended."""

    async def unary(self, path: str, payload: bytes, metadata: Metadata, timeout: float) -> bytes:
        """One request, one answer, within `timeout` seconds."""

    async def stream(self, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take) -> None:
        """One request, many answers, all within `timeout` seconds; each is given to `take` when it arrives."""

    def end(self) -> None:
        """End what is under way, before the channel is closed."""


class PublicCalls:
    """The documented way, which every version of grpcio has."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.under_way = UnderWay[grpc.aio.Call]()
        self._unary = cache(channel.unary_unary)
        self._streams = cache(channel.unary_stream)

    async def unary(self, path: str, payload: bytes, metadata: Metadata, timeout: float) -> bytes:
        """See Calls."""
        try:
            call = self._unary(path)(payload, timeout=timeout, metadata=FixedMetadata(metadata))
            self.under_way.calls.add(call)
            try:
                answer: bytes = await call
                return answer
            finally:
                self.under_way.ended(call)
        except CALL_ERRORS as error:
            raise failed(error) from None

    async def stream(self, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take) -> None:
        """See Calls."""
        try:
            call = self._streams(path)(payload, timeout=timeout, metadata=FixedMetadata(metadata))
            self.under_way.calls.add(call)
            try:
                async for answer in call:
                    take(answer)
            finally:
                call.cancel()
                self.under_way.ended(call)
        except CALL_ERRORS as error:
            raise failed(error) from None

    def end(self) -> None:
        """See Calls."""
        for call in tuple(self.under_way.calls):
            call.cancel()


class FixedMetadata(grpc.aio.Metadata):
    """Headers that are only read: grpcio's own class copies them twice, which costs a tenth of a call."""

    def __init__(self, pairs: Metadata) -> None:
        self._pairs = pairs

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)
