"""When each lease in hand is renewed: before two thirds of it have passed, never after settling began."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)

RENEW_AT = 0.5
"""Part of a lease after which its renewal starts: it must be done before two thirds (live-lessons.md 1)."""

RETRY_AFTER = 0.1
"""Part of a lease between a failed renewal and the next try: four more tries fit before the lease ends."""


class Renewals(Generic[KeyT]):
    """Plans the renewals of leases that all last `invisible` seconds.

    hold() starts a plan, due() takes out what must be renewed now, and the caller answers each with
    renewed(), failed(), or release() when settling began. Every call is O(1) per lease: with one length for
    all, the order of arrival is the order of deadlines.
    """

    __slots__ = ("_begun", "_in_flight", "_invisible", "_retries")

    def __init__(self, invisible: float) -> None:
        self._invisible = invisible
        self._begun: OrderedDict[KeyT, float] = OrderedDict()
        """When each lease that waits for its renewal began."""
        self._retries: OrderedDict[KeyT, tuple[float, float]] = OrderedDict()
        """The next try and the end of each lease whose renewal has failed."""
        self._in_flight: dict[KeyT, float] = {}
        """The end of each lease that is being renewed."""

    def __len__(self) -> int:
        return len(self._begun) + len(self._retries) + len(self._in_flight)

    def hold(self, key: KeyT, *, now: float) -> None:
        """Plan for a lease that began `now`."""
        self._begun[key] = now

    def release(self, key: KeyT) -> None:
        """Forget a lease that is settled or lost: renewed after an ack it would come back (R6.8)."""
        if self._begun.pop(key, None) is None and self._retries.pop(key, None) is None:
            self._in_flight.pop(key, None)

    def due(self, now: float) -> list[KeyT]:
        """Take out every lease whose renewal starts by `now`, those that failed before first."""
        keys: list[KeyT] = []
        while self._retries:
            key, (next_try, ends_at) = next(iter(self._retries.items()))
            if next_try > now:
                break
            del self._retries[key]
            self._in_flight[key] = ends_at
            keys.append(key)
        while self._begun:
            key, begun = next(iter(self._begun.items()))
            if self._due_of(begun) > now:
                break
            del self._begun[key]
            self._in_flight[key] = begun + self._invisible
            keys.append(key)
        return keys

    def renewed(self, key: KeyT, *, now: float) -> None:
        """Plan on from a renewal that took effect; without effect if the lease was released meanwhile."""
        if self._in_flight.pop(key, None) is not None:
            self.hold(key, now=now)

    def failed(self, key: KeyT, *, now: float) -> bool:
        """Plan another try; False when the lease is over or released, so that no further try makes sense."""
        ends_at = self._in_flight.pop(key, None)
        next_try = now + self._invisible * RETRY_AFTER
        if ends_at is None or next_try >= ends_at:
            return False
        self._retries[key] = (next_try, ends_at)
        return True

    def next_deadline(self) -> float | None:
        """When due() will next return something; None when nothing is planned."""
        deadlines = [next(iter(self._retries.values()))[0]] if self._retries else []
        if self._begun:
            deadlines.append(self._due_of(next(iter(self._begun.values()))))
        return min(deadlines, default=None)

    def _due_of(self, begun: float) -> float:
        return begun + self._invisible * RENEW_AT
