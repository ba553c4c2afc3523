"""Protobuf messages of the protocol to values of the core and back; settings are in `settings_conversion`. Nothing else
of the fake knows both."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from hashlib import md5
from typing import Any, TypeVar

from aiorocketmq.wire import messages as pb
from google.protobuf.message import Message

from aiorocketmq_fake.core.values.codes import (
    ClientType,
    Code,
    Encoding,
    FilterType,
    LiteAction,
    MessageType,
    OffsetPolicy,
    Resolution,
)
from aiorocketmq_fake.core.values.model import (
    NO_PROPERTIES,
    AckEntry,
    AckRequest,
    AckResult,
    ChangeRequest,
    Command,
    Delivery,
    EndTransactionRequest,
    FilterExpression,
    ForwardRequest,
    LiteStart,
    LiteSyncRequest,
    NotifyUnsubscribeLite,
    OffsetQuery,
    OutgoingMessage,
    PrintStackTrace,
    PullRequest,
    ReceiveRequest,
    ReconnectEndpoints,
    RecoverOrphanedTransaction,
    RouteEntry,
    SendOutcome,
    StoredMessage,
    VerifyMessage,
)
from aiorocketmq_fake.edge.caller import Caller
from aiorocketmq_fake.edge.namespaces import bare, set_resource

# The range of a protobuf Timestamp: years 1 to 9999.
EARLIEST = -62_135_596_800
LATEST = 253_402_300_799

E = TypeVar("E", bound=IntEnum)


def _members(enum: type[E]) -> dict[int, E]:
    return {member.value: member for member in enum}


# Enums of the wire are open: an unknown number counts as unspecified.
CLIENT_TYPES = _members(ClientType)
FILTER_TYPES = _members(FilterType)
MESSAGE_TYPES = _members(MessageType)
LITE_ACTIONS = _members(LiteAction)
RESOLUTIONS = _members(Resolution)
OFFSET_POLICIES = _members(OffsetPolicy)
# Attribute access on the wire's enum is slower than all other fields of a message together.
GZIP = Encoding.GZIP.value
# The same for members of our own enums.
_PACKED, _PLAIN, _UNSPECIFIED, _OK = Encoding.GZIP, Encoding.IDENTITY, MessageType.UNSPECIFIED, Code.OK


def _sent() -> pb.SendMessageResponse:
    response = pb.SendMessageResponse()
    for status in (response.status, response.entries.add().status):
        status.code = pb.Code.OK
        status.message = Code.OK.name
    return response


SENT = _sent()
"""The answer to a stored message, except for the message's own fields."""


def instant(timestamp: pb.Timestamp) -> float:
    """Return Unix seconds, clamped to the years 1 to 9999."""
    seconds = timestamp.seconds
    if not EARLIEST <= seconds <= LATEST:
        seconds = min(max(seconds, EARLIEST), LATEST)
    return seconds + timestamp.nanos / 1e9


def set_instant(timestamp: pb.Timestamp, seconds: float) -> None:
    """Set a timestamp to Unix seconds, to the microsecond: a float is not exact below that."""
    whole, micros = divmod(round(seconds * 1e6), 1_000_000)
    timestamp.seconds = whole
    timestamp.nanos = micros * 1000


def span(duration: pb.Duration) -> float:
    """Return seconds."""
    return duration.seconds + duration.nanos / 1e9


def set_span(duration: pb.Duration, seconds: float) -> None:
    """Set a duration to seconds, to the microsecond."""
    whole, micros = divmod(round(seconds * 1e6), 1_000_000)
    duration.seconds = whole
    duration.nanos = micros * 1000


def set_status(status: pb.Status, code: Code, message: str) -> None:
    """Fill in a status."""
    # A core code and a wire code are the same number of two types.
    status.code = code.value  # type: ignore[assignment]
    status.message = message


# Requests


