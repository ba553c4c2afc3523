"""Drains: a group polled a topic without result, long after all leases and delays had ended.

A recording with that event (`drain.ok`) lets the audit prove that no message was lost, even at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiorocketmq.recording_format import INTERVALS, QuietTime

from aiorocketmq_fake.core.values import events
from aiorocketmq_fake.core.values.codes import Code, TopicType
from aiorocketmq_fake.core.values.frozen import value
from aiorocketmq_fake.core.values.model import StoredMessage

__all__ = ["Drained", "Drains"]

SLACK = 1.0
"""Additional seconds for delays of the server."""


@value
class Drained:
    """A group polled a topic without result, and no message of the topic can still be on its way to it."""

    at: float
    group: str
    topic: str


class Drains:
    """Follows the events of a broker.

    Lite topics, topics that cannot be read entirely, and deleted ones have no drains: messages may rightly stay
    unread there.
    """

    def __init__(self) -> None:
        self._topics: dict[str, QuietTime] = {}
        self._pairs: dict[tuple[str, str], QuietTime] = {}
        self._unfit_topics: set[str] = set()
        self._unfit_groups: set[str] = set()
        # Each function takes the type of its own key, which the type of a table cannot express: hence Any.
        self._notes: dict[type[object], Callable[[Any], Drained | None]] = {
            events.Stored: self._stored,
            events.Prepared: self._prepared,
            events.Delivered: self._delivered,
            events.LeaseChanged: self._kept_back,
            events.Resurrected: self._kept_back,
            events.Acked: self._moved,
            events.LeaseEnded: self._moved,
            events.Revived: self._moved,
            events.DeadLettered: self._moved,
            events.ReceiveEnded: self._received,
            events.TopicChanged: self._topic_changed,
            events.GroupChanged: self._group_changed,
        }

    def note(self, event: events.Event) -> Drained | None:
        """Follow the next event; return the drain that it proves, if any, once until another event."""
        note = self._notes.get(type(event))
        return None if note is None else note(event)

    def _stored(self, event: events.Stored) -> None:
        content = event.message.content
        if content.lite_topic:
            self._unfit_topics.add(content.topic)
        self._topic(content.topic).disturb(event.at)

    def _prepared(self, event: events.Prepared) -> None:
        delay = 0.0 if event.due is None else event.due - event.at
        self._topic(event.message.topic).disturb(event.at, delay)

    def _delivered(self, event: events.Delivered) -> None:
        self._pair(event.group, event.delivery.message).disturb(event.at, event.invisible)

    def _kept_back(self, event: events.LeaseChanged | events.Resurrected) -> None:
        self._pair(event.group, event.message).disturb(event.at, event.invisible)

    def _moved(self, event: events.Acked | events.LeaseEnded | events.Revived | events.DeadLettered) -> None:
        if event.message is not None:
            self._pair(event.group, event.message).disturb(event.at)

    def _received(self, event: events.ReceiveEnded) -> Drained | None:
        if event.messages or event.cancelled or event.code not in (Code.OK, Code.MESSAGE_NOT_FOUND):
            return None
        pair = self._pairs.get((event.group, event.topic))
        # The topics of a group are known by its deliveries.
        if pair is None or event.topic in self._unfit_topics or event.group in self._unfit_groups:
            return None
        topic = self._topic(event.topic)
        since = max(pair.since, topic.since)
        needed = INTERVALS * max(pair.longest, topic.longest) + SLACK
        if pair.reported == since or event.at < since + needed:
            return None
        pair.reported = since
        return Drained(event.at, event.group, event.topic)

    def _topic_changed(self, event: events.TopicChanged) -> None:
        config = event.config
        whole = config.permission.readable and config.read_queues >= config.write_queues
        if event.deleted or not whole or config.type is TopicType.LITE:
            self._unfit_topics.add(config.name)

    def _group_changed(self, event: events.GroupChanged) -> None:
        if event.deleted:
            self._unfit_groups.add(event.config.name)

    def _topic(self, name: str) -> QuietTime:
        return self._topics.setdefault(name, QuietTime())

    def _pair(self, group: str, message: StoredMessage) -> QuietTime:
        return self._pairs.setdefault((group, message.content.topic), QuietTime())
