"""Every error of this library, by what the caller can do next.

RocketMQError
├── UsageError                    wrong use: fix the code
├── RefusedError                  the server refused the request: change it
│   ├── TopicNotFoundError        create the topic, or correct its name
│   │   └── TopicUnavailableError it existed before: its brokers are unavailable, a retry may help
│   ├── GroupNotFoundError        create the consumer group, or correct its name
│   ├── OffsetNotFoundError       nothing was committed, or the message was deleted
│   ├── NotFoundError             another requested object does not exist
│   ├── IllegalNameError          a topic, group or access point with a name that the server does not accept
│   ├── IllegalMessageError       tag, key, property, id, group or delivery time of a message
│   ├── MessageTooLargeError      body, properties or headers over the server's limit
│   ├── TypeMismatchError         the topic has another type of message
│   ├── IllegalFilterError        a TAG or SQL expression that the server cannot parse
│   ├── IllegalDurationError      an invisible or polling time out of range
│   ├── LeaseLostError            the lease has expired; the message will be (or was) redelivered
│   ├── SessionLostError          the server does not know this client's settings any more
│   ├── TransactionLostError      the server does not know the transaction
│   ├── PermissionDeniedError     credentials, rights, or a topic that is not readable or writable
│   ├── QuotaExceededError        a quota of the server is exhausted
│   ├── NotSupportedError         the server does not offer this call
│   └── ServerError               the server failed to process the request; a retry may help
│       └── MalformedAnswerError  its answer could not be decoded or used
├── SendManyError                 some of many messages were not stored; `outcomes` has an entry for each
├── TransactionUnconfirmedError   its end was not confirmed: the server checks the transaction later
├── AckManyError                  some of many messages were not acknowledged; `outcomes` has an entry for each
├── BusyError                     throttled: try again later
├── UnreachableError              no connection, or no answer in time
├── PayloadError                  a body is not what the codec reads
├── CredentialsProviderError      the coroutine that provides credentials raised an exception
├── BackgroundTaskError           a background task of this client failed repeatedly: open a new client
├── QueueRevokedError             another member of the group owns the queue by now
└── ClosedError                   this client was closed, or is not open yet
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from aiorocketmq._core.bounds import clipped, one_line
from aiorocketmq._core.codes import Code, code_name

__all__ = [
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
    "PayloadError",
    "PermissionDeniedError",
    "QueueRevokedError",
    "QuotaExceededError",
    "RefusedError",
    "RocketMQError",
    "ServerError",
    "SessionLostError",
    "TopicNotFoundError",
    "TopicUnavailableError",
    "TransactionLostError",
    "TransactionUnconfirmedError",
    "TypeMismatchError",
    "UnreachableError",
    "UsageError",
]


class RocketMQError(Exception):
    """Root of all exceptions that this library raises by itself."""

    remedy: ClassVar[str] = ""
    """What to do about it, as a clause."""

    may_retry: bool = False
    """Whether the same call may succeed if it is repeated."""

    may_have_taken_effect: bool = False
    """Whether the call may have taken effect in spite of this error."""

    def __init__(
        self,
        text: str,
        *,
        code: int | None = None,
        server_text: str = "",
        request_id: str | None = None,
        endpoint: str | None = None,
        topic: str | None = None,
        group: str | None = None,
    ) -> None:
        super().__init__(text)
        self.text = text
        """One sentence: the problem and what to do."""
        self.code = code
        """The server's status code, if there is one."""
        self.server_text = server_text
        """The server's own text, at most 1,000 characters and an ellipsis; with some servers it is more precise than
        the code."""
        self.request_id = request_id
        """The id of the call, which is also in the server's logs."""
        self.endpoint = endpoint
        """The address that was called, `host:port`."""
        self.topic = topic
        """The topic that the call was about."""
        self.group = group
        """The consumer group that the call was about."""

    @property
    def code_name(self) -> str | None:
        """The contract's name of `code`, for instance `TOPIC_NOT_FOUND`."""
        return None if self.code is None else code_name(self.code)


