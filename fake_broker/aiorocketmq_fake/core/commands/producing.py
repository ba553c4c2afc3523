"""Producing: sending messages and batches to queues (4)."""

from __future__ import annotations

from dataclasses import replace

from aiorocketmq_fake.core.commands.delays import Delays
from aiorocketmq_fake.core.commands.lite_topics import LiteTopics
from aiorocketmq_fake.core.commands.storing import Storage
from aiorocketmq_fake.core.commands.transactions import Transactions
from aiorocketmq_fake.core.commands.validation import (
    check_classic,
    check_encoded,
    check_message,
    check_same_topic,
    check_type,
    message_type,
)
from aiorocketmq_fake.core.records.topics import Topic
from aiorocketmq_fake.core.state import State, milliseconds_up
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.choices import BatchReceipt
from aiorocketmq_fake.core.values.codes import Code, Encoding, MessageType, Refusal
from aiorocketmq_fake.core.values.events import StoredAs
from aiorocketmq_fake.core.values.model import OutgoingMessage, SendOutcome, StoredMessage
from aiorocketmq_fake.core.values.names import is_internal
from aiorocketmq_fake.core.values.placement import queue_of_group

# Aliases of enum members: attribute access on the enum is ten times slower, for every message.
_OK = Code.OK
_TRANSACTION, _PRIORITY, _NORMAL = MessageType.TRANSACTION, MessageType.PRIORITY, MessageType.NORMAL
_GZIP, _IDENTITY = Encoding.GZIP, Encoding.IDENTITY
_SENT = StoredAs.SENT


