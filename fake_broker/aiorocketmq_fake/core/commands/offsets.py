"""Offsets of groups: queries, commits and resets (10)."""

from aiorocketmq_fake.core.commands.leasing import Leasing
from aiorocketmq_fake.core.commands.polls import PollBook
from aiorocketmq_fake.core.commands.pulling import find_queue
from aiorocketmq_fake.core.commands.registry import receiver_group
from aiorocketmq_fake.core.records.consumption import Consumption
from aiorocketmq_fake.core.records.groups import Group
from aiorocketmq_fake.core.records.topics import Queue
from aiorocketmq_fake.core.state import State
from aiorocketmq_fake.core.values.codes import Code, OffsetPolicy, Refusal
from aiorocketmq_fake.core.values.events import LeaseEnd, OffsetCommitted, OffsetReset
from aiorocketmq_fake.core.values.model import OffsetQuery, ReceiveRequest


class Offsets:
    """The commands on offsets."""

    def __init__(self, state: State, polls: PollBook[ReceiveRequest], leasing: Leasing) -> None:
        self._state = state
        self._polls = polls
        self._leasing = leasing

    def update(self, group_name: str, topic_name: str, queue_id: int, offset: int) -> None:
        """Store a group's offset in one queue (10.1)."""
        state = self._state
        find_queue(state, topic_name, queue_id)
        state.check_group(group_name)
        if offset < 0:
            raise Refusal(Code.ILLEGAL_OFFSET, f"The offset {offset} is negative.")
        group = receiver_group(state, group_name)
        self._set(self._consumption(group, topic_name), queue_id, offset)
        state.events.append(OffsetCommitted(state.at, group_name, topic_name, queue_id, offset))

    def get(self, group_name: str, topic_name: str, queue_id: int) -> int:
        """Return a group's stored offset (10.1)."""
        state = self._state
        find_queue(state, topic_name, queue_id)
        state.check_group(group_name)
        consumption = state.consumptions.get((group_name, topic_name))
        offset = consumption.stored_position(queue_id) if consumption is not None else None
        if offset is None:
            raise Refusal(
                Code.OFFSET_NOT_FOUND,
                f"The group {group_name} has no offset in queue {queue_id} of topic {topic_name}.",
            )
        return offset

    def query(self, query: OffsetQuery) -> int:
        """Return the first offset, the next one, or the first at or after a time (10.1)."""
        return self._target(
            find_queue(self._state, query.topic, query.queue_id), query.policy, query.timestamp
        )

    def reset(
        self, group_name: str, topic_name: str, policy: OffsetPolicy, timestamp: float | None
    ) -> tuple[int, ...]:
        """Reset a group in all queues of a topic (R10.6); waiting redeliveries of passed messages are dropped."""
        state = self._state
        group = state.groups.get(group_name)
        if group is None:
            raise Refusal(Code.CONSUMER_GROUP_NOT_FOUND, f"The consumer group {group_name} does not exist.")
        topic = state.topics.get(topic_name)
        if topic is None:
            raise Refusal(Code.TOPIC_NOT_FOUND, f"The topic {topic_name} does not exist.")
        targets = tuple([self._target(queue, policy, timestamp) for queue in topic.readable])
        consumption = self._consumption(group, topic_name)
        if not state.profile.reset_keeps_leases:
            self._drop_in_flight(consumption)
        for queue_id, offset in enumerate(targets):
            self._set(consumption, queue_id, offset)
            state.events.append(OffsetReset(state.at, group_name, topic_name, queue_id, offset))
        if state.profile.reset_wakes_polls:
            self._polls.wake(topic_name, group_name)
        return targets

    def _drop_in_flight(self, consumption: Consumption) -> None:
        for lease in self._state.leases.all():
            if lease.consumption is consumption:
                self._leasing.drop(lease, LeaseEnd.RESET)
        if consumption.retry is not None:
            consumption.retry_position = consumption.retry.queues[0].max_offset

    def _set(self, consumption: Consumption, queue_id: int, offset: int) -> None:
        order = consumption.orders.get(queue_id)
        if order is None:
            consumption.move(queue_id, offset)
            return
        for lease in order.reset(offset):
            # The order record is new; leases of the old one must not lead to redeliveries (R8.20).
            if lease.handle in self._state.leases.by_handle:
                self._leasing.drop(lease, LeaseEnd.RESET)

    def _target(self, queue: Queue, policy: OffsetPolicy, timestamp: float | None) -> int:
        if policy is OffsetPolicy.BEGINNING:
            return queue.min_offset
        if policy is OffsetPolicy.END:
            return queue.max_offset
        if timestamp is None:
            raise Refusal(Code.BAD_REQUEST, "An offset by time needs a timestamp.")
        return queue.first_since(timestamp)

    def _consumption(self, group: Group, topic_name: str) -> Consumption:
        state = self._state
        key = (group.name, topic_name)
        if key not in state.consumptions:
            state.consumptions[key] = Consumption(state.profile, group, state.topics[topic_name])
        return state.consumptions[key]
