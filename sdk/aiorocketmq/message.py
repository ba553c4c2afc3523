"""Messages to send, received messages, and receipts of sent ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from types import MappingProxyType, TracebackType, UnionType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypedDict, TypeVar, Unpack, overload

from aiorocketmq._core.bounds import one_line
from aiorocketmq._core.names import check_topic
from aiorocketmq._core.route import MessageQueue as MessageQueue
from aiorocketmq.errors import PayloadError, UsageError
from aiorocketmq.payload import CONTENT_TYPE, Codec, JsonCodec

if TYPE_CHECKING:
    from aiorocketmq._core.endpoint import Endpoint
    from aiorocketmq._core.lease import Lease, SettlerOf

__all__ = ["Message", "MessageFields", "MessageQueue", "MessageType", "ReceivedMessage", "SendReceipt"]


T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


class MessageType(Enum):
    """Type of a message; a topic accepts one type."""

    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"
    PRIORITY = "PRIORITY"
    LITE = "LITE"


_MAX_PRIORITY = 2**31 - 1
"""The maximum of the wire; servers use as many as a topic has queues."""

_MAX_DELAY = 10**11
"""Seconds, three thousand years: a delivery time must fit 64 bits of microseconds, in recordings as well."""


def _check_number(name: str, value: object, kind: type | UnionType) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")


def _check_text(name: str, value: str) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, not {type(value).__name__}")
    # Spaces inside are allowed; control characters make servers refuse the message (live-broker-session.md, 4.1).
    if not value.strip() or not (value.isprintable() or all(c.isprintable() or c == " " for c in value)):
        raise ValueError(f"{name} {value!r} must not be blank and must not contain control characters")


class MessageFields(TypedDict, total=False):
    """The optional parameters of `Message`."""

    tag: str | None
    keys: str | Iterable[str]
    properties: Mapping[str, str] | None
    message_group: str | None
    delay: float | None
    deliver_at: datetime | None
    priority: int | None
    lite_topic: str | None


@dataclass(frozen=True, slots=True, init=False)
class Message:
    """A message to send.

    `message_group` makes it a FIFO message, `delay` or `deliver_at` a delayed one, `priority` and `lite_topic` one of
    those types; at most one of them may be given. Everything is checked here: ValueError or TypeError for invalid
    values. The size of the body is checked by the producer, which knows the server's limit."""

    topic: str
    body: bytes
    tag: str | None
    """A label that consumers can filter by; without `|`."""
    keys: tuple[str, ...]
    """Words by which the message can be found; servers split them at spaces."""
    properties: Mapping[str, str]
    """Further properties; at most 128 entries and 16 KiB on Apache's servers."""
    message_group: str | None
    """Messages of one group are delivered in the order in which they were stored, to ordered groups."""
    delay: float | None
    """Seconds, 0 to 100,000,000,000, from the send until the message becomes visible to consumers."""
    deliver_at: datetime | None
    """The time from which the message is visible to consumers; an aware datetime."""
    priority: int | None
    """From 0; larger ones are delivered earlier. Brokers before 5.4 ignore it over the remoting protocol."""
    lite_topic: str | None
    """The lite topic below `topic`."""

    def __init__(
        self,
        topic: str,
        body: bytes | bytearray | memoryview,
        *,
        tag: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        message_group: str | None = None,
        delay: float | None = None,
        deliver_at: datetime | None = None,
        priority: int | None = None,
        lite_topic: str | None = None,
    ) -> None:
        check_topic(topic)
        if not isinstance(body, bytes | bytearray | memoryview):
            raise TypeError(f"body must be bytes, not {type(body).__name__}; encode text first")
        if len(body) == 0:
            raise ValueError("body must not be empty: servers refuse a message without one")
        if tag is not None:
            _check_text("tag", tag)
            if "|" in tag:
                raise ValueError(f"tag {tag!r} must not contain '|'")
        put = object.__setattr__  # the way of frozen dataclasses
        put(self, "topic", topic)
        put(self, "body", bytes(body))
        put(self, "tag", tag)
        put(self, "keys", _checked_keys(keys) if keys else ())
        put(self, "properties", _checked_properties(properties) if properties else _NO_PROPERTIES)
        put(self, "message_group", message_group)
        put(self, "delay", delay)
        put(self, "deliver_at", deliver_at)
        put(self, "priority", priority)
        put(self, "lite_topic", lite_topic)
        if self.message_type is not MessageType.NORMAL:
            self._check_kind()

    def _check_kind(self) -> None:
        kinds = ("message_group", "delay", "deliver_at", "priority", "lite_topic")
        kinds_given = [name for name in kinds if getattr(self, name) is not None]
        if len(kinds_given) > 1:
            raise ValueError(
                f"at most one of {', '.join(kinds)} may be given, not {' and '.join(kinds_given)}"
            )
        if self.message_group is not None:
            _check_text("message_group", self.message_group)
        if self.lite_topic is not None:
            _check_text("lite_topic", self.lite_topic)
        if self.delay is not None:
            _check_number("delay", self.delay, int | float)
            if not 0 <= self.delay <= _MAX_DELAY:
                raise ValueError(
                    f"delay must be a number of seconds from 0 to {_MAX_DELAY}, not {self.delay!r}"
                )
        if self.deliver_at is not None:
            if not isinstance(self.deliver_at, datetime):
                raise TypeError(f"deliver_at must be a datetime, not {type(self.deliver_at).__name__}")
            if self.deliver_at.tzinfo is None:
                raise ValueError("deliver_at must be a datetime with a time zone")
        if self.priority is not None:
            _check_number("priority", self.priority, int)
            if not 0 <= self.priority <= _MAX_PRIORITY:
                raise ValueError(
                    f"priority must be an integer from 0 to {_MAX_PRIORITY}, not {self.priority!r}"
                )

    @classmethod
    def json(cls, topic: str, value: object, **fields: Unpack[MessageFields]) -> Self:
        """Make a message with `value` as JSON, of the content type `application/json`.

        `fields` are the other parameters of a message. Raises TypeError or ValueError for values that JSON does not
        have: dates, sets, NaN; dataclasses are written as objects."""
        return cls.encoded(topic, value, JsonCodec(object), **fields)

    @classmethod
    def encoded(cls, topic: str, value: T, codec: Codec[T], **fields: Unpack[MessageFields]) -> Self:
        """Make a message with `value` as `codec` writes it; its content type travels in the property `content-type`.

        Raises what the codec raises, and ValueError if the properties name a content type already."""
        properties = fields.get("properties") or {}
        if CONTENT_TYPE in properties:
            raise ValueError(f"property {CONTENT_TYPE!r} is the codec's: leave it out of properties")
        fields["properties"] = {**properties, CONTENT_TYPE: codec.content_type}
        return cls(topic, codec.encode(value), **fields)

    @property
    def message_type(self) -> MessageType:
        """The type that follows from the arguments; a transaction sends its message as TRANSACTION."""
        if self.message_group is not None:
            return MessageType.FIFO
        if self.delay is not None or self.deliver_at is not None:
            return MessageType.DELAY
        if self.priority is not None:
            return MessageType.PRIORITY
        if self.lite_topic is not None:
            return MessageType.LITE
        return MessageType.NORMAL


