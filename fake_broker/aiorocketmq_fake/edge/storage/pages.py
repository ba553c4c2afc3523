"""The messages of queues, most of them on disk: `PagedEntries` behaves like a list, `Pager` bounds the memory.

New messages are in memory until a checkpoint has written them. Written ones stay in memory within its limit, then
only on disk, from where they are read page by page.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import overload

from aiorocketmq_fake.core.values.model import StoredMessage

__all__ = ["PagedEntries", "Pager", "Row"]

PAGE = 64
"""Messages read at once."""
OVERHEAD = 900
"""Bytes of memory that a message needs in addition to its body, measured."""

Row = tuple[int, int, StoredMessage]
"""A message with the number of its queue and its position there."""
ReadRows = Callable[[int, int, int], list[StoredMessage]]
"""Reads the messages of a queue between two positions."""


class PagedEntries:
    """The messages of one queue. Positions count from the first message ever, indexes from the oldest stored one."""

    __slots__ = ("_held", "_pager", "end", "first", "number", "written")

    def __init__(self, pager: Pager, number: int, first: int = 0, end: int = 0) -> None:
        self._pager = pager
        self.number = number
        """The number of the queue in the data file."""
        self.first = first
        """Position of the oldest message."""
        self.end = end
        """Position of the next message."""
        self.written = end
        """Position up to which messages are on disk."""
        self._held: list[StoredMessage] = []
        """The newest messages: all unwritten ones, and others within the memory limit."""
        pager.register(self)

    def __reduce__(self) -> tuple[Callable[..., PagedEntries], tuple[int, int, int]]:
        # Written together with the messages themselves, so all of them are on disk when this is read.
        self._pager.seen.add(self.number)
        return self._pager.entries, (self.number, self.first, self.end)

    def __len__(self) -> int:
        return self.end - self.first

    def __iter__(self) -> Iterator[StoredMessage]:
        place = self.first
        while place < self.end:
            yield self._get(place)
            place += 1

    @overload
    def __getitem__(self, index: int) -> StoredMessage: ...

    @overload
    def __getitem__(self, index: slice) -> list[StoredMessage]: ...

    def __getitem__(self, index: int | slice) -> StoredMessage | list[StoredMessage]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self.end - self.first)
            return [self._get(self.first + place) for place in range(start, stop, step)]
        place = (self.end if index < 0 else self.first) + index
        if not self.first <= place < self.end:
            raise IndexError(index)
        return self._get(place)

    def __delitem__(self, index: slice) -> None:
        start, stop, step = index.indices(self.end - self.first)
        if start or step != 1:
            raise ValueError("only the oldest messages of a queue can be dropped: del entries[:count]")
        if not stop:
            return
        held_from = self.end - len(self._held)
        self.first += stop
        self.written = max(self.written, self.first)
        if self.first > held_from:
            del self._held[: self.first - held_from]
        self._pager.trimmed.add(self)

    def append(self, message: StoredMessage) -> None:
        """Add a message at the end, in memory until the next checkpoint."""
        self._held.append(message)
        self.end += 1
        self._pager.fresh.add(self)

    def unwritten(self) -> list[Row]:
        """Return the rows of the next checkpoint."""
        fresh = self._held[len(self._held) - (self.end - self.written) :]
        return [(self.number, self.written + index, message) for index, message in enumerate(fresh)]

    def release(self, until: int) -> int:
        """Drop messages before a position from memory, as they are on disk; return the freed bytes."""
        held_from = self.end - len(self._held)
        count = min(until, self.written) - held_from
        if count <= 0:
            return 0
        freed = sum(map(size, self._held[:count]))
        del self._held[:count]
        return freed

    def _get(self, place: int) -> StoredMessage:
        held_from = self.end - len(self._held)
        if place >= held_from:
            return self._held[place - held_from]
        return self._pager.read(self.number, place)


@dataclass(frozen=True, slots=True)
class _Page:
    """Messages read at once."""

    first: int
    messages: list[StoredMessage]
    bytes: int


class Pager:
    """All paged queues of one data file, and the memory that their written messages may take."""

    def __init__(self, read_rows: ReadRows, memory: int) -> None:
        self._read_rows = read_rows
        self._half = memory // 2
        self._known: dict[int, PagedEntries] = {}
        self._next = 1
        self.fresh: set[PagedEntries] = set()
        """Queues with messages that are not written."""
        self.trimmed: set[PagedEntries] = set()
        """Queues whose oldest messages were deleted since the last checkpoint."""
        self.seen: set[int] = set()
        """Queues of the state being written."""
        self._held: deque[tuple[PagedEntries, int, int]] = deque()
        """Written messages in memory, oldest first: the queue, the position after them, their bytes."""
        self._held_bytes = 0
        self._pages: OrderedDict[tuple[int, int], _Page] = OrderedDict()
        self._page_bytes = 0

    def new_entries(self) -> PagedEntries:
        """Return the container of a new queue."""
        return PagedEntries(self, self._next)

    def entries(self, number: int, first: int, end: int) -> PagedEntries:
        """Return the container of a queue on disk."""
        return PagedEntries(self, number, first, end)

    def register(self, entries: PagedEntries) -> None:
        """Register a queue."""
        self._known[entries.number] = entries
        self._next = max(self._next, entries.number + 1)

    def on_disk(self) -> list[tuple[int, int, int]]:
        """Return queues with the positions of their oldest message and after the last one on disk."""
        return [(number, each.first, each.written) for number, each in self._known.items()]

    def unwritten(self) -> list[Row]:
        """Return all rows of the next checkpoint."""
        return [row for entries in self.fresh for row in entries.unwritten()]

    def dead(self) -> list[int]:
        """Return the queues that the state just written no longer has."""
        return [number for number in self._known if number not in self.seen]

    def floors(self) -> list[tuple[int, int]]:
        """Return queues with the position of their oldest message, if that moved."""
        return [(entries.number, entries.first) for entries in self.trimmed]

    def wrote(self, rows: list[Row], dead: list[int], floors: list[tuple[int, int]]) -> None:
        """Record that a checkpoint is on disk."""
        for number in dead:
            entries = self._known.pop(number)
            self.fresh.discard(entries)
            self.trimmed.discard(entries)
        for number, first in floors:
            moved = self._known.get(number)
            if moved is not None and moved.first == first:
                self.trimmed.discard(moved)
        self._hold(rows)
        self._evict()

    def read(self, number: int, place: int) -> StoredMessage:
        """Read a message that is on disk only, with its page."""
        key = (number, place // PAGE)
        page = self._pages.get(key)
        if page is None or place - page.first >= len(page.messages):
            # Absent, or read before its last messages were written.
            page = self._load(key)
        self._pages.move_to_end(key)
        while self._page_bytes > self._half and len(self._pages) > 1:
            self._page_bytes -= self._pages.popitem(last=False)[1].bytes
        return page.messages[place - page.first]

    def _load(self, key: tuple[int, int]) -> _Page:
        number, index = key
        first = max(index * PAGE, self._known[number].first)
        until = min((index + 1) * PAGE, self._known[number].written)
        messages = self._read_rows(number, first, until)
        previous = self._pages.get(key)
        page = self._pages[key] = _Page(first, messages, sum(map(size, messages)))
        self._page_bytes += page.bytes - (previous.bytes if previous is not None else 0)
        return page

    def _hold(self, rows: list[Row]) -> None:
        """Track messages just written as in memory, in chunks so that few are evicted at a time."""
        ends: dict[int, int] = {}
        chunk = [0, 0, 0]
        for number, place, message in rows:
            ends[number] = place + 1
            if chunk[0] != number or chunk[2] > self._half // 16:
                self._close(chunk)
                chunk = [number, 0, 0]
            chunk[1] = place + 1
            chunk[2] += size(message)
        self._close(chunk)
        for number, end in ends.items():
            entries = self._known.get(number)
            if entries is not None:
                entries.written = max(entries.written, end)
                if entries.written == entries.end:
                    self.fresh.discard(entries)

    def _close(self, chunk: list[int]) -> None:
        number, end, bytes_ = chunk
        if number in self._known:
            self._held.append((self._known[number], end, bytes_))
            self._held_bytes += bytes_

    def _evict(self) -> None:
        while self._held_bytes > self._half:
            entries, end, bytes_ = self._held.popleft()
            entries.release(end)
            self._held_bytes -= bytes_


def size(message: StoredMessage) -> int:
    """Estimate the memory of a message."""
    return len(message.content.body) + OVERHEAD
