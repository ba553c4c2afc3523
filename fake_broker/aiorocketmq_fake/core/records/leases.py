"""Leases: which consumer has leased which message until when, by receipt handle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from aiorocketmq_fake.core.filters.expressions import Filter
from aiorocketmq_fake.core.records.groups import Group
from aiorocketmq_fake.core.records.timers import Timer
from aiorocketmq_fake.core.records.topics import Topic
from aiorocketmq_fake.core.values.events import LeaseEnd
from aiorocketmq_fake.core.values.model import StoredMessage

_GENERATION = 16_384
_EXPIRED = LeaseEnd.EXPIRED
"""Alias: attribute access on the enum is ten times slower, for every lease."""


class Reader(Protocol):
    """The owner of leases: a group on a topic."""

    group: Group
    topic: Topic
    retry: Topic | None
    """The topic of the group's redeliveries, None before the first."""


Skipped = Callable[[StoredMessage], None]
"""Called once for a message that a filter rejects."""


class Order(Protocol):
    """The order record of an ordered group for one queue."""

    committed: int
    """Lowest offset that is not settled."""
    popped: int
    """Time of the last receive, in ms; increases with each, so that no two deliveries share a handle."""

    def release(self, attempt_id: str) -> list[Lease]:
        """End the leases of an earlier receive with the same attempt id, without counting an attempt
        (R8.14)."""
        ...

    def take(
        self, limit: int, wanted: Filter | None, attempt_id: str, skipped: Skipped
    ) -> list[tuple[StoredMessage, int]]:
        """Take messages in order, each with the number of its earlier deliveries; nothing while blocked
        (R8.4)."""
        ...

    def opened(self, lease: Lease) -> None:
        """Record the lease of a message just taken."""
        ...

    def settle(self, message: StoredMessage) -> bool:
        """Record that a message is consumed; True if messages became available."""
        ...

    def ended(self, message: StoredMessage, counted: bool) -> bool:
        """Record that a lease ended without ack; True if messages became available."""
        ...

    def trim(self) -> None:
        """Drop messages that were deleted from the queue and are not in flight (R11.2)."""
        ...

    def reset(self, offset: int) -> list[Lease]:
        """Restart at an offset; return the leases of the old record."""
        ...


class Lease(Timer):
    """One message leased by one consumer; its timer is the expiry, renewal or redelivery."""

    __slots__ = (
        "attempt",
        "auto_renew",
        "changed",
        "client_id",
        "consumption",
        "counts",
        "end",
        "expires",
        "extended",
        "first_handle",
        "first_popped",
        "handle",
        "message",
        "order",
        "popped",
        "renewals",
        "revive_queue",
    )

    def __init__(
        self,
        consumption: Reader,
        message: StoredMessage,
        attempt: int,
        client_id: str,
        handle: str,
        popped: int,
        expires: int,
        revive_queue: int,
        auto_renew: bool,
        order: Order | None,
    ) -> None:
        self.ticket = 0
        self.consumption = consumption
        self.message = message
        self.attempt = attempt
        self.client_id = client_id
        self.handle = self.first_handle = handle
        self.popped = self.first_popped = popped
        """As in the handle, in ms; changes keep `first_popped`."""
        self.expires = expires
        self.revive_queue = revive_queue
        self.auto_renew = auto_renew
        """Renewed by the server until the consumer changes it (R6.14)."""
        self.order = order
        self.renewals = 0
        self.changed = False
        """The handle is not the one of the delivery."""
        self.extended = False
        """The last change moved its end to a later time."""
        self.counts = True
        """The delivery counts as an attempt."""
        self.end = _EXPIRED
        """The reason to report when it ends."""


class LeaseBook:
    """All live leases by handle, and for a while the outcome of ended ones."""

    __slots__ = ("_fresh", "_old", "by_handle", "renewing")

    def __init__(self) -> None:
        self.by_handle: dict[str, Lease] = {}
        """A renewed lease is found by its first and its newest handle (R7.10)."""
        self.renewing: dict[str, set[Lease]] = {}
        """Leases that the server renews, by client."""
        # Two generations bound the memory and cost one insertion per ack.
        self._fresh: dict[str, bool] = {}
        self._old: dict[str, bool] = {}

    def add(self, lease: Lease) -> None:
        """Add a new lease."""
        self.by_handle[lease.handle] = lease
        if lease.auto_renew:
            self.renewing.setdefault(lease.client_id, set()).add(lease)

    def find(self, handle: str, client_id: str, message_id: str) -> Lease | None:
        """Return the live lease.

        The first handle of a renewed lease is valid for its client and message only (R7.10, R6.7).
        """
        lease = self.by_handle.get(handle)
        if lease is None or lease.handle == handle:
            return lease
        if lease.client_id == client_id and lease.message.content.message_id == message_id:
            return lease
        return None

    def rename(self, lease: Lease, handle: str, *, keep_first: bool) -> None:
        """Replace the handle of a lease; the old one is spent, except the first of a renewed lease (`keep_first`)."""
        if not (keep_first and lease.handle == lease.first_handle):
            del self.by_handle[lease.handle]
            self._note(lease.handle, acked=False)
        if not keep_first and lease.handle != lease.first_handle:
            self._drop_first(lease)
        lease.handle = handle
        lease.changed = True
        self.by_handle[handle] = lease

    def remove(self, lease: Lease, *, acked: bool) -> None:
        """Remove a lease; its handle is remembered for a while as acked or not."""
        del self.by_handle[lease.handle]
        self._note(lease.handle, acked)
        if lease.changed:
            self._drop_first(lease)
        if lease.auto_renew:
            self.stop_renewing(lease)

    def stop_renewing(self, lease: Lease) -> None:
        """Stop renewing a lease."""
        lease.auto_renew = False
        leases = self.renewing.get(lease.client_id)
        if leases is not None:
            leases.discard(lease)
            if not leases:
                del self.renewing[lease.client_id]

    def was_acked(self, handle: str) -> bool:
        """Return whether a spent handle was acked; False also for unknown ones."""
        return self._fresh.get(handle, False) or self._old.get(handle, False)

    def knows(self, handle: str) -> bool:
        """Return whether a handle is live or was spent recently, so that it must not be reused."""
        return handle in self.by_handle or handle in self._fresh or handle in self._old

    def all(self) -> list[Lease]:
        """Return the live leases once each, oldest first."""
        return [lease for handle, lease in self.by_handle.items() if lease.handle == handle]

    def _drop_first(self, lease: Lease) -> None:
        if self.by_handle.get(lease.first_handle) is lease:
            del self.by_handle[lease.first_handle]

    def _note(self, handle: str, acked: bool) -> None:
        self._fresh[handle] = acked
        if len(self._fresh) > _GENERATION:
            self._old = self._fresh
            self._fresh = {}
