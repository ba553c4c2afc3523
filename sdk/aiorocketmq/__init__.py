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
        Surroundings as Surroundings,
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
        Busy as Busy,
        Closed as Closed,
        CredentialsProviderError as CredentialsProviderError,
        GroupNotFound as GroupNotFound,
        IllegalDuration as IllegalDuration,
        IllegalFilter as IllegalFilter,
        IllegalMessage as IllegalMessage,
        IllegalName as IllegalName,
        LeaseLost as LeaseLost,
        MalformedAnswerError as MalformedAnswerError,
        MessageTooLarge as MessageTooLarge,
        NotFound as NotFound,
        NotServed as NotServed,
        OffsetNotFound as OffsetNotFound,
        PermissionDenied as PermissionDenied,
        QueueRevokedError as QueueRevokedError,
        QuotaExceeded as QuotaExceeded,
        Refused as Refused,
        RocketMQError as RocketMQError,
        ServerFault as ServerFault,
        SessionForgotten as SessionForgotten,
        TopicAway as TopicAway,
        TopicNotFound as TopicNotFound,
        TransactionLost as TransactionLost,
        TransactionUnconfirmed as TransactionUnconfirmed,
        TypeMismatch as TypeMismatch,
        Unreachable as Unreachable,
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
    "connection": ("Connection", "ConnectionOptions", "Surroundings"),
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
        "Busy",
        "Closed",
        "CredentialsProviderError",
        "GroupNotFound",
        "IllegalDuration",
        "IllegalFilter",
        "IllegalMessage",
        "IllegalName",
        "LeaseLost",
        "MalformedAnswerError",
        "MessageTooLarge",
        "NotFound",
        "NotServed",
        "OffsetNotFound",
        "PermissionDenied",
        "QueueRevokedError",
        "QuotaExceeded",
        "Refused",
        "RocketMQError",
        "ServerFault",
        "SessionForgotten",
        "TopicAway",
        "TopicNotFound",
        "TransactionLost",
        "TransactionUnconfirmed",
        "TypeMismatch",
        "Unreachable",
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
    "Busy",
    "CacheLimits",
    "Claim",
    "Clock",
    "ClockUser",
    "Closed",
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
    "ExponentialBackoff",
    "GroupMember",
    "GroupNotFound",
    "GroupSettings",
    "Health",
    "Hook",
    "IllegalDuration",
    "IllegalFilter",
    "IllegalMessage",
    "IllegalName",
    "LeaseLost",
    "MachineRoom",
    "MachineRoomNearby",
    "MalformedAnswerError",
    "MemoryStore",
    "Message",
    "MessageQueue",
    "MessageTooLarge",
    "MessageType",
    "NotFound",
    "NotServed",
    "Offset",
    "OffsetNotFound",
    "OpenTelemetryHook",
    "PermissionDenied",
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
    "QuotaExceeded",
    "RebalanceListener",
    "ReceivedMessage",
    "Recorder",
    "RedisStore",
    "Refused",
    "Resolution",
    "Retry",
    "RetryLater",
    "RocketMQError",
    "SendManyError",
    "SendReceipt",
    "ServerFault",
    "SessionForgotten",
    "SimpleConsumer",
    "Sql",
    "SqliteStore",
    "Surroundings",
    "Tags",
    "Timeouts",
    "Timer",
    "Tls",
    "TopicAway",
    "TopicDescription",
    "TopicNotFound",
    "TopicRoute",
    "TopicSettings",
    "TopicType",
    "Transaction",
    "TransactionLost",
    "TransactionUnconfirmed",
    "TypeMismatch",
    "Unreachable",
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
