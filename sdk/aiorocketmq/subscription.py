"""Subscriptions of consumers: whole topics, tags, or SQL expressions over properties."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from aiorocketmq._core.names import check_group, check_topic
from aiorocketmq._core.tags import parse_tags

__all__ = ["Filter", "Sql", "Subscriptions", "Tags", "dead_letters"]


@dataclass(frozen=True, slots=True)
class Tags:
    """Filter for messages with one of some tags: `Tags("paid || refunded")`; `*` matches everything.

    Raises ValueError if the expression names no tag."""

    expression: str = "*"

    def __post_init__(self) -> None:
        parse_tags(self.expression)


@dataclass(frozen=True, slots=True)
class Sql:
    """Filter for messages whose properties satisfy an SQL92 expression: `Sql("amount > 100 AND region = 'eu'")`.

    Raises ValueError if the expression is blank; servers parse it when the consumer starts or subscribes."""

    expression: str

    def __post_init__(self) -> None:
        if not self.expression.strip():
            raise ValueError("an SQL filter must not be blank")


Filter: TypeAlias = Tags | Sql
Subscriptions: TypeAlias = Mapping[str, str | Tags | Sql] | Iterable[str]
"""`["orders"]`, `{"orders": "a || b"}` or `{"orders": Sql("amount > 100")}`."""

EVERYTHING = Tags("*")

DEAD_LETTERS = "%DLQ%"
"""Prefix of a group's dead-letter topic."""


def dead_letters(group: str) -> str:
    """Return the dead-letter topic of a group, to subscribe to: `subscriptions=[dead_letters("billing")]`.

    It exists once the first message was moved there. A consumer of it is checked at its start: a group that allows too
    few attempts would lose the dead letters instead of reading them, and raises UsageError. Raises
    ValueError for a malformed group."""
    check_group(group)
    return DEAD_LETTERS + group


def subscriptions_by_topic(subscriptions: Subscriptions) -> dict[str, Filter]:
    """Return the filter of each topic; ValueError for an invalid topic or expression.

    Retry topics (`%RETRY%...`) are refused: reading one can stop redelivery for every group of the broker."""
    if isinstance(subscriptions, str):
        raise TypeError(f"subscriptions must be a list or a mapping of topics; write [{subscriptions!r}]")
    pairs = (
        subscriptions.items()
        if isinstance(subscriptions, Mapping)
        else [(topic, EVERYTHING) for topic in subscriptions]
    )
    filters: dict[str, Filter] = {}
    for topic, filter_ in pairs:
        filters[topic] = filter_of(topic, filter_)
    return filters


def filter_of(topic: str, wanted: str | Tags | Sql = EVERYTHING) -> Filter:
    """Return the filter for one topic, both checked as in `subscriptions_by_topic`."""
    check_topic(topic)
    if topic.startswith("%RETRY%"):
        raise ValueError(
            f"topic {topic!r} must not be consumed: reading a redelivery topic can stop redelivery for "
            "every group; subscribe to the topic itself"
        )
    return Tags(wanted.strip() or "*") if isinstance(wanted, str) else wanted
