"""Inspection: frozen snapshots of what the broker holds, never live objects."""

from __future__ import annotations

from aiorocketmq_fake.core.commands.delays import Delays
from aiorocketmq_fake.core.commands.lite_topics import LiteTopics
from aiorocketmq_fake.core.commands.polls import PollBook
from aiorocketmq_fake.core.commands.retention import Retention
from aiorocketmq_fake.core.records.half_messages import HalfMessages
from aiorocketmq_fake.core.records.leases import Order
from aiorocketmq_fake.core.records.message_group_order import MessageGroupOrder
from aiorocketmq_fake.core.records.queue_order import QueueOrder
from aiorocketmq_fake.core.records.topics import Queue
from aiorocketmq_fake.core.state import State
from aiorocketmq_fake.core.values.events import Delivered
from aiorocketmq_fake.core.values.model import PullRequest, ReceiveRequest, StoredMessage, TopicConfig
from aiorocketmq_fake.core.values.names import dead_letter_topic
from aiorocketmq_fake.core.values.snapshots import (
    ClientSnapshot,
    GroupSnapshot,
    HalfSnapshot,
    Lease,
    OrderSnapshot,
    Progress,
    QueueSnapshot,
    RetentionSnapshot,
    TopicSnapshot,
    Totals,
)


class Inspection:
    """The methods of a broker that change nothing."""

    _state: State
    _receive_polls: PollBook[ReceiveRequest]
    _pull_polls: PollBook[PullRequest]
    _delays: Delays
    _half_messages: HalfMessages
    _lite: LiteTopics
    _retention: Retention

    def topics(self) -> tuple[TopicSnapshot, ...]:
        """Return all topics by name, including retry and dead-letter topics."""
        return tuple(
            TopicSnapshot(
                topic.config,
                tuple(queue.min_offset for queue in topic.queues),
                tuple(queue.max_offset for queue in topic.queues),
                topic.system,
            )
            for _, topic in sorted(self._state.topics.items())
        )

    def topic(self, name: str) -> TopicConfig | None:
        """Return the settings of a topic; None if it is unknown."""
        topic = self._state.topics.get(name)
        return None if topic is None else topic.config

    def queue(self, topic: str, queue_id: int) -> QueueSnapshot | None:
        """Return the ends of a readable queue; None if it is unknown."""
        owner = self._state.topics.get(topic)
        if owner is None or not 0 <= queue_id < owner.config.read_queues:
            return None
        queue = owner.queues[queue_id]
        if not len(queue.entries):
            return QueueSnapshot(queue.min_offset, queue.max_offset, None)
        earliest, latest = queue.entries[0].store_timestamp, queue.entries[-1].store_timestamp
        return QueueSnapshot(queue.min_offset, queue.max_offset, earliest, latest)

    def has_group(self, name: str) -> bool:
        """Whether a consumer group exists."""
        return name in self._state.groups

    def groups(self) -> tuple[GroupSnapshot, ...]:
        """Return all consumer groups by name."""
        clients = self._state.clients.values()
        return tuple(
            GroupSnapshot(
                group.config,
                group.auto_created,
                tuple(sorted(client.id for client in clients if name in client.groups)),
            )
            for name, group in sorted(self._state.groups.items())
        )

    def clients(self) -> tuple[ClientSnapshot, ...]:
        """Return all clients with stored settings, by id."""
        return tuple(
            ClientSnapshot(client.id, client.settings, client.last_seen / 1000)
            for _, client in sorted(self._state.clients.items())
        )

    def messages(self, topic: str) -> tuple[StoredMessage, ...]:
        """Return all stored messages of a topic, by queue and offset; none if it is unknown."""
        owner = self._state.topics.get(topic)
        return () if owner is None else tuple(message for queue in owner.queues for message in queue.entries)

    def message(self, topic: str, queue_id: int, offset: int) -> StoredMessage | None:
        """Return the message at an offset of a queue; None if there is none."""
        owner = self._state.topics.get(topic)
        if owner is None or not 0 <= queue_id < len(owner.queues):
            return None
        return owner.queues[queue_id].get(offset)

    def message_at(self, position: int) -> StoredMessage | None:
        """Return the message at a position of the log; None if there is none."""
        return self._state.message_at(position)

    def dead_letters(self, group: str) -> tuple[StoredMessage, ...]:
        """Return the messages of `%DLQ%{group}`, oldest first."""
        return self.messages(dead_letter_topic(group))

    def deliveries(self, topic: str | None = None, group: str | None = None) -> tuple[Delivered, ...]:
        """Return the last `history` deliveries, oldest first, by the topic they were received from."""
        return tuple(
            event
            for event in self._state.history
            if topic in (None, event.delivery.message.content.topic) and group in (None, event.group)
        )

    def leases(self, group: str | None = None) -> tuple[Lease, ...]:
        """Return the messages in flight, the oldest lease first."""
        return tuple(
            Lease(
                lease.consumption.group.name,
                lease.consumption.topic.name,
                (lease.message.first_copy or lease.message).queue_id,
                (lease.message.first_copy or lease.message).offset,
                lease.message.content.message_id,
                lease.attempt,
                lease.client_id,
                lease.handle,
                lease.expires / 1000,
            )
            for lease in self._state.leases.all()
            if group in (None, lease.consumption.group.name)
        )

    def order_records(self, group: str | None = None) -> tuple[OrderSnapshot, ...]:
        """Return what blocks ordered groups, by group, topic, queue and message group."""
        return tuple(
            record
            for (name, topic), consumption in sorted(self._state.consumptions.items())
            if group in (None, name)
            for queue_id, order in sorted(consumption.orders.items())
            for record in _records(name, topic, queue_id, order)
        )

    def half_messages(self, topic: str | None = None) -> tuple[HalfSnapshot, ...]:
        """Return the half messages of open transactions, by topic and transaction id."""
        halves = [half for half in self._half_messages if topic in (None, half.topic.name)]
        return tuple(
            HalfSnapshot(half.topic.name, half.queue_id, half.content, half.content.message_id, half.checks)
            for half in sorted(halves, key=lambda half: half.key)
        )

    def lite_topics(self, topic: str) -> dict[str, int]:
        """Return the lite topics of a parent, by name, with the number of messages in each."""
        return self._lite.names(topic)

    def retention(self) -> RetentionSnapshot:
        """Return how long messages are kept, and how full the disk is."""
        return self._retention.snapshot()

    def offsets(self, group: str | None = None) -> tuple[Progress, ...]:
        """Return the progress of groups, by group, topic and queue."""
        return tuple(
            _progress(name, topic, queue_id, offset, consumption.topic.queues[queue_id])
            for (name, topic), consumption in sorted(self._state.consumptions.items())
            if group in (None, name)
            for queue_id, offset in consumption.next_offsets().items()
        )

    def totals(self) -> Totals:
        """Count what the broker holds."""
        by_topic = {
            name: sum(len(queue.entries) for queue in topic.queues)
            for name, topic in self._state.topics.items()
        }
        return Totals(
            messages=sum(by_topic.values()),
            leases=len(self._state.leases.all()),
            polls=len(self._receive_polls) + len(self._pull_polls),
            clients=len(self._state.clients),
            delayed=len(self._delays),
            half=len(self._half_messages),
            deadlines=len(self._state.timers),
            by_topic=by_topic,
        )


