"""Which messages travel together, and when (live-lessons.md, 6).

A batch leaves when it is full by count or by bytes, or when its first message has lingered for its time.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

Lane = TypeVar("Lane", bound=Hashable)
"""What may travel together: one topic, one encoding of bodies."""
Item = TypeVar("Item")

MAX_BATCH_BYTES = 1024 * 1024
"""Servers refuse 4 MiB of bodies with their overhead; nothing is gained beyond a quarter of that."""
OVERHEAD = 512
"""Bytes that a message is counted with besides what its sender wrote: ids, times, separators."""


class _Open(Generic[Item]):
    __slots__ = ("deadline", "items", "size")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.items: list[Item] = []
        self.size = 0


class Batches(Generic[Lane, Item]):
    """The batches that are being filled, at most one for each lane."""

    def __init__(self, *, linger: float, max_count: int, max_bytes: int = MAX_BATCH_BYTES) -> None:
        self._linger = linger
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._open: dict[Lane, _Open[Item]] = {}

    def __len__(self) -> int:
        return sum(len(batch.items) for batch in self._open.values())

    def add(self, lane: Lane, item: Item, size: int, *, now: float) -> tuple[Sequence[Item], ...]:
        """Put `item` of `size` bytes into its lane; what has to leave because of that, in order."""
        leaving: tuple[Sequence[Item], ...] = ()
        batch = self._open.get(lane)
        if batch is not None and batch.size + size > self._max_bytes:
            leaving = (batch.items,)
            del self._open[lane]
            batch = None
        if batch is None:
            batch = self._open[lane] = _Open(now + self._linger)
        batch.items.append(item)
        batch.size += size
        if len(batch.items) >= self._max_count or batch.size >= self._max_bytes:
            del self._open[lane]
            leaving = (*leaving, batch.items)
        return leaving

    def remove(self, lane: Lane, item: Item) -> bool:
        """Take `item` out again; False when it has left already."""
        batch = self._open.get(lane)
        if batch is None or item not in batch.items:
            return False
        # Its bytes stay counted: a batch that leaves a little early harms nobody.
        batch.items.remove(item)
        if not batch.items:
            del self._open[lane]
        return True

    def next_deadline(self) -> float | None:
        """When the next batch has to leave; None where nothing waits."""
        # Deadlines are all the same time after their first message, so the oldest batch is the first one.
        return next((batch.deadline for batch in self._open.values()), None)

    def due(self, *, now: float) -> list[Sequence[Item]]:
        """The batches whose time is over."""
        lanes = [lane for lane, batch in self._open.items() if batch.deadline <= now]
        return [self._open.pop(lane).items for lane in lanes]

    def drain(self) -> list[Sequence[Item]]:
        """All that wait, as the producer closes."""
        batches: list[Sequence[Item]] = [batch.items for batch in self._open.values()]
        self._open.clear()
        return batches


def cut(
    items: Iterable[tuple[Lane, Item, int]], *, max_count: int, max_bytes: int = MAX_BATCH_BYTES
) -> list[Sequence[Item]]:
    """Items (lane, item, size) that are all there already, cut into batches; the order in a lane is kept."""
    batches = Batches[Lane, Item](linger=0.0, max_count=max_count, max_bytes=max_bytes)
    leaving = [batch for lane, item, size in items for batch in batches.add(lane, item, size, now=0.0)]
    return leaving + batches.drain()
