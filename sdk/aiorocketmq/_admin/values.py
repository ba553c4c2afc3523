"""Values of `Admin`: settings of topics and groups, clients, and progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from aiorocketmq._core.route import MessageQueue


class TopicType(Enum):
    """Type of a topic's messages; 5.x servers check it, 4.x servers do not know it."""

    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"
    MIXED = "MIXED"
    PRIORITY = "PRIORITY"
    LITE = "LITE"


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """Delays before redeliveries in seconds, from `initial`, multiplied by `multiplier` each time, up to `maximum`.

    Raises ValueError unless 0 < initial <= maximum and multiplier >= 1."""

    initial: float
    maximum: float
    multiplier: int = 2
    """A whole number."""

    def __post_init__(self) -> None:
        if not 0 < self.initial <= self.maximum or self.multiplier < 1:
            raise ValueError(
                f"{self!r} does not grow: take 0 < initial <= maximum and a multiplier of at least 1"
            )


@dataclass(frozen=True, slots=True)
class QueueRange:
    """The queues that a topic has on one broker: numbers 0 to `readable - 1`, of which `writable` take messages."""

    broker: str
    address: str
    """`host:port` of the broker's master; empty while it is unavailable."""
    readable: int
    writable: int


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """Where a topic lives."""

    topic: str
    queues: tuple[QueueRange, ...]


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """A topic's settings on one broker."""

    broker: str
    """`host:port` of the master."""
    type: TopicType | None
    """None if the server does not know types (4.x), or for one that this library does not know."""
    read_queues: int
    write_queues: int
    readable: bool
    """Whether consumers may read it."""
    writable: bool
    """Whether producers may send to it; brokers themselves do not check that, proxies and clients do."""
    lite_expiration: float | None = None
    """Seconds after their last message when its lite topics expire; None: never, or it is not of type LITE."""


@dataclass(frozen=True, slots=True)
class QueueSpan:
    """The messages of a queue, by offset and by the broker's clock."""

    queue: MessageQueue
    min_offset: int
    """The oldest message that can still be read."""
    max_offset: int
    """The offset of the next message to be stored."""
    earliest: datetime | None
    """When the oldest message was stored; None for an empty queue."""
    latest: datetime | None
    """When the newest message was stored; None for an empty queue."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as its brokers describe it."""

    topic: str
    settings: tuple[TopicSettings, ...]
    """One for each broker that has the topic."""
    queues: tuple[QueueSpan, ...]
    """All queues, sorted by broker and number."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """A consumer group's settings on one broker."""

    broker: str
    """`host:port` of the master."""
    ordered: bool
    """Whether messages are delivered in order; always false on 4.x servers, which do not know it."""
    max_attempts: int
    """Deliveries of a message, the first one included, before it becomes a dead letter."""
    backoff: tuple[float, ...] | ExponentialBackoff | None
    """Seconds before each redelivery, the last repeating; None for the server's own list."""
    consume_enabled: bool
    """Whether the group receives messages at all."""
    lite_topic: str
    """The parent topic of the lite topics that the group is bound to; empty: none."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A consumer of a group that is connected to a broker.

    Brokers keep model, start and subscriptions once for the whole group, as the last heartbeat of a member declared
    them."""

    client_id: str
    address: str
    """The address that it is connected from; for a gRPC client as its proxy reports it."""
    language: str
    broker: str
    """`host:port` of the broker that knows it."""
    version: int
    """The protocol version that it declares; of gRPC clients that of the proxy."""
    model: str
    """CLUSTERING: members share the messages; BROADCASTING: each gets all."""
    start: str
    """Where the group begins in a queue without committed offset, such as CONSUME_FROM_LAST_OFFSET."""
    subscriptions: Mapping[str, str]
    """Filter expressions by topic."""


@dataclass(frozen=True, slots=True)
class ProducerClient:
    """A producer that is connected to a broker."""

    client_id: str
    address: str
    """The address that it is connected from."""
    language: str
    broker: str
    """`host:port` of the broker that knows it."""
    version: int
    """The protocol version that it declares."""


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """A group's progress in one queue."""

    queue: MessageQueue
    offset: int
    """The committed offset: the next message to consume; 0 if nothing was committed. For members at gRPC addresses: the
    next message to deliver."""
    max_offset: int
    """The offset of the next message to be stored."""
    lag: int
    """Messages from `offset` to `max_offset` that are still there, filtered ones included."""
    consumed_at: datetime | None
    """When the last consumed message was stored, by the broker's clock; None if nothing was consumed."""
    client_id: str | None
    """The member that owns the queue; None if there is none, or if it is unknown."""
