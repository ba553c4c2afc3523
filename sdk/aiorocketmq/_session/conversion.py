"""Between protobuf messages and the client's own values: the only module that knows both."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from types import MappingProxyType
from typing import TypeAlias

from aiorocketmq._aio.decompression import unpack_with_extra
from aiorocketmq._core import bounds
from aiorocketmq._core.bodies import DEFAULT_MAX_UNPACKED, mismatch, unpacked_at_once
from aiorocketmq._core.endpoint import Address, Endpoint, endpoint_of
from aiorocketmq._core.lease import Lease
from aiorocketmq._core.route import MessageQueue, Route, RouteQueue
from aiorocketmq._core.settings import Answer, Backoff, Declaration, FilterText
from aiorocketmq._core.transactions import Resolution
from aiorocketmq.message import Message, MessageType, ReceivedMessage, Settler
from aiorocketmq.subscription import Filter, Sql
from aiorocketmq.wire import messages as pb

_TYPE_TO_WIRE = {each: pb.MessageType.Value(each.value) for each in MessageType}
_TYPE_FROM_WIRE = {number: each for each, number in _TYPE_TO_WIRE.items()}
_IDENTITY = pb.Encoding.IDENTITY
_GZIP = pb.Encoding.GZIP
_DIGESTS = {number: name for name, number in pb.DigestType.items()}
_NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})
# Messages of one poll share their queue: looking it up takes a tenth of creating it.
_queue = lru_cache(maxsize=1024)(MessageQueue)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_READABLE = (pb.Permission.READ, pb.Permission.READ_WRITE)
_WRITABLE = (pb.Permission.WRITE, pb.Permission.READ_WRITE)

BROKER_PROPERTIES = frozenset(
    {
        "__SHARDINGKEY",
        "__transactionId__",
        "CHECK_IMMUNITY_TIME_IN_SECONDS",
        "INNER_MULTI_DISPATCH",
        "TRACE_CONTEXT",
        "TRANSACTION_CHECK_TIMES",
    }
)
"""Properties that Apache's brokers add to the sender's (live-broker-session.md, 4.5 and 11)."""


def filter_text(wanted: Filter) -> FilterText:
    """The wire form of a subscription's filter."""
    return FilterText(wanted.expression, isinstance(wanted, Sql))


def resource(name: str, namespace: str) -> pb.Resource:
    """A topic or group by name."""
    return pb.Resource(resource_namespace=namespace, name=name)


def endpoint_to_wire(endpoint: Endpoint) -> pb.Endpoints:
    """An endpoint, as requests and settings carry it."""
    return pb.Endpoints(
        scheme=pb.AddressScheme.ValueType(endpoint.scheme.value),
        addresses=[pb.Address(host=each.host, port=each.port) for each in endpoint.addresses],
    )


def _addresses(endpoints: pb.Endpoints) -> tuple[Address, ...]:
    """Return the addresses that have a host, at most one more than is allowed; real servers also send empty ones."""
    listed = endpoints.addresses[: bounds.MAX_ADDRESSES + 1]
    return tuple(Address(each.host, each.port) for each in listed if each.host)


def queue_to_wire(queue: MessageQueue, namespace: str) -> pb.MessageQueue:
    """A queue as requests name it; id -1 stands for all queues of the broker."""
    return pb.MessageQueue(
        topic=resource(queue.topic, namespace), id=queue.id, broker=pb.Broker(name=queue.broker)
    )


def _queues_from_wire(
    topic: str, queues: Sequence[pb.MessageQueue], access: Endpoint
) -> tuple[RouteQueue, ...]:
    # Checked before values are built: an Address takes ten times the memory of one on the wire.
    bounds.check_sizes([len(each.broker.endpoints.addresses) for each in queues])
    built = tuple(_queue_from_wire(topic, each, access) for each in queues)
    bounds.check_servers(len({each.endpoint for each in built}))
    return built


def _queue_from_wire(topic: str, queue: pb.MessageQueue, access: Endpoint) -> RouteQueue:
    """One queue of `topic`; if it names no address, `access` serves it."""
    bounds.check_queue(queue.broker.name, queue.id)
    addresses = _addresses(queue.broker.endpoints)
    return RouteQueue(
        queue=MessageQueue(topic, queue.broker.name, queue.id),
        endpoint=endpoint_of(addresses) if addresses else access,
        broker_id=queue.broker.id,
        readable=queue.permission in _READABLE,
        writable=queue.permission in _WRITABLE,
        accepts=frozenset(
            _TYPE_FROM_WIRE[number].value
            for number in queue.accept_message_types
            if number in _TYPE_FROM_WIRE
        ),
    )


