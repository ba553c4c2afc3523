"""Timers of the core, in order of time.

Cancelled timers are removed lazily; the heap is rebuilt when more than half of it is cancelled, so that its size
follows the pending timers and each operation costs O(log pending), amortised.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any


class Timer:
    """A timer with one pending time at most."""

    __slots__ = ("ticket",)

    def __init__(self) -> None:
        self.ticket = 0


# The action takes the timer's own class; the type of a heap cannot express that for each entry.
Action = Callable[[Any], None]


class Timers:
    """Timers in order of their time in milliseconds; those of one time in the order in which they were set."""

    __slots__ = ("_forgotten", "_heap", "_tickets")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer, Action]] = []
        self._tickets = 0
        self._forgotten = 0

    def __len__(self) -> int:
        return len(self._heap) - self._forgotten

    @property
    def tickets(self) -> int:
        """How many timers were ever set."""
        return self._tickets

    def set(self, timer: Timer, at: int, action: Action) -> None:
        """Call `action(timer)` at the time `at`, and not at the time set before."""
        if timer.ticket:
            self.cancel(timer)
        self._tickets += 1
        timer.ticket = self._tickets
        heappush(self._heap, (at, self._tickets, timer, action))

    def cancel(self, timer: Timer) -> None:
        """Cancel a timer."""
        if timer.ticket:
            timer.ticket = 0
            self._forget()

    def next(self) -> int | None:
        """Return the earliest pending time."""
        heap = self._heap
        while heap:
            at, ticket, timer, _ = heap[0]
            if timer.ticket == ticket:
                return at
            heappop(heap)
            self._forgotten -= 1
        return None

    def has_due(self, until: int) -> bool:
        """Return whether a timer may be due by then: False is certain, True may be due to a cancelled one."""
        return bool(self._heap) and self._heap[0][0] <= until

    def pop_due(self, until: int) -> tuple[int, Timer, Action] | None:
        """Remove and return the earliest timer not later than `until`."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            at, ticket, timer, action = heappop(heap)
            if timer.ticket == ticket:
                timer.ticket = 0
                return at, timer, action
            self._forgotten -= 1
        return None

    def _forget(self) -> None:
        self._forgotten += 1
        if self._forgotten > 64 and self._forgotten * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].ticket == entry[1]]
            heapify(self._heap)
            self._forgotten = 0
