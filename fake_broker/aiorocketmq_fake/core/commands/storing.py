"""Storing: the one place where copies of messages enter queues."""

from collections.abc import Callable

from aiorocketmq_fake.core.records.topics import Topic
from aiorocketmq_fake.core.state import State
from aiorocketmq_fake.core.values.codes import MessageType, Permission, TopicType
from aiorocketmq_fake.core.values.events import Stored, StoredAs
from aiorocketmq_fake.core.values.model import OutgoingMessage, StoredMessage, TopicConfig

Listener = Callable[[Topic, StoredMessage], None]


class Storage:
    """Appends messages to queues and notifies waiters."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.listeners: list[Listener] = []
        """Called after a message became visible to the consumers of its topic."""

    def append(
        self,
        topic: Topic,
        queue_id: int,
        content: OutgoingMessage,
        message_type: MessageType,
        reason: StoredAs,
        *,
        client_id: str = "",
        attempts_before: int = 0,
        origin: StoredMessage | None = None,
        first_copy: StoredMessage | None = None,
        transaction_id: str = "",
    ) -> StoredMessage:
        """Store one copy without notifying waiters; follow with `announce`."""
        state = self._state
        queue = topic.queues[queue_id]
        at = state.now / 1000
        message = StoredMessage(
            content,
            message_type,
            topic.config.name,
            queue_id,
            queue.min_offset + len(queue.entries),
            state.log_end,
            at,
            attempts_before,
            origin.content.topic if origin is not None else "",
            origin.content.message_id if origin is not None else "",
            transaction_id,
            first_copy,
        )
        queue.entries.append(message)
        state.log_end += 1
        if state.first_message is None:
            state.first_message = message
        state.events.append(Stored(at, message, client_id, reason))
        return message

    def announce(self, topic: Topic, message: StoredMessage) -> None:
        """Notify the waiters for a message."""
        for listener in self.listeners:
            listener(topic, message)

    def system_topic(self, name: str) -> Topic:
        """Return a retry or dead-letter topic, created if need be: one queue, all may read and write (0.2)."""
        topic = self._state.topics.get(name)
        if topic is None:
            config = TopicConfig(name, TopicType.NORMAL, 1, 1, Permission.READ_WRITE)
            topic = self._state.topics[name] = Topic(config, self._state.new_entries, system=True)
        return topic
