"""Send-back: a member of a classic group returns a message that it could not handle (CONSUMER_SEND_MSG_BACK)."""

from __future__ import annotations

from dataclasses import replace

from aiorocketmq_fake.core.commands.dead_letters import DeadLetters
from aiorocketmq_fake.core.commands.registry import ensured_group
from aiorocketmq_fake.core.commands.storing import Storage
from aiorocketmq_fake.core.records.groups import Group
from aiorocketmq_fake.core.records.timers import Timer
from aiorocketmq_fake.core.state import State, milliseconds
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.classic_model import SendBack, with_origin
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.events import SentBack, StoredAs
from aiorocketmq_fake.core.values.model import OutgoingMessage, StoredMessage
from aiorocketmq_fake.core.values.names import dead_letter_topic, plain_retry_topic


class _Retry(Timer):
    """A copy that waits for its delivery time."""

    __slots__ = ("group", "message")

    def __init__(self, group: str, message: StoredMessage) -> None:
        self.ticket = 0
        self.group = group
        self.message = message
        """The failed copy, with the properties of the next one."""


class SendingBack:
    """The command, and the copies that wait for their delivery time."""

    def __init__(self, state: State, storage: Storage, dead_letters: DeadLetters) -> None:
        self._state = state
        self._storage = storage
        self._dead_letters = dead_letters

    def send_back(self, request: SendBack, client_id: str) -> None:
        """Redeliver a message to the group later; after its last attempt it is a dead letter."""
        state = self._state
        state.check_group(request.group)
        message = state.message_at(request.position)
        if message is None:
            raise Refusal(Code.MESSAGE_NOT_FOUND, f"look message by offset failed, {request.position}")
        group = ensured_group(state, request.group)
        if request.delay_level < 0 or message.attempts_before >= _limit(request.max_reconsume_times, group):
            self._dead_letters.give_up(request.group, message, message.attempts_before + 1)
            return
        level = request.delay_level or 3 + message.attempts_before
        level = min(level, len(limits.DELAY_LEVELS))
        retry = _Retry(request.group, self._marked(message, request, level))
        due = state.now + milliseconds(limits.DELAY_LEVELS[level - 1])
        state.timers.set(retry, due, self._on_due)
        state.events.append(SentBack(state.at, request.group, message, client_id, due / 1000))

    def destination(self, message: OutgoingMessage, *, is_locked: bool) -> OutgoingMessage:
        """Return a message that a consumer itself sends to its retry topic, or its dead letter after the last
        attempt.

        While the group holds a queue lock (`is_locked`), servers treat every such message as its last attempt.
        """
        classic = message.classic
        if classic is None or not message.topic.startswith(limits.RETRY_PREFIX):
            return message
        name = message.topic.removeprefix(limits.RETRY_PREFIX)
        group = self._state.groups.get(name)
        if group is None:
            return message
        # The count has the attempt that has just failed, unlike that of a message that is sent back (seen on 5.5.0).
        if not is_locked and classic.reconsume_times <= _limit(classic.max_reconsume_times, group):
            return message
        topic = self._storage.system_topic(dead_letter_topic(name))
        return replace(message, topic=topic.name, classic=replace(classic, queue_id=0, delay=None))

    def _marked(self, message: StoredMessage, request: SendBack, level: int) -> StoredMessage:
        content = message.content
        marks = {
            "REAL_TOPIC": plain_retry_topic(request.group),
            "REAL_QID": "0",
            "DELAY": str(level),
            "WAIT": "false",
        }
        classic = with_origin(content.classic, content.topic, request.origin_id or content.message_id, marks)
        return replace(message, content=replace(content, classic=classic))

    def _on_due(self, retry: _Retry) -> None:
        message = retry.message
        topic = self._storage.system_topic(plain_retry_topic(retry.group))
        stored = self._storage.append(
            topic,
            0,
            message.content,
            message.message_type,
            StoredAs.RETRY,
            attempts_before=message.attempts_before + 1,
        )
        self._storage.announce(topic, stored)


def _limit(wanted: int | None, group: Group) -> int:
    """Return how many failed attempts a message may have before it is given up."""
    if wanted is not None and wanted >= 0:
        return wanted
    return group.config.max_attempts - 1
