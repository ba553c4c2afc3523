"""aiorocketmq: the asyncio client of RocketMQ 5.

A name is imported from its module when it is first used, so that what needs only one part loads only that part.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiorocketmq.admin import (
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
    from aiorocketmq.allocation import (
        Averagely as Averagely,
        AveragelyByCircle as AveragelyByCircle,
        Configured as Configured,
        ConsistentHash as ConsistentHash,
        MachineRoom as MachineRoom,
        MachineRoomNearby as MachineRoomNearby,
    )
    from aiorocketmq.clock import Clock as Clock, ClockUser as ClockUser, Timer as Timer
    from aiorocketmq.config import (
        CacheLimits as CacheLimits,
        Compression as Compression,
        Credentials as Credentials,
        Retry as Retry,
        Timeouts as Timeouts,
        Tls as Tls,
    )
    from aiorocketmq.connection import (
        Connection as Connection,
        ConnectionOptions as ConnectionOptions,
        Environment as Environment,
    )
    from aiorocketmq.deduplication import (
        Claim as Claim,
        DeduplicationHook as DeduplicationHook,
        DeduplicationStore as DeduplicationStore,
        MemoryStore as MemoryStore,
        RedisStore as RedisStore,
        SqliteStore as SqliteStore,
    )
    from aiorocketmq.errors import (
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
    from aiorocketmq.health import Health as Health
    from aiorocketmq.hooks import Hook as Hook
    from aiorocketmq.many import AckManyError as AckManyError, SendManyError as SendManyError
    from aiorocketmq.message import (
        Message as Message,
        MessageQueue as MessageQueue,
        MessageType as MessageType,
        ReceivedMessage as ReceivedMessage,
        SendReceipt as SendReceipt,
    )
    from aiorocketmq.otel import OpenTelemetryHook as OpenTelemetryHook
    from aiorocketmq.producer import Producer as Producer
    from aiorocketmq.pull_consumer import (
        Broadcast as Broadcast,
        Offset as Offset,
        PullBatch as PullBatch,
        PullConsumer as PullConsumer,
        RebalanceListener as RebalanceListener,
    )
    from aiorocketmq.push_consumer import (
        DeadLetter as DeadLetter,
        PushConsumer as PushConsumer,
        PushStatistics as PushStatistics,
        RetryLater as RetryLater,
    )
    from aiorocketmq.recording import Recorder as Recorder
    from aiorocketmq.simple_consumer import SimpleConsumer as SimpleConsumer
    from aiorocketmq.subscription import (
        Sql as Sql,
        Tags as Tags,
        dead_letters as dead_letters,
    )
    from aiorocketmq.transaction import Resolution as Resolution, Transaction as Transaction

_HOMES = {
    "admin": (
        "Admin",
        "ExponentialBackoff",
        "GroupMember",
        "GroupSettings",
        "ProducerClient",
        "QueueProgress",
        "QueueRange",
        "QueueSpan",
        "TopicDescription",
        "TopicRoute",
        "TopicSettings",
        "TopicType",
    ),
    "allocation": (
        "Averagely",
        "AveragelyByCircle",
        "Configured",
        "ConsistentHash",
        "MachineRoom",
        "MachineRoomNearby",
    ),
    "clock": ("Clock", "ClockUser", "Timer"),
    "config": ("CacheLimits", "Compression", "Credentials", "Retry", "Timeouts", "Tls"),
    "connection": ("Connection", "ConnectionOptions", "Environment"),
    "deduplication": (
        "Claim",
        "DeduplicationHook",
        "DeduplicationStore",
        "MemoryStore",
        "RedisStore",
        "SqliteStore",
    ),
    "errors": (
        "BackgroundTaskError",
        "BusyError",
        "ClosedError",
        "CredentialsProviderError",
        "GroupNotFoundError",
        "IllegalDurationError",
        "IllegalFilterError",
        "IllegalMessageError",
        "IllegalNameError",
        "LeaseLostError",
        "MalformedAnswerError",
        "MessageTooLargeError",
        "NotFoundError",
        "NotSupportedError",
        "OffsetNotFoundError",
        "PermissionDeniedError",
        "QueueRevokedError",
        "QuotaExceededError",
        "RefusedError",
        "RocketMQError",
        "ServerError",
        "SessionLostError",
        "TopicUnavailableError",
        "TopicNotFoundError",
        "TransactionLostError",
        "TransactionUnconfirmedError",
        "TypeMismatchError",
        "UnreachableError",
        "UsageError",
    ),
    "health": ("Health",),
    "hooks": ("Hook",),
    "many": ("AckManyError", "SendManyError"),
    "message": ("Message", "MessageQueue", "MessageType", "ReceivedMessage", "SendReceipt"),
    "otel": ("OpenTelemetryHook",),
    "producer": ("Producer",),
    "pull_consumer": ("Broadcast", "Offset", "PullBatch", "PullConsumer", "RebalanceListener"),
    "push_consumer": ("DeadLetter", "PushConsumer", "PushStatistics", "RetryLater"),
    "recording": ("Recorder",),
    "simple_consumer": ("SimpleConsumer",),
    "subscription": ("Sql", "Tags", "dead_letters"),
    "transaction": ("Resolution", "Transaction"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AckManyError",
    "Admin",
    "Averagely",
    "AveragelyByCircle",
    "BackgroundTaskError",
    "Broadcast",
    "BusyError",
    "CacheLimits",
    "Claim",
    "Clock",
    "ClockUser",
    "ClosedError",
    "Compression",
    "Configured",
    "Connection",
    "ConnectionOptions",
    "ConsistentHash",
    "Credentials",
    "CredentialsProviderError",
    "DeadLetter",
    "DeduplicationHook",
    "DeduplicationStore",
    "Environment",
    "ExponentialBackoff",
    "GroupMember",
    "GroupNotFoundError",
    "GroupSettings",
    "Health",
    "Hook",
    "IllegalDurationError",
    "IllegalFilterError",
    "IllegalMessageError",
    "IllegalNameError",
    "LeaseLostError",
    "MachineRoom",
    "MachineRoomNearby",
    "MalformedAnswerError",
    "MemoryStore",
    "Message",
    "MessageQueue",
    "MessageTooLargeError",
    "MessageType",
    "NotFoundError",
    "NotSupportedError",
    "Offset",
    "OffsetNotFoundError",
    "OpenTelemetryHook",
    "PermissionDeniedError",
    "Producer",
    "ProducerClient",
    "PullBatch",
    "PullConsumer",
    "PushConsumer",
    "PushStatistics",
    "QueueProgress",
    "QueueRange",
    "QueueRevokedError",
    "QueueSpan",
    "QuotaExceededError",
    "RebalanceListener",
    "ReceivedMessage",
    "Recorder",
    "RedisStore",
    "RefusedError",
    "Resolution",
    "Retry",
    "RetryLater",
    "RocketMQError",
    "SendManyError",
    "SendReceipt",
    "ServerError",
    "SessionLostError",
    "SimpleConsumer",
    "Sql",
    "SqliteStore",
    "Tags",
    "Timeouts",
    "Timer",
    "Tls",
    "TopicDescription",
    "TopicNotFoundError",
    "TopicRoute",
    "TopicSettings",
    "TopicType",
    "TopicUnavailableError",
    "Transaction",
    "TransactionLostError",
    "TransactionUnconfirmedError",
    "TypeMismatchError",
    "UnreachableError",
    "UsageError",
    "dead_letters",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
