"""Order records of ordered groups with one sequence per queue: one unacknowledged message blocks all after it.

One record per queue, replaced by every receive (8.3). Messages are read from the committed offset, so those
acknowledged after a gap are redelivered (R8.8). `message_group_order` is the alternative; both have the methods of
`Order`.
"""

from aiorocketmq_fake.core.filters.expressions import Filter
from aiorocketmq_fake.core.records.leases import Lease, Skipped
from aiorocketmq_fake.core.records.topics import Queue
from aiorocketmq_fake.core.values.model import StoredMessage


class QueueOrder:
    """The order record of one queue (8.3)."""

    __slots__ = (
        "_per_batch",
        "_rejected",
        "acked",
        "attempt_id",
        "committed",
        "counts",
        "offsets",
        "open",
        "popped",
        "queue",
    )

    def __init__(self, queue: Queue, committed: int, attempts_per_batch: bool) -> None:
        self.queue = queue
        self.committed = committed
        self.popped = 0
        self.attempt_id = ""
        self.offsets: list[int] = []
        """The batch in flight, without its settled prefix."""
        self.acked: set[int] = set()
        self.counts: dict[int, int] = {}
        """Earlier deliveries of each offset of the batch."""
        self.open: dict[int, Lease] = {}
        self._rejected: set[int] = set()
        """Offsets from the committed one on that a filter rejected, so that each is reported once."""
        self._per_batch = attempts_per_batch

    def release(self, attempt_id: str) -> list[Lease]:
        """See `Order.release`."""
        if not attempt_id or attempt_id != self.attempt_id:
            return []
        leases = list(self.open.values())
        self.open.clear()
        return leases

    def take(
        self, limit: int, wanted: Filter | None, attempt_id: str, skipped: Skipped
    ) -> list[tuple[StoredMessage, int]]:
        """See `Order.take`; one number of deliveries for the whole batch if servers have only one (R8.13)."""
        if self.open:
            return []
        messages = self._read(limit, wanted, skipped)
        if not messages:
            return []
        step = 0 if attempt_id and attempt_id == self.attempt_id else 1
        counts = {
            message.offset: self.counts[message.offset] + step if message.offset in self.counts else 0
            for message in messages
        }
        self.attempt_id = attempt_id
        self.offsets = [message.offset for message in messages]
        self.acked = set()
        self.counts = counts
        if self._per_batch:
            least = min(counts.values())
            return [(message, least) for message in messages]
        return [(message, counts[message.offset]) for message in messages]

    def opened(self, lease: Lease) -> None:
        """See `Order.opened`."""
        self.open[lease.message.offset] = lease

    def settle(self, message: StoredMessage) -> bool:
        """See `Order.settle`; the committed offset moves over the settled prefix of the batch (R8.9)."""
        was_blocked = bool(self.open)
        self.open.pop(message.offset, None)
        self.acked.add(message.offset)
        while self.offsets and self.offsets[0] in self.acked:
            self.committed = self.offsets.pop(0) + 1
            if self.offsets:
                self.committed = self.offsets[0]
        return was_blocked and not self.open and self.committed < self.queue.max_offset

    def ended(self, message: StoredMessage, counted: bool) -> bool:
        """See `Order.ended`."""
        self.open.pop(message.offset, None)
        if not counted:
            self.counts[message.offset] = self.counts.get(message.offset, 0) - 1
        return not self.open

    def trim(self) -> None:
        """See `Order.trim`; nothing to do, as reading begins at the queue's first message."""
        self.committed = max(self.committed, self.queue.min_offset)

    def reset(self, offset: int) -> list[Lease]:
        """See `Order.reset` (R8.20)."""
        leases = list(self.open.values())
        self.committed = offset
        self._rejected = set()
        self.attempt_id = ""
        self.offsets = []
        self.acked = set()
        self.counts = {}
        self.open = {}
        return leases

    def _read(self, limit: int, wanted: Filter | None, skipped: Skipped) -> list[StoredMessage]:
        queue = self.queue
        offset = self.committed = min(max(self.committed, queue.min_offset), queue.max_offset)
        self._rejected = {rejected for rejected in self._rejected if rejected >= offset}
        messages: list[StoredMessage] = []
        while len(messages) < limit and (message := queue.get(offset)) is not None:
            if wanted is None or wanted.selects(message):
                messages.append(message)
            elif offset not in self._rejected:
                self._rejected.add(offset)
                skipped(message)
            offset += 1
        if not messages:
            self.committed = offset
        return messages
