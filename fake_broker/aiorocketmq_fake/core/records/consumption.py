"""Progress of one group in one topic: its offset in each queue, its redeliveries, its order records."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from aiorocketmq_fake.core.filters.expressions import Filter
from aiorocketmq_fake.core.records.groups import Group
from aiorocketmq_fake.core.records.leases import Order, Skipped
from aiorocketmq_fake.core.records.message_group_order import MessageGroupOrder
from aiorocketmq_fake.core.records.queue_order import QueueOrder
from aiorocketmq_fake.core.records.topics import Queue, Topic
from aiorocketmq_fake.core.values.choices import OrderGrain, StartPosition
from aiorocketmq_fake.core.values.codes import TopicType
from aiorocketmq_fake.core.values.model import StoredMessage
from aiorocketmq_fake.core.values.profile import Profile

_PRIORITY = TopicType.PRIORITY
"""Alias: attribute access on the enum is ten times slower, for every receive."""

_ORDERS: dict[OrderGrain, Callable[[Profile, Queue, int], Order]] = {
    OrderGrain.QUEUE: lambda profile, queue, start: QueueOrder(
        queue, start, profile.ordered_attempts_per_batch
    ),
    OrderGrain.MESSAGE_GROUP: lambda _, queue, start: MessageGroupOrder(queue, start),
}


class Consumption:
    """The progress of one group in one topic."""

    __slots__ = ("_popped", "_positions", "_profile", "group", "orders", "retry", "retry_position", "topic")

    def __init__(self, profile: Profile, group: Group, topic: Topic) -> None:
        self._profile = profile
        self.group = group
        self.topic = topic
        self._positions: dict[int, int] = {}
        self._popped = 0
        self.retry: Topic | None = None
        """The topic of the group's redeliveries, None before the first."""
        self.retry_position = 0
        self.orders: dict[int, Order] = {}
        """Order records by queue, for ordered groups."""

    def position(self, queue: Queue) -> int:
        """Return the group's position in a queue: the next offset, or the first unsettled one of an ordered group."""
        order = self.orders.get(queue.id)
        if order is not None:
            return order.committed
        position = self._positions.get(queue.id)
        if position is None:
            position = self._positions[queue.id] = self._start(queue)
        return position

    def stored_position(self, queue_id: int) -> int | None:
        """Return the position like `position`, None without one yet."""
        order = self.orders.get(queue_id)
        return order.committed if order is not None else self._positions.get(queue_id)

    def positions(self) -> dict[int, int]:
        """Return all positions by queue."""
        ordered = {queue_id: order.committed for queue_id, order in self.orders.items()}
        return dict(sorted((self._positions | ordered).items()))

    def next_offsets(self) -> dict[int, int]:
        """Return where the group goes on in each readable queue, also in those that no receive has reached."""
        unread = {
            queue.id: self._start(queue)
            for queue in self.topic.queues[: self.topic.config.read_queues]
            if self.stored_position(queue.id) is None
        }
        return dict(sorted((self.positions() | unread).items()))

    def move(self, queue_id: int, offset: int) -> None:
        """Set the position of a queue without order record."""
        self._positions[queue_id] = offset

    def order(self, queue: Queue) -> Order:
        """Return the order record of a queue, created at the group's position if need be."""
        order = self.orders.get(queue.id)
        if order is None:
            start = self.position(queue)
            order = self.orders[queue.id] = _ORDERS[self._profile.order_grain](self._profile, queue, start)
            order.popped = self._popped
        return order

    def forget_order(self, queue: Queue) -> None:
        """Store the position of one order record and drop the record."""
        order = self.orders.pop(queue.id)
        self._positions[queue.id] = order.committed
        self._popped = max(self._popped, order.popped)

    def forget_orders(self) -> None:
        """Store the positions of the order records and drop the records (R8.21)."""
        for queue_id, order in self.orders.items():
            self._positions[queue_id] = order.committed
            # A new record must not reuse the handles of the old one.
            self._popped = max(self._popped, order.popped)
        self.orders = {}

    def take(
        self, limit: int, wanted: Filter | None, rng: Random, retry_first_chance: float, skipped: Skipped
    ) -> list[tuple[StoredMessage, int]]:
        """Take up to `limit` messages for a normal group and move its positions past them (R5.8-R5.14).

        Each comes with the offset from which its queue was read. Messages that the filter rejects are skipped for good
        and reported to `skipped`.
        """
        taken: list[tuple[StoredMessage, int]] = []
        retry = self._waiting_retries()
        # With priorities, new messages come first: redeliveries are one queue without levels (R4.29).
        if (
            retry is not None
            and self.topic.config.type is not _PRIORITY
            and rng.random() < retry_first_chance
        ):
            self._take_retries(retry, limit, wanted, taken, skipped)
        for queue in self.reading_order(rng):
            if len(taken) >= limit:
                return taken
            position = self._positions.get(queue.id)
            if position is None:
                position = self._positions[queue.id] = self._start(queue)
            if position < queue.min_offset + len(queue.entries):
                self._positions[queue.id] = _read(queue, position, limit, wanted, taken, skipped)
        if retry is not None and len(taken) < limit:
            self._take_retries(retry, limit, wanted, taken, skipped)
        return taken

    def reading_order(self, rng: Random) -> list[Queue]:
        """Order the readable queues for one receive: from a random one on, or by priority (R5.8, R4.29)."""
        config = self.topic.config
        queues = self.topic.queues[: config.read_queues]
        if config.type is _PRIORITY:
            queues.reverse()
        elif len(queues) > 1:
            first = int(rng.random() * len(queues))
            if first:
                return queues[first:] + queues[:first]
        return queues

    def _waiting_retries(self) -> Queue | None:
        if self.retry is None:
            return None
        queue = self.retry.queues[0]
        return queue if self.retry_position < queue.max_offset else None

    def _take_retries(
        self,
        queue: Queue,
        limit: int,
        wanted: Filter | None,
        taken: list[tuple[StoredMessage, int]],
        skipped: Skipped,
    ) -> None:
        self.retry_position = _read(queue, self.retry_position, limit, wanted, taken, skipped)

    def _start(self, queue: Queue) -> int:
        if self._profile.new_group_start is StartPosition.BEGINNING:
            return queue.min_offset
        if self._profile.new_group_start is StartPosition.WHOLE_OR_LAST:
            return 0 if queue.min_offset == 0 else max(queue.max_offset - 1, queue.min_offset)
        return queue.first_from(self.group.created_position)


def _read(
    queue: Queue,
    position: int,
    limit: int,
    wanted: Filter | None,
    taken: list[tuple[StoredMessage, int]],
    skipped: Skipped,
) -> int:
    """Read from a position until `taken` has `limit` messages; return the new position."""
    position = max(position, queue.min_offset)
    entries = queue.entries
    index = position - queue.min_offset
    if wanted is None:
        batch = entries[index : index + limit - len(taken)]
        taken.extend([(message, position) for message in batch])
        return position + len(batch)
    while index < len(entries) and len(taken) < limit:
        message = entries[index]
        index += 1
        if wanted.selects(message):
            taken.append((message, position))
        else:
            skipped(message)
    return queue.min_offset + index
