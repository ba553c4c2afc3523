"""Filters: which messages a consumer wants, decided in the two steps that servers use.

A filter first says whether the broker reads a message for the consumer (`selects`), then whether the proxy
passes it on (`confirms`). Only tags need the second step: the broker compares 32-bit hashes (R5.23).
"""

from typing import Protocol

from aiorocketmq_fake.core.codes import Code, FilterType, Refusal
from aiorocketmq_fake.core.model import FilterExpression, StoredMessage
from aiorocketmq_fake.core.placement import java_hash


class Filter(Protocol):
    """A parsed filter expression."""

    def selects(self, message: StoredMessage) -> bool:
        """Tell whether the broker reads the message for the consumer; False skips it for the whole group
        (R5.21)."""
        ...

    def confirms(self, message: StoredMessage) -> bool:
        """Tell whether a selected message is really meant; False settles it for the group without
        delivery."""
        ...


class TagFilter:
    """Accept messages that carry one of some tags (R5.23)."""

    __slots__ = ("_hashes", "_tags")

    def __init__(self, tags: frozenset[str]) -> None:
        self._tags = tags
        self._hashes = frozenset(map(java_hash, tags))

    def selects(self, message: StoredMessage) -> bool:
        """Compare by hash, as the broker's index does; a message without tag is never meant."""
        tag = message.content.tag
        return tag in self._tags or (tag != "" and java_hash(tag) in self._hashes)

    def confirms(self, message: StoredMessage) -> bool:
        """Compare the text."""
        return message.content.tag in self._tags


def parse(expression: FilterExpression) -> Filter | None:
    """Read a filter expression; None accepts everything.

    Refused with ILLEGAL_FILTER_EXPRESSION: a TAG expression of nothing but separators, an empty SQL
    expression (R5.23, session §8); with UNSUPPORTED: every other SQL expression.
    """
    if expression.type is FilterType.SQL:
        if not expression.expression:
            raise Refusal(Code.ILLEGAL_FILTER_EXPRESSION, "The SQL filter expression is empty.")
        raise Refusal(Code.UNSUPPORTED, "SQL filter expressions are not served; filter by tags.")
    if expression.expression in ("", "*"):
        return None
    tags = frozenset(tag.strip() for tag in expression.expression.split("||")) - {""}
    if not tags:
        raise Refusal(
            Code.ILLEGAL_FILTER_EXPRESSION, f"The tag expression {expression.expression[:80]!r} names no tag."
        )
    return TagFilter(tags)