class UsageError(RocketMQError):
    """The library was used wrongly, for instance a message was settled twice; fix the code."""


class RefusedError(RocketMQError):
    """The server understood the request and refused it; the request has to change before it can succeed."""


class TopicNotFoundError(RefusedError):
    """The topic does not exist on the server; it is not created on demand."""

    remedy = "create the topic first, or correct its name"


class TopicUnavailableError(TopicNotFoundError):
    """The topic existed before, and does not now: its brokers are unavailable, or it was deleted.

    Proxies that run apart from their brokers report this, because the name server forgets a broker that is not
    connected."""

    may_retry = True
    remedy = "try again in a moment, and check that its brokers run"


class GroupNotFoundError(RefusedError):
    """The consumer group does not exist on the server."""

    remedy = "create the consumer group first, or correct its name"


class OffsetNotFoundError(RefusedError):
    """There is no such offset: nothing was committed, or the message was deleted."""

    remedy = "seek to a position that exists"


class NotFoundError(RefusedError):
    """The requested object does not exist."""


class IllegalNameError(RefusedError):
    """The server does not accept the name of a topic, group or access point."""

    remedy = "correct the name"


class IllegalMessageError(RefusedError):
    """The server does not accept the message: its tag, a key, a property, its id, group or delivery time."""

    remedy = "correct the message"


class MessageTooLargeError(RefusedError):
    """A body, the properties or the headers are over the server's limit."""

    remedy = "send less in one message, or raise the server's limit"


class TypeMismatchError(RefusedError):
    """The topic has another type of message; some servers report this for unknown topics as well."""

    remedy = (
        "send to a topic of the right type (NORMAL, FIFO, DELAY, TRANSACTION), or check that the topic exists"
    )


class IllegalFilterError(RefusedError):
    """The server cannot parse the filter expression."""

    remedy = "correct the filter expression"


class IllegalDurationError(RefusedError):
    """An invisible time (10 s to 12 h) or a polling time is out of the server's range."""

    remedy = "use a duration in the server's range"


class LeaseLostError(RefusedError):
    """The lease of the message has expired or its handle is spent; the message will be redelivered."""

    remedy = "settle the message before its lease expires, or extend it in time"


class SessionLostError(RefusedError):
    """The server does not know this client's settings; the client sends them again by itself."""

    may_retry = True
    remedy = "try again in a moment"


class TransactionLostError(RefusedError):
    """The server does not know the transaction: it was ended before, or was never begun."""


class PermissionDeniedError(RefusedError):
    """The credentials are missing or wrong, lack the right, or the topic is not readable or writable."""

    remedy = "check the credentials, their rights, and the topic's read and write permission"


class QuotaExceededError(RefusedError):
    """A quota of the server is exhausted."""

    remedy = "use fewer, or raise the quota"


class NotSupportedError(RefusedError):
    """The server does not offer this call or feature."""

    remedy = "use a server that serves it"


class ServerError(RefusedError):
    """The server failed to process the request, or could not confirm it in time; a retry may help."""

    may_retry = True
    may_have_taken_effect = True
    remedy = "try again, and look at the server's log"


class MalformedAnswerError(ServerError):
    """The answer of a server could not be decoded or used; it is unknown whether the call took effect.

    Something between client and server damages data, or the server uses another protocol. `__cause__` is the exception
    of the decoder."""

    remedy = "try again, and check what lies between client and server"


class PayloadError(RocketMQError):
    """The body of a received message is not what the codec reads: another content type, damaged, or of another shape.

    The message stays as it is: a handler that raises this has failed, and the message is redelivered, in the end to
    the dead-letter topic."""

    remedy = "check what its sender writes, and acknowledge it or let it become a dead letter"


class BusyError(RocketMQError):
    """The server throttles; the same request may succeed later."""

    may_retry = True
    remedy = "try again later"


