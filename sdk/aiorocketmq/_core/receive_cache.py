"""How many messages a push consumer may ask for: limits by count and bytes, shared fairly by its queues."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

QueueT = TypeVar("QueueT", bound=Hashable)


@dataclass(slots=True)
class _Held:
    """What one queue's messages take up."""

    count: int = 0
    size: int = 0
    asked: int = 0
    """Messages that polls which are out may bring."""


class ReceiveCache(Generic[QueueT]):
    """Counts the messages in hand; each open queue may fill an equal share (client-behaviour.md 10.2).

    A message counts from its arrival until its ack, release or dead-letter call has ended, so that the limits
    bound the work in flight and not only the waiting. The count is a hard limit while there are no more
    queues than messages allowed, because the polls of a queue together ask for no more than the free part of
    its share. The bytes are a soft limit: sizes are known on arrival only.
    """

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
        self._open: dict[QueueT, _Held] = {}
        self._closed: dict[QueueT, _Held] = {}
        self._share()

    @property
    def count(self) -> int:
        """Messages in hand, those of dropped queues included."""
        return sum(held.count for held in (*self._open.values(), *self._closed.values()))

    @property
    def size(self) -> int:
        """Bytes of the bodies in hand, those of dropped queues included."""
        return sum(held.size for held in (*self._open.values(), *self._closed.values()))

    def open(self, queue: QueueT) -> None:
        """Give `queue` a share; messages it still has in hand from an earlier time count in it."""
        if queue not in self._open:
            self._open[queue] = self._closed.pop(queue) if queue in self._closed else _Held()
            self._share()

    def close(self, queue: QueueT) -> None:
        """Take the share back; what is in hand counts until it is removed."""
        held = self._open.pop(queue, None)
        self._share()
        if held is not None and held.count:
            held.asked = 0
            self._closed[queue] = held

    def add(self, queue: QueueT, size: int, count: int = 1) -> None:
        """Count `count` messages of `size` bytes together that have arrived from `queue`."""
        if not count:
            return
        held = self._open.get(queue)
        if held is None:
            held = self._closed.setdefault(queue, _Held())
        held.count += count
        held.size += size

    def remove(self, queue: QueueT, size: int, count: int = 1) -> bool:
        """Stop counting `count` settled messages of `size` bytes; True when this made room where there was none."""
        held = self._open.get(queue)
        if held is None:
            held = self._closed[queue]
            held.count -= count
            held.size -= size
            if not held.count:
                del self._closed[queue]
            return False
        was_full = self._is_full(held)
        held.count -= count
        held.size -= size
        return was_full and not self._is_full(held)

    def room(self, queue: QueueT, batch: int) -> int:
        """Messages that `queue` may ask for now, 0 to `batch`; 0 for a queue that is not open."""
        held = self._open.get(queue)
        if held is None or self._is_full(held):
            return 0
        return max(0, min(self._count_share - held.count - held.asked, batch))

    def ask(self, queue: QueueT, count: int) -> None:
        """Reserve room for a poll that may bring `count` messages."""
        held = self._open.get(queue)
        if held is not None:
            held.asked += count

    def answered(self, queue: QueueT, count: int) -> None:
        """Release what `ask` has reserved, before the messages that came are added."""
        held = self._open.get(queue)
        if held is not None:
            held.asked = max(0, held.asked - count)

    def _is_full(self, held: _Held) -> bool:
        return held.count >= self._count_share or held.size >= self._bytes_share

    def _share(self) -> None:
        """Divide anew: each message is counted in and out, queues come and go rarely."""
        queues = max(1, len(self._open))
        self._count_share = max(1, min(self._max_messages // queues, self._max_ahead))
        self._bytes_share = max(1, self._max_bytes // queues)
