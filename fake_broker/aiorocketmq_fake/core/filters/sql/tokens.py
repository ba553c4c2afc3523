"""Lexer: splits an expression into tokens, one at a time.

A server reads one token beyond a complete expression and no further, so it never detects an illegal character after
that; hence tokens are read lazily.
"""

import re
from collections import deque
from dataclasses import dataclass
from enum import Enum, auto

from aiorocketmq_fake.core.values.sql_dialect import SqlDialect

KEYWORDS = frozenset(
    {"NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH"}
)
"""Reserved in any case; LIKE and ESCAPE are not (5.6)."""

# Each alternative can match in one way only, so that hostile text takes linear time.
_BLANK = r"(?:[ \t\n\r\f]|--[^\n\r]*%s|/\*(?:[^*]|\*(?!/))*\*/)*"
_SPACE = re.compile(_BLANK % "")
_SPACE_OF_SERVERS = re.compile(_BLANK % r"[\n\r]")
_WORD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_FLOAT = re.compile(r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+")
_INTEGER = re.compile(r"(?:0|[1-9][0-9]*)[lL]?")
_STRING = re.compile(r"'(?:[^']|'')*'")
_SYMBOL = re.compile(r"<>|>=|<=|[=<>(),+-]")


class Kind(Enum):
    """Kinds of tokens."""

    KEYWORD = auto()
    NAME = auto()
    STRING = auto()
    INTEGER = auto()
    FLOAT = auto()
    SYMBOL = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """A token; `text` is upper case for keywords and without quotes for strings."""

    kind: Kind
    text: str
    at: int
    """Where it begins, counted from 0."""


class SqlError(Exception):
    """An expression cannot be parsed; one sentence."""


class Tokens:
    """The tokens of one text, in order."""

    def __init__(self, text: str, dialect: SqlDialect) -> None:
        self._text = text
        self._space = _SPACE_OF_SERVERS if dialect.comments_need_a_line_end else _SPACE
        self._at = 0
        self._ahead: deque[Token] = deque()

    def peek(self, ahead: int = 0) -> Token:
        """Return the next token, or one further `ahead`, without taking it. SqlError for an illegal character."""
        while len(self._ahead) <= ahead:
            self._ahead.append(self._cut())
        return self._ahead[ahead]

    def take(self) -> Token:
        """Take the next token."""
        token = self.peek()
        self._ahead.popleft()
        return token

    def accept(self, *texts: str) -> str:
        """Take the next token if it is one of some keywords or symbols; else take nothing and return ''."""
        token = self.peek()
        if token.kind in (Kind.KEYWORD, Kind.SYMBOL) and token.text in texts:
            self._ahead.popleft()
            return token.text
        return ""

    def expect(self, text: str) -> None:
        """Take a required keyword or symbol."""
        if not self.accept(text):
            raise self.unexpected(text)

    def unexpected(self, expected: str) -> SqlError:
        """Return the error for an unexpected token."""
        token = self.peek()
        actual = "the expression ends" if token.kind is Kind.END else f"{token.text[:40]!r} stands"
        return SqlError(f"{actual} at position {token.at} where {expected} must be")

    def _cut(self) -> Token:
        text = self._text
        space = self._space.match(text, self._at)
        start = self._at = space.end() if space is not None else self._at
        if start == len(text):
            return Token(Kind.END, "", start)
        # Floats before integers: both begin with digits.
        for pattern, kind in _PATTERNS:
            match = pattern.match(text, start)
            if match is not None:
                self._at = match.end()
                return _token(kind, match.group(), start)
        raise SqlError(f"nothing can begin with {text[start]!r} at position {start}")


_PATTERNS = (
    (_WORD, Kind.NAME),
    (_FLOAT, Kind.FLOAT),
    (_INTEGER, Kind.INTEGER),
    (_STRING, Kind.STRING),
    (_SYMBOL, Kind.SYMBOL),
)


def _token(kind: Kind, text: str, at: int) -> Token:
    if kind is Kind.NAME and text.upper() in KEYWORDS:
        return Token(Kind.KEYWORD, text.upper(), at)
    if kind is Kind.STRING:
        return Token(kind, text[1:-1].replace("''", "'"), at)
    return Token(kind, text, at)
