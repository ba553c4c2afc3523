"""When each lease in hand is renewed: before two thirds of it have passed, never after settling began."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)

RENEW_AT = 0.5
"""Part of a lease after which its renewal starts: it must be done before two thirds (live-lessons.md 1)."""

RETRY_AFTER = 0.1
"""Part of a lease between a failed renewal and the next try: four more tries fit before the lease ends."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """When the next renewal of one lease starts, and when the lease ends unless it is renewed."""

    due: float
    ends_at: float


class Renewals(Generic[KeyT]):
    """Plans the renewals of leases that all last `invisible` seconds.

    hold() starts a plan, due() takes out what must be renewed now, and the caller answers each with
    renewed(), failed(), or release() when settling began. Every call is O(1) per lease: with one length for
    all, the order of arrival is the order of deadlines.
    """

    __slots__ = ("_in_flight", "_invisible", "_plans", "_retries")

    def __init__(self, invisible: float) -> None:
        self._invisible = invisible
        self._plans: OrderedDict[KeyT, _Plan] = OrderedDict()
        self._retries: OrderedDict[KeyT, _Plan] = OrderedDict()
        self._in_flight: dict[KeyT, float] = {}

    def __len__(self) -> int:
        return len(self._plans) + len(self._retries) + len(self._in_flight)

    def hold(self, key: KeyT, *, now: float) -> None:
        """Plan for a lease that began `now`."""
        self._plans[key] = _Plan(due=now + self._invisible * RENEW_AT, ends_at=now + self._invisible)

    def release(self, key: KeyT) -> None:
        """Forget a lease that is settled or lost: renewed after an ack it would come back (R6.8)."""
        if self._plans.pop(key, None) is None and self._retries.pop(key, None) is None:
            self._in_flight.pop(key, None)

    def due(self, now: float) -> list[KeyT]:
        """Take out every lease whose renewal starts by `now`."""
        keys: list[KeyT] = []
        for plans in (self._retries, self._plans):
            while plans:
                key, plan = next(iter(plans.items()))
                if plan.due > now:
                    break
                del plans[key]
                self._in_flight[key] = plan.ends_at
                keys.append(key)
        return keys

    def renewed(self, key: KeyT, *, now: float) -> None:
        """Plan on from a renewal that took effect; without effect if the lease was released meanwhile."""
        if self._in_flight.pop(key, None) is not None:
            self.hold(key, now=now)

    def failed(self, key: KeyT, *, now: float) -> bool:
        """Plan another try; False when the lease is over or released, so that no further try makes sense."""
        ends_at = self._in_flight.pop(key, None)
        due = now + self._invisible * RETRY_AFTER
        if ends_at is None or due >= ends_at:
            return False
        self._retries[key] = _Plan(due=due, ends_at=ends_at)
        return True

    def next_deadline(self) -> float | None:
        """When due() will next return something; None when nothing is planned."""
        heads = [next(iter(plans.values())).due for plans in (self._plans, self._retries) if plans]
        return min(heads, default=None)
