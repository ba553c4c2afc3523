"""The alternatives of profile fields; sources are cited as in `profile`."""

from enum import Enum


class OrderGrain(Enum):
    """What one un-acked message of an ordered group blocks (O13)."""

    MESSAGE_GROUP = "message group"
    QUEUE = "queue"


class BatchReceipt(Enum):
    """What the answer to a batch of n messages holds (R4.15, session §4.7)."""

    PER_MESSAGE = "one entry per message"
    SINGLE_FRESH_ID = "one entry with an id made by the server"
    SINGLE_JOINED_IDS = "one entry with all ids joined by commas"


class StartPosition(Enum):
    """Where a group starts in a queue it never read (O3, R10.3)."""

    BEGINNING = "first message of the queue"
    WHOLE_OR_LAST = "first message of a queue that has lost none, else the last one"
    CREATION = "first message stored after the group was created"


class Exhaustion(Enum):
    """When a message with no attempts left goes to the dead-letter topic (R5.26, R5.27)."""

    AT_LEASE_END = "as soon as its last lease has ended"
    AT_RECEIVE = "when somebody receives it once more"


class WrongHandle(Enum):
    """What a change of the lease does with a handle that no longer holds the message (R6.12, O6)."""

    REFUSED = "INVALID_RECEIPT_HANDLE"
    NEW_LEASE = "OK, and one more lease: the message comes back once more"


class LiteService(Enum):
    """How far a server supports lite topics (session §0, §7.2)."""

    SERVED = "serves them"
    REFUSED = "refuses subscriptions and receives with INTERNAL_SERVER_ERROR"
    MUTE = "takes subscriptions and delivers nothing"


class DiskStage(Enum):
    """How near to full the disk of the log is (11)."""

    NORMAL = "expired messages go at the hour for it"
    HIGH = "expired messages go at any hour"
    CRITICAL = "the oldest messages go, expired or not"
    FULL = "and nothing is taken any more"


class Backoff(Enum):
    """Which table of retry intervals settings carry (R7.5 table, O1)."""

    DOCUMENTED = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
    SERVER = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


ALL_RPCS = frozenset(
    {
        "QueryRoute",
        "Heartbeat",
        "SendMessage",
        "QueryAssignment",
        "ReceiveMessage",
        "AckMessage",
        "ForwardMessageToDeadLetterQueue",
        "PullMessage",
        "UpdateOffset",
        "GetOffset",
        "QueryOffset",
        "EndTransaction",
        "Telemetry",
        "NotifyClientTermination",
        "ChangeInvisibleDuration",
        "RecallMessage",
        "SyncLiteSubscription",
    }
)
"""Every RPC of the service, as the wire names them (0.3)."""
PULL_RPCS = frozenset({"PullMessage", "UpdateOffset", "GetOffset", "QueryOffset"})
"""The RPCs of queue-granular consumption (10.1)."""

SERVER_LANGUAGES = frozenset(
    [
        "JAVA",
        "CPP",
        "DOTNET",
        "PYTHON",
        "DELPHI",
        "ERLANG",
        "RUBY",
        "OTHER",
        "HTTP",
        "GO",
        "PHP",
        "OMS",
        "RUST",
        "NODE_JS",
    ]
)
"""The client languages that servers know (1.1)."""
