"""What a consumer wants of a topic: everything, some tags, or an SQL expression over properties."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from aiorocketmq._core.names import check_group, check_topic
from aiorocketmq._core.tags import parse_tags

__all__ = ["Filter", "Sql", "Subscriptions", "Tags", "dead_letters"]


@dataclass(frozen=True, slots=True)
class Tags:
    """Messages with one of some tags: `Tags("paid || refunded")`; `*` is everything."""

    expression: str = "*"

    def __post_init__(self) -> None:
        parse_tags(self.expression)


@dataclass(frozen=True, slots=True)
class Sql:
    """Messages whose properties satisfy an SQL92 expression: `Sql("amount > 100 AND region = 'eu'")`."""

    expression: str

    def __post_init__(self) -> None:
        if not self.expression.strip():
            raise ValueError("an SQL filter must not be blank")


Filter: TypeAlias = Tags | Sql
Subscriptions: TypeAlias = Mapping[str, str | Tags | Sql] | Iterable[str]
"""`["orders"]`, `{"orders": "a || b"}` or `{"orders": Sql("amount > 100")}`."""

EVERYTHING = Tags("*")

DEAD_LETTERS = "%DLQ%"
"""What servers put before a group's name for the topic of its dead letters."""


def dead_letters(group: str) -> str:
    """The topic of a group's dead letters, to subscribe to: `subscriptions=[dead_letters("billing")]`.

    It exists once the first message has gone there. A consumer of it is checked at its start: a group that allows too
    few attempts would lose the dead letters instead of reading them (live-lessons.md 5), and is a UsageError."""
    check_group(group)
    return DEAD_LETTERS + group


def subscriptions_by_topic(subscriptions: Subscriptions) -> dict[str, Filter]:
    """The filter of each topic, checked; ValueError for a bad topic or expression.

    Topics of redelivery (`%RETRY%...`) are refused: reading one can stop redelivery for every group of the
    broker (live-lessons.md, 5)."""
    if isinstance(subscriptions, str):
        raise TypeError(f"subscriptions must be a list or a mapping of topics; write [{subscriptions!r}]")
    pairs = (
        subscriptions.items()
        if isinstance(subscriptions, Mapping)
        else [(topic, EVERYTHING) for topic in subscriptions]
    )
    filters: dict[str, Filter] = {}
    for topic, wanted in pairs:
        filters[topic] = filter_of(topic, wanted)
    return filters


def filter_of(topic: str, wanted: str | Tags | Sql = EVERYTHING) -> Filter:
    """The filter for one topic, both checked as in `subscriptions_by_topic`."""
    check_topic(topic)
    if topic.startswith("%RETRY%"):
        raise ValueError(
            f"topic {topic!r} must not be consumed: reading a redelivery topic can stop redelivery for "
            "every group; subscribe to the topic itself"
        )
    return Tags(wanted.strip() or "*") if isinstance(wanted, str) else wanted