def outgoing(message: pb.Message, caller: Caller) -> OutgoingMessage:
    """Read one message of a SendMessageRequest; a blank born host becomes the caller's address (R4.3)."""
    topic, system = message.topic, message.system_properties
    properties = message.user_properties
    has = system.HasField
    # Positional arguments: keywords are slower, and this runs for every message.
    return OutgoingMessage(
        topic.name,
        message.body,
        system.message_id,
        system.tag,
        tuple(keys) if (keys := system.keys) else (),
        dict(properties) if properties else NO_PROPERTIES,
        system.message_group,
        MESSAGE_TYPES.get(system.message_type, _UNSPECIFIED),
        instant(system.delivery_timestamp) if has("delivery_timestamp") else None,
        instant(system.born_timestamp) if has("born_timestamp") else None,
        system.born_host or caller.address,
        # All but GZIP is stored as it is (R4.3).
        _PACKED if system.body_encoding == GZIP else _PLAIN,
        system.priority if has("priority") else None,
        system.lite_topic,
        system.trace_context,
        span(system.orphaned_transaction_recovery_duration)
        if has("orphaned_transaction_recovery_duration")
        else None,
        topic.resource_namespace,
    )


def filter_expression(expression: pb.FilterExpression) -> FilterExpression:
    """Read a filter."""
    return FilterExpression(expression.expression, FILTER_TYPES.get(expression.type, FilterType.UNSPECIFIED))


def receive_request(
    request: pb.ReceiveMessageRequest, caller: Caller, remaining: float | None
) -> ReceiveRequest:
    """Read a receive; `remaining` is the time to the call's deadline in seconds, if it has one."""
    return ReceiveRequest(
        client_id=caller.client_id,
        group=request.group.name,
        topic=request.message_queue.topic.name,
        filter=filter_expression(request.filter_expression),
        batch_size=request.batch_size,
        invisible=span(request.invisible_duration) if request.HasField("invisible_duration") else None,
        auto_renew=request.auto_renew,
        polling=span(request.long_polling_timeout) if request.HasField("long_polling_timeout") else None,
        remaining_deadline=remaining,
        attempt_id=request.attempt_id,
        client_version=caller.version,
    )


def ack_request(request: pb.AckMessageRequest, caller: Caller) -> AckRequest:
    """Read an ack."""
    entries = tuple(AckEntry(entry.message_id, entry.receipt_handle) for entry in request.entries)
    return AckRequest(caller.client_id, request.group.name, request.topic.name, entries)


def change_request(request: pb.ChangeInvisibleDurationRequest, caller: Caller) -> ChangeRequest:
    """Read a change of a lease."""
    return ChangeRequest(
        client_id=caller.client_id,
        group=request.group.name,
        topic=request.topic.name,
        receipt_handle=request.receipt_handle,
        invisible=span(request.invisible_duration) if request.HasField("invisible_duration") else None,
        message_id=request.message_id,
        suspend=request.suspend,
    )


def forward_request(request: pb.ForwardMessageToDeadLetterQueueRequest, caller: Caller) -> ForwardRequest:
    """Read a forward to the dead-letter topic."""
    return ForwardRequest(
        client_id=caller.client_id,
        group=request.group.name,
        topic=request.topic.name,
        receipt_handle=request.receipt_handle,
        message_id=request.message_id,
    )


def end_transaction_request(request: pb.EndTransactionRequest, caller: Caller) -> EndTransactionRequest:
    """Read a decision about a transaction."""
    return EndTransactionRequest(
        client_id=caller.client_id,
        topic=request.topic.name,
        transaction_id=request.transaction_id,
        resolution=RESOLUTIONS.get(request.resolution, Resolution.UNSPECIFIED),
        message_id=request.message_id,
        from_check=request.source == pb.TransactionSource.SOURCE_SERVER_CHECK,
    )


def lite_sync_request(request: pb.SyncLiteSubscriptionRequest, caller: Caller) -> LiteSyncRequest:
    """Read a change of lite subscriptions."""
    return LiteSyncRequest(
        client_id=caller.client_id,
        group=request.group.name,
        topic=request.topic.name,
        action=LITE_ACTIONS.get(request.action),
        names=tuple(request.lite_topic_set),
        start=_lite_start(request.offset_option) if request.HasField("offset_option") else None,
    )