class Producing:
    """The send command."""

    def __init__(
        self, state: State, storage: Storage, delays: Delays, transactions: Transactions, lite: LiteTopics
    ) -> None:
        self._lite = lite
        self._state = state
        self._storage = storage
        self._delays = delays
        self._transactions = transactions

    def send(self, messages: tuple[OutgoingMessage, ...], client_id: str) -> tuple[SendOutcome, ...]:
        """Check all messages, then store them (4.1, 4.6)."""
        topic = self._check(messages)
        fresh: list[StoredMessage] = []
        if len(messages) == 1:
            message = messages[0]
            kind = message_type(message)
            queue_id = self._queue(topic, message, kind)
            outcomes: tuple[SendOutcome, ...] = (
                self._accept(topic, queue_id, message, kind, client_id, fresh),
            )
        else:
            outcomes = self._send_batch(topic, messages, client_id, fresh)
        # Announced after the whole batch is stored, so that a waiter receives all of it.
        for stored in fresh:
            self._storage.announce(topic, stored)
        return outcomes

    # Checks

    def _check(self, messages: tuple[OutgoingMessage, ...]) -> Topic:
        state = self._state
        profile = state.profile
        if not messages:
            raise Refusal(Code.MESSAGE_CORRUPTED, "The request holds no message.")
        name = messages[0].topic
        state.check_topic(name)
        check_same_topic(messages)
        now = state.now / 1000
        is_classic = messages[0].classic is not None
        for message in messages:
            (check_classic if is_classic else check_message)(message, now, profile)
        topic = state.topics.get(name)
        if topic is None:
            internal = is_internal(name)
            code = profile.unknown_internal_topic_code if internal else profile.unknown_topic_send_code
            if is_classic:
                code = Code.TOPIC_NOT_FOUND
            raise Refusal(code, f"The topic {name} does not exist.")
        if is_classic:
            self._check_classic(topic, messages)
            return topic
        if profile.types_checked and not is_internal(name):
            check_type(messages[0], topic.config.type)
            if not profile.batch_is_one_block:
                for message in messages[1:]:
                    check_type(message, topic.config.type)
        self._check_room()
        if not topic.config.permission.writable or not topic.config.write_queues:
            raise Refusal(Code.FORBIDDEN, f"The topic {name} has no writable queue.")
        if topic.config.lite_limit:
            for message in messages:
                self._lite.admit(topic, message.lite_topic)
        for message in messages:
            check_encoded(message, profile.store_refusal_code)
            if message.priority is not None and message.priority < 0:
                raise Refusal(profile.store_refusal_code, f"The priority {message.priority} is negative.")
        if len(messages) > 1 and profile.batch_is_one_block:
            self._check_block(messages)
        return topic

    def _check_room(self) -> None:
        if self._state.store_full:
            raise Refusal(Code.INTERNAL_SERVER_ERROR, "The disk is nearly full; nothing is stored any more.")

    def _check_classic(self, topic: Topic, messages: tuple[OutgoingMessage, ...]) -> None:
        """Brokers check neither the type of a topic nor its permission (live remoting 3)."""
        self._check_room()
        for message in messages:
            check_encoded(message, Code.MESSAGE_PROPERTIES_TOO_LARGE)
        chosen = messages[0].classic.queue_id if messages[0].classic is not None else -1
        if chosen >= topic.config.write_queues:
            raise Refusal(Code.BAD_REQUEST, f"The topic {topic.name} has no queue {chosen} to write to.")

    def _check_block(self, messages: tuple[OutgoingMessage, ...]) -> None:
        profile = self._state.profile
        code = profile.store_refusal_code
        if sum(len(message.body) for message in messages) + 100 * len(messages) > profile.body_max:
            raise Refusal(code, f"The bodies of the batch exceed {profile.body_max} bytes together.")
        if any(message.delivery_timestamp is not None for message in messages):
            raise Refusal(code, "A batch may not hold delayed messages; send them one by one.")
        if messages[0].message_type is MessageType.TRANSACTION:
            raise Refusal(code, "A batch may not hold transactional messages; send them one by one.")

    # Storing

    def _send_batch(
        self,
        topic: Topic,
        messages: tuple[OutgoingMessage, ...],
        client_id: str,
        fresh: list[StoredMessage],
    ) -> tuple[SendOutcome, ...]:
        state = self._state
        profile = state.profile
        is_classic = messages[0].classic is not None
        common = self._queue(topic, messages[0], _NORMAL) if is_classic else self._any_queue(topic)
        outcomes = []
        for message in messages:
            kind = message_type(message)
            if is_classic:
                outcomes.append(self._store(topic, common, message, kind, client_id, fresh))
            elif profile.batch_is_one_block:
                # The block has one flag for compression, that of its first message (session §4.7).
                if message.encoding is not messages[0].encoding:
                    message = replace(message, encoding=messages[0].encoding)
                outcomes.append(self._store(topic, common, message, kind, client_id, fresh))
            else:
                placed = kind in (MessageType.FIFO, MessageType.PRIORITY) or message.message_group
                queue_id = self._queue(topic, message, kind) if placed else common
                outcomes.append(self._accept(topic, queue_id, message, kind, client_id, fresh))
        if is_classic or profile.batch_receipt is BatchReceipt.PER_MESSAGE:
            return tuple(outcomes)
        if profile.batch_receipt is BatchReceipt.SINGLE_FRESH_ID:
            message_id = f"FD{state.rng.getrandbits(120):030X}"
        else:
            message_id = ",".join(message.message_id for message in messages)
        return (replace(outcomes[0], message_id=message_id),)

    def _accept(
        self,
        topic: Topic,
        queue_id: int,
        message: OutgoingMessage,
        kind: MessageType,
        client_id: str,
        fresh: list[StoredMessage],
    ) -> SendOutcome:
        """Store a message by its type: at once, later, or when its transaction is committed."""
        if kind is _TRANSACTION:
            content = self._content(message)
            transaction_id, offset = self._transactions.prepare(topic, queue_id, content, client_id)
            delayed = (
                content.delivery_timestamp is not None and self._state.profile.delayed_transactions_vanish
            )
            handle = self._delays.handle(content) if delayed else ""
            return SendOutcome(Code.OK, message.message_id, transaction_id, offset, queue_id, handle, offset)
        timestamp = message.delivery_timestamp
        if timestamp is not None and milliseconds_up(timestamp) > self._state.now:
            handle = self._delays.add(topic, queue_id, self._content(message), kind, client_id)
            return SendOutcome(
                Code.OK,
                message.message_id,
                self._transaction_id(message),
                self._state.next_serial(),
                queue_id,
                handle,
            )
        return self._store(topic, queue_id, message, kind, client_id, fresh)

    def _store(
        self,
        topic: Topic,
        queue_id: int,
        message: OutgoingMessage,
        kind: MessageType,
        client_id: str,
        fresh: list[StoredMessage],
    ) -> SendOutcome:
        stored = self._storage.append(
            topic,
            queue_id,
            self._content(message),
            kind,
            _SENT,
            client_id=client_id,
            attempts_before=message.classic.reconsume_times if message.classic is not None else 0,
        )
        fresh.append(stored)
        transaction_id = self._transaction_id(message)
        return SendOutcome(
            _OK, message.message_id, transaction_id, stored.offset, queue_id, "", stored.position
        )

    def _transaction_id(self, message: OutgoingMessage) -> str:
        return message.message_id if self._state.profile.transaction_id_always else ""

    def _content(self, message: OutgoingMessage) -> OutgoingMessage:
        """Return a message as consumers will see it (R4.2-R4.4)."""
        profile = self._state.profile
        born = message.born_timestamp
        if born is None:
            born = 0.0 if profile.missing_born_time_is_zero else self._state.at
        keys = message.keys
        if keys:
            if profile.keys_split_at_spaces:
                keys = tuple(" ".join(keys).split())
            elif "" in keys:
                keys = tuple(filter(None, keys))
        properties = message.properties
        if properties and profile.empty_properties_vanish:
            properties = {key: value for key, value in properties.items() if key and value}
        if profile.internal_properties_leak and (message.message_group or message.trace_context):
            properties = dict(properties)
            if message.message_group:
                properties[limits.MESSAGE_GROUP_PROPERTY] = message.message_group
            if message.trace_context:
                properties[limits.TRACE_CONTEXT_PROPERTY] = message.trace_context
        encoding = _GZIP if message.encoding is _GZIP else _IDENTITY
        if (
            born == message.born_timestamp
            and keys is message.keys
            and properties is message.properties
            and encoding is message.encoding
            and not message.namespace
        ):
            return message
        return replace(
            message,
            born_timestamp=born,
            keys=keys,
            properties=properties,
            encoding=encoding,
            namespace="",
        )

    # Queues

    def _queue(self, topic: Topic, message: OutgoingMessage, kind: MessageType) -> int:
        """Choose the queue of a message (R4.8, R4.28)."""
        queues = topic.config.write_queues
        if kind is _PRIORITY and message.priority is not None:
            return min(message.priority, queues - 1)
        if message.classic is not None:
            return message.classic.queue_id if message.classic.queue_id >= 0 else self._any_queue(topic)
        if message.message_group:
            return queue_of_group(message.message_group, queues)
        return self._any_queue(topic)

    def _any_queue(self, topic: Topic) -> int:
        # Real servers show no pattern here (session §4.6), hence a random queue.
        queues = topic.config.write_queues
        return int(self._state.rng.random() * queues) if queues > 1 else 0
