"""Limits of the messages that a push consumer requests: by count and bytes, shared equally by its queues."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

QueueT = TypeVar("QueueT", bound=Hashable)


@dataclass(slots=True)
class _Usage:
    """The messages of one queue that are in flight."""

    count: int = 0
    size: int = 0
    requested: int = 0
    """Messages that polls in flight may return."""


class ReceiveCache(Generic[QueueT]):
    """Counts the messages in flight; each open queue may use an equal share (client-behaviour.md 10.2).

    A message counts from its arrival until its ack, release or dead-letter call has completed, so that the limits bound
    all work in flight and not only the waiting messages. The count is a hard limit while there are no more queues than
    messages allowed, because the polls of a queue together request no more than the free part of its share. The bytes
    are a soft limit: sizes are known on arrival only."""

    __slots__ = (
        "_bytes_share",
        "_closed",
        "_count_share",
        "_max_ahead",
        "_max_bytes",
        "_max_messages",
        "_open",
    )

    def __init__(self, *, max_messages: int, max_bytes: int, max_ahead: int) -> None:
        """Limit all queues together to `max_messages` and `max_bytes`, and each to `max_ahead` messages."""
        self._max_messages = max_messages
        self._max_ahead = max_ahead
        self._max_bytes = max_bytes
        self._open: dict[QueueT, _Usage] = {}
        self._closed: dict[QueueT, _Usage] = {}
        self._share()

    @property
    def count(self) -> int:
        """Messages in flight, those of dropped queues included."""
        return sum(usage.count for usage in (*self._open.values(), *self._closed.values()))

    @property
    def size(self) -> int:
        """Bytes of the bodies in flight, those of dropped queues included."""
        return sum(usage.size for usage in (*self._open.values(), *self._closed.values()))

    def open(self, queue: QueueT) -> None:
        """Give `queue` a share; messages that are still in flight from an earlier assignment count in it."""
        if queue not in self._open:
            self._open[queue] = self._closed.pop(queue) if queue in self._closed else _Usage()
            self._share()

    def close(self, queue: QueueT) -> None:
        """Remove the share; messages in flight count until they are removed."""
        usage = self._open.pop(queue, None)
        self._share()
        if usage is not None and usage.count:
            usage.requested = 0
            self._closed[queue] = usage

    def add(self, queue: QueueT, size: int, count: int = 1) -> None:
        """Count `count` messages with `size` bytes together that have arrived from `queue`."""
        if not count:
            return
        usage = self._open.get(queue)
        if usage is None:
            usage = self._closed.setdefault(queue, _Usage())
        usage.count += count
        usage.size += size

    def remove(self, queue: QueueT, size: int, count: int = 1) -> bool:
        """Stop counting `count` settled messages of `size` bytes; True if the queue was full and no longer is."""
        usage = self._open.get(queue)
        if usage is None:
            usage = self._closed[queue]
            usage.count -= count
            usage.size -= size
            if not usage.count:
                del self._closed[queue]
            return False
        was_full = self._is_full(usage)
        usage.count -= count
        usage.size -= size
        return was_full and not self._is_full(usage)

    def room(self, queue: QueueT, batch: int) -> int:
        """Messages that `queue` may request now, 0 to `batch`; 0 for a queue that is not open."""
        usage = self._open.get(queue)
        if usage is None or self._is_full(usage):
            return 0
        return max(0, min(self._count_share - usage.count - usage.requested, batch))

    def ask(self, queue: QueueT, count: int) -> None:
        """Reserve room for a poll that may return `count` messages."""
        usage = self._open.get(queue)
        if usage is not None:
            usage.requested += count

    def answered(self, queue: QueueT, count: int) -> None:
        """Release what `ask` has reserved, before the messages that arrived are added."""
        usage = self._open.get(queue)
        if usage is not None:
            usage.requested = max(0, usage.requested - count)

    def _is_full(self, usage: _Usage) -> bool:
        return usage.count >= self._count_share or usage.size >= self._bytes_share

    def _share(self) -> None:
        """Compute the shares again; done rarely, unlike the counting of messages."""
        queues = max(1, len(self._open))
        self._count_share = max(1, min(self._max_messages // queues, self._max_ahead))
        self._bytes_share = max(1, self._max_bytes // queues)