def _lite_start(option: pb.OffsetOption) -> LiteStart | None:
    match option.WhichOneof("offset_type"):
        case "offset":
            return LiteStart(offset=max(option.offset, 0))
        case "tail_n":
            return LiteStart(tail=max(option.tail_n, 0))
        case "timestamp":
            # Milliseconds, as in the classic protocol.
            return LiteStart(timestamp=option.timestamp / 1000)
        case "policy":
            starts = {pb.OffsetOption.LAST: LiteStart(is_last=True), pb.OffsetOption.MIN: LiteStart(offset=0)}
            return starts.get(option.policy, LiteStart())
        case _:
            return None


def pull_request(request: pb.PullMessageRequest, caller: Caller, remaining: float | None) -> PullRequest:
    """Read a pull."""
    queue = request.message_queue
    return PullRequest(
        client_id=caller.client_id,
        group=request.group.name,
        topic=queue.topic.name,
        queue_id=queue.id,
        offset=request.offset,
        filter=filter_expression(request.filter_expression),
        batch_size=request.batch_size,
        polling=span(request.long_polling_timeout) if request.HasField("long_polling_timeout") else None,
        remaining_deadline=remaining,
    )


def offset_query(request: pb.QueryOffsetRequest) -> OffsetQuery:
    """Read an offset query."""
    return OffsetQuery(
        topic=request.message_queue.topic.name,
        queue_id=request.message_queue.id,
        policy=OFFSET_POLICIES.get(request.query_offset_policy, OffsetPolicy.BEGINNING),
        timestamp=instant(request.timestamp) if request.HasField("timestamp") else None,
    )


# Answers


def set_queue(queue: pb.MessageQueue, entry: RouteEntry, topic: pb.Resource, endpoints: pb.Endpoints) -> None:
    """Fill in one queue of a route or an assignment; the topic is the request's (R3.3)."""
    queue.topic.CopyFrom(topic)
    queue.topic.name = bare(topic)
    queue.id = entry.queue_id
    queue.permission = entry.permission.value  # type: ignore[assignment]  # equal numbers of two types
    queue.broker.name = entry.broker
    queue.broker.id = 0
    queue.broker.endpoints.CopyFrom(endpoints)
    queue.accept_message_types.extend(accepted.value for accepted in entry.accepts)  # type: ignore[misc]  # as above


def send_response(outcomes: Sequence[SendOutcome]) -> pb.SendMessageResponse:
    """Answer a send: one entry per outcome, above them the common code or MULTIPLE_RESULTS (R4.13)."""
    response = pb.SendMessageResponse()
    if len(outcomes) == 1 and outcomes[0].code is _OK:
        # By far the most frequent answer: copying costs half of building it.
        (sent,) = outcomes
        response.CopyFrom(SENT)
        only = response.entries[0]
        only.message_id = sent.message_id
        only.offset = sent.offset
        if sent.transaction_id:
            only.transaction_id = sent.transaction_id
        if sent.recall_handle:
            only.recall_handle = sent.recall_handle
        return response
    codes = set()
    for outcome in outcomes:
        codes.add(outcome.code)
        entry = response.entries.add(
            message_id=outcome.message_id,
            transaction_id=outcome.transaction_id,
            offset=outcome.offset,
            recall_handle=outcome.recall_handle,
        )
        set_status(entry.status, outcome.code, outcome.code.name)
    code = codes.pop() if len(codes) == 1 else Code.MULTIPLE_RESULTS
    set_status(response.status, code, code.name)
    return response


def ack_response(result: AckResult) -> pb.AckMessageResponse:
    """Answer an ack, entry by entry (R6.5)."""
    response = pb.AckMessageResponse()
    set_status(response.status, result.code, result.code.name)
    for outcome in result.entries:
        entry = response.entries.add(message_id=outcome.message_id, receipt_handle=outcome.receipt_handle)
        set_status(entry.status, outcome.code, outcome.message)
    return response


