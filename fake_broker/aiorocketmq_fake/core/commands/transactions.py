"""Transactions: half messages that wait for commit or rollback (9.1, 9.2)."""

from collections.abc import Callable
from dataclasses import replace

from aiorocketmq_fake.core.commands.checks import Checks
from aiorocketmq_fake.core.commands.storing import Storage
from aiorocketmq_fake.core.records.half_messages import HalfMessage, HalfMessages
from aiorocketmq_fake.core.records.topics import Topic
from aiorocketmq_fake.core.state import State, milliseconds, milliseconds_up
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.codes import Code, MessageType, Refusal, Resolution
from aiorocketmq_fake.core.values.events import DecidedAgain, Prepared, StoredAs, TransactionEnded
from aiorocketmq_fake.core.values.model import EndTransactionRequest, OutgoingMessage

Delay = Callable[[Topic, int, OutgoingMessage, MessageType, str], str]
"""Stores a message until its delivery time."""


class Transactions:
    """The commands of transactions."""

    def __init__(
        self, state: State, storage: Storage, half_messages: HalfMessages, checks: Checks, delay: Delay
    ) -> None:
        self._state = state
        self._storage = storage
        self._half_messages = half_messages
        self._checks = checks
        self._delay = delay

    def __len__(self) -> int:
        return len(self._half_messages)

    def prepare(
        self, topic: Topic, queue_id: int, content: OutgoingMessage, client_id: str
    ) -> tuple[str, int]:
        """Store a half message; return the transaction id, which is the message's (9.1), and a meaningless offset."""
        state = self._state
        if state.profile.internal_properties_leak:
            content = self._marked(content)
        half = HalfMessage(topic, queue_id, content, state.now, self._half_messages.next_offset())
        self._half_messages.add(half)
        until = state.now + milliseconds(state.profile.transaction_memory)
        self._half_messages.await_decision(half, until, state.now)
        self._checks.watch(half)
        state.events.append(Prepared(state.at, content, client_id, None))
        return content.message_id, half.offset

    def end(self, request: EndTransactionRequest) -> None:
        """Commit, roll back, or only use up the pending decision of the producer (9.2)."""
        state = self._state
        state.check_topic(request.topic)
        if not request.transaction_id.strip():
            raise Refusal(Code.INVALID_TRANSACTION_ID, "The transaction id is blank.")
        key = (request.topic, request.transaction_id)
        half = self._half_messages.awaits(key, state.now)
        if half is None or (half.ended and not state.profile.decisions_repeat):
            raise Refusal(
                state.profile.unknown_transaction_code,
                f"The transaction {request.transaction_id[:80]!r} on topic {request.topic} is not known (any more).",
            )
        self._half_messages.take_decision(key, state.now)
        if not half.ended:
            self.decide(half, request)
        elif request.resolution is Resolution.COMMIT:
            state.events.append(
                DecidedAgain(state.at, request.topic, request.transaction_id, request.client_id)
            )
            self._commit(half, request)

    def forget_decisions(self) -> None:
        """Drop the pending decisions: the proxy lost its memory (R12.7)."""
        self._half_messages.forget_decisions()

    def forget_topic(self, topic_name: str) -> None:
        """Drop the half messages of a deleted topic."""
        for half in self._half_messages.of_topic(topic_name):
            self._checks.leave(half)
        self._half_messages.forget_topic(topic_name)

    def decide(self, half: HalfMessage, request: EndTransactionRequest) -> None:
        """Apply a producer's decision to an open half message."""
        state = self._state
        state.events.append(
            TransactionEnded(
                state.at,
                request.topic,
                request.transaction_id,
                request.client_id,
                request.resolution,
                request.from_check,
            )
        )
        if request.resolution is Resolution.UNSPECIFIED:
            return
        self._checks.leave(half)
        self._half_messages.remove(half, state.now)
        if request.resolution is Resolution.COMMIT:
            self._commit(half, request)

    def _commit(self, half: HalfMessage, request: EndTransactionRequest) -> None:
        state = self._state
        timestamp = half.content.delivery_timestamp
        if timestamp is not None and milliseconds_up(timestamp) > state.now:
            if not state.profile.delayed_transactions_vanish:
                self._delay(
                    half.topic, half.queue_id, half.content, MessageType.TRANSACTION, request.client_id
                )
            return
        stored = self._storage.append(
            half.topic,
            half.queue_id,
            half.content,
            MessageType.TRANSACTION,
            StoredAs.COMMITTED,
            client_id=request.client_id,
            transaction_id=request.transaction_id,
        )
        self._storage.announce(half.topic, stored)

    def _marked(self, content: OutgoingMessage) -> OutgoingMessage:
        """Add the internal properties that become visible (session §6)."""
        properties = {**content.properties, limits.TRANSACTION_ID_PROPERTY: content.message_id}
        if content.recovery_duration is not None:
            properties[limits.IMMUNITY_PROPERTY] = str(int(content.recovery_duration))
        return replace(content, properties=properties)
