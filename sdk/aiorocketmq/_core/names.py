"""Syntax of the names of topics, consumer groups and lite topics (client-behaviour.md, 1.1)."""

import re

_NAME = re.compile(r"[%a-zA-Z0-9_-]+")
_TOPIC_LIMIT = 127
GROUP_LIMIT = 120
_LITE_TOPIC = re.compile(r"[a-zA-Z0-9_-]+")
_LITE_TOPIC_LIMIT = 64


def check_topic(topic: str) -> None:
    """Raise ValueError unless `topic` is a valid topic name: letters, digits, `%`, `_`, `-`, at most 127."""
    _check("topic", topic, _TOPIC_LIMIT)


def check_group(group: str) -> None:
    """Raise ValueError unless `group` is a valid consumer group name: letters, digits, `%`, `_`, `-`, at most 120."""
    _check("group", group, GROUP_LIMIT)


def check_lite_topic(name: str, *, longest: int = _LITE_TOPIC_LIMIT) -> None:
    """Raise ValueError unless `name` is a valid lite topic name: letters, digits, `_`, `-`, at most 64 (R4.31)."""
    if not isinstance(name, str):
        raise TypeError(f"lite topic must be text, not {type(name).__name__}")
    if not _LITE_TOPIC.fullmatch(name):
        raise ValueError(
            f"lite topic {name!r} must consist of letters, digits, '_' and '-', and not be empty"
        )
    if len(name) > longest:
        raise ValueError(f"lite topic {name!r} is {len(name)} characters long; at most {longest} are allowed")


def _check(kind: str, name: str, limit: int) -> None:
    if not isinstance(name, str):
        raise TypeError(f"{kind} must be text, not {type(name).__name__}")
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{kind} {name!r} must consist of letters, digits, '%', '_' and '-', and not be empty"
        )
    if len(name) > limit:
        raise ValueError(f"{kind} {name!r} is {len(name)} characters long; at most {limit} are allowed")
