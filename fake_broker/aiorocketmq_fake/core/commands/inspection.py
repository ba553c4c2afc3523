"""Inspection: snapshots of what the broker holds, for people and tests."""

from __future__ import annotations

from collections.abc import Iterable

from aiorocketmq_fake.core.records.half_messages import Halves
from aiorocketmq_fake.core.records.leases import Order
from aiorocketmq_fake.core.records.message_group_order import LaneOrder
from aiorocketmq_fake.core.records.queue_order import QueueOrder
from aiorocketmq_fake.core.state import State
from aiorocketmq_fake.core.values.events import Delivered
from aiorocketmq_fake.core.values.model import StoredMessage
from aiorocketmq_fake.core.values.names import dead_letter_topic
from aiorocketmq_fake.core.values.snapshots import (
    ClientSnapshot,
    DeliverySnapshot,
    GroupSnapshot,
    HalfSnapshot,
    LeaseSnapshot,
    OffsetSnapshot,
    OrderSnapshot,
    QueueSnapshot,
    TopicSnapshot,
    Totals,
)


def topics(state: State) -> tuple[TopicSnapshot, ...]:
    """List all topics by name."""
    return tuple(
        TopicSnapshot(
            topic.config,
            tuple(queue.min_offset for queue in topic.queues),
            tuple(queue.max_offset for queue in topic.queues),
            topic.system,
        )
        for _, topic in sorted(state.topics.items())
    )


def queue(state: State, topic_name: str, queue_id: int) -> QueueSnapshot | None:
    """Look at one queue; None for an unknown one."""
    topic = state.topics.get(topic_name)
    if topic is None or not 0 <= queue_id < topic.config.read_queues:
        return None
    found = topic.queues[queue_id]
    if not len(found.entries):
        return QueueSnapshot(found.min_offset, found.max_offset, None)
    earliest, latest = found.entries[0].store_timestamp, found.entries[-1].store_timestamp
    return QueueSnapshot(found.min_offset, found.max_offset, earliest, latest)


def groups(state: State) -> tuple[GroupSnapshot, ...]:
    """List all groups by name."""
    return tuple(
        GroupSnapshot(
            group.config,
            group.auto_created,
            tuple(sorted(client.id for client in state.clients.values() if name in client.groups)),
        )
        for name, group in sorted(state.groups.items())
    )


def clients(state: State) -> tuple[ClientSnapshot, ...]:
    """List all clients by id."""
    return tuple(
        ClientSnapshot(client.id, client.settings, client.last_seen / 1000)
        for _, client in sorted(state.clients.items())
    )


def messages(state: State, topic_name: str) -> tuple[StoredMessage, ...]:
    """List the messages of a topic by queue and offset."""
    topic = state.topics.get(topic_name)
    if topic is None:
        return ()
    return tuple(message for queue in topic.queues for message in queue.entries)


def message(state: State, topic_name: str, queue_id: int, offset: int) -> StoredMessage | None:
    """Look at one place of a queue; None where nothing is kept."""
    topic = state.topics.get(topic_name)
    if topic is None or not 0 <= queue_id < len(topic.queues):
        return None
    return topic.queues[queue_id].get(offset)


def message_at(state: State, position: int) -> StoredMessage | None:
    """Look at one place in the log, by which every queue is ordered; None where nothing is kept."""
    for topic in state.topics.values():
        for queue in topic.queues:
            found = queue.get(queue.first_from(position))
            if found is not None and found.position == position:
                return found
    return None


def dead_letters(state: State, group_name: str) -> tuple[StoredMessage, ...]:
    """List a group's dead letters, oldest first."""
    return messages(state, dead_letter_topic(group_name))


def deliveries(
    history: Iterable[Delivered], topic_name: str | None, group_name: str | None
) -> tuple[DeliverySnapshot, ...]:
    """List deliveries, oldest first, by the topic they were received from."""
    return tuple(
        DeliverySnapshot(
            event.at,
            event.group,
            event.delivery.message.content.topic,
            event.delivery.queue_id,
            event.delivery.offset,
            event.delivery.message,
            event.delivery.attempt,
            event.client_id,
            event.delivery.receipt_handle,
        )
        for event in history
        if topic_name in (None, event.delivery.message.content.topic) and group_name in (None, event.group)
    )


def leases(state: State, group_name: str | None) -> tuple[LeaseSnapshot, ...]:
    """List the live leases, oldest first."""
    found = []
    for lease in state.leases.all():
        group = lease.consumption.group.name
        shown = lease.message.first_copy or lease.message
        if group_name in (None, group):
            found.append(
                LeaseSnapshot(
                    group,
                    lease.consumption.topic.name,
                    shown.queue_id,
                    shown.offset,
                    lease.message.content.message_id,
                    lease.attempt,
                    lease.client_id,
                    lease.handle,
                    lease.expires / 1000,
                    lease.auto_renew,
                )
            )
    return tuple(found)


def order_records(state: State, group_name: str | None) -> tuple[OrderSnapshot, ...]:
    """List what ordered groups wait for, by group, topic, queue and message group."""
    found: list[OrderSnapshot] = []
    for (group, topic), consumption in sorted(state.consumptions.items()):
        if group_name in (None, group):
            for queue_id, order in sorted(consumption.orders.items()):
                found.extend(_records(group, topic, queue_id, order))
    return tuple(found)


def half_messages(halves: Halves, topic_name: str | None) -> tuple[HalfSnapshot, ...]:
    """List half messages by topic and transaction id."""
    found = sorted(
        (half for half in halves if topic_name in (None, half.topic.name)), key=lambda half: half.key
    )
    return tuple(
        HalfSnapshot(half.topic.name, half.queue_id, half.content, half.content.message_id, half.checks)
        for half in found
    )


def offsets(state: State, group_name: str | None) -> tuple[OffsetSnapshot, ...]:
    """List the progress of groups, by group, topic and queue."""
    return tuple(
        OffsetSnapshot(
            group,
            topic,
            queue_id,
            offset,
            consumption.topic.queues[queue_id].min_offset,
            consumption.topic.queues[queue_id].max_offset,
        )
        for (group, topic), consumption in sorted(state.consumptions.items())
        if group_name in (None, group)
        for queue_id, offset in consumption.positions().items()
    )


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
    if isinstance(order, LaneOrder):
        return [
            OrderSnapshot(
                group,
                topic,
                queue_id,
                key,
                lane.attempt_id,
                tuple(sorted(lane.flight)),
                (),
                tuple(order.deliveries(offset) for offset in sorted(lane.flight)),
                tuple(
                    lease.expires / 1000 if lease is not None else 0.0
                    for _, lease in sorted(lane.flight.items())
                ),
                order.committed,
            )
            for key, lane in sorted(order.lanes.items())
            if lane.flight
        ]
    return []


def totals(state: State, polls: int, delayed: int, half: int) -> Totals:
    """Count what the broker holds; the counts given are kept elsewhere than in the state."""
    by_topic = {
        name: sum(len(queue.entries) for queue in topic.queues) for name, topic in state.topics.items()
    }
    return Totals(
        sum(by_topic.values()),
        len(state.leases.all()),
        polls,
        len(state.clients),
        delayed,
        half,
        len(state.agenda),
        by_topic,
    )
