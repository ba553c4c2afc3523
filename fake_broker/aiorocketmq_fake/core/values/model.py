"""Arguments and results of commands: frozen, without behaviour, times in Unix seconds, durations in seconds.

An empty string or tuple means "absent" wherever the protocol has an optional field.
"""

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from aiorocketmq_fake.core.values.classic_model import Classic, CloseChannel, MembersChanged
from aiorocketmq_fake.core.values.codes import (
    ClientType,
    Code,
    Encoding,
    FilterType,
    LiteAction,
    MessageType,
    OffsetPolicy,
    Permission,
    Resolution,
    TopicType,
)
from aiorocketmq_fake.core.values.frozen import value

NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})
"""The properties of messages without any: shared, as there may be a million of them."""


def _no_properties() -> Mapping[str, str]:
    return NO_PROPERTIES


# Topics and groups


@value
class TopicConfig:
    """Settings of a topic; read and write queues are 0 to 1024 each."""

    name: str
    type: TopicType = TopicType.NORMAL
    read_queues: int = 8
    write_queues: int = 8
    permission: Permission = Permission.READ_WRITE
    lite_expiration: float | None = None
    """Seconds without writes after which its lite topics expire; None: never (R4.30)."""
    lite_limit: int = 0
    """Maximal number of its lite topics; 0: no limit."""


@value
class RetryPolicy:
    """Retry intervals of a group: a list of `steps`, or exponential when `multiplier` is not 0."""

    steps: tuple[float, ...] = ()
    initial: float = 0.0
    maximum: float = 0.0
    multiplier: float = 0.0


@value
class GroupConfig:
    """Settings of a consumer group."""

    name: str
    ordered: bool = False
    max_attempts: int = 17
    """Deliveries before a message goes to the dead-letter topic: the server's `retryMaxTimes` + 1 (R7.5)."""
    retry_policy: RetryPolicy | None = None
    """None: the profile's table."""
    consume_enabled: bool = True
    lite_bind_topic: str = ""
    """The LITE topic whose lite topics the group consumes (R4.30)."""
    lite_quota: int = 0
    """Lite topics that one client may subscribe to; 0: the profile's number (R4.34)."""
    lite_exclusive: bool = False
    """A lite topic has one subscriber in the group: a new one evicts the one before (R4.34)."""


# Messages


@value
class OutgoingMessage:
    """A message as its producer sent it. `message_type` matters only when it is TRANSACTION (R4.5)."""

    topic: str
    body: bytes
    message_id: str
    tag: str = ""
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=_no_properties)
    message_group: str = ""
    message_type: MessageType = MessageType.UNSPECIFIED
    delivery_timestamp: float | None = None
    born_timestamp: float | None = None
    born_host: str = ""
    encoding: Encoding = Encoding.IDENTITY
    priority: int | None = None
    lite_topic: str = ""
    trace_context: str = ""
    recovery_duration: float | None = None
    """`orphaned_transaction_recovery_duration` of a transactional message."""
    namespace: str = ""
    classic: Classic | None = None
    """Its fields of the classic protocol; None for a message sent over gRPC."""


@value
class StoredMessage:
    """One copy of a message in one queue; redeliveries and dead letters are further copies of the same
    `content`."""

    content: OutgoingMessage
    """As consumers see it: keys and properties as the storage returns them, born time filled in."""
    message_type: MessageType
    topic: str
    """Physical topic; `content.topic` is the one the message was sent to."""
    queue_id: int
    offset: int
    position: int
    """Log position, unique among all copies."""
    store_timestamp: float
    attempts_before: int = 0
    """Deliveries of earlier copies (the server's reconsumeTimes)."""
    origin_topic: str = ""
    """Source topic of a dead letter, if the profile records it."""
    origin_message_id: str = ""
    """Source message id of a dead letter, if the profile records it."""
    transaction_id: str = ""
    first_copy: "StoredMessage | None" = None
    """For a redelivery: the copy that was delivered first, if the profile shows its position."""