def _checked_keys(keys: str | Iterable[str]) -> tuple[str, ...]:
    words = (keys,) if isinstance(keys, str) else tuple(keys)
    for word in words:
        _check_text("key", word)
    return words


def _checked_properties(properties: Mapping[str, str]) -> Mapping[str, str]:
    for key, value in properties.items():
        _check_text("property key", key)
        _check_text(f"property {key!r}", value)
    return MappingProxyType(dict(properties))


@dataclass(frozen=True, slots=True)
class SendReceipt:
    """The server's confirmation that a message is stored."""

    message_id: str
    topic: str
    queue: MessageQueue | None
    """The queue that this client requested; Apache's server chooses by itself and does not return which one."""
    offset: int
    """The offset in its queue."""
    attempts: int = 1
    """How many attempts it took; after more than one it may be stored twice."""
    recall_handle: str | None = None
    """Recalls a delayed message before it is delivered: `producer.recall(receipt)`."""
    transaction_id: str | None = None
    endpoint: str = ""
    """The address of the server that stored it."""


Settler: TypeAlias = "SettlerOf[ReceivedMessage]"


class ReceivedMessage:
    """A message as delivered to a consumer, with methods to settle it.

    Compared by identity: the same stored message delivered twice is two deliveries."""

    __slots__ = (
        "__weakref__",
        "_born_us",
        "_deliver_us",
        "_lease",
        "_lease_ends_us",
        "_rest",
        "_serial",
        "_settler",
        "_source",
        "_step_ended",
        "_stored_us",
        "_wire",
        "attempt",
        "body",
        "born_host",
        "corruption",
        "group",
        "keys",
        "lite_topic",
        "message_group",
        "message_id",
        "message_type",
        "namespace",
        "offset",
        "priority",
        "properties",
        "queue",
        "raw_properties",
        "tag",
        "topic",
        "trace_context",
        "transaction_id",
    )

    topic: str
    body: bytes
    """Decompressed if it was sent compressed."""
    message_id: str
    tag: str | None
    keys: tuple[str, ...]
    properties: Mapping[str, str]
    """The sender's properties, without those that brokers add."""
    raw_properties: Mapping[str, str]
    """All properties as received, those of brokers included."""
    message_group: str | None
    priority: int | None
    lite_topic: str | None
    trace_context: str | None
    transaction_id: str | None
    message_type: MessageType | None
    """None for types that this library does not know."""
    attempt: int
    """How many times it was delivered to the group, counting from 1; 0 if that is not counted (pull)."""
    group: str | None
    """The consumer group it was delivered to."""
    namespace: str
    """The namespace of the consumer's connection, empty without one."""
    queue: MessageQueue
    offset: int
    born_host: str
    corruption: str | None
    """Why the body cannot be trusted, or None: a wrong checksum, or damaged compression."""

    def __init__(
        self,
        *,
        topic: str,
        body: bytes,
        message_id: str,
        queue: MessageQueue,
        offset: int,
        attempt: int = 1,
        group: str | None = None,
        namespace: str = "",
        source: Endpoint | None = None,
        tag: str | None = None,
        keys: tuple[str, ...] = (),
        properties: Mapping[str, str] = _NO_PROPERTIES,
        raw_properties: Mapping[str, str] = _NO_PROPERTIES,
        message_group: str | None = None,
        priority: int | None = None,
        lite_topic: str | None = None,
        trace_context: str | None = None,
        transaction_id: str | None = None,
        message_type: MessageType | None = MessageType.NORMAL,
        born_host: str = "",
        corruption: str | None = None,
        born_us: int | None = None,
        stored_us: int | None = None,
        deliver_us: int | None = None,
        lease: Lease | None = None,
        lease_ends_us: int | None = None,
        settler: Settler | None = None,
    ) -> None:
        self.topic = topic
        self.body = body
        self.message_id = message_id
        self.queue = queue
        self.offset = offset
        self.attempt = attempt
        self.group = group
        self.namespace = namespace
        self._source = source
        self.tag = tag
        self.keys = keys
        self.properties = properties
        self.raw_properties = raw_properties
        self.message_group = message_group
        self.priority = priority
        self.lite_topic = lite_topic
        self.trace_context = trace_context
        self.transaction_id = transaction_id
        self.message_type = message_type
        self.born_host = born_host
        self.corruption = corruption
        self._born_us = born_us
        self._stored_us = stored_us
        self._deliver_us = deliver_us
        self._lease = lease
        self._lease_ends_us = lease_ends_us
        self._settler = settler
        self._step_ended: asyncio.Event | None = None
        self._rest: Callable[[ReceivedMessage], None] | None = None
        self._serial = 0
        self._wire: object | None = None

    if not TYPE_CHECKING:  # type checkers know the fields, and must reject all other names

        def __getattr__(self, name: str) -> object:
            """Called for fields that were not parsed from the wire yet: parses them all.

            Threads may do that at one time, such as a recorder's: all get the same values."""
            rest = None if name == "_rest" else self._rest
            if rest is not None:
                rest(self)
            return object.__getattribute__(self, name)

    def __repr__(self) -> str:
        return (
            f"<ReceivedMessage {self.message_id} of {self.topic!r}, attempt {self.attempt}, "
            f"queue {self.queue.broker}/{self.queue.id}, offset {self.offset}, {len(self.body)} bytes>"
        )

    @overload
    def json(self) -> Any: ...

    @overload
    def json(self, expected: type[T]) -> T: ...

    def json(self, expected: type[Any] = object) -> Any:
        """Return the body's JSON value, which must be `expected`: dict, list, str, … or a dataclass; by default any.

        Raises PayloadError if it is not, or is no JSON."""
        return self.decode(JsonCodec(expected))

    def decode(self, codec: Codec[T]) -> T:
        """Return the body as `codec` reads it.

        Raises PayloadError if the sender named another content type, if the body is damaged, or if it does not fit; a
        message without content type is tried. The message stays in flight: acknowledge it, or let it be retried."""
        if self.corruption is not None:
            raise self._payload_error(f"is damaged: {self.corruption}")
        content_type = self.properties.get(CONTENT_TYPE, codec.content_type)
        if content_type.partition(";")[0].strip().lower() != codec.content_type:
            raise self._payload_error(f"is {content_type}, not {codec.content_type}")
        try:
            return codec.decode(self.body)
        except (TypeError, ValueError, RecursionError) as error:
            raise self._payload_error(f"cannot be decoded: {one_line(str(error))}") from error

    def _payload_error(self, problem: str) -> PayloadError:
        return PayloadError(
            f"the body of message {self.message_id} of topic {self.topic!r} {problem}; {PayloadError.remedy}",
            topic=self.topic,
            group=self.group,
        )

    @property
    def endpoint(self) -> str:
        """The address of the server that delivered it and settles it."""
        return "" if self._source is None else str(self._source)

    @property
    def born_at(self) -> datetime | None:
        """When its sender created it, by the sender's clock."""
        return _instant(self._born_us)

    @property
    def stored_at(self) -> datetime | None:
        """When the broker stored this copy; a redelivered copy is stored again."""
        return _instant(self._stored_us)

    @property
    def deliver_at(self) -> datetime | None:
        """The delivery time that its sender chose."""
        return _instant(self._deliver_us)

    @property
    def lease_ends_at(self) -> datetime | None:
        """When others may receive the message, by this machine's clock; None without a lease."""
        return _instant(self._lease_ends_us)

    @property
    def receipt_handle(self) -> str | None:
        """The newest handle of the lease, opaque; None without a lease."""
        return None if self._lease is None else self._lease.handle

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to do: acknowledged, released, or its lease was lost."""
        return self._lease is None or not self._lease.is_open

    async def ack(self) -> None:
        """Acknowledge the message: its group has processed it.

        Raises LeaseLostError if its lease has expired, in which case it will be redelivered, UsageError for a message
        without a lease, the server's refusal, and UnreachableError. Cancelled or unanswered, it may or may not have
        taken effect; repeating it is harmless (rule R6.8)."""
        await self._settling().ack_one(self)

    async def extend(self, seconds: float) -> None:
        """Hide this message from other consumers for `seconds` (0 to 43,200) from now.

        Raises LeaseLostError if the lease has expired, ValueError out of range, and UsageError after an ack, or after
        an earlier change without an answer, since another change could then copy or revive the message. The receipt
        handle changes and the old one is spent: rule R6.12. Cancelled or unanswered, it may or may not have taken
        effect."""
        await self._settling().change(self, seconds)

    async def release(self) -> None:
        """Release the message: it becomes visible to its group at once (on Apache's servers after 2 to 4 seconds).

        The next delivery counts as one more attempt. Raises as `extend` does. Cancelled or unanswered, the message is
        redelivered when its lease expires at the latest."""
        await self._settling().release(self)

    async def __aenter__(self) -> ReceivedMessage:
        self._settling()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ack on leaving, release on an exception, unless the block settled the message itself."""
        if self.is_settled:
            return
        if kind is None:
            await self.ack()
        else:
            await self._settling().abandon(self)

    async def _turn(self) -> None:
        """Wait until no settling call of this message is in flight: its handles form one serial chain."""
        while self._lease is not None and self._lease.step is not None:
            if self._step_ended is None:
                self._step_ended = asyncio.Event()
            await self._step_ended.wait()

    def _turn_ended(self) -> None:
        """Wake waiters for a turn."""
        if self._step_ended is not None:
            self._step_ended.set()
            self._step_ended = None

    def _settling(self) -> Settler:
        if self._settler is None or self._lease is None:
            raise UsageError(
                f"message {self.message_id} has no lease to settle: "
                "it was not delivered to a SimpleConsumer or PushConsumer",
                topic=self.topic,
                group=self.group,
            )
        return self._settler


def _instant(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else _EPOCH + timedelta(microseconds=microseconds)
