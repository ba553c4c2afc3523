"""Message filters of consumers, in the two steps of real servers.

`selects` is whether the broker reads a message for the consumer, `confirms` whether the proxy passes it on. Only tags
need the second step, if the broker compares 32-bit hashes (R5.23).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from aiorocketmq_fake.core.filters.sql.comparison import NotComparableError
from aiorocketmq_fake.core.filters.sql.parser import parse as parse_sql
from aiorocketmq_fake.core.filters.sql.properties import property_of
from aiorocketmq_fake.core.filters.sql.tokens import SqlError
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.codes import Code, FilterType, Refusal
from aiorocketmq_fake.core.values.model import FilterExpression, StoredMessage
from aiorocketmq_fake.core.values.placement import java_hash
from aiorocketmq_fake.core.values.profile import Profile

_SQL = FilterType.SQL
"""Alias: attribute access on the enum is ten times slower, for every receive."""


class Filter(Protocol):
    """A parsed filter expression."""

    def selects(self, message: StoredMessage) -> bool:
        """Return whether the broker reads the message for the consumer; False skips it for the whole group (R5.21)."""
        ...

    def confirms(self, message: StoredMessage) -> bool:
        """Return whether a selected message matches exactly; False settles it for the group without delivery."""
        ...


class TagFilter:
    """Accept messages that carry one of some tags (R5.23)."""

    __slots__ = ("_hashes", "_tags")

    def __init__(self, tags: frozenset[str], by_hash: bool) -> None:
        self._tags = tags
        self._hashes = frozenset(map(java_hash, tags)) if by_hash else frozenset()

    def selects(self, message: StoredMessage) -> bool:
        """Compare by hash if the broker's index does; a message without tag never matches."""
        tag = message.content.tag
        return tag in self._tags or (bool(self._hashes) and tag != "" and java_hash(tag) in self._hashes)

    def confirms(self, message: StoredMessage) -> bool:
        """Compare the text."""
        return message.content.tag in self._tags


class SqlFilter:
    """Accept messages for which an SQL expression is true, neither false nor unknown (5.6)."""

    __slots__ = ("_node", "_profile", "_text", "_with_servers")

    def __init__(self, text: str, profile: Profile) -> None:
        """Parse the expression; SqlError if it is none."""
        self._text = text
        self._profile = profile
        self._node = parse_sql(text, profile.sql)
        self._with_servers = profile.sql_sees_server_properties

    def __reduce__(self) -> tuple[type[SqlFilter], tuple[str, Profile]]:
        # A parked poll is stored with its filter; the text is enough.
        return SqlFilter, (self._text, self._profile)

    def selects(self, message: StoredMessage) -> bool:
        """Evaluate the expression."""
        with_servers = self._with_servers

        def read(name: str) -> str | None:
            return property_of(message, name, with_servers=with_servers)

        try:
            return self._node.evaluate(read) is True
        except NotComparableError:
            return False

    def confirms(self, message: StoredMessage) -> bool:
        """Always true: selection is exact."""
        return True


def parse(expression: FilterExpression, profile: Profile) -> Filter | None:
    """Parse a filter expression; None accepts everything.

    Refused with ILLEGAL_FILTER_EXPRESSION: a TAG expression of nothing but separators, an empty SQL expression
    (R5.23, session §8); with the profile's `sql_refusal_code`: one that cannot be parsed.
    """
    if expression.type is not _SQL:
        if expression.expression in ("", "*"):
            return None
        # Checked first, so that refused expressions are not cached either.
        if (length := len(expression.expression)) > limits.TAGS_LENGTH_MAX:
            raise Refusal(
                Code.ILLEGAL_FILTER_EXPRESSION,
                f"The tag expression has {length} characters, more than {limits.TAGS_LENGTH_MAX}.",
            )
    return _parsed(expression, profile)


# Consumers send the same expression with every receive.
@lru_cache(maxsize=1024)
def _parsed(expression: FilterExpression, profile: Profile) -> Filter:
    text = expression.expression
    if expression.type is not FilterType.SQL:
        tags = frozenset(tag.strip() for tag in text.split("||")) - {""}
        if not tags:
            raise Refusal(Code.ILLEGAL_FILTER_EXPRESSION, f"The tag expression {text[:80]!r} names no tag.")
        return TagFilter(tags, profile.tags_match_by_hash)
    if not text:
        raise Refusal(Code.ILLEGAL_FILTER_EXPRESSION, "The SQL filter expression is empty.")
    try:
        return SqlFilter(text, profile)
    except SqlError as error:
        raise Refusal(
            profile.sql_refusal_code,
            # Apache's servers return these first words and no others (seen on 5.5.0).
            f"parse the consumer's subscription failed: the SQL expression {text[:80]!r} cannot be read: {error}.",
        ) from error
