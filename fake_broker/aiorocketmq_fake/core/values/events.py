"""Events: one frozen value for everything that happens, in order.

Recorder, metrics, CLI and tests all read this one stream. `at` is Unix seconds with a resolution of a millisecond, on
the broker's clock. `topic` is always the topic the message was sent to; the physical topic of a copy is
`message.topic` (`%RETRY%…` for redeliveries of normal groups).
"""

from enum import Enum

from aiorocketmq_fake.core.values.choices import DiskStage
from aiorocketmq_fake.core.values.codes import ClientType, Code, Resolution
from aiorocketmq_fake.core.values.frozen import value
from aiorocketmq_fake.core.values.model import (
    Delivery,
    FilterExpression,
    GroupConfig,
    OutgoingMessage,
    StoredMessage,
    TopicConfig,
)


class LeaseEnd(Enum):
    """Why a lease ended without an ack."""

    EXPIRED = "its time was over"
    UNDELIVERED = "the delivery could not be written to its receiver (R5.7)"
    FORWARDED = "its message went to the dead-letter topic"
    REPEATED = "the same receive was asked again (R8.14)"
    RESET = "the group's offset was reset"
    DELETED = "its topic or group was deleted"


class StoredAs(Enum):
    """Why a copy of a message was stored."""

    SENT = "a producer sent it"
    DUE = "its delivery time came"
    COMMITTED = "its transaction was committed"
    RETRY = "a normal group failed to consume it"
    DEAD_LETTER = "a group gave it up"


@value
class Stored:
    """A message became part of a queue."""

    at: float
    message: StoredMessage
    client_id: str
    """Who sent it; empty for copies made by the broker."""
    reason: StoredAs


@value
class Prepared:
    """A message was accepted but is not yet visible: delayed (`due`) or waiting for its transaction (`due`
    None)."""

    at: float
    message: OutgoingMessage
    client_id: str
    due: float | None


@value
class Recalled:
    """A delayed message was recalled; `effective` False if no message matched."""

    at: float
    topic: str
    message_id: str
    client_id: str
    effective: bool


@value
class TransactionEnded:
    """A half message was committed or rolled back."""

    at: float
    topic: str
    transaction_id: str
    client_id: str
    resolution: Resolution
    from_check: bool


@value
class DecidedAgain:
    """A transaction that had ended was committed by one more decision: its message is stored again (R9.11).

    Only where the profile's `decisions_repeat` allows it; the next `Stored` event is that copy."""

    at: float
    topic: str
    transaction_id: str
    client_id: str


@value
class TransactionChecked:
    """A producer was asked for the outcome of a transaction; with an empty `client_id` there was none, and the check
    is lost (R9.8)."""

    at: float
    message: OutgoingMessage
    transaction_id: str
    client_id: str
    check: int
    """Number of this check, from 1."""


@value
class TransactionGivenUp:
    """A half message was dropped without a decision: too many checks, or too old (R9.7)."""

    at: float
    message: OutgoingMessage
    transaction_id: str
    checks: int
    """Number of its checks."""


@value
class ReceiveEnded:
    """A receive was answered; `deliveries` of `Delivered` events with the same `batch`, perhaps none."""

    at: float
    group: str
    topic: str
    client_id: str
    batch: int
    asked_at: float
    filter: FilterExpression
    code: Code
    messages: int
    cancelled: bool = False
    """The caller disconnected; messages taken nevertheless are released or stay leased, by profile (R5.7)."""


@value
class Delivered:
    """A message was delivered to a consumer under a lease. Precedes the `ReceiveEnded` of its batch."""

    at: float
    group: str
    client_id: str
    delivery: Delivery
    invisible: float
    """Length of the lease, seconds."""
    auto_renew: bool
    batch: int
    position: int
    """Position in the answer, from 0."""
    receive_attempt: str
    """Attempt id of the receive, empty when it had none."""
    filter: FilterExpression


@value
class Acked:
    """A consumer acknowledged a message and the answer was OK.

    `effective` is False if it settled nothing: acked before, wrong group, superseded or altered handle. Then
    `message` may be unknown (None) and `first_handle` is empty.
    """

    at: float
    group: str
    topic: str
    client_id: str
    message_id: str
    receipt_handle: str
    first_handle: str
    """The handle of the delivery."""
    message: StoredMessage | None
    attempt: int
    effective: bool


@value
class LeaseChanged:
    """A lease got a new end and a new handle, by its consumer or (`renewal`) by the server."""

    at: float
    group: str
    client_id: str
    message: StoredMessage
    attempt: int
    receipt_handle: str
    """The new one."""
    previous_handle: str
    first_handle: str
    invisible: float
    """New length, seconds from `at`."""
    renewal: bool
    counts: bool = True
    """Whether the redelivery after it counts as an attempt."""


@value
class Resurrected:
    """A change made one more lease, as its handle reached no present one: the message will be redelivered (R6.12,
    O6)."""

    at: float
    group: str
    client_id: str
    message: StoredMessage
    receipt_handle: str
    previous_handle: str
    invisible: float


