"""The vocabulary of the protocol: status codes, enumerations, and the refusal that carries them.

Numbers are those of the wire, so that the edge converts by value.
"""

from enum import Enum, IntEnum, StrEnum


class Code(IntEnum):
    """Status codes of `apache.rocketmq.v2`."""

    OK = 20000
    MULTIPLE_RESULTS = 30000
    BAD_REQUEST = 40000
    ILLEGAL_ACCESS_POINT = 40001
    ILLEGAL_TOPIC = 40002
    ILLEGAL_CONSUMER_GROUP = 40003
    ILLEGAL_MESSAGE_TAG = 40004
    ILLEGAL_MESSAGE_KEY = 40005
    ILLEGAL_MESSAGE_GROUP = 40006
    ILLEGAL_MESSAGE_PROPERTY_KEY = 40007
    INVALID_TRANSACTION_ID = 40008
    ILLEGAL_MESSAGE_ID = 40009
    ILLEGAL_FILTER_EXPRESSION = 40010
    ILLEGAL_INVISIBLE_TIME = 40011
    ILLEGAL_DELIVERY_TIME = 40012
    INVALID_RECEIPT_HANDLE = 40013
    MESSAGE_PROPERTY_CONFLICT_WITH_TYPE = 40014
    UNRECOGNIZED_CLIENT_TYPE = 40015
    MESSAGE_CORRUPTED = 40016
    CLIENT_ID_REQUIRED = 40017
    ILLEGAL_POLLING_TIME = 40018
    ILLEGAL_OFFSET = 40019
    ILLEGAL_LITE_TOPIC = 40020
    INVALID_CLIENT_PROPERTIES = 40021
    UNAUTHORIZED = 40100
    PAYMENT_REQUIRED = 40200
    FORBIDDEN = 40300
    NOT_FOUND = 40400
    MESSAGE_NOT_FOUND = 40401
    TOPIC_NOT_FOUND = 40402
    CONSUMER_GROUP_NOT_FOUND = 40403
    OFFSET_NOT_FOUND = 40404
    REQUEST_TIMEOUT = 40800
    PAYLOAD_TOO_LARGE = 41300
    MESSAGE_BODY_TOO_LARGE = 41301
    MESSAGE_BODY_EMPTY = 41302
    PRECONDITION_FAILED = 42800
    TOO_MANY_REQUESTS = 42900
    LITE_TOPIC_QUOTA_EXCEEDED = 42901
    LITE_SUBSCRIPTION_QUOTA_EXCEEDED = 42902
    REQUEST_HEADER_FIELDS_TOO_LARGE = 43100
    MESSAGE_PROPERTIES_TOO_LARGE = 43101
    INTERNAL_ERROR = 50000
    INTERNAL_SERVER_ERROR = 50001
    HA_NOT_AVAILABLE = 50002
    NOT_IMPLEMENTED = 50100
    PROXY_TIMEOUT = 50400
    MASTER_PERSISTENCE_TIMEOUT = 50401
    SLAVE_PERSISTENCE_TIMEOUT = 50402
    UNSUPPORTED = 50500
    VERSION_UNSUPPORTED = 50501
    VERIFY_FIFO_MESSAGE_UNSUPPORTED = 50502
    FAILED_TO_CONSUME_MESSAGE = 60000


class MessageType(IntEnum):
    """Type of one message (R4.5)."""

    UNSPECIFIED = 0
    NORMAL = 1
    FIFO = 2
    DELAY = 3
    TRANSACTION = 4
    LITE = 5
    PRIORITY = 6


class TopicType(StrEnum):
    """Attribute `message.type` of a topic: which messages it takes (R3.4, R4.6)."""

    UNSPECIFIED = "UNSPECIFIED"
    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"
    MIXED = "MIXED"
    PRIORITY = "PRIORITY"
    LITE = "LITE"


class Permission(IntEnum):
    """What may be done with a topic or one of its queues (R3.2)."""

    UNSPECIFIED = 0
    NONE = 1
    READ = 2
    WRITE = 3
    READ_WRITE = 4

    @property
    def readable(self) -> bool:
        """True when consumers may receive."""
        return self in _READABLE

    @property
    def writable(self) -> bool:
        """True when producers may send."""
        return self in _WRITABLE


# Aliases: attribute access on the enum is several times slower, for every send and receive.
_READABLE = (Permission.READ, Permission.READ_WRITE)
_WRITABLE = (Permission.WRITE, Permission.READ_WRITE)


class Encoding(IntEnum):
    """How a body was compressed by its sender; the broker never decompresses it (R4.3)."""

    UNSPECIFIED = 0
    IDENTITY = 1
    GZIP = 2


class FilterType(IntEnum):
    """Kind of a filter expression; unspecified and unknown kinds behave as TAG (R5.24)."""

    UNSPECIFIED = 0
    TAG = 1
    SQL = 2


class ClientType(IntEnum):
    """Kind of client in settings and heartbeats (R2.7)."""

    UNSPECIFIED = 0
    PRODUCER = 1
    PUSH_CONSUMER = 2
    SIMPLE_CONSUMER = 3
    PULL_CONSUMER = 4
    LITE_PUSH_CONSUMER = 5
    LITE_SIMPLE_CONSUMER = 6


class Resolution(IntEnum):
    """What a client decided about its transaction."""

    UNSPECIFIED = 0
    COMMIT = 1
    ROLLBACK = 2


class LiteAction(IntEnum):
    """How a list of lite topics changes a subscription (R4.33)."""

    PARTIAL_ADD = 0
    PARTIAL_REMOVE = 1
    COMPLETE_ADD = 2
    COMPLETE_REMOVE = 3


class OffsetPolicy(IntEnum):
    """Which offset `query_offset` asks for."""

    BEGINNING = 0
    END = 1
    TIMESTAMP = 2


class Surface(Enum):
    """Where a refusal shows on the wire (R1.6, R1.7)."""

    STATUS = "status"
    """A `Status` inside an ordinary answer (or an in-band telemetry status)."""
    STREAM = "stream"
    """A gRPC error that ends the telemetry stream: INVALID_ARGUMENT for codes 40000 to 49999, else
    INTERNAL."""


class Refusal(Exception):
    """A command that was not carried out; the state is what it was before.

    `code` is the status of the answer, `message` one sentence on what was wrong, `surface` where it shows.
    """

    def __init__(self, code: Code, message: str, surface: Surface = Surface.STATUS) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.surface = surface

    def __str__(self) -> str:
        return f"{self.code.name} ({self.code.value}): {self.message}"