@value
class SendOutcome:
    """One entry of the answer to a send."""

    code: Code
    message_id: str
    transaction_id: str
    offset: int
    queue_id: int
    recall_handle: str = ""
    position: int = 0
    """Log position; 0 for a message that is not visible yet."""


@value
class Delivery:
    """One delivery of one message to one consumer.

    Queue, offset and store time to show are here, content in `message`.
    """

    message: StoredMessage
    receipt_handle: str
    attempt: int
    queue_id: int
    offset: int
    store_timestamp: float
    invisible_until: float


# Consuming


@value
class FilterExpression:
    """Which messages a consumer wants; the empty TAG expression and `*` mean all (R5.23)."""

    expression: str = "*"
    type: FilterType = FilterType.TAG


@value
class ReceiveRequest:
    """One ReceiveMessage call."""

    client_id: str
    group: str
    topic: str
    filter: FilterExpression = FilterExpression()
    batch_size: int = 32
    invisible: float | None = None
    auto_renew: bool = False
    polling: float | None = None
    """`long_polling_timeout` of the request; None: from the deadline (5.1 row 3)."""
    remaining_deadline: float | None = None
    """Seconds until the call's gRPC deadline, None when it has none."""
    attempt_id: str = ""
    client_version: str = ""


@value
class Received:
    """Answer to a receive: status and messages, best first."""

    code: Code
    message: str
    deliveries: tuple[Delivery, ...] = ()


@value
class Parked:
    """A parked receive or pull: its answer is the output `PollAnswered` with this id."""

    poll_id: int
    until: float


@value
class AckEntry:
    """One message to acknowledge; the id is only echoed (R6.7)."""

    message_id: str
    receipt_handle: str


@value
class AckRequest:
    """One AckMessage call."""

    client_id: str
    group: str
    topic: str
    entries: tuple[AckEntry, ...]


@value
class AckOutcome:
    """One entry of the answer to an ack, in request order, echoing id and handle of the request (R6.5)."""

    message_id: str
    receipt_handle: str
    code: Code
    message: str


@value
class AckResult:
    """Answer to an ack: the common code, or MULTIPLE_RESULTS when entries differ (R6.6)."""

    code: Code
    entries: tuple[AckOutcome, ...]


@value
class ChangeRequest:
    """One ChangeInvisibleDuration call; `invisible` None counts as 0 (R6.16)."""

    client_id: str
    group: str
    topic: str
    receipt_handle: str
    invisible: float | None = None
    message_id: str = ""
    suspend: bool = False


@value
class ForwardRequest:
    """One ForwardMessageToDeadLetterQueue call."""

    client_id: str
    group: str
    topic: str
    receipt_handle: str
    message_id: str = ""


# Pulling and offsets


@value
class PullRequest:
    """One PullMessage call."""

    client_id: str
    group: str
    topic: str
    queue_id: int
    offset: int
    filter: FilterExpression = FilterExpression()
    batch_size: int = 32
    polling: float | None = None
    remaining_deadline: float | None = None
    classic: bool = False
    """A pull of the classic protocol: its client compares tags itself, and its answer is one frame."""


@value
class Pulled:
    """Answer to a pull; `next_offset` is the next one to pull, also after ILLEGAL_OFFSET (10.1)."""

    code: Code
    message: str
    messages: tuple[StoredMessage, ...]
    next_offset: int


# Sessions


@value
class Subscription:
    """The consumer half of a client's settings."""

    group: str
    filters: tuple[tuple[str, FilterExpression], ...] = ()
    """(topic, filter) pairs; they do not restrict what may be received (R5.1)."""