class UnreachableError(RocketMQError):
    """There was no connection, or no answer in time.

    `may_have_taken_effect` is true if the request may have left this machine."""

    may_retry = True

    def __init__(
        self,
        text: str,
        *,
        may_have_taken_effect: bool = False,
        timed_out: bool = False,
        tried: tuple[str, ...] = (),
        code: int | None = None,
        request_id: str | None = None,
        endpoint: str | None = None,
        topic: str | None = None,
        group: str | None = None,
    ) -> None:
        super().__init__(text, code=code, request_id=request_id, endpoint=endpoint, topic=topic, group=group)
        self.may_have_taken_effect = may_have_taken_effect
        self.timed_out = timed_out
        """Whether the time expired, as opposed to a connection that failed."""
        self.tried = tried
        """The attempts that were made, in order."""


class TransactionUnconfirmedError(RocketMQError):
    """The server did not confirm the end of a transaction, so it will check it later.

    The work of the block is done, and its decision is remembered: this producer answers the server's check with it, any
    other producer of the topic with its checker. Repeating the block would do its work twice."""

    remedy = "the server will check the transaction; do not repeat the transaction"


class CredentialsProviderError(RocketMQError):
    """The coroutine function that provides credentials raised an exception, which is `__cause__`.

    At the start the exception itself is raised; a running client retries, and continues with the current
    credentials."""

    may_retry = True
    remedy = "see its cause"


class BackgroundTaskError(RocketMQError):
    """A background task of this client failed unexpectedly, several times in a row, and is not restarted.

    The client has stopped: open a new one. `__cause__` is the task's exception; it is a bug of this library, of a hook
    or of an argument."""

    remedy = "open a new client, and report the cause"


class QueueRevokedError(RocketMQError):
    """Another member of the consumer group owns the queue by now: this one must not commit its offsets any more.

    What was read of it and not committed is read again by its new owner."""

    remedy = "continue with the assigned queues"


class ClosedError(RocketMQError):
    """The client was closed or is not open yet; use it inside its `async with`."""


