"""Nodes: an expression tree that is evaluated for one message at a time, in three-valued logic (5.6).

Results are values; for the nodes listed in `TRUTHS` they are True, False or None, which is "unknown". A node never
holds more than `limits.SQL_DEPTH_MAX` others inside each other, so evaluating may recurse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from aiorocketmq_fake.core.filters.sql.comparison import NotComparableError, Value, equals, precedes
from aiorocketmq_fake.core.values.sql_dialect import SqlDialect

Read = Callable[[str], str | None]
"""Returns the value of a property, None if the message has none of that name."""


class Node(Protocol):
    """A part of an expression."""

    def evaluate(self, read: Read) -> Value:
        """Evaluate for the message whose properties `read` returns.

        NotComparableError rejects it in some dialects.
        """
        ...


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal."""

    value: Value

    def evaluate(self, read: Read) -> Value:
        """The value itself."""
        return self.value


@dataclass(frozen=True, slots=True)
class Property:
    """A property of the message."""

    name: str

    def evaluate(self, read: Read) -> Value:
        """Its value, None if it is absent."""
        return read(self.name)


@dataclass(frozen=True, slots=True)
class BareProperty:
    """A property in place of a truth value: never true, as it is a string."""

    name: str

    def evaluate(self, read: Read) -> Value:
        """False; unknown when it is absent."""
        return None if read(self.name) is None else False


@dataclass(frozen=True, slots=True)
class Negative:
    """Unary minus; of what is not a number it makes the absent value."""

    inner: Node

    def evaluate(self, read: Read) -> Value:
        """The negated number, else None."""
        value = self.inner.evaluate(read)
        return -value if isinstance(value, int | float) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True)
class Not:
    """The other truth value; unknown stays unknown."""

    inner: Node

    def evaluate(self, read: Read) -> Value:
        """The negated truth value."""
        value = self.inner.evaluate(read)
        return None if value is None else not value


@dataclass(frozen=True, slots=True)
class All:
    """Terms joined by AND, evaluated from left to right until one is false."""

    terms: tuple[Node, ...]

    def evaluate(self, read: Read) -> Value:
        """False if any term is, else unknown if any is, else True."""
        result: Value = True
        for term in self.terms:
            value = term.evaluate(read)
            if value is False:
                return False
            if value is None:
                result = None
        return result


@dataclass(frozen=True, slots=True)
class Any:
    """Terms joined by OR, evaluated from left to right until one is true."""

    terms: tuple[Node, ...]

    def evaluate(self, read: Read) -> Value:
        """True if any term is, else unknown if any is, else False."""
        result: Value = False
        for term in self.terms:
            value = term.evaluate(read)
            if value is True:
                return True
            if value is None:
                result = None
        return result


@dataclass(frozen=True, slots=True)
class Equal:
    """Equality; `<>` is its negation."""

    left: Node
    right: Node
    dialect: SqlDialect

    def evaluate(self, read: Read) -> Value:
        """Whether they are."""
        try:
            return equals(self.left.evaluate(read), self.right.evaluate(read), self.dialect)
        except NotComparableError:
            if self.dialect.errors_reject:
                raise
            return None


@dataclass(frozen=True, slots=True)
class Ordered:
    """Comparison by order: `<` accepts the signs (-1,), `>=` (0, 1)."""

    left: Node
    right: Node
    signs: tuple[int, ...]
    dialect: SqlDialect

    def evaluate(self, read: Read) -> Value:
        """Whether it does."""
        try:
            sign = precedes(self.left.evaluate(read), self.right.evaluate(read), self.dialect)
        except NotComparableError:
            if self.dialect.errors_reject:
                raise
            return None
        return None if sign is None else sign in self.signs


@dataclass(frozen=True, slots=True)
class Absent:
    """IS NULL: whether a value is absent, or a truth value unknown. Never unknown itself."""

    inner: Node

    def evaluate(self, read: Read) -> Value:
        """Whether it is."""
        return self.inner.evaluate(read) is None


@dataclass(frozen=True, slots=True)
class OneOf:
    """IN: whether a property is one of some texts."""

    name: str
    texts: frozenset[str]

    def evaluate(self, read: Read) -> Value:
        """Whether it is; unknown when it is absent."""
        text = read(self.name)
        return None if text is None else text in self.texts


@dataclass(frozen=True, slots=True)
class Holds:
    """CONTAINS, STARTSWITH and ENDSWITH, and their NOT: neither is ever true for an empty string."""

    inner: Node
    test: Callable[[str, str], bool]
    text: str
    negated: bool
    dialect: SqlDialect

    def evaluate(self, read: Read) -> Value:
        """Whether the string is contained; of what is no string, neither it nor its NOT is true."""
        value = self.inner.evaluate(read)
        if value is None and not self.dialect.absent_text_is_false:
            return None
        if not isinstance(value, str) or not self.text:
            return False
        return self.test(value, self.text) is not self.negated


TRUTHS = (BareProperty, Not, All, Any, Equal, Ordered, Absent, OneOf, Holds)
"""Nodes that evaluate to a truth value."""
