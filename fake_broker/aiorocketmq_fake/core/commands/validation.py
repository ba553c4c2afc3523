"""Validation of messages on send: the rows of 4.1 in the server's order, the first failure decides."""

from aiorocketmq_fake.core.records.topics import ACCEPTED
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.codes import Code, MessageType, Refusal, TopicType
from aiorocketmq_fake.core.values.model import OutgoingMessage
from aiorocketmq_fake.core.values.names import check_lite_topic, has_control_character
from aiorocketmq_fake.core.values.profile import Profile

# Aliases of enum members: attribute access on the enum is ten times slower, for every message.
_TRANSACTION, _NORMAL = MessageType.TRANSACTION, MessageType.NORMAL


def message_type(message: OutgoingMessage) -> MessageType:
    """Return the type of a message by its fields (R4.5)."""
    if message.message_type is _TRANSACTION:
        return _TRANSACTION
    if message.delivery_timestamp is not None:
        return MessageType.DELAY
    if message.message_group:
        return MessageType.FIFO
    if message.priority is not None:
        return MessageType.PRIORITY
    if message.lite_topic:
        return MessageType.LITE
    return _NORMAL


def check_same_topic(messages: tuple[OutgoingMessage, ...]) -> None:
    """Refuse a batch over several topics or namespaces (row 3)."""
    first = messages[0]
    for message in messages[1:]:
        if message.topic != first.topic or message.namespace != first.namespace:
            raise Refusal(
                Code.MESSAGE_CORRUPTED,
                f"The batch mixes the topics {first.topic!r} and {message.topic[:140]!r}; send one topic per call.",
            )


def check_message(message: OutgoingMessage, now: float, profile: Profile) -> None:
    """Refuse a message that breaks one of the rows 4 to 14."""
    if not message.body:
        raise Refusal(Code.MESSAGE_BODY_EMPTY, "The message has an empty body.")
    _check_size(message, profile)
    if message.properties:
        _check_properties(message, profile)
    if message.tag:
        _check_text(message.tag, Code.ILLEGAL_MESSAGE_TAG, "tag", forbidden="|")
    for key in message.keys:
        if key:
            _check_text(key, Code.ILLEGAL_MESSAGE_KEY, "key")
    _check_property_bytes(message, profile.property_bytes_max)
    if not message.message_id.strip():
        raise Refusal(Code.ILLEGAL_MESSAGE_ID, "The message id is blank.")
    _check_times(message, now, profile)
    if message.message_group:
        _check_message_group(message.message_group, profile.message_group_limit)
    if message.lite_topic:
        check_lite_topic(message.lite_topic)


def check_classic(message: OutgoingMessage, now: float, profile: Profile) -> None:
    """Refuse an invalid message of the classic protocol; brokers check less than proxies do (live remoting 3)."""
    if not message.body:
        raise Refusal(Code.MESSAGE_BODY_EMPTY, "The message has an empty body.")
    _check_size(message, profile)
    _check_times(message, now, profile)


def check_type(message: OutgoingMessage, topic_type: TopicType) -> None:
    """Refuse a message of a type that the topic does not accept (row 15)."""
    kind = message_type(message)
    if kind not in ACCEPTED[topic_type]:
        raise Refusal(
            Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"The topic {message.topic} of type {topic_type.value} takes no {kind.name} messages.",
        )


def check_encoded(message: OutgoingMessage, code: Code) -> None:
    """Refuse what the store cannot encode: all properties together, system ones included (row 17)."""
    # Bytes are at least as many as characters and at most four times as many: most messages need no exact count.
    rough = (
        len(message.message_id) + len(message.tag) + len(message.message_group) + len(message.trace_context)
    )
    if message.keys:
        rough += sum(map(len, message.keys))
    properties = message.properties
    if message.classic is not None:
        properties = {**properties, **message.classic.properties}
    if properties:
        rough += sum(len(key) + len(value) + 2 for key, value in properties.items())
    if rough * 4 + _ENCODING_OVERHEAD <= limits.ENCODED_PROPERTY_BYTES_MAX:
        return
    texts = (message.message_id, message.tag, message.message_group, message.trace_context, *message.keys)
    size = _ENCODING_OVERHEAD + sum(map(_size, texts))
    size += sum(_size(key) + _size(value) + 2 for key, value in properties.items())
    if size > limits.ENCODED_PROPERTY_BYTES_MAX:
        raise Refusal(
            code,
            f"The properties of the message need {size} bytes, more than {limits.ENCODED_PROPERTY_BYTES_MAX}.",
        )


_ENCODING_OVERHEAD = 160
"""Approximate bytes of the store's own property names and separators."""


def _check_size(message: OutgoingMessage, profile: Profile) -> None:
    size = len(message.body)
    if size > profile.body_max:
        raise Refusal(
            Code.MESSAGE_BODY_TOO_LARGE, f"The body of {size} bytes exceeds the limit of {profile.body_max}."
        )


def _check_properties(message: OutgoingMessage, profile: Profile) -> None:
    properties = message.properties
    if len(properties) > profile.property_count_max:
        raise Refusal(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"The message has {len(properties)} user properties, more than {profile.property_count_max}.",
        )
    for key, value in properties.items():
        if key in limits.RESERVED_PROPERTIES:
            raise Refusal(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"The property key {key} is reserved.")
        if has_control_character(key) or has_control_character(value):
            raise Refusal(
                Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"The property {key[:80]!r} has a control character."
            )


def _check_text(text: str, code: Code, what: str, forbidden: str = "") -> None:
    if not text.strip():
        raise Refusal(code, f"The {what} is blank.")
    if forbidden and forbidden in text:
        raise Refusal(code, f"The {what} {text[:80]!r} contains {forbidden!r}.")
    if has_control_character(text):
        raise Refusal(code, f"The {what} {text[:80]!r} has a control character.")


def _check_property_bytes(message: OutgoingMessage, most: int) -> None:
    if not message.properties and not message.keys and len(message.tag) * 4 <= most:
        return
    size = _size(message.tag) + sum(map(_size, message.keys))
    size += sum(_size(key) + _size(value) for key, value in message.properties.items())
    if size > most:
        raise Refusal(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"User properties, tag and keys have {size} bytes together, more than {most}.",
        )


def _check_times(message: OutgoingMessage, now: float, profile: Profile) -> None:
    if (
        message.message_type is _TRANSACTION
        and message.recovery_duration is not None
        and message.recovery_duration > profile.recovery_duration_max
    ):
        raise Refusal(
            Code.BAD_REQUEST,
            f"The recovery duration of {message.recovery_duration:g} s exceeds {profile.recovery_duration_max:g} s.",
        )
    if message.delivery_timestamp is not None and message.delivery_timestamp - now > profile.max_delay:
        raise Refusal(
            Code.ILLEGAL_DELIVERY_TIME,
            f"The delivery time is more than {profile.max_delay:g} s in the future.",
        )


def _check_message_group(message_group: str, limit: int) -> None:
    _check_text(message_group, Code.ILLEGAL_MESSAGE_GROUP, "message group")
    if _size(message_group) >= limit:
        raise Refusal(
            Code.ILLEGAL_MESSAGE_GROUP,
            f"The message group {message_group[:80]!r} does not have fewer than {limit} bytes.",
        )


def _size(text: str) -> int:
    # Lone surrogates cannot be sent over the wire, but must not crash a direct caller of the core.
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
