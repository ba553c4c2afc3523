"""Lite topics: light-weight queues below a parent topic, made by their first message (4.11).

A message to a lite topic is stored in a queue of its parent, as any other, and indexed in the queue of its name here.
A group's progress in all lite topics of a parent is one `Consumption` over these queues, always in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from aiorocketmq_fake.core.commands.leasing import Leasing
from aiorocketmq_fake.core.commands.lite_subscriptions import LiteSubscriptions, next_scan
from aiorocketmq_fake.core.records.consumption import Consumption
from aiorocketmq_fake.core.records.timers import Timer
from aiorocketmq_fake.core.records.topics import NewEntries, Queue, Topic
from aiorocketmq_fake.core.state import State, milliseconds
from aiorocketmq_fake.core.values.choices import LiteService
from aiorocketmq_fake.core.values.codes import Code, Refusal, TopicType
from aiorocketmq_fake.core.values.events import LeaseEnd, LiteTopicEnded
from aiorocketmq_fake.core.values.model import LiteStart, StoredMessage, TopicConfig
from aiorocketmq_fake.core.values.names import is_internal


class LiteTopic(Timer):
    """One lite topic; its timer is the expiry without writes."""

    __slots__ = ("name", "parent", "queue", "written")

    def __init__(self, parent: str, name: str, queue: Queue) -> None:
        self.ticket = 0
        self.parent = parent
        self.name = name
        self.queue = queue
        self.written = 0


class Space:
    """The lite topics of one parent.

    Queue numbers are never reused, so that no old reference points to a new queue.
    """

    __slots__ = ("_new_entries", "consumptions", "names", "topic")

    def __init__(self, config: TopicConfig, new_entries: NewEntries) -> None:
        empty = replace(config, read_queues=0, write_queues=0)
        self._new_entries = new_entries
        self.topic = Topic(empty, new_entries, system=True)
        """Carries the parent's name, and the queues of all lite topics."""
        self.names: dict[str, LiteTopic] = {}
        self.consumptions: dict[str, Consumption] = {}
        """By group."""

    def open(self, name: str) -> LiteTopic:
        """Return a lite topic, created if need be."""
        lite = self.names.get(name)
        if lite is None:
            queue = Queue(len(self.topic.queues), self._new_entries())
            self.topic.queues.append(queue)
            lite = self.names[name] = LiteTopic(self.topic.name, name, queue)
        return lite


