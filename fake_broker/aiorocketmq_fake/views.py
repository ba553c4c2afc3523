"""Flat views of a broker for tests, the same from a broker in this process and over the control service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aiorocketmq_fake.core.values.events import Delivered
from aiorocketmq_fake.core.values.model import StoredMessage
from aiorocketmq_fake.core.values.snapshots import (
    ClientSnapshot,
    GroupSnapshot,
    HalfSnapshot,
    Lease,
    Progress,
    TopicSnapshot,
)

__all__ = ["Client", "DeliveredMessage", "Group", "HalfMessage", "Lease", "Message", "Progress", "Topic"]


@dataclass(frozen=True, slots=True)
class Message:
    """One stored copy of a message. Instants are Unix seconds on the broker's clock."""

    topic: str
    """The topic it was sent to; dead letters keep their source topic."""
    body: bytes
    message_id: str
    tag: str
    keys: tuple[str, ...]
    properties: Mapping[str, str]
    message_group: str
    type: str
    """NORMAL, FIFO, DELAY, TRANSACTION, …"""
    queue: int
    offset: int
    stored_at: float
    born_at: float
    deliver_at: float | None
    """The requested delivery time; None for at once."""

    @classmethod
    def of(cls, stored: StoredMessage) -> Message:
        """Return the view of a message of the core."""
        content = stored.content
        return cls(
            topic=stored.origin_topic or content.topic,
            body=content.body,
            message_id=content.message_id,
            tag=content.tag,
            keys=content.keys,
            properties=dict(content.properties),
            message_group=content.message_group,
            type=stored.message_type.name,
            queue=stored.queue_id,
            offset=stored.offset,
            stored_at=stored.store_timestamp,
            born_at=content.born_timestamp or 0.0,
            deliver_at=content.delivery_timestamp,
        )


@dataclass(frozen=True, slots=True)
class HalfMessage:
    """A message of an open transaction: sent, and neither committed nor rolled back."""

    topic: str
    body: bytes
    message_id: str
    transaction_id: str
    checks: int
    """Number of transaction checks."""

    @classmethod
    def of(cls, half: HalfSnapshot) -> HalfMessage:
        """Return the view of a half message of the core."""
        content = half.message
        return cls(half.topic, content.body, content.message_id, half.transaction_id, half.checks)


@dataclass(frozen=True, slots=True)
class DeliveredMessage:
    """One delivery of one message to one consumer."""

    at: float
    topic: str
    group: str
    client_id: str
    message_id: str
    attempt: int
    queue: int
    offset: int
    receipt_handle: str
    body: bytes
    message: Message

    @classmethod
    def of(cls, event: Delivered) -> DeliveredMessage:
        """Return the view of a delivery of the core."""
        delivery, message = event.delivery, Message.of(event.delivery.message)
        return cls(
            at=event.at,
            topic=delivery.message.content.topic,
            group=event.group,
            client_id=event.client_id,
            message_id=message.message_id,
            attempt=delivery.attempt,
            queue=delivery.queue_id,
            offset=delivery.offset,
            receipt_handle=delivery.receipt_handle,
            body=message.body,
            message=message,
        )


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and the offsets of its queues."""

    name: str
    type: str
    read_queues: int
    write_queues: int
    permission: str
    min_offsets: tuple[int, ...]
    max_offsets: tuple[int, ...]
    is_internal: bool
    """A topic of retries or dead letters."""
    lite_expiration: float | None = None
    """Seconds without writes after which its lite topics expire; None: never."""
    lite_limit: int = 0
    """Maximal number of its lite topics; 0: no limit."""

    @classmethod
    def of(cls, snapshot: TopicSnapshot) -> Topic:
        """Return the view of a topic of the core."""
        config = snapshot.config
        return cls(
            name=config.name,
            type=config.type.value,
            read_queues=config.read_queues,
            write_queues=config.write_queues,
            permission=config.permission.name,
            min_offsets=snapshot.min_offsets,
            max_offsets=snapshot.max_offsets,
            is_internal=snapshot.system,
            lite_expiration=config.lite_expiration,
            lite_limit=config.lite_limit,
        )


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group and its live members."""

    name: str
    ordered: bool
    max_attempts: int
    backoff: tuple[float, ...]
    """Its own retry intervals in seconds; empty for the profile's."""
    client_ids: tuple[str, ...]
    consume_enabled: bool = True
    lite_topic: str = ""
    """The parent topic of the lite topics that it consumes; empty: none."""
    lite_quota: int = 0
    """Lite topics that one client may subscribe to; 0: the profile's number."""
    lite_exclusive: bool = False
    """A lite topic has one subscriber at a time."""

    @classmethod
    def of(cls, snapshot: GroupSnapshot) -> Group:
        """Return the view of a group of the core."""
        config = snapshot.config
        return cls(
            name=config.name,
            ordered=config.ordered,
            max_attempts=config.max_attempts,
            backoff=config.retry_policy.steps if config.retry_policy else (),
            client_ids=snapshot.client_ids,
            consume_enabled=config.consume_enabled,
            lite_topic=config.lite_bind_topic,
            lite_quota=config.lite_quota,
            lite_exclusive=config.lite_exclusive,
        )


@dataclass(frozen=True, slots=True)
class Client:
    """A client with stored settings."""

    client_id: str
    type: str
    """PRODUCER, PUSH_CONSUMER, SIMPLE_CONSUMER, …"""
    group: str
    topics: tuple[str, ...]
    """Topics it publishes to or subscribes to."""
    last_seen: float

    @classmethod
    def of(cls, snapshot: ClientSnapshot) -> Client:
        """Return the view of a client of the core."""
        settings = snapshot.settings
        subscription = settings.subscription
        return cls(
            client_id=snapshot.client_id,
            type=settings.client_type.name,
            group=subscription.group if subscription else "",
            topics=tuple(topic for topic, _ in subscription.filters)
            if subscription
            else settings.topics or (),
            last_seen=snapshot.last_seen,
        )
