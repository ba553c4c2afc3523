"""Subscriptions to the core's events."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

from aiorocketmq_fake.core.values.events import Event

__all__ = ["EventStream", "Events", "EventsLostError"]

logger = logging.getLogger("aiorocketmq_fake.broker")


class EventsLostError(Exception):
    """A subscriber read too slowly: events beyond its bound were dropped."""


class EventStream:
    """One subscription: `async with broker.events.subscribe() as stream: async for event in stream`.

    It starts with the first event after its creation, buffers up to `bound` unread ones, and ends with the broker.
    """

    def __init__(self, bound: int, leave: Callable[[EventStream], None]) -> None:
        self._unread: deque[Event] = deque()
        self._bound = bound
        self._leave = leave
        self._wake: asyncio.Future[None] | None = None
        self._ended = False
        self._lost = 0

    def offer(self, events: Sequence[Event]) -> None:
        """Buffer events for the reader; beyond the bound they are counted as lost."""
        room = self._bound - len(self._unread)
        self._unread.extend(events[:room])
        self._lost += max(0, len(events) - room)
        self._rouse()

    def end(self) -> None:
        """End the stream after the buffered events."""
        self._ended = True
        self._rouse()

    def close(self) -> None:
        """Unsubscribe."""
        self._leave(self)
        self.end()

    def take(self) -> tuple[Event, ...]:
        """Return the unread events without waiting; EventsLostError if events were dropped."""
        unread = tuple(self._unread)
        self._unread.clear()
        if self._lost and not unread:
            raise EventsLostError(
                f"{self._lost} events were lost: read faster or subscribe with a larger bound."
            )
        return unread

    async def __aenter__(self) -> EventStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        """Wait for the next event; EventsLostError after the last buffered one if events were dropped."""
        while not self._unread:
            if self._lost:
                raise EventsLostError(
                    f"{self._lost} events were lost: read faster or subscribe with a larger bound."
                )
            if self._ended:
                raise StopAsyncIteration
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        return self._unread.popleft()

    def _rouse(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


class Events:
    """The event stream of one broker."""

    def __init__(self) -> None:
        self._streams: list[EventStream] = []
        self._listeners: list[Callable[[tuple[Event, ...]], object]] = []

    def subscribe(self, *, bound: int = 65_536) -> EventStream:
        """Return a stream of the events from now on, which buffers at most `bound` unread ones."""
        stream = EventStream(bound, self._forget)
        self._streams.append(stream)
        return stream

    def listen(self, listener: Callable[[tuple[Event, ...]], object]) -> AbstractContextManager[None]:
        """Call `listener` with the events of each command until the block is left.

        It is called synchronously, misses nothing and must return at once. Its exceptions are logged.
        """
        return self._listening(listener)

    def publish(self, events: tuple[Event, ...]) -> None:
        """Pass events to all subscribers and listeners."""
        for stream in self._streams:
            stream.offer(events)
        for listener in self._listeners:
            try:
                listener(events)
            except Exception:
                # Foreign code: its exceptions must not stop the broker.
                logger.exception("a listener failed on %r", events)

    def end(self) -> None:
        """End every subscription."""
        for stream in tuple(self._streams):
            stream.end()

    def _forget(self, stream: EventStream) -> None:
        if stream in self._streams:
            self._streams.remove(stream)

    @contextmanager
    def _listening(self, listener: Callable[[tuple[Event, ...]], object]) -> Iterator[None]:
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)