@value
class LeaseEnded:
    """A lease ended without an ack."""

    at: float
    group: str
    client_id: str
    message: StoredMessage
    attempt: int
    receipt_handle: str
    first_handle: str
    reason: LeaseEnd


@value
class Revived:
    """A message became visible again after its lease ended; `attempt` is that of its next delivery."""

    at: float
    group: str
    message: StoredMessage
    attempt: int


@value
class Filtered:
    """A message was skipped for the whole group because the receiver's filter rejected it (R5.21)."""

    at: float
    group: str
    message: StoredMessage


@value
class DeadLettered:
    """A message was moved to the group's dead-letter topic; `by_client` if a consumer forwarded it."""

    at: float
    group: str
    message: StoredMessage
    attempt: int
    """Number of its last delivery."""
    by_client: bool


@value
class WrongMessageDeadLettered:
    """The forward of a changed handle copied the log's first message and lost the meant one (consumption
    §1)."""

    at: float
    group: str
    message: StoredMessage
    """The message that is lost."""
    copied: StoredMessage


@value
class OffsetCommitted:
    """The stored offset of a group was set by a consumer, or by the progress of an ordered group."""

    at: float
    group: str
    topic: str
    queue_id: int
    offset: int


@value
class OffsetReset:
    """The stored offset of a group was moved by an administrator."""

    at: float
    group: str
    topic: str
    queue_id: int
    offset: int


class DeletedFor(Enum):
    """Why messages were deleted."""

    AGE = "they were kept as long as they had to be"
    ROOM = "the disk was nearly full"


@value
class MessagesDeleted:
    """Messages of one queue were deleted, read or not: from `first_offset` up to before `min_offset` (R11.2)."""

    at: float
    topic: str
    """The physical topic."""
    queue_id: int
    first_offset: int
    min_offset: int
    """The first offset of the queue now."""
    reason: DeletedFor


@value
class NotRevived:
    """A lease ended without ack after its message was deleted: the group lost it (R11.3)."""

    at: float
    group: str
    message: StoredMessage


@value
class RetentionChanged:
    """An administrator set how long messages are kept, or how full the disk is."""

    at: float
    retention: float
    disk_used: float
    stage: DiskStage


@value
class PollParked:
    """A receive or pull found no message and was parked."""

    at: float
    poll_id: int
    group: str
    topic: str
    client_id: str
    until: float


@value
class LiteSubscribed:
    """The subscriptions of a client to lite topics of a parent changed."""

    at: float
    client_id: str
    group: str
    topic: str
    names: tuple[str, ...]
    """Its subscriptions from now on."""


@value
class LiteTopicEnded:
    """A lite topic expired without writes, and was removed with its messages."""

    at: float
    topic: str
    lite_topic: str
    messages: int


@value
class ClientJoined:
    """A client's settings were stored for the first time, or again after it had left."""

    at: float
    client_id: str
    client_type: ClientType
    group: str


@value
class ClientLeft:
    """A client terminated, or (`expired`) sent no heartbeat for too long."""

    at: float
    client_id: str
    client_type: ClientType
    group: str
    expired: bool


@value
class SentBack:
    """A member of a classic group returned a message; the next copy is in the retry topic at `due`."""

    at: float
    group: str
    message: StoredMessage
    client_id: str
    due: float


@value
class QueueLocked:
    """A member of a classic group locked a free queue."""

    at: float
    group: str
    topic: str
    queue_id: int
    client_id: str


@value
class QueueUnlocked:
    """A member released its lock on a queue; an expiry has no event."""

    at: float
    group: str
    topic: str
    queue_id: int
    client_id: str


@value
class TopicChanged:
    """A topic was created, updated or (`deleted`) removed."""

    at: float
    config: TopicConfig
    deleted: bool


@value
class GroupChanged:
    """A consumer group was created, updated or (`deleted`) removed."""

    at: float
    config: GroupConfig
    steps: tuple[float, ...]
    """The retry intervals in force, empty when they grow exponentially."""
    order_grain: str
    """Value of the profile's `OrderGrain`."""
    deleted: bool


@value
class UserChanged:
    """A user was added, replaced or (`deleted`) removed; without the secret."""

    at: float
    access_key: str
    deleted: bool


@value
class Refused:
    """A command, or one entry of an ack, was refused; nothing else changed."""

    at: float
    command: str
    client_id: str
    code: Code
    message: str


Event = (
    Stored
    | Prepared
    | Recalled
    | TransactionEnded
    | DecidedAgain
    | TransactionChecked
    | TransactionGivenUp
    | ReceiveEnded
    | Delivered
    | Acked
    | LeaseChanged
    | Resurrected
    | LeaseEnded
    | Revived
    | Filtered
    | DeadLettered
    | WrongMessageDeadLettered
    | OffsetCommitted
    | OffsetReset
    | MessagesDeleted
    | NotRevived
    | RetentionChanged
    | PollParked
    | LiteSubscribed
    | LiteTopicEnded
    | ClientJoined
    | ClientLeft
    | SentBack
    | QueueLocked
    | QueueUnlocked
    | TopicChanged
    | GroupChanged
    | UserChanged
    | Refused
)
