"""aiorocketmq: the asyncio client of RocketMQ 5.

A name is imported from its module when it is first used, so that what needs only one part loads only that part.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiorocketmq.admin import Admin as Admin
    from aiorocketmq.config import (
        CacheLimits as CacheLimits,
    )
    from aiorocketmq.config import (
        Credentials as Credentials,
    )
    from aiorocketmq.config import (
        SendRetry as SendRetry,
    )
    from aiorocketmq.config import (
        Timeouts as Timeouts,
    )
    from aiorocketmq.config import (
        Tls as Tls,
    )
    from aiorocketmq.connection import Connection as Connection
    from aiorocketmq.errors import (
        AckManyError as AckManyError,
    )
    from aiorocketmq.errors import (
        Busy as Busy,
    )
    from aiorocketmq.errors import (
        Closed as Closed,
    )
    from aiorocketmq.errors import (
        GroupNotFound as GroupNotFound,
    )
    from aiorocketmq.errors import (
        IllegalDuration as IllegalDuration,
    )
    from aiorocketmq.errors import (
        IllegalFilter as IllegalFilter,
    )
    from aiorocketmq.errors import (
        IllegalMessage as IllegalMessage,
    )
    from aiorocketmq.errors import (
        IllegalName as IllegalName,
    )
    from aiorocketmq.errors import (
        LeaseLost as LeaseLost,
    )
    from aiorocketmq.errors import (
        MessageTooLarge as MessageTooLarge,
    )
    from aiorocketmq.errors import (
        NotFound as NotFound,
    )
    from aiorocketmq.errors import (
        NotServed as NotServed,
    )
    from aiorocketmq.errors import (
        OffsetNotFound as OffsetNotFound,
    )
    from aiorocketmq.errors import (
        PermissionDenied as PermissionDenied,
    )
    from aiorocketmq.errors import (
        QuotaExceeded as QuotaExceeded,
    )
    from aiorocketmq.errors import (
        Refused as Refused,
    )
    from aiorocketmq.errors import (
        RocketMQError as RocketMQError,
    )
    from aiorocketmq.errors import (
        SendManyError as SendManyError,
    )
    from aiorocketmq.errors import (
        ServerFault as ServerFault,
    )
    from aiorocketmq.errors import (
        SessionForgotten as SessionForgotten,
    )
    from aiorocketmq.errors import (
        TopicNotFound as TopicNotFound,
    )
    from aiorocketmq.errors import (
        TransactionLost as TransactionLost,
    )
    from aiorocketmq.errors import (
        TypeMismatch as TypeMismatch,
    )
    from aiorocketmq.errors import (
        Unreachable as Unreachable,
    )
    from aiorocketmq.errors import (
        UsageError as UsageError,
    )
    from aiorocketmq.hooks import Hook as Hook
    from aiorocketmq.message import (
        Message as Message,
    )
    from aiorocketmq.message import (
        MessageQueue as MessageQueue,
    )
    from aiorocketmq.message import (
        MessageType as MessageType,
    )
    from aiorocketmq.message import (
        ReceivedMessage as ReceivedMessage,
    )
    from aiorocketmq.message import (
        SendReceipt as SendReceipt,
    )
    from aiorocketmq.producer import Producer as Producer
    from aiorocketmq.pull_consumer import (
        Offset as Offset,
    )
    from aiorocketmq.pull_consumer import (
        PullBatch as PullBatch,
    )
    from aiorocketmq.pull_consumer import (
        PullConsumer as PullConsumer,
    )
    from aiorocketmq.push_consumer import (
        DeadLetter as DeadLetter,
    )
    from aiorocketmq.push_consumer import (
        PushConsumer as PushConsumer,
    )
    from aiorocketmq.push_consumer import (
        RetryLater as RetryLater,
    )
    from aiorocketmq.recording import Recorder as Recorder
    from aiorocketmq.simple_consumer import SimpleConsumer as SimpleConsumer
    from aiorocketmq.subscription import (
        Sql as Sql,
    )
    from aiorocketmq.subscription import (
        Tags as Tags,
    )

_HOMES = {
    "admin": ("Admin",),
    "config": ("CacheLimits", "Credentials", "SendRetry", "Timeouts", "Tls"),
    "connection": ("Connection",),
    "errors": (
        "AckManyError",
        "Busy",
        "Closed",
        "GroupNotFound",
        "IllegalDuration",
        "IllegalFilter",
        "IllegalMessage",
        "IllegalName",
        "LeaseLost",
        "MessageTooLarge",
        "NotFound",
        "NotServed",
        "OffsetNotFound",
        "PermissionDenied",
        "QuotaExceeded",
        "Refused",
        "RocketMQError",
        "SendManyError",
        "ServerFault",
        "SessionForgotten",
        "TopicNotFound",
        "TransactionLost",
        "TypeMismatch",
        "Unreachable",
        "UsageError",
    ),
    "hooks": ("Hook",),
    "message": ("Message", "MessageQueue", "MessageType", "ReceivedMessage", "SendReceipt"),
    "producer": ("Producer",),
    "pull_consumer": ("Offset", "PullBatch", "PullConsumer"),
    "push_consumer": ("DeadLetter", "PushConsumer", "RetryLater"),
    "recording": ("Recorder",),
    "simple_consumer": ("SimpleConsumer",),
    "subscription": ("Sql", "Tags"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AckManyError",
    "Admin",
    "Busy",
    "CacheLimits",
    "Closed",
    "Connection",
    "Credentials",
    "DeadLetter",
    "GroupNotFound",
    "Hook",
    "IllegalDuration",
    "IllegalFilter",
    "IllegalMessage",
    "IllegalName",
    "LeaseLost",
    "Message",
    "MessageQueue",
    "MessageTooLarge",
    "MessageType",
    "NotFound",
    "NotServed",
    "Offset",
    "OffsetNotFound",
    "PermissionDenied",
    "Producer",
    "PullBatch",
    "PullConsumer",
    "PushConsumer",
    "QuotaExceeded",
    "ReceivedMessage",
    "Recorder",
    "Refused",
    "RetryLater",
    "RocketMQError",
    "SendManyError",
    "SendReceipt",
    "SendRetry",
    "ServerFault",
    "SessionForgotten",
    "SimpleConsumer",
    "Sql",
    "Tags",
    "Timeouts",
    "Tls",
    "TopicNotFound",
    "TransactionLost",
    "TypeMismatch",
    "Unreachable",
    "UsageError",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