def _progress(group: str, topic: str, queue_id: int, offset: int, queue: Queue) -> Progress:
    first, end = queue.min_offset, queue.max_offset
    return Progress(group, topic, queue_id, offset, first, end, lag=end - max(offset, first))


def _records(group: str, topic: str, queue_id: int, order: Order) -> list[OrderSnapshot]:
    if isinstance(order, QueueOrder):
        if not order.offsets:
            return []
        return [
            OrderSnapshot(
                group,
                topic,
                queue_id,
                "",
                order.attempt_id,
                tuple(order.offsets),
                tuple(offset for offset in order.offsets if offset in order.acked),
                tuple(order.counts[offset] for offset in order.offsets),
                tuple(
                    order.open[offset].expires / 1000 if offset in order.open else 0.0
                    for offset in order.offsets
                ),
                order.committed,
            )
        ]
    if isinstance(order, MessageGroupOrder):
        return [
            OrderSnapshot(
                group,
                topic,
                queue_id,
                key,
                group_queue.attempt_id,
                tuple(sorted(group_queue.flight)),
                (),
                tuple(order.deliveries(offset) for offset in sorted(group_queue.flight)),
                tuple(
                    lease.expires / 1000 if lease is not None else 0.0
                    for _, lease in sorted(group_queue.flight.items())
                ),
                order.committed,
            )
            for key, group_queue in sorted(order.group_queues.items())
            if group_queue.flight
        ]
    return []