class LiteTopics:
    """All lite topics of the broker."""

    def __init__(self, state: State, leasing: Leasing, subscriptions: LiteSubscriptions) -> None:
        self._state = state
        self._leasing = leasing
        self._subscriptions = subscriptions
        self._spaces: dict[str, Space] = {}
        subscriptions.serve(self.start)

    def admit(self, topic: Topic, name: str) -> None:
        """Refuse a message that would create more lite topics than its parent may have."""
        limit = topic.config.lite_limit
        if not limit or topic.config.type is not TopicType.LITE:
            return
        space = self._space(topic.config)
        written = [lite for lite in space.names.values() if lite.written]
        if len(written) >= limit and not (name in space.names and space.names[name].written):
            raise Refusal(
                Code.LITE_TOPIC_QUOTA_EXCEEDED,
                f"The topic {topic.name} has {limit} lite topics, and may not have more.",
            )

    def index(self, topic: Topic, message: StoredMessage) -> None:
        """Index a stored message in its lite topic, before waiters are notified."""
        name = message.content.lite_topic
        if not name or topic.config.type is not TopicType.LITE or is_internal(topic.name):
            return
        lite = self._space(topic.config).open(name)
        shown = replace(message, queue_id=0, offset=lite.queue.max_offset)
        # Consumers see queue 0 of every lite topic (session §7.2); internally, queues have their own numbers.
        lite.queue.entries.append(replace(shown, queue_id=lite.queue.id, first_copy=shown))
        lite.written = self._state.now
        self._set_end(lite, topic.config)

    def reading(self, client_id: str, group: str, topic: Topic) -> list[Queue]:
        """Order the queues that a client reads: those of the lite topics it subscribed to, from any of them on."""
        if self._state.profile.lite_service is not LiteService.SERVED:
            return []
        space = self._spaces.get(topic.name)
        if space is None:
            return []
        subscribed = self._subscriptions.names(client_id, group, topic.name)
        queues = [space.names[name].queue for name in subscribed if name in space.names]
        first = int(self._state.rng.random() * len(queues))
        return queues[first:] + queues[:first]

    def consumption(self, group: str, topic: Topic) -> Consumption:
        """Return a group's progress in the lite topics of a parent, created if need be."""
        space = self._space(topic.config)
        consumption = space.consumptions.get(group)
        if consumption is None:
            consumption = Consumption(self._state.profile, self._state.groups[group], space.topic)
            space.consumptions[group] = consumption
        return consumption

    def start(self, group: str, topic: Topic, name: str, start: LiteStart | None) -> None:
        """Start a group in a lite topic at the offset that its new subscriber requests (R4.33)."""
        lite = self._space(topic.config).open(name)
        consumption = self.consumption(group, topic)
        position = consumption.stored_position(lite.queue.id)
        offset = self._start(lite.queue, position, start)
        if position is None:
            consumption.move(lite.queue.id, offset)
        elif offset != position:
            order = consumption.order(lite.queue)
            for lease in order.reset(offset):
                self._leasing.drop(lease, LeaseEnd.RESET)

    def names(self, topic_name: str) -> dict[str, int]:
        """List the lite topics of a parent with the number of messages in each."""
        space = self._spaces.get(topic_name)
        return (
            {}
            if space is None
            else {name: len(one.queue.entries) for name, one in sorted(space.names.items())}
        )

    def trim(self, count: Callable[[Queue], int]) -> None:
        """Drop the `count` oldest messages of each lite topic: they were deleted from the log (R11.2)."""
        for space in self._spaces.values():
            for queue in space.topic.queues:
                if number := count(queue) if queue.entries else 0:
                    queue.drop(number)
                    for consumption in space.consumptions.values():
                        if queue.id in consumption.orders:
                            consumption.orders[queue.id].trim()

    def forget_topic(self, topic_name: str) -> None:
        """Drop all lite topics of a parent that is deleted."""
        space = self._spaces.pop(topic_name, None)
        if space is not None:
            for lite in list(space.names.values()):
                self._remove(space, lite)
        self._subscriptions.forget_topic(topic_name)

    def forget_group(self, group: str) -> None:
        """Drop the progress and the subscriptions of a group that is deleted."""
        for space in self._spaces.values():
            consumption = space.consumptions.pop(group, None)
            if consumption is not None:
                for queue in space.topic.queues:
                    self._drop_leases(consumption, queue)
        self._subscriptions.forget_group(group)

    def _space(self, config: TopicConfig) -> Space:
        space = self._spaces.get(config.name)
        if space is None:
            space = self._spaces[config.name] = Space(config, self._state.new_entries)
        return space

    def _start(self, queue: Queue, known: int | None, start: LiteStart | None) -> int:
        profile = self._state.profile
        here = queue.min_offset if known is None else known
        if start is None or start.is_last:
            return here
        if start.timestamp is not None:
            return here if profile.lite_times_ignored else queue.first_since(start.timestamp)
        if start.tail is not None:
            if profile.lite_tail_needs_progress and known is None:
                return here
            end = here if profile.lite_tail_needs_progress else queue.max_offset
            return max(queue.min_offset, end - start.tail)
        offset = queue.max_offset if start.offset is None else start.offset
        return min(max(offset, queue.min_offset), queue.max_offset)

    def _set_end(self, lite: LiteTopic, config: TopicConfig) -> None:
        if config.lite_expiration is None:
            return
        state = self._state
        end = next_scan(state, lite.written + milliseconds(config.lite_expiration))
        state.timers.set(lite, end, self._on_end)

    def _on_end(self, lite: LiteTopic) -> None:
        """Remove a lite topic without writes for its expiration time, with its messages (R4.34)."""
        space = self._spaces.get(lite.parent)
        if space is not None and space.names.get(lite.name) is lite:
            messages = len(lite.queue.entries)
            self._remove(space, lite)
            state = self._state
            state.events.append(LiteTopicEnded(state.at, lite.parent, lite.name, messages))
            self._subscriptions.withdraw(lite.parent, lite.name)

    def _remove(self, space: Space, lite: LiteTopic) -> None:
        self._state.timers.cancel(lite)
        del space.names[lite.name]
        for consumption in space.consumptions.values():
            self._drop_leases(consumption, lite.queue)
            consumption.orders.pop(lite.queue.id, None)
        del lite.queue.entries[:]

    def _drop_leases(self, consumption: Consumption, queue: Queue) -> None:
        order = consumption.orders.get(queue.id)
        for lease in order.reset(order.committed) if order is not None else ():
            self._leasing.drop(lease, LeaseEnd.DELETED)
