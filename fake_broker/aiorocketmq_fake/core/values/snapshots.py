"""Snapshots: frozen results of inspection, taken at one moment."""

from collections.abc import Mapping
from dataclasses import field

from aiorocketmq_fake.core.values.choices import DiskStage
from aiorocketmq_fake.core.values.frozen import value
from aiorocketmq_fake.core.values.model import (
    ClientSettings,
    GroupConfig,
    OutgoingMessage,
    TopicConfig,
)


@value
class TopicSnapshot:
    """A topic and the offsets of its queues."""

    config: TopicConfig
    min_offsets: tuple[int, ...]
    max_offsets: tuple[int, ...]
    system: bool
    """A retry or dead-letter topic."""


@value
class QueueSnapshot:
    """The first and next offset of a queue."""

    min_offset: int
    max_offset: int
    earliest: float | None
    """When its oldest message was stored; None without one."""
    latest: float | None = None
    """When its newest message was stored; None without one."""


@value
class GroupSnapshot:
    """A consumer group and its live members."""

    config: GroupConfig
    auto_created: bool
    client_ids: tuple[str, ...]


@value
class ClientSnapshot:
    """A client with stored settings."""

    client_id: str
    settings: ClientSettings
    last_seen: float


@value
class Lease:
    """A message in flight: delivered to a consumer, and neither acknowledged nor expired."""

    group: str
    topic: str
    queue: int
    offset: int
    message_id: str
    attempt: int
    client_id: str
    receipt_handle: str
    ends_at: float
    """When the lease expires, Unix seconds."""


@value
class HalfSnapshot:
    """A half message: sent in a transaction, neither committed nor rolled back."""

    topic: str
    queue_id: int
    """The queue to which a commit moves it."""
    message: OutgoingMessage
    transaction_id: str
    checks: int
    """Number of checks."""


@value
class OrderSnapshot:
    """What blocks one queue, or one message group of it, in an ordered group (8.3)."""

    group: str
    topic: str
    queue_id: int
    message_group: str
    """Empty if the whole queue is one sequence."""
    attempt_id: str
    offsets: tuple[int, ...]
    acked: tuple[int, ...]
    counts: tuple[int, ...]
    visible_at: tuple[float, ...]
    committed: int


@value
class Progress:
    """Progress of a group in one queue."""

    group: str
    topic: str
    queue: int
    offset: int
    """The next offset that the group has not passed."""
    min_offset: int
    max_offset: int
    lag: int
    """Messages stored but not yet passed; in-flight ones of normal groups count as passed (R10.4)."""


@value
class RetentionSnapshot:
    """Retention in seconds, and the simulated disk usage, 0 to 1."""

    retention: float
    disk_used: float
    stage: DiskStage


@value
class Totals:
    """Numbers of what the broker holds."""

    messages: int = 0
    leases: int = 0
    polls: int = 0
    clients: int = 0
    delayed: int = 0
    half: int = 0
    deadlines: int = 0
    by_topic: Mapping[str, int] = field(default_factory=dict)