@value
class ClientSettings:
    """Settings as a client sent them; exactly one of `topics` and `subscription` is not None."""

    client_type: ClientType = ClientType.UNSPECIFIED
    topics: tuple[str, ...] | None = None
    """`publishing.topics`, None when there is no publishing part."""
    subscription: Subscription | None = None
    request_timeout: float | None = None
    fifo: bool = False
    receive_batch_size: int = 0
    long_polling: float = 0.0
    retry_policy: RetryPolicy | None = None
    max_attempts: int = 0
    properties: Mapping[str, str] = field(default_factory=_no_properties)
    """`client_properties`."""
    language: str = ""
    """As the headers of the call declare it."""
    address: str = ""
    """`host:port` that they came from."""


@value
class MergedSettings:
    """The server's settings: overlay these on the client's own, echo all other fields (2.2)."""

    max_attempts: int
    retry_policy: RetryPolicy | None
    max_body_size: int = 0
    """Producers only."""
    validate_message_type: bool = False
    """Producers only."""
    fifo: bool = False
    receive_batch_size: int = 0
    long_polling: float = 0.0
    lite_subscription_quota: int = 0
    """0: the field is not sent."""
    max_lite_topic_size: int = 0
    metric_on: bool = False


# Routes


@value
class RouteEntry:
    """One queue of a route; for an assignment `queue_id` -1 means all queues of the broker (R3.7)."""

    topic: str
    queue_id: int
    permission: Permission
    broker: str
    accepts: tuple[MessageType, ...]


# Transactions


@value
class EndTransactionRequest:
    """One EndTransaction call; the message id is not compared (R9.2)."""

    client_id: str
    topic: str
    transaction_id: str
    resolution: Resolution
    message_id: str = ""
    from_check: bool = False


@value
class OffsetQuery:
    """One QueryOffset call."""

    topic: str
    queue_id: int
    policy: OffsetPolicy
    timestamp: float | None = None


# Lite topics


@value
class LiteStart:
    """Where a new subscriber requests to start; at most one of the three is set, none means the end."""

    is_last: bool = False
    """The group's current position."""
    offset: int | None = None
    """0 is the beginning."""
    tail: int | None = None
    """Number of messages before the end."""
    timestamp: float | None = None


@value
class LiteSyncRequest:
    """One SyncLiteSubscription call."""

    client_id: str
    group: str
    topic: str
    action: LiteAction | None
    """None: an unknown number."""
    names: tuple[str, ...]
    start: LiteStart | None = None


# Outputs: what the broker sends outside of an answer


@value
class PollAnswered:
    """Answer of a parked receive or pull."""

    poll_id: int
    result: Received | Pulled


@value
class RecoverOrphanedTransaction:
    """Ask a producer for the outcome of a transaction (9.3)."""

    message: StoredMessage
    transaction_id: str


@value
class VerifyMessage:
    """Ask a consumer to consume one message on trial (2.3)."""

    nonce: str
    message: StoredMessage


@value
class PrintStackTrace:
    """Ask a client for its stack traces (2.3)."""

    nonce: str


@value
class ReconnectEndpoints:
    """Ask a client to reconnect (2.3)."""

    nonce: str


@value
class NotifyUnsubscribeLite:
    """Notify a consumer that it was unsubscribed from a lite topic (R4.34)."""

    lite_topic: str


Command = (
    RecoverOrphanedTransaction | VerifyMessage | PrintStackTrace | ReconnectEndpoints | NotifyUnsubscribeLite
)


@value
class CommandForClient:
    """Send this on the newest telemetry stream of the client (R2.3)."""

    client_id: str
    command: Command


@value
class CheckHalf:
    """Ask a classic producer for the outcome of a transaction (CHECK_TRANSACTION_STATE)."""

    message: StoredMessage
    """Its offset is the one that a decision must name."""
    checks: int


@value
class ForChannels:
    """Send this on connections of the classic protocol."""

    channels: tuple[int, ...]
    command: MembersChanged | CheckHalf | CloseChannel


Output = PollAnswered | CommandForClient | ForChannels
