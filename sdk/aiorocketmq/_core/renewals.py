"""When leases are renewed: before two thirds of a lease have passed, never after settling has begun."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)

RENEW_AT = 0.5
"""Part of a lease after which its renewal starts: it must be completed before two thirds (live-lessons.md 1)."""

RETRY_AFTER = 0.1
"""Part of a lease between a failed renewal and the next attempt: four more attempts fit before the lease expires."""

_OUT_OF_ORDER = 0.1
"""Part of a lease by which `add` may be late in its order: with RENEW_AT that is still before two thirds."""


class Renewals(Generic[KeyT]):
    """Schedules the renewals of leases that all last `invisible` seconds.

    add() schedules the first renewal, due() returns what must be renewed now, and the caller answers each with
    renewed(), failed(), or discard() when settling begins. add() and discard() of a message that is settled before its
    first renewal are O(1): with equal lengths, the order of arrival is nearly that of deadlines. Leases that were
    renewed or failed are in a heap; discarded entries stay in it until their time."""

    __slots__ = ("_fresh", "_heap", "_in_flight", "_invisible", "_latest", "_planned", "_serial")

    def __init__(self, invisible: float) -> None:
        self._invisible = invisible
        self._fresh: OrderedDict[KeyT, float] = OrderedDict()
        """The end of each lease that waits for its first renewal, in order but for `_OUT_OF_ORDER`."""
        self._latest = float("-inf")
        """The latest end among them so far."""
        self._planned: dict[KeyT, tuple[int, float]] = {}
        """The number in the heap and the end of each other lease that waits for a renewal."""
        self._heap: list[tuple[float, int, KeyT]] = []
        """When each of those is due."""
        self._serial = 0
        self._in_flight: dict[KeyT, float] = {}
        """The end of each lease that is being renewed."""

    def __len__(self) -> int:
        return len(self._fresh) + len(self._planned) + len(self._in_flight)

    @property
    def in_flight(self) -> Collection[KeyT]:
        """The messages whose leases are being renewed."""
        return self._in_flight.keys()

    def add(self, key: KeyT, *, ends_at: float) -> float:
        """Schedule a lease that ends at `ends_at`; returns when its renewal is due."""
        due = self._due_of(ends_at)
        if ends_at < self._latest - self._invisible * _OUT_OF_ORDER:
            self._plan(key, due, ends_at)
        else:
            self._fresh[key] = ends_at
            self._latest = max(self._latest, ends_at)
        return due

    def discard(self, key: KeyT) -> None:
        """Remove a lease that is settled or lost: a renewal after an ack would make the message visible again
        (R6.8)."""
        if self._fresh.pop(key, None) is None and self._planned.pop(key, None) is None:
            self._in_flight.pop(key, None)

    def due(self, now: float) -> list[KeyT]:
        """Return every lease whose renewal is due at `now`, those that were renewed or failed before first."""
        keys: list[KeyT] = []
        while (top := self._next_planned()) is not None and top[0] <= now:
            _, _, key = heapq.heappop(self._heap)
            self._in_flight[key] = self._planned.pop(key)[1]
            keys.append(key)
        while self._fresh:
            key, ends_at = next(iter(self._fresh.items()))
            if self._due_of(ends_at) > now:
                break
            del self._fresh[key]
            self._in_flight[key] = ends_at
            keys.append(key)
        return keys

    def renewed(self, key: KeyT, *, ends_at: float) -> None:
        """Schedule the next renewal of a lease that now ends at `ends_at`; no effect if it was discarded meanwhile."""
        if self._in_flight.pop(key, None) is not None:
            self._plan(key, self._due_of(ends_at), ends_at)

    def failed(self, key: KeyT, *, now: float) -> bool:
        """Schedule another attempt; False if the lease has expired or was discarded, which makes further attempts
        useless."""
        ends_at = self._in_flight.pop(key, None)
        next_try = now + self._invisible * RETRY_AFTER
        if ends_at is None or next_try >= ends_at:
            return False
        self._plan(key, next_try, ends_at)
        return True

    def next_deadline(self) -> float | None:
        """When due() will next return something; None if nothing is scheduled."""
        planned = self._next_planned()
        deadlines = [planned[0]] if planned is not None else []
        if self._fresh:
            deadlines.append(self._due_of(next(iter(self._fresh.values()))))
        return min(deadlines, default=None)

    def _plan(self, key: KeyT, due: float, ends_at: float) -> None:
        self._serial += 1
        self._planned[key] = self._serial, ends_at
        heapq.heappush(self._heap, (due, self._serial, key))

    def _next_planned(self) -> tuple[float, int, KeyT] | None:
        """Return the first entry of the heap that is still valid."""
        while self._heap:
            _, serial, key = self._heap[0]
            planned = self._planned.get(key)
            if planned is not None and planned[0] == serial:
                return self._heap[0]
            heapq.heappop(self._heap)
        return None

    def _due_of(self, ends_at: float) -> float:
        return ends_at - self._invisible * (1 - RENEW_AT)
