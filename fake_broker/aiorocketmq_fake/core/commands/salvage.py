"""Salvage: the progress of groups for persistence, and rebuilding a broker from what a damaged folder still has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from aiorocketmq_fake.core.records.consumption import Consumption
from aiorocketmq_fake.core.records.groups import Group
from aiorocketmq_fake.core.records.topics import Entries, Topic
from aiorocketmq_fake.core.state import State
from aiorocketmq_fake.core.values.model import GroupConfig, StoredMessage, TopicConfig
from aiorocketmq_fake.core.values.names import retry_topic


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """Progress of a group in one queue: everything before is settled, or at least not in flight."""

    group: str
    topic: str
    physical: str
    """The topic itself, or that of the group's redeliveries."""
    queue_id: int
    offset: int


@dataclass(frozen=True, slots=True)
class Salvaged:
    """Salvaged data of a topic: its settings and, for each queue, messages in order, with gaps for lost ones."""

    config: TopicConfig
    system: bool
    queues: tuple[tuple[StoredMessage, ...], ...]


def entries(state: State, topic_name: str) -> tuple[Entries, ...]:
    """Return the message containers of a topic's queues."""
    topic = state.topics.get(topic_name)
    return tuple(queue.entries for queue in topic.queues) if topic is not None else ()


def group_positions(state: State) -> list[GroupPosition]:
    """Return the progress of groups; before messages in flight, as those must be redelivered."""
    held: dict[tuple[str, str, str, int], int] = {}
    for lease in state.leases.all():
        message = lease.message
        key = (lease.consumption.group.name, lease.consumption.topic.name, message.topic, message.queue_id)
        held[key] = min(message.offset, held.get(key, message.offset))
    positions = []
    for (group, topic), consumption in state.consumptions.items():
        places = [(topic, queue_id, offset) for queue_id, offset in consumption.positions().items()]
        if consumption.retry is not None:
            places.append((consumption.retry.name, 0, consumption.retry_position))
        for physical, queue_id, offset in places:
            least = held.get((group, topic, physical, queue_id), offset)
            positions.append(GroupPosition(group, topic, physical, queue_id, min(offset, least)))
    return positions


def rebuild(
    state: State, topics: Iterable[Salvaged], groups: Iterable[GroupConfig], position: Iterable[GroupPosition]
) -> None:
    """Fill an empty state with salvaged data. Offsets close up over lost messages."""
    moved: dict[tuple[str, int], list[int]] = {}
    kept: list[tuple[StoredMessage, Topic]] = []
    for left in topics:
        topic = state.topics[left.config.name] = Topic(left.config, state.new_entries, system=left.system)
        for queue_id, messages in enumerate(left.queues):
            moved[left.config.name, queue_id] = [message.offset for message in messages]
            kept.extend((message, topic) for message in messages)
    kept.sort(key=lambda pair: pair[0].position)
    for message, topic in kept:
        _store(state, topic, message)
    for config in groups:
        state.groups[config.name] = Group(config, state.log_end)
    for place in position:
        _stand(state, place, moved)


def _store(state: State, topic: Topic, message: StoredMessage) -> None:
    queue = topic.queues[message.queue_id]
    stored = replace(message, offset=queue.max_offset, position=state.log_end)
    queue.entries.append(stored)
    state.log_end += 1
    if state.first_message is None:
        state.first_message = stored


def _stand(state: State, place: GroupPosition, moved: Mapping[tuple[str, int], list[int]]) -> None:
    group, topic = state.groups.get(place.group), state.topics.get(place.topic)
    if group is None or topic is None:
        return
    key = (place.group, place.topic)
    consumption = state.consumptions.get(key)
    if consumption is None:
        consumption = state.consumptions[key] = Consumption(state.profile, group, topic)
    offset = sum(old < place.offset for old in moved.get((place.physical, place.queue_id), ()))
    if place.physical == place.topic:
        consumption.move(place.queue_id, offset)
    elif place.physical == retry_topic(place.group, place.topic):
        consumption.retry = state.topics.get(place.physical)
        consumption.retry_position = offset
