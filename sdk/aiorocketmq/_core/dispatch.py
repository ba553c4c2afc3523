"""Order in which received messages are handled: any of them, or one at a time for each order key."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class ConcurrentDispatch(Generic[ItemT]):
    """Returns items in order of arrival, any number concurrently (normal groups)."""

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: deque[tuple[Hashable, ItemT]] | None = None
        """Created with the first item: an empty deque takes 760 bytes, in every idle consumer."""

    def add(self, order_key: Hashable, item: ItemT) -> None:
        """Queue `item`; the order key is ignored."""
        if self._queue is None:
            self._queue = deque()
        self._queue.append((order_key, item))

    def take(self) -> tuple[Hashable, ItemT] | None:
        """Remove and return the oldest item, None if there is none."""
        return self._queue.popleft() if self._queue else None

    def finish(self, order_key: Hashable) -> None:
        """Do nothing: no item waits for another."""

    def abandon(self, order_key: Hashable) -> list[ItemT]:
        """Return nothing: no item depends on another."""
        return []

    def drain(self) -> list[ItemT]:
        """Remove and return all items, oldest first."""
        items = [item for _, item in self._queue or ()]
        self._queue = None
        return items

    @property
    def startable(self) -> int:
        """All queued items may start."""
        return len(self._queue) if self._queue else 0

    @property
    def waiting(self) -> int:
        """Items not yet taken."""
        return len(self._queue) if self._queue else 0


@dataclass(slots=True)
class _KeyQueue(Generic[ItemT]):
    """The items of one order key behind the running one."""

    items: deque[ItemT] = field(default_factory=deque)
    busy: bool = False


class FifoDispatch(Generic[ItemT]):
    """Returns one item for each order key at a time, in order; order keys take turns (client-behaviour.md 10.6)."""

    __slots__ = ("_queues", "_ready", "_waiting")

    def __init__(self) -> None:
        self._queues: dict[Hashable, _KeyQueue[ItemT]] = {}
        self._ready: deque[Hashable] | None = None
        """Created with the first item, see `ConcurrentDispatch`."""
        self._waiting = 0

    def add(self, order_key: Hashable, item: ItemT) -> None:
        """Append `item` to those of its order key."""
        queue = self._queues.get(order_key)
        if queue is None:
            queue = self._queues[order_key] = _KeyQueue()
        queue.items.append(item)
        self._waiting += 1
        if not queue.busy and len(queue.items) == 1:
            self._is_ready(order_key)

    def take(self) -> tuple[Hashable, ItemT] | None:
        """Remove and return the first item of the key that has waited longest; busy until finish or abandon."""
        if not self._ready:
            return None
        order_key = self._ready.popleft()
        queue = self._queues[order_key]
        queue.busy = True
        self._waiting -= 1
        return order_key, queue.items.popleft()

    def finish(self, order_key: Hashable) -> None:
        """Let the next item of the order key start; remove the key if it has none."""
        queue = self._queues[order_key]
        queue.busy = False
        if queue.items:
            self._is_ready(order_key)
        else:
            del self._queues[order_key]

    def abandon(self, order_key: Hashable) -> list[ItemT]:
        """Remove the order key: its first item will be redelivered, and so must those behind it."""
        items = list(self._queues.pop(order_key).items)
        self._waiting -= len(items)
        return items

    def drain(self) -> list[ItemT]:
        """Remove and return the items of keys that are not busy, key by key."""
        items = [item for order_key in self._ready or () for item in self._queues.pop(order_key).items]
        self._ready = None
        self._waiting -= len(items)
        return items

    @property
    def startable(self) -> int:
        """Order keys with items and without a running one."""
        return len(self._ready) if self._ready else 0

    @property
    def waiting(self) -> int:
        """Items not yet taken."""
        return self._waiting

    def _is_ready(self, order_key: Hashable) -> None:
        if self._ready is None:
            self._ready = deque()
        self._ready.append(order_key)
