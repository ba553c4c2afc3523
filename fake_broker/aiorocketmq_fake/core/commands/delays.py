"""Delayed messages: accepted now, visible later, recallable until then (4.7, 4.8)."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error

from aiorocketmq_fake.core.commands.storing import Storage
from aiorocketmq_fake.core.records.timers import Timer
from aiorocketmq_fake.core.records.topics import Topic
from aiorocketmq_fake.core.state import State, milliseconds, milliseconds_up
from aiorocketmq_fake.core.values.codes import Code, MessageType, Refusal, TopicType
from aiorocketmq_fake.core.values.events import Prepared, Recalled, StoredAs
from aiorocketmq_fake.core.values.model import OutgoingMessage

_SWITCHED_OFF = "Recalling messages is switched off on this server."


class Delayed(Timer):
    """A delayed message."""

    __slots__ = ("content", "due", "kind", "queue_id", "topic")

    def __init__(
        self, topic: Topic, queue_id: int, content: OutgoingMessage, kind: MessageType, due: int
    ) -> None:
        self.ticket = 0
        self.topic = topic
        self.queue_id = queue_id
        self.content = content
        self.kind = kind
        self.due = due


class Delays:
    """The timer of delayed messages."""

    def __init__(self, state: State, storage: Storage) -> None:
        self._state = state
        self._storage = storage
        self._waiting: dict[tuple[str, str, int], list[Delayed]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(
        self, topic: Topic, queue_id: int, content: OutgoingMessage, kind: MessageType, client_id: str
    ) -> str:
        """Store a message until its delivery time; return the recall handle (R4.19, R4.24)."""
        state = self._state
        deliver_at = milliseconds_up(content.delivery_timestamp or 0.0)
        due = self._visible_at(deliver_at)
        delayed = Delayed(topic, queue_id, content, kind, due)
        key = (topic.name, content.message_id, self._named_time(deliver_at))
        self._waiting.setdefault(key, []).append(delayed)
        state.timers.set(delayed, due, self._on_due)
        state.events.append(Prepared(state.at, content, client_id, due / 1000))
        return self.handle(content)

    def handle(self, content: OutgoingMessage) -> str:
        """Return the recall handle of a message (R4.24)."""
        at = self._named_time(milliseconds_up(content.delivery_timestamp or 0.0))
        text = f"v1 {content.topic} {self._state.broker} {at} {content.message_id}"
        return urlsafe_b64encode(text.encode()).decode()

    def recall(self, topic_name: str, handle: str, client_id: str) -> str:
        """Recall a message before its delivery time; return its id (R4.25, R4.26)."""
        state = self._state
        state.check_topic(topic_name)
        topic = state.topics.get(topic_name)
        if topic is None or topic.config.type not in (TopicType.DELAY, TopicType.MIXED):
            raise Refusal(
                Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, f"The topic {topic_name} takes no delayed messages."
            )
        if not state.profile.recall_enabled:
            raise Refusal(state.profile.recall_failure_code, _SWITCHED_OFF)
        return self._recall(topic_name, handle, client_id)

    def recall_classic(self, topic_name: str, handle: str, client_id: str) -> str:
        """Recall like `recall`, whatever the topic's type."""
        state = self._state
        if not state.profile.recall_enabled:
            raise Refusal(Code.FORBIDDEN, _SWITCHED_OFF)
        if topic_name not in state.topics:
            raise Refusal(Code.TOPIC_NOT_FOUND, f"The topic {topic_name} does not exist.")
        return self._recall(topic_name, handle, client_id)

    def _recall(self, topic_name: str, handle: str, client_id: str) -> str:
        state = self._state
        profile = state.profile
        at, message_id = self._read(topic_name, handle)
        if at - milliseconds(profile.recall_margin) <= state.now:
            raise Refusal(profile.recall_failure_code, "It is too late to recall the message.")
        waiting = self._waiting.pop((topic_name, message_id, at), [])
        if not waiting and profile.recall_finds_message:
            raise Refusal(profile.recall_failure_code, "The recall handle names no message that waits.")
        for delayed in waiting:
            state.timers.cancel(delayed)
        state.events.append(Recalled(state.at, topic_name, message_id, client_id, bool(waiting)))
        return message_id

    def forget_topic(self, topic_name: str) -> None:
        """Drop the delayed messages of a deleted topic."""
        for key in [key for key in self._waiting if key[0] == topic_name]:
            for delayed in self._waiting.pop(key):
                self._state.timers.cancel(delayed)

    def _visible_at(self, deliver_at: int) -> int:
        profile = self._state.profile
        grain = milliseconds(profile.delay_grain)
        if grain:
            deliver_at = -(-deliver_at // grain) * grain
        return deliver_at + milliseconds(profile.delay_latency)

    def _named_time(self, deliver_at: int) -> int:
        """Return the time that a recall handle names: one more than the timer slot's (R4.19, R4.24)."""
        grain = milliseconds(self._state.profile.delay_grain)
        return (deliver_at - 1) // grain * grain + 1 if grain else deliver_at

    def _read(self, topic_name: str, handle: str) -> tuple[int, str]:
        profile = self._state.profile
        try:
            version, topic, broker, at, message_id = urlsafe_b64decode(handle.encode()).decode().split(" ", 4)
            time = int(at)
        except (ValueError, Base64Error):
            raise Refusal(profile.recall_failure_code, "The recall handle is not one.") from None
        if version != "v1" or topic != topic_name:
            raise Refusal(profile.recall_failure_code, "The recall handle belongs to another topic.")
        if broker != self._state.broker:
            raise Refusal(profile.recall_foreign_broker_code, "The recall handle belongs to another broker.")
        return time, message_id

    def _on_due(self, delayed: Delayed) -> None:
        content = delayed.content
        deliver_at = milliseconds_up(content.delivery_timestamp or 0.0)
        key = (delayed.topic.name, content.message_id, self._named_time(deliver_at))
        self._waiting[key].remove(delayed)
        if not self._waiting[key]:
            del self._waiting[key]
        stored = self._storage.append(
            delayed.topic,
            delayed.queue_id,
            content,
            delayed.kind,
            StoredAs.DUE,
            attempts_before=content.classic.reconsume_times if content.classic is not None else 0,
        )
        self._storage.announce(delayed.topic, stored)
