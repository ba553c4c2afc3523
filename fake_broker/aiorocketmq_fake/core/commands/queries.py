"""What can be seen of a broker: snapshots of what it holds, never live objects."""

from __future__ import annotations

from aiorocketmq_fake.core.commands import inspection
from aiorocketmq_fake.core.commands.delays import Delays
from aiorocketmq_fake.core.commands.lite_topics import LiteTopics
from aiorocketmq_fake.core.commands.polls import PollBook
from aiorocketmq_fake.core.commands.retention import Retention
from aiorocketmq_fake.core.records.half_messages import Halves
from aiorocketmq_fake.core.state import State
from aiorocketmq_fake.core.values.model import PullRequest, ReceiveRequest, StoredMessage, TopicConfig
from aiorocketmq_fake.core.values.snapshots import (
    ClientSnapshot,
    DeliverySnapshot,
    GroupSnapshot,
    HalfSnapshot,
    KeepingSnapshot,
    LeaseSnapshot,
    OffsetSnapshot,
    OrderSnapshot,
    QueueSnapshot,
    TopicSnapshot,
    Totals,
)


class Observed:
    """The half of a broker that only looks."""

    _state: State
    _receive_polls: PollBook[ReceiveRequest]
    _pull_polls: PollBook[PullRequest]
    _delays: Delays
    _halves: Halves
    _lite: LiteTopics
    _retention: Retention

    def topics(self) -> tuple[TopicSnapshot, ...]:
        """All topics, retry and dead-letter topics included, by name."""
        return inspection.topics(self._state)

    def topic(self, name: str) -> TopicConfig | None:
        """The settings of a topic; None for an unknown one."""
        topic = self._state.topics.get(name)
        return None if topic is None else topic.config

    def queue(self, topic: str, queue_id: int) -> QueueSnapshot | None:
        """Where a readable queue begins and ends; None for an unknown one."""
        return inspection.queue(self._state, topic, queue_id)

    def has_group(self, name: str) -> bool:
        """Whether a consumer group exists."""
        return name in self._state.groups

    def groups(self) -> tuple[GroupSnapshot, ...]:
        """All consumer groups, by name."""
        return inspection.groups(self._state)

    def clients(self) -> tuple[ClientSnapshot, ...]:
        """All clients whose settings are stored, by id."""
        return inspection.clients(self._state)

    def messages(self, topic: str) -> tuple[StoredMessage, ...]:
        """All stored copies of a topic, by queue and offset; empty for unknown topics."""
        return inspection.messages(self._state, topic)

    def message(self, topic: str, queue_id: int, offset: int) -> StoredMessage | None:
        """The message at an offset of a queue; None where nothing is kept."""
        return inspection.message(self._state, topic, queue_id, offset)

    def message_at(self, position: int) -> StoredMessage | None:
        """The message at a place in the log; None where nothing is kept."""
        return inspection.message_at(self._state, position)

    def dead_letters(self, group: str) -> tuple[StoredMessage, ...]:
        """What lies in `%DLQ%{group}`, oldest first."""
        return inspection.dead_letters(self._state, group)

    def deliveries(self, topic: str | None = None, group: str | None = None) -> tuple[DeliverySnapshot, ...]:
        """What was delivered so far, oldest first (at most the last `history` deliveries)."""
        return inspection.deliveries(self._state.history, topic, group)

    def leases(self, group: str | None = None) -> tuple[LeaseSnapshot, ...]:
        """Messages in the hands of consumers."""
        return inspection.leases(self._state, group)

    def order_records(self, group: str | None = None) -> tuple[OrderSnapshot, ...]:
        """What ordered groups wait for."""
        return inspection.order_records(self._state, group)

    def half_messages(self, topic: str | None = None) -> tuple[HalfSnapshot, ...]:
        """Transactions that nobody ended yet, by topic and transaction id."""
        return inspection.half_messages(self._halves, topic)

    def lite_topics(self, topic: str) -> dict[str, int]:
        """Lite topics of a parent, by name, with the number of messages in each."""
        return self._lite.names(topic)

    def keeping(self) -> KeepingSnapshot:
        """How long messages are kept, and how full the disk is."""
        return self._retention.snapshot()

    def offsets(self, group: str | None = None) -> tuple[OffsetSnapshot, ...]:
        """Progress of groups, by group, topic and queue."""
        return inspection.offsets(self._state, group)

    def totals(self) -> Totals:
        """Count what the broker holds."""
        polls = len(self._receive_polls) + len(self._pull_polls)
        return inspection.totals(self._state, polls, len(self._delays), len(self._halves))
