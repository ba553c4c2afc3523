"""Up to where a queue may be committed whose messages are handled side by side."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

QueueT = TypeVar("QueueT", bound=Hashable)


class Progress(Generic[QueueT]):
    """The offsets of each queue that are in hand. A seek begins an epoch, and forgets those before."""

    __slots__ = ("_queues",)

    def __init__(self) -> None:
        self._queues: dict[QueueT, tuple[int, set[int]]] = {}

    def took(self, queue: QueueT, epoch: int, offsets: Iterable[int]) -> None:
        """Take messages in hand."""
        known = self._queues.get(queue)
        if known is None or known[0] != epoch:
            known = self._queues[queue] = (epoch, set())
        known[1].update(offsets)

    def ended(self, queue: QueueT, epoch: int, offset: int) -> None:
        """Count a message as done with."""
        known = self._queues.get(queue)
        if known is not None and known[0] == epoch:
            known[1].discard(offset)

    def forget(self, queue: QueueT) -> None:
        """Begin anew: the queue was given up, or is read from elsewhere."""
        self._queues.pop(queue, None)

    def reached(self, queue: QueueT, position: int) -> int:
        """The offset to commit of a queue that is read next at `position`: all before it is done with."""
        return min((position, *self._in_hand(queue)))

    def span(self, queue: QueueT, position: int) -> int:
        """How far reading is ahead of the oldest message in hand."""
        return position - self.reached(queue, position)

    def _in_hand(self, queue: QueueT) -> set[int]:
        known = self._queues.get(queue)
        return set() if known is None else known[1]