def route_from_wire(topic: str, response: pb.QueryRouteResponse, access: Endpoint) -> Route:
    """Return the route of `topic`; ValueError for an answer beyond the bounds."""
    return Route(topic, _queues_from_wire(topic, response.message_queues, access))


def assigned_from_wire(
    topic: str, response: pb.QueryAssignmentResponse, access: Endpoint
) -> tuple[RouteQueue, ...]:
    """Return the assigned queues of `topic`; ValueError for an answer beyond the bounds."""
    return _queues_from_wire(topic, [each.message_queue for each in response.assignments], access)


def filter_to_wire(wanted: FilterText) -> pb.FilterExpression:
    """The filter of a wire subscription."""
    return pb.FilterExpression(
        type=pb.FilterType.SQL if wanted.is_sql else pb.FilterType.TAG, expression=wanted.expression
    )


def seconds_to_wire(seconds: float) -> pb.Duration:
    """A duration."""
    nanos = round(seconds * 1_000_000_000)
    return pb.Duration(seconds=nanos // 1_000_000_000, nanos=nanos % 1_000_000_000)


def _seconds(duration: pb.Duration) -> float:
    return duration.seconds + duration.nanos / 1_000_000_000


def timestamp_us(timestamp: pb.Timestamp) -> int | None:
    """Return a server's instant in microseconds since 1970; None if it is no time, see `bounds.known_us`."""
    return bounds.known_us(timestamp.seconds * 1_000_000 + timestamp.nanos // 1_000)


def microseconds_of(moment: datetime) -> int:
    """Return an instant in microseconds since 1970, negative before that."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def settings_to_wire(
    declared: Declaration, access: Endpoint, namespace: str, version: str, host: str
) -> pb.Settings:
    """The client's settings, which are the first message to every server (client-behaviour.md, 6.1)."""
    settings = pb.Settings(
        client_type=pb.ClientType.Value(declared.client_type),
        access_point=endpoint_to_wire(access),
        request_timeout=seconds_to_wire(declared.request_timeout),
        user_agent=pb.UA(
            language=pb.Language.PYTHON,
            version=version,
            platform=f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
            hostname=host,
        ),
        client_properties=dict(declared.client_properties),
    )
    if declared.is_producer:
        settings.publishing.validate_message_type = True
        settings.publishing.topics.extend(resource(topic, namespace) for topic in declared.topics)
        settings.backoff_policy.max_attempts = declared.attempts
        settings.backoff_policy.exponential_backoff.multiplier = 1.0
        return settings
    settings.subscription.group.CopyFrom(resource(declared.group or "", namespace))
    for topic, filter_ in declared.subscriptions.items():
        settings.subscription.subscriptions.add(
            topic=resource(topic, namespace), expression=filter_to_wire(filter_)
        )
    if declared.long_polling is not None:
        settings.subscription.long_polling_timeout.CopyFrom(seconds_to_wire(declared.long_polling))
    return settings


def answer_from_wire(settings: pb.Settings, access: Endpoint) -> Answer:
    """Return a server's settings unchecked, for `bounded_answer`; missing parts are None (client-behaviour.md, 6.2)."""
    subscription = settings.subscription if settings.HasField("subscription") else None
    publishing = settings.publishing if settings.HasField("publishing") else None
    metrics = settings.metric if settings.HasField("metric") and settings.metric.on else None
    answer = Answer(
        backoff=_backoff(settings.backoff_policy) if settings.HasField("backoff_policy") else None,
        max_body=publishing.max_body_size if publishing else None,
        validate_message_type=publishing.validate_message_type if publishing else None,
        metrics_endpoint=";".join(map(str, _addresses(metrics.endpoints))) or str(access)
        if metrics
        else None,
    )
    if subscription is None:
        return answer
    return Answer(
        backoff=answer.backoff,
        metrics_endpoint=answer.metrics_endpoint,
        ordered=subscription.fifo if subscription.HasField("fifo") else None,
        receive_batch=subscription.receive_batch_size or None,
        long_polling=_seconds(subscription.long_polling_timeout) or None,
        lite_quota=subscription.lite_subscription_quota or None,
        lite_topic_limit=subscription.max_lite_topic_size or None,
    )


def _backoff(policy: pb.RetryPolicy) -> Backoff:
    formula = policy.exponential_backoff
    return Backoff(
        max_attempts=policy.max_attempts,
        # One entry more than allowed is enough to detect too many: a million of them would block the event loop.
        steps=tuple(
            _seconds(each) for each in policy.customized_backoff.next[: bounds.MAX_BACKOFF_STEPS + 1]
        ),
        initial=_seconds(formula.initial),
        maximum=_seconds(formula.max),
        multiplier=formula.multiplier,
    )


def fill_message(
    wire: pb.Message,
    message: Message,
    *,
    message_id: str,
    now: float,
    host: str,
    queue_id: int,
    namespace: str,
    message_type: MessageType,
    due_us: int | None,
    check_after: float | None = None,
    packed: bytes | None = None,
) -> None:
    """Write a message into an empty one of the wire, born at `now` (Unix time); a missing born time would read as 1970
    (live-lessons.md, 7). `packed` is the compressed body, if it is sent compressed.

    Sets single fields, and only those that have a value: a third of the cost of constructors with keywords, on the path
    of every send."""
    wire.body = message.body if packed is None else packed
    wire.topic.name = message.topic
    if namespace:
        wire.topic.resource_namespace = namespace
    if message.properties:
        wire.user_properties.update(message.properties)
    system = wire.system_properties
    system.message_id = message_id
    system.message_type = _TYPE_TO_WIRE[message_type]
    system.body_encoding = _IDENTITY if packed is None else _GZIP
    system.born_host = host
    system.queue_id = queue_id
    set_microseconds(system.born_timestamp, int(now * 1_000_000))
    if message.tag is not None:
        system.tag = message.tag
    if message.keys:
        system.keys.extend(message.keys)
    if message_type is MessageType.NORMAL:
        return
    if due_us is not None:
        set_microseconds(system.delivery_timestamp, due_us)
    if check_after is not None:
        system.orphaned_transaction_recovery_duration.CopyFrom(seconds_to_wire(check_after))
    if message.message_group is not None:
        system.message_group = message.message_group
    if message.lite_topic is not None:
        system.lite_topic = message.lite_topic
    if message.priority is not None:
        system.priority = message.priority


_RESOLUTIONS = {
    Resolution.COMMIT: pb.TransactionResolution.COMMIT,
    Resolution.ROLLBACK: pb.TransactionResolution.ROLLBACK,
}


def end_to_wire(
    topic: pb.Resource, message_id: str, transaction_id: str, resolution: Resolution, *, from_check: bool
) -> pb.EndTransactionRequest:
    """The request that commits or rolls back a transaction."""
    return pb.EndTransactionRequest(
        topic=topic,
        message_id=message_id,
        transaction_id=transaction_id,
        resolution=_RESOLUTIONS[resolution],
        source=pb.TransactionSource.SOURCE_SERVER_CHECK if from_check else pb.TransactionSource.SOURCE_CLIENT,
    )


def set_microseconds(timestamp: pb.Timestamp, microseconds: int) -> None:
    """Write an instant in microseconds since 1970, which may be negative; its nanoseconds never are."""
    timestamp.seconds = microseconds // 1_000_000
    timestamp.nanos = microseconds % 1_000_000 * 1_000


def message_from_wire(
    message: pb.Message,
    endpoint: Endpoint,
    broker: str,
    group: str | None,
    aside: list[ReceivedMessage],
    namespace: str = "",
    settler: Settler | None = None,
    lease_ends_at: float = 0.0,
    lease_ends_us: int | None = None,
    keep_wire: bool = False,
    max_unpacked: int = DEFAULT_MAX_UNPACKED,
) -> ReceivedMessage:
    """Return a received message; with a settler and a receipt handle, it has a lease that ends at `lease_ends_at`. With
    `keep_wire` it keeps the wire message until its delivery is emitted. A message with a compressed body that is not
    small keeps the compressed body and is appended to `aside`, to be decompressed later."""
    system = message.system_properties
    digest = system.body_digest
    packed = body = message.body
    checksum = digest.checksum
    corruption = mismatch(body, _DIGESTS.get(digest.type, ""), checksum) if checksum else None
    plain: bytes | None = body
    if system.body_encoding == _GZIP and corruption is None:
        plain = unpacked_at_once(body, max_unpacked, unpack_with_extra)
        body = packed if plain is None else plain
    # Set one by one: a constructor with thirty keywords takes as long as everything else here.
    received = ReceivedMessage.__new__(ReceivedMessage)
    topic = received.topic = message.topic.name
    received.body = body
    received.corruption = corruption
    received.message_id = system.message_id
    received.queue = _queue(topic, broker, system.queue_id)
    received.offset = system.queue_offset
    received.attempt = system.delivery_attempt
    received.group = group
    received.namespace = namespace
    received.message_group = system.message_group if system.HasField("message_group") else None
    received.lite_topic = system.lite_topic if system.HasField("lite_topic") else None
    received._source = endpoint
    received._step_ended = None
    received._serial = 0
    received._wire = message if keep_wire else None
    handle = system.receipt_handle
    if settler is not None and handle:
        received._lease = Lease(handle, lease_ends_at)
        received._lease_ends_us = lease_ends_us
        received._settler = settler
    else:
        received._lease = received._lease_ends_us = received._settler = None
    if len(packed) <= _READ_LATER:
        received._rest = partial(_read_rest, message)
    else:
        _read_rest(message, received)
    if plain is None:
        aside.append(received)
    return received


_READ_LATER = 4096
"""Up to this size of the body (in bytes), the wire message is kept and rarely used fields are parsed on first access: a
third of the work of receiving. With a larger one, the body would be kept twice meanwhile."""


def _read_rest(message: pb.Message, received: ReceivedMessage) -> None:
    """Parse the fields that `message_from_wire` has deferred."""
    system = message.system_properties
    travelled = message.user_properties
    raw = MappingProxyType(dict(travelled)) if travelled else _NO_PROPERTIES
    received.tag = system.tag if system.HasField("tag") else None
    received.keys = tuple(system.keys)
    received.properties = raw if BROKER_PROPERTIES.isdisjoint(raw) else _senders(raw)
    received.raw_properties = raw
    received.priority = system.priority if system.HasField("priority") else None
    received.trace_context = system.trace_context if system.HasField("trace_context") else None
    received.transaction_id = raw.get("__transactionId__")
    received.message_type = _TYPE_FROM_WIRE.get(system.message_type)
    received.born_host = system.born_host
    received._born_us = timestamp_us(system.born_timestamp) or None
    received._stored_us = timestamp_us(system.store_timestamp) if system.HasField("store_timestamp") else None
    received._deliver_us = (
        timestamp_us(system.delivery_timestamp) if system.HasField("delivery_timestamp") else None
    )
    received._rest = None  # last, as another thread may read the fields meanwhile


Travelled: TypeAlias = pb.Message
"""A wire message from which properties are taken unparsed."""


def properties_of(message: Travelled) -> tuple[bytes, dict[str, str] | None]:
    """The system and user properties of a message as plain values, for `properties_from` in another thread or
    process."""
    travelled = message.user_properties  # copying an empty one takes longer than all the rest
    return message.system_properties.SerializeToString(), dict(travelled) if travelled else None


Read: TypeAlias = tuple[
    tuple[str | None, int, int, str, str | None, str | None, int | None],
    tuple[int, str, int | None, int | None, int | None, str | None],
    Mapping[str, str],
]
"""A message for its recording: location and names (lite topic, queue, offset, id, message group, tag, priority); then
attempt, receipt handle, due, born and stored times in microseconds, and transaction id; then the user properties."""


def properties_from(packed: bytes, travelled: dict[str, str] | None) -> Read:
    """Parse the properties of a message in the same way as `message_from_wire`."""
    system = pb.SystemProperties.FromString(packed)
    has = system.HasField
    named = (
        system.lite_topic if has("lite_topic") else None,
        system.queue_id,
        system.queue_offset,
        system.message_id,
        system.message_group if has("message_group") else None,
        system.tag if has("tag") else None,
        system.priority if has("priority") else None,
    )
    came = (
        system.delivery_attempt,
        system.receipt_handle,
        timestamp_us(system.delivery_timestamp) if has("delivery_timestamp") else None,
        timestamp_us(system.born_timestamp) or None,
        timestamp_us(system.store_timestamp) if has("store_timestamp") else None,
        None if travelled is None else travelled.get("__transactionId__"),
    )
    if travelled is None:
        return named, came, _NO_PROPERTIES
    return named, came, travelled if BROKER_PROPERTIES.isdisjoint(travelled) else _senders(travelled)


def _senders(raw: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType({key: value for key, value in raw.items() if key not in BROKER_PROPERTIES})