def delivered(delivery: Delivery, store_host: str) -> pb.ReceiveMessageResponse:
    """Turn a delivery into a frame of the receive's stream (5.5)."""
    frame = pb.ReceiveMessageResponse()
    message = frame.message
    set_message(message, delivery.message, store_host)
    system = message.system_properties
    system.queue_id = delivery.queue_id
    system.queue_offset = delivery.offset
    set_instant(system.store_timestamp, delivery.store_timestamp)
    system.receipt_handle = delivery.receipt_handle
    system.delivery_attempt = delivery.attempt
    return frame


def set_message(message: pb.Message, stored: StoredMessage, store_host: str) -> None:
    """Fill in a message as consumers see it, without what only a delivery has (5.5)."""
    content = stored.content
    if "%" in content.topic:
        set_resource(message.topic, content.topic)
    else:
        message.topic.name = content.topic
    message.body = content.body
    if content.properties:
        message.user_properties.update(content.properties)
    system = message.system_properties
    system.message_id = content.message_id
    system.message_type = stored.message_type.value  # type: ignore[assignment]  # equal numbers of two types
    system.body_encoding = content.encoding.value  # type: ignore[assignment]  # as above
    system.body_digest.type = pb.DigestType.MD5
    system.body_digest.checksum = md5(content.body, usedforsecurity=False).hexdigest().upper()
    system.born_host = content.born_host
    system.store_host = store_host
    set_instant(system.born_timestamp, content.born_timestamp or 0.0)
    set_instant(system.store_timestamp, stored.store_timestamp)
    system.queue_id = stored.queue_id
    system.queue_offset = stored.offset
    if content.tag:
        system.tag = content.tag
    if content.keys:
        system.keys.extend(content.keys)
    if content.message_group:
        system.message_group = content.message_group
    if content.trace_context:
        system.trace_context = content.trace_context
    if content.delivery_timestamp is not None:
        set_instant(system.delivery_timestamp, content.delivery_timestamp)
    if content.priority is not None:
        system.priority = content.priority
    if content.lite_topic:
        system.lite_topic = content.lite_topic
    if stored.origin_topic:
        system.dead_letter_queue.topic = stored.origin_topic
        system.dead_letter_queue.message_id = stored.origin_message_id


def command(order: Command, store_host: str) -> pb.TelemetryCommand:
    """Convert a command for a client into a frame of its telemetry stream (2.3)."""
    frame = pb.TelemetryCommand()
    set_status(frame.status, Code.OK, "OK")
    match order:
        case RecoverOrphanedTransaction(message, transaction_id):
            recover = frame.recover_orphaned_transaction_command
            recover.transaction_id = transaction_id
            set_message(recover.message, message, store_host)
        case VerifyMessage(nonce, message):
            frame.verify_message_command.nonce = nonce
            set_message(frame.verify_message_command.message, message, store_host)
        case PrintStackTrace(nonce):
            frame.print_thread_stack_trace_command.nonce = nonce
        case NotifyUnsubscribeLite(lite_topic):
            frame.notify_unsubscribe_lite_command.lite_topic = lite_topic
        case ReconnectEndpoints(nonce):
            frame.reconnect_endpoints_command.nonce = nonce
    return frame


def subject(request: Message) -> tuple[str, str]:
    """Return topic and group of a request, empty without one; for matching faults only."""
    fields = request.DESCRIPTOR.fields_by_name
    holder: Any = request.messages[0] if "messages" in fields and request.messages else request  # type: ignore[attr-defined]  # any request
    if "message_queue" in fields:
        holder = request.message_queue  # type: ignore[attr-defined]  # as above
    topic = holder.topic.name if "topic" in holder.DESCRIPTOR.fields_by_name else ""
    group = request.group.name if "group" in fields else ""  # type: ignore[attr-defined]  # as above
    return topic, group