ERROR_OF_CODE: Mapping[int, type[RefusedError] | type[BusyError]] = MappingProxyType(
    {
        Code.CODE_UNSPECIFIED: ServerError,
        Code.BAD_REQUEST: RefusedError,
        Code.ILLEGAL_ACCESS_POINT: IllegalNameError,
        Code.ILLEGAL_TOPIC: IllegalNameError,
        Code.ILLEGAL_CONSUMER_GROUP: IllegalNameError,
        Code.ILLEGAL_MESSAGE_TAG: IllegalMessageError,
        Code.ILLEGAL_MESSAGE_KEY: IllegalMessageError,
        Code.ILLEGAL_MESSAGE_GROUP: IllegalMessageError,
        Code.ILLEGAL_MESSAGE_PROPERTY_KEY: IllegalMessageError,
        Code.INVALID_TRANSACTION_ID: TransactionLostError,
        Code.ILLEGAL_MESSAGE_ID: IllegalMessageError,
        Code.ILLEGAL_FILTER_EXPRESSION: IllegalFilterError,
        Code.ILLEGAL_INVISIBLE_TIME: IllegalDurationError,
        Code.ILLEGAL_DELIVERY_TIME: IllegalMessageError,
        Code.INVALID_RECEIPT_HANDLE: LeaseLostError,
        Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE: TypeMismatchError,
        Code.UNRECOGNIZED_CLIENT_TYPE: SessionLostError,
        Code.MESSAGE_CORRUPTED: IllegalMessageError,
        Code.CLIENT_ID_REQUIRED: RefusedError,
        Code.ILLEGAL_POLLING_TIME: IllegalDurationError,
        Code.ILLEGAL_OFFSET: RefusedError,
        Code.ILLEGAL_LITE_TOPIC: IllegalNameError,
        Code.INVALID_CLIENT_PROPERTIES: RefusedError,
        Code.UNAUTHORIZED: PermissionDeniedError,
        Code.PAYMENT_REQUIRED: PermissionDeniedError,
        Code.FORBIDDEN: PermissionDeniedError,
        Code.NOT_FOUND: NotFoundError,
        Code.MESSAGE_NOT_FOUND: NotFoundError,
        Code.TOPIC_NOT_FOUND: TopicNotFoundError,
        Code.CONSUMER_GROUP_NOT_FOUND: GroupNotFoundError,
        Code.OFFSET_NOT_FOUND: OffsetNotFoundError,
        Code.REQUEST_TIMEOUT: ServerError,
        Code.PAYLOAD_TOO_LARGE: MessageTooLargeError,
        Code.MESSAGE_BODY_TOO_LARGE: MessageTooLargeError,
        Code.MESSAGE_BODY_EMPTY: IllegalMessageError,
        Code.PRECONDITION_FAILED: RefusedError,
        Code.TOO_MANY_REQUESTS: BusyError,
        Code.LITE_TOPIC_QUOTA_EXCEEDED: QuotaExceededError,
        Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED: QuotaExceededError,
        Code.REQUEST_HEADER_FIELDS_TOO_LARGE: MessageTooLargeError,
        Code.MESSAGE_PROPERTIES_TOO_LARGE: MessageTooLargeError,
        Code.INTERNAL_ERROR: ServerError,
        Code.INTERNAL_SERVER_ERROR: ServerError,
        Code.HA_NOT_AVAILABLE: ServerError,
        Code.NOT_IMPLEMENTED: NotSupportedError,
        Code.PROXY_TIMEOUT: ServerError,
        Code.MASTER_PERSISTENCE_TIMEOUT: ServerError,
        Code.SLAVE_PERSISTENCE_TIMEOUT: ServerError,
        Code.UNSUPPORTED: NotSupportedError,
        Code.VERSION_UNSUPPORTED: NotSupportedError,
        Code.VERIFY_FIFO_MESSAGE_UNSUPPORTED: NotSupportedError,
        Code.FAILED_TO_CONSUME_MESSAGE: RefusedError,
    }
)
"""The error class of a status code. OK and MULTIPLE_RESULTS are no errors and therefore absent."""


_OF_NO_TYPE = "the expected type is UNSPECIFIED"
"""Servers report an unknown topic like this, if a message for it arrives."""


_UNREADABLE_FILTER = "parse the consumer's subscription failed"
"""Servers refuse an SQL expression like this, with INTERNAL_SERVER_ERROR (observed on 5.5.0)."""


def refusal(
    code: int,
    server_text: str,
    *,
    what: str = "",
    request_id: str | None = None,
    endpoint: str | None = None,
    topic: str | None = None,
    group: str | None = None,
    topic_known: bool = False,
) -> RefusedError | BusyError:
    """Return the error for a status `code` other than OK of the call `what`.

    `topic_known` means that the topic was found before."""
    kind = ERROR_OF_CODE.get(code, RefusedError)
    if kind is TypeMismatchError and _OF_NO_TYPE in server_text:
        kind = TopicNotFoundError
    if kind is ServerError and _UNREADABLE_FILTER in server_text:
        kind = IllegalFilterError
    if kind is TopicNotFoundError and topic_known:
        kind = TopicUnavailableError
    about = ", ".join(
        f"{word} {value!r}" for word, value in (("topic", topic), ("group", group)) if value is not None
    )
    where = f"the server at {endpoint}" if endpoint else "the server"
    words = one_line(server_text).rstrip(".")
    details = f": {words}" if words else ""
    remedy = f"; {kind.remedy}" if kind.remedy else ""
    refused = " ".join(filter(None, ("refused", what, f"({about})" if about else "")))
    text = f"{where} {refused} with {code_name(code)} ({code}){details}{remedy}"
    return kind(
        text,
        server_text=clipped(server_text),
        code=code,
        request_id=request_id,
        endpoint=endpoint,
        topic=topic,
        group=group,
    )
