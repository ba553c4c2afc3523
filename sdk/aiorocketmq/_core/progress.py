"""Offsets to commit of queues whose messages are handled concurrently."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

QueueT = TypeVar("QueueT", bound=Hashable)


class Progress(Generic[QueueT]):
    """The offsets of each queue that are in flight. A seek begins an epoch; earlier ones are dropped."""

    __slots__ = ("_queues",)

    def __init__(self) -> None:
        self._queues: dict[QueueT, tuple[int, set[int]]] = {}

    def took(self, queue: QueueT, epoch: int, offsets: Iterable[int]) -> None:
        """Take messages in hand."""
        state = self._queues.get(queue)
        if state is None or state[0] != epoch:
            state = self._queues[queue] = (epoch, set())
        state[1].update(offsets)

    def ended(self, queue: QueueT, epoch: int, offset: int) -> None:
        """Mark a message as completed."""
        state = self._queues.get(queue)
        if state is not None and state[0] == epoch:
            state[1].discard(offset)

    def forget(self, queue: QueueT) -> None:
        """Start again: the queue was revoked, or is read from elsewhere."""
        self._queues.pop(queue, None)

    def reached(self, queue: QueueT, position: int) -> int:
        """The offset to commit of a queue that is read next at `position`: all messages before it are completed."""
        return min((position, *self._in_flight(queue)))

    def span(self, queue: QueueT, position: int) -> int:
        """How far reading is ahead of the oldest message in flight."""
        return position - self.reached(queue, position)

    def _in_flight(self, queue: QueueT) -> set[int]:
        state = self._queues.get(queue)
        return set() if state is None else state[1]
