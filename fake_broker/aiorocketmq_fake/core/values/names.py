"""Names of topics, groups and lite topics: legal ones, and derived ones."""

import re
from collections.abc import Mapping

from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.codes import Code, Refusal

_NAME = re.compile(limits.NAME_PATTERN)
_LITE_TOPIC = re.compile(limits.LITE_TOPIC_PATTERN)
_CLIENT_PROPERTY = re.compile(limits.CLIENT_PROPERTY_KEY)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def check_topic(name: str, reserved: frozenset[str] = frozenset()) -> None:
    """Refuse with ILLEGAL_TOPIC what may not name a topic (13.2); `reserved` adds names of cluster and
    brokers."""
    problem = _problem(name, limits.TOPIC_NAME_MAX)
    if problem is None and (
        name in limits.SYSTEM_TOPICS or name in reserved or name.startswith(limits.SYSTEM_TOPIC_PREFIX)
    ):
        problem = "is reserved for the broker itself"
    if problem is not None:
        raise Refusal(Code.ILLEGAL_TOPIC, f"The topic {name[:140]!r} {problem}.")


def check_group(name: str) -> None:
    """Refuse with ILLEGAL_CONSUMER_GROUP what may not name a consumer group (13.2)."""
    problem = _problem(name, limits.GROUP_NAME_MAX)
    if problem is None and name.startswith(limits.SYSTEM_GROUP_PREFIX):
        problem = "is reserved for the broker itself"
    if problem is not None:
        raise Refusal(Code.ILLEGAL_CONSUMER_GROUP, f"The consumer group {name[:140]!r} {problem}.")


def check_lite_topic(name: str) -> None:
    """Refuse with ILLEGAL_LITE_TOPIC what may not name a lite topic (R4.31)."""
    if not _LITE_TOPIC.fullmatch(name):
        raise Refusal(
            Code.ILLEGAL_LITE_TOPIC,
            f"The lite topic {name[:80]!r} is not 1 to 64 letters, digits, underscores and hyphens.",
        )


def check_client_properties(properties: Mapping[str, str]) -> None:
    """Raise INVALID_CLIENT_PROPERTIES for illegal client properties in settings (R2.18)."""
    size = sum(len(key.encode()) + len(value.encode()) for key, value in properties.items())
    if len(properties) > limits.CLIENT_PROPERTIES_MAX:
        problem = f"are {len(properties)}, more than {limits.CLIENT_PROPERTIES_MAX}"
    elif not all(map(_CLIENT_PROPERTY.fullmatch, properties)):
        problem = "have a key that is not a letter and up to 63 letters, digits, _, . and -"
    elif any(len(value) > limits.CLIENT_PROPERTY_VALUE_MAX for value in properties.values()):
        problem = f"have a value of more than {limits.CLIENT_PROPERTY_VALUE_MAX} characters"
    elif size > limits.CLIENT_PROPERTY_BYTES_MAX:
        problem = f"have {size} bytes, more than {limits.CLIENT_PROPERTY_BYTES_MAX}"
    else:
        return
    raise Refusal(Code.INVALID_CLIENT_PROPERTIES, f"The client properties {problem}.")


def has_control_character(text: str) -> bool:
    """Return whether a string contains an ISO control character (13.2)."""
    return _CONTROL.search(text) is not None


def retry_topic(group: str, topic: str) -> str:
    """Return the topic of a group's redeliveries (0.2)."""
    return f"{limits.RETRY_PREFIX}{group}_{topic}"


def plain_retry_topic(group: str) -> str:
    """Return the classic retry topic of a group, which servers also create with its dead letters."""
    return f"{limits.RETRY_PREFIX}{group}"


def dead_letter_topic(group: str) -> str:
    """Return the topic of a group's dead letters (0.2)."""
    return f"{limits.DEAD_LETTER_PREFIX}{group}"


def is_internal(topic: str) -> bool:
    """Return whether a topic belongs to a group (retries or dead letters) and so accepts every message type (R4.6)."""
    return topic.startswith((limits.RETRY_PREFIX, limits.DEAD_LETTER_PREFIX))


def _problem(name: str, longest: int) -> str | None:
    if not name.strip():
        return "is blank"
    if len(name) > longest:
        return f"is longer than {longest} characters"
    if not _NAME.fullmatch(name):
        return "has characters other than letters, digits, %, |, _ and -"
    return None
