"""Dead letters: messages that a group gave up, copied to its dead-letter topic (R5.26, R6.18)."""

from dataclasses import replace

from aiorocketmq_fake.core.commands.storing import Storage
from aiorocketmq_fake.core.state import State
from aiorocketmq_fake.core.values.classic_model import with_origin
from aiorocketmq_fake.core.values.events import DeadLettered, StoredAs
from aiorocketmq_fake.core.values.model import StoredMessage
from aiorocketmq_fake.core.values.names import dead_letter_topic, plain_retry_topic


class DeadLetters:
    """Moves messages to dead-letter topics."""

    def __init__(self, state: State, storage: Storage) -> None:
        self._state = state
        self._storage = storage

    def give_up(self, group: str, message: StoredMessage, attempt: int) -> None:
        """Copy a message after its last attempt; the caller settles the original."""
        self._move(group, message, attempt, by_client=False)

    def forward(self, group: str, message: StoredMessage, attempt: int) -> None:
        """Copy a message at its consumer's request; the caller settles the original."""
        self._move(group, message, attempt, by_client=True)

    def copy(self, group: str, message: StoredMessage) -> StoredMessage:
        """Store the copy; its topic is the dead-letter topic (6.4)."""
        profile = self._state.profile
        topic = self._storage.system_topic(dead_letter_topic(group))
        if profile.dead_letters_make_retry_topic:
            self._storage.system_topic(plain_retry_topic(group))
        classic = with_origin(message.content.classic, message.topic, message.content.message_id)
        content = replace(message.content, topic=topic.name, classic=classic)
        copy = self._storage.append(
            topic,
            0,
            content,
            profile.dead_letter_type or message.message_type,
            StoredAs.DEAD_LETTER,
            attempts_before=message.attempts_before + 1 if profile.dead_letters_keep_attempts else 0,
            origin=message if profile.dead_letters_tell_origin else None,
        )
        self._storage.announce(topic, copy)
        return copy

    def _move(self, group: str, message: StoredMessage, attempt: int, *, by_client: bool) -> None:
        self._state.events.append(DeadLettered(self._state.at, group, message, attempt, by_client))
        self.copy(group, message)
