"""Batches of messages to send, and when each is due (live-lessons.md, 6).

A batch is due when it is full by count or bytes, or when its first message has lingered for `linger`."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

Lane = TypeVar("Lane", bound=Hashable)
"""The key of messages that may share a batch: topic and encoding."""
Item = TypeVar("Item")

MAX_BATCH_BYTES = 1024 * 1024
"""Servers refuse 4 MiB of bodies with their overhead; batches beyond a quarter of that gain nothing."""
OVERHEAD = 512
"""Bytes that are added to the sender's own for each message: ids, times, separators."""


class _Open(Generic[Item]):
    __slots__ = ("deadline", "items", "size")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.items: list[Item] = []
        self.size = 0


class Batches(Generic[Lane, Item]):
    """The batches that are being filled, at most one for each key."""

    def __init__(self, *, linger: float, max_count: int, max_bytes: int = MAX_BATCH_BYTES) -> None:
        self._linger = linger
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._open: dict[Lane, _Open[Item]] = {}

    def __len__(self) -> int:
        return sum(len(batch.items) for batch in self._open.values())

    def add(self, key: Lane, item: Item, size: int, *, now: float) -> tuple[Sequence[Item], ...]:
        """Add `item` of `size` bytes; return the batches that are due because of it, in order."""
        leaving: tuple[Sequence[Item], ...] = ()
        batch = self._open.get(key)
        if batch is not None and batch.size + size > self._max_bytes:
            leaving = (batch.items,)
            del self._open[key]
            batch = None
        if batch is None:
            batch = self._open[key] = _Open(now + self._linger)
        batch.items.append(item)
        batch.size += size
        if len(batch.items) >= self._max_count or batch.size >= self._max_bytes:
            del self._open[key]
            leaving = (*leaving, batch.items)
        return leaving

    def remove(self, key: Lane, item: Item) -> bool:
        """Remove `item`; False if its batch was returned already."""
        batch = self._open.get(key)
        if batch is None or item not in batch.items:
            return False
        # Its bytes stay counted: a batch that is sent slightly early does no harm.
        batch.items.remove(item)
        if not batch.items:
            del self._open[key]
        return True

    def next_deadline(self) -> float | None:
        """When the next batch is due; None if there is none."""
        # Deadlines are all the same time after their first message, so the oldest batch is the first one.
        return next((batch.deadline for batch in self._open.values()), None)

    def due(self, *, now: float) -> list[Sequence[Item]]:
        """Return the batches that are due."""
        keys = [key for key, batch in self._open.items() if batch.deadline <= now]
        return [self._open.pop(key).items for key in keys]

    def drain(self) -> list[Sequence[Item]]:
        """Return all batches, as the producer closes."""
        batches: list[Sequence[Item]] = [batch.items for batch in self._open.values()]
        self._open.clear()
        return batches


def cut(
    items: Iterable[tuple[Lane, Item, int]], *, max_count: int, max_bytes: int = MAX_BATCH_BYTES
) -> list[Sequence[Item]]:
    """Cut existing items (key, item, size) into batches; the order within a key is kept."""
    batches = Batches[Lane, Item](linger=0.0, max_count=max_count, max_bytes=max_bytes)
    leaving = [batch for key, item, size in items for batch in batches.add(key, item, size, now=0.0)]
    return leaving + batches.drain()
