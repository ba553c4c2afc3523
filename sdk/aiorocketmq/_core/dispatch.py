"""Which received message may be handled next: any of them, or one at a time per lane in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

ItemT = TypeVar("ItemT")


class Dispatch(Protocol[ItemT]):
    """Holds what waits for a handler. A lane is what has an order: in ordered groups, a message group."""

    def add(self, lane: Hashable, item: ItemT) -> None:
        """Queue `item` behind all others of its lane."""

    def take(self) -> tuple[Hashable, ItemT] | None:
        """Remove and return an item that may start now, oldest lane first; None when none may."""

    def finish(self, lane: Hashable) -> None:
        """Say that the item taken from `lane` is settled, so that the next one may start."""

    def abandon(self, lane: Hashable) -> list[ItemT]:
        """Say that the item taken from `lane` ended unsettled; returns those behind it."""

    def drain(self) -> list[ItemT]:
        """Remove and return what could start now, and what waits behind it, in order within each lane.

        What waits behind an item that runs stays: nobody else may have it before that one is settled.
        """

    @property
    def startable(self) -> int:
        """Calls of take() that would succeed now without any finish() between."""

    @property
    def waiting(self) -> int:
        """Items not yet taken."""


class ConcurrentDispatch(Generic[ItemT]):
    """Hands out items in order of arrival, any number side by side (normal groups)."""

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: deque[tuple[Hashable, ItemT]] | None = None
        """Made when something comes: an empty one takes 760 bytes, in every idle consumer."""

    def add(self, lane: Hashable, item: ItemT) -> None:
        """Queue `item`; its lane does not matter."""
        if self._queue is None:
            self._queue = deque()
        self._queue.append((lane, item))

    def take(self) -> tuple[Hashable, ItemT] | None:
        """Remove and return the oldest item, None when there is none."""
        return self._queue.popleft() if self._queue else None

    def finish(self, lane: Hashable) -> None:
        """Nothing waits for anything here."""

    def abandon(self, lane: Hashable) -> list[ItemT]:
        """Return nothing: no item depends on another."""
        return []

    def drain(self) -> list[ItemT]:
        """Remove and return all items, oldest first."""
        items = [item for _, item in self._queue or ()]
        self._queue = None
        return items

    @property
    def startable(self) -> int:
        """All that wait may start."""
        return len(self._queue) if self._queue else 0

    @property
    def waiting(self) -> int:
        """Items not yet taken."""
        return len(self._queue) if self._queue else 0


@dataclass(slots=True)
class _Lane(Generic[ItemT]):
    """The items of one lane behind the one that runs."""

    items: deque[ItemT] = field(default_factory=deque)
    busy: bool = False


class FifoDispatch(Generic[ItemT]):
    """Hands out one item per lane at a time, in order; lanes take turns (client-behaviour.md 10.6)."""

    __slots__ = ("_lanes", "_ready", "_waiting")

    def __init__(self) -> None:
        self._lanes: dict[Hashable, _Lane[ItemT]] = {}
        self._ready: deque[Hashable] | None = None
        """Made when something comes, see `ConcurrentDispatch`."""
        self._waiting = 0

    def add(self, lane: Hashable, item: ItemT) -> None:
        """Queue `item` behind all others of its lane."""
        line = self._lanes.get(lane)
        if line is None:
            line = self._lanes[lane] = _Lane()
        line.items.append(item)
        self._waiting += 1
        if not line.busy and len(line.items) == 1:
            self._is_ready(lane)

    def take(self) -> tuple[Hashable, ItemT] | None:
        """Remove and return the head of the lane that has waited longest; busy until finish or abandon."""
        if not self._ready:
            return None
        lane = self._ready.popleft()
        line = self._lanes[lane]
        line.busy = True
        self._waiting -= 1
        return lane, line.items.popleft()

    def finish(self, lane: Hashable) -> None:
        """Let the lane's next item start; forget the lane when it is empty."""
        line = self._lanes[lane]
        line.busy = False
        if line.items:
            self._is_ready(lane)
        else:
            del self._lanes[lane]

    def abandon(self, lane: Hashable) -> list[ItemT]:
        """Forget the lane: its head comes again from the server, and so must those behind it."""
        items = list(self._lanes.pop(lane).items)
        self._waiting -= len(items)
        return items

    def drain(self) -> list[ItemT]:
        """Remove and return the items of lanes that are not busy, lane by lane."""
        items = [item for lane in self._ready or () for item in self._lanes.pop(lane).items]
        self._ready = None
        self._waiting -= len(items)
        return items

    @property
    def startable(self) -> int:
        """Lanes that are neither empty nor busy."""
        return len(self._ready) if self._ready else 0

    @property
    def waiting(self) -> int:
        """Items not yet taken."""
        return self._waiting

    def _is_ready(self, lane: Hashable) -> None:
        if self._ready is None:
            self._ready = deque()
        self._ready.append(lane)
