from .admin import (
    Admin as Admin,
    ExponentialBackoff as ExponentialBackoff,
    GroupMember as GroupMember,
    GroupSettings as GroupSettings,
    ProducerClient as ProducerClient,
    QueueProgress as QueueProgress,
    QueueRange as QueueRange,
    QueueSpan as QueueSpan,
    TopicDescription as TopicDescription,
    TopicRoute as TopicRoute,
    TopicSettings as TopicSettings,
    TopicType as TopicType,
)
from .allocation import (
    Averagely as Averagely,
    AveragelyByCircle as AveragelyByCircle,
    Configured as Configured,
    ConsistentHash as ConsistentHash,
    MachineRoom as MachineRoom,
    MachineRoomNearby as MachineRoomNearby,
)
from .clock import Clock as Clock, ClockUser as ClockUser, Timer as Timer
from .config import (
    CacheLimits as CacheLimits,
    Compression as Compression,
    Credentials as Credentials,
    Retry as Retry,
    Timeouts as Timeouts,
    Tls as Tls,
)
from .connection import (
    Connection as Connection,
    ConnectionOptions as ConnectionOptions,
    Environment as Environment,
)
from .deduplication import (
    Claim as Claim,
    DeduplicationHook as DeduplicationHook,
    DeduplicationStore as DeduplicationStore,
    MemoryStore as MemoryStore,
    RedisStore as RedisStore,
    SqliteStore as SqliteStore,
)
from .errors import (
    BackgroundTaskError as BackgroundTaskError,
    BusyError as BusyError,
    ClosedError as ClosedError,
    CredentialsProviderError as CredentialsProviderError,
    GroupNotFoundError as GroupNotFoundError,
    IllegalDurationError as IllegalDurationError,
    IllegalFilterError as IllegalFilterError,
    IllegalMessageError as IllegalMessageError,
    IllegalNameError as IllegalNameError,
    LeaseLostError as LeaseLostError,
    MalformedAnswerError as MalformedAnswerError,
    MessageTooLargeError as MessageTooLargeError,
    NotFoundError as NotFoundError,
    NotSupportedError as NotSupportedError,
    OffsetNotFoundError as OffsetNotFoundError,
    PayloadError as PayloadError,
    PermissionDeniedError as PermissionDeniedError,
    QueueRevokedError as QueueRevokedError,
    QuotaExceededError as QuotaExceededError,
    RefusedError as RefusedError,
    RocketMQError as RocketMQError,
    ServerError as ServerError,
    SessionLostError as SessionLostError,
    TopicNotFoundError as TopicNotFoundError,
    TopicUnavailableError as TopicUnavailableError,
    TransactionLostError as TransactionLostError,
    TransactionUnconfirmedError as TransactionUnconfirmedError,
    TypeMismatchError as TypeMismatchError,
    UnreachableError as UnreachableError,
    UsageError as UsageError,
)
from .health import Health as Health
from .hooks import Hook as Hook
from .many import AckManyError as AckManyError, SendManyError as SendManyError
from .message import (
    Message as Message,
    MessageFields as MessageFields,
    MessageQueue as MessageQueue,
    MessageType as MessageType,
    ReceivedMessage as ReceivedMessage,
    SendReceipt as SendReceipt,
)
from .otel import OpenTelemetryHook as OpenTelemetryHook
from .payload import (
    Codec as Codec,
    JsonCodec as JsonCodec,
    MsgspecCodec as MsgspecCodec,
    PydanticCodec as PydanticCodec,
)
from .producer import Producer as Producer
from .pull_consumer import (
    Broadcast as Broadcast,
    Offset as Offset,
    PullBatch as PullBatch,
    PullConsumer as PullConsumer,
    RebalanceListener as RebalanceListener,
)
from .push_consumer import (
    DeadLetter as DeadLetter,
    PushConsumer as PushConsumer,
    PushStatistics as PushStatistics,
    RetryLater as RetryLater,
)
from .recording import Recorder as Recorder
from .redrive import DeadLetterFilter as DeadLetterFilter, Redriven as Redriven
from .simple_consumer import SimpleConsumer as SimpleConsumer
from .subscription import Sql as Sql, Tags as Tags, dead_letters as dead_letters
from .transaction import Resolution as Resolution, Transaction as Transaction
