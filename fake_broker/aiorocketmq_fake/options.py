"""Options of topics and groups, as `create_topic` and `create_group` take them from Python, the CLI and the wire."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TypedDict, TypeVar

from aiorocketmq_fake.core.values.codes import Permission, TopicType
from aiorocketmq_fake.core.values.model import GroupConfig, RetryPolicy, TopicConfig

__all__ = ["GroupOptions", "TopicOptions", "group_config", "topic_config"]

E = TypeVar("E", bound=Enum)


class TopicOptions(TypedDict, total=False):
    """Keywords of `create_topic` and `update_topic`; `topic_config` has the defaults."""

    type: str | Enum
    queues: int
    read_queues: int | None
    write_queues: int | None
    permission: str | Enum
    lite_expiration: float | None
    lite_limit: int


class GroupOptions(TypedDict, total=False):
    """Keywords of `create_group` and `update_group`; `group_config` has the defaults."""

    ordered: bool
    max_attempts: int
    backoff: Sequence[float] | RetryPolicy
    consume_enabled: bool
    lite_topic: str
    lite_quota: int
    lite_exclusive: bool


def topic_config(
    name: str,
    *,
    type: str | Enum = "NORMAL",  # noqa: A002  # the protocol's word
    queues: int = 4,
    read_queues: int | None = None,
    write_queues: int | None = None,
    permission: str | Enum = "READ_WRITE",
    lite_expiration: float | None = None,
    lite_limit: int = 0,
) -> TopicConfig:
    """Return the settings of a topic; ValueError for an unknown type or permission."""
    return TopicConfig(
        name=name,
        type=_member(TopicType, "type", type),
        read_queues=queues if read_queues is None else read_queues,
        write_queues=queues if write_queues is None else write_queues,
        permission=_member(Permission, "permission", permission),
        lite_expiration=lite_expiration,
        lite_limit=lite_limit,
    )


def group_config(
    name: str,
    *,
    ordered: bool = False,
    max_attempts: int = 17,
    backoff: Sequence[float] | RetryPolicy = (),
    consume_enabled: bool = True,
    lite_topic: str = "",
    lite_quota: int = 0,
    lite_exclusive: bool = False,
) -> GroupConfig:
    """Return the settings of a consumer group."""
    policy = backoff if isinstance(backoff, RetryPolicy) else RetryPolicy(steps=tuple(backoff))
    return GroupConfig(
        name=name,
        ordered=ordered,
        max_attempts=max_attempts,
        retry_policy=policy if policy != RetryPolicy() else None,
        consume_enabled=consume_enabled,
        lite_bind_topic=lite_topic,
        lite_quota=lite_quota,
        lite_exclusive=lite_exclusive,
    )


def _member(kind: type[E], what: str, value: object) -> E:
    """Return a member by its name, or by a member of the same name of any enumeration."""
    name = value.name if isinstance(value, Enum) else value
    if name not in kind.__members__:
        raise ValueError(f"{what} must be one of {', '.join(kind.__members__)}, got {name!r}")
    return kind.__members__[str(name)]
