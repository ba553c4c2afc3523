"""Order records of ordered groups with one sequence per message group.

A message group is blocked while any of its messages is in flight; the other groups of the queue are not, and only
unacknowledged messages are redelivered, each with its own number of deliveries. The queue is read once, message by
message, and only as far as a receive needs.
"""

from collections import deque
from heapq import heappop, heappush

from aiorocketmq_fake.core.filters.expressions import Filter
from aiorocketmq_fake.core.records.leases import Lease, Skipped
from aiorocketmq_fake.core.records.topics import Queue
from aiorocketmq_fake.core.values.model import StoredMessage


class MessageGroupQueue:
    """The messages of one message group that were read from the queue and are not settled."""

    __slots__ = ("attempt_id", "back", "flight", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[StoredMessage] = deque()
        """To be taken, in order."""
        self.flight: dict[int, Lease | None] = {}
        """In flight, by offset; None until the lease is made."""
        self.back: list[StoredMessage] = []
        """Returned while others of the same batch are in flight."""
        self.attempt_id = ""


class MessageGroupOrder:
    """The message groups of one queue."""

    __slots__ = (
        "_attempts",
        "_counts",
        "_ready",
        "_settled",
        "committed",
        "group_queues",
        "popped",
        "queue",
        "scanned",
    )

    def __init__(self, queue: Queue, committed: int) -> None:
        self.queue = queue
        self.committed = committed
        self.scanned = committed
        """Offset up to which messages were sorted into message groups."""
        self.popped = 0
        self.group_queues: dict[str, MessageGroupQueue] = {}
        self._ready: list[tuple[int, str]] = []
        """Heap of message groups by their first waiting offset; entries may be outdated."""
        self._counts: dict[int, int] = {}
        """Deliveries of messages that are not settled."""
        self._settled: set[int] = set()
        """Settled offsets above the committed one."""
        self._attempts: dict[str, set[str]] = {}
        """Message groups in flight by the attempt id of their receive."""

    def release(self, attempt_id: str) -> list[Lease]:
        """See `Order.release`."""
        leases: list[Lease] = []
        for key in sorted(self._attempts.get(attempt_id, ())):
            group_queue = self.group_queues[key]
            for offset, lease in list(group_queue.flight.items()):
                if lease is not None:
                    leases.append(lease)
                    if offset < self.queue.min_offset:
                        self._settle(offset)
                        continue
                    group_queue.back.append(lease.message)
                    self._counts[offset] -= 1
            group_queue.flight.clear()
            self._reopen(key, group_queue)
        return leases

    def take(
        self, limit: int, wanted: Filter | None, attempt_id: str, skipped: Skipped
    ) -> list[tuple[StoredMessage, int]]:
        """See `Order.take`."""
        taken: list[tuple[StoredMessage, int]] = []
        batch: set[str] = set()
        while len(taken) < limit:
            following = self._next(batch)
            if following is None:
                break
            key, group_queue, message = following
            if wanted is not None and not wanted.selects(message):
                skipped(message)
                self._settle(message.offset)
                self._forget_if_empty(key, group_queue)
                continue
            group_queue.flight[message.offset] = None
            group_queue.attempt_id = attempt_id
            if attempt_id:
                self._attempts.setdefault(attempt_id, set()).add(key)
            batch.add(key)
            count = self._counts.get(message.offset, 0)
            self._counts[message.offset] = count + 1
            taken.append((message, count))
        taken.sort(key=_offset)
        return taken

    def opened(self, lease: Lease) -> None:
        """See `Order.opened`."""
        group_queue = self.group_queues.get(lease.message.content.message_group)
        if group_queue is not None and lease.message.offset in group_queue.flight:
            group_queue.flight[lease.message.offset] = lease

    def settle(self, message: StoredMessage) -> bool:
        """See `Order.settle`."""
        key = message.content.message_group
        group_queue = self.group_queues.get(key)
        if group_queue is None or message.offset not in group_queue.flight:
            return False
        del group_queue.flight[message.offset]
        self._settle(message.offset)
        return self._reopen(key, group_queue)

    def ended(self, message: StoredMessage, counted: bool) -> bool:
        """See `Order.ended`."""
        key = message.content.message_group
        group_queue = self.group_queues.get(key)
        if group_queue is None or message.offset not in group_queue.flight:
            return False
        del group_queue.flight[message.offset]
        group_queue.back.append(message)
        if not counted:
            self._counts[message.offset] -= 1
        return self._reopen(key, group_queue)

    def trim(self) -> None:
        """See `Order.trim`."""
        first = self.queue.min_offset
        for key, group_queue in list(self.group_queues.items()):
            gone = [
                message.offset
                for message in (*group_queue.waiting, *group_queue.back)
                if message.offset < first
            ]
            if not gone:
                continue
            for offset in gone:
                self._counts.pop(offset, None)
            group_queue.waiting = deque(message for message in group_queue.waiting if message.offset >= first)
            group_queue.back = [message for message in group_queue.back if message.offset >= first]
            if group_queue.waiting and not group_queue.flight:
                heappush(self._ready, (group_queue.waiting[0].offset, key))
            self._forget_if_empty(key, group_queue)
        self._settled = {offset for offset in self._settled if offset >= first}
        self.scanned = max(self.scanned, first)
        self.committed = max(self.committed, first)
        self._commit()

    def reset(self, offset: int) -> list[Lease]:
        """See `Order.reset`."""
        leases = [
            lease
            for group_queue in self.group_queues.values()
            for lease in group_queue.flight.values()
            if lease is not None
        ]
        self.committed = self.scanned = offset
        self.group_queues = {}
        self._ready = []
        self._counts = {}
        self._settled = set()
        self._attempts = {}
        return leases

    def deliveries(self, offset: int) -> int:
        """Return how often an unsettled message was delivered."""
        return self._counts.get(offset, 0)

    def _next(self, batch: set[str]) -> tuple[str, MessageGroupQueue, StoredMessage] | None:
        """Take the message with the lowest offset from the free message groups, else the next of the queue."""
        ready = self._ready
        while ready:
            offset, key = heappop(ready)
            group_queue = self.group_queues.get(key)
            if group_queue is None or not group_queue.waiting or group_queue.waiting[0].offset != offset:
                continue
            if group_queue.flight and key not in batch:
                continue
            message = group_queue.waiting.popleft()
            if group_queue.waiting:
                heappush(ready, (group_queue.waiting[0].offset, key))
            return key, group_queue, message
        while (message_ := self._scan()) is not None:
            key = message_.content.message_group
            group_queue = self.group_queues.get(key)
            if group_queue is None:
                group_queue = self.group_queues[key] = MessageGroupQueue()
            elif group_queue.flight and key not in batch:
                group_queue.waiting.append(message_)
                continue
            return key, group_queue, message_
        return None

    def _scan(self) -> StoredMessage | None:
        self.scanned = max(self.scanned, self.queue.min_offset)
        message = self.queue.get(self.scanned)
        if message is not None:
            self.scanned += 1
        return message

    def _settle(self, offset: int) -> None:
        self._counts.pop(offset, None)
        if offset >= self.committed:
            self._settled.add(offset)
            self._commit()

    def _commit(self) -> None:
        while self.committed in self._settled:
            self._settled.remove(self.committed)
            self.committed += 1

    def _reopen(self, key: str, group_queue: MessageGroupQueue) -> bool:
        """Free a message group with nothing in flight; True if it has messages."""
        if group_queue.flight:
            return False
        if group_queue.attempt_id:
            keys = self._attempts[group_queue.attempt_id]
            keys.discard(key)
            if not keys:
                del self._attempts[group_queue.attempt_id]
            group_queue.attempt_id = ""
        if group_queue.back:
            group_queue.back.sort(key=_message_offset)
            group_queue.waiting.extendleft(reversed(group_queue.back))
            group_queue.back.clear()
        if group_queue.waiting:
            heappush(self._ready, (group_queue.waiting[0].offset, key))
            return True
        del self.group_queues[key]
        return False

    def _forget_if_empty(self, key: str, group_queue: MessageGroupQueue) -> None:
        if not (group_queue.waiting or group_queue.flight or group_queue.back):
            self.group_queues.pop(key, None)


def _offset(taken: tuple[StoredMessage, int]) -> int:
    return taken[0].offset


def _message_offset(message: StoredMessage) -> int:
    return message.offset
