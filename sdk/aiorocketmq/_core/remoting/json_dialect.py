"""The JSON of brokers, in which maps may be keyed by bare numbers and by objects; remoting-protocol.md 5."""

from __future__ import annotations

import json
import re
from typing import TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

_MAX_DEPTH = 100
_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null', re.DOTALL)


def loads(source: bytes) -> JsonValue:
    """Return the value of `source`; ValueError if it is JSON of neither kind, or fails `check_text`.

    A key that is not text becomes the compact JSON text of itself, with sorted keys: `0` becomes `"0"`, and an object
    `{"queueId":0,"topic":"T"}` the text of that object, which a second `loads` parses."""
    text = source.decode()
    try:
        value: JsonValue = json.loads(text)
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None
    except ValueError:
        value = _Reader(text).whole()
    check_text(text, value)
    return value


def check_text(source: str, value: object) -> None:
    """Raise ValueError if `value`, which was read from `source`, has a lone surrogate, which no UTF-8 can encode.

    Only escapes can make one, and a name with one could be neither sent, logged nor compared as Java does."""
    if "\\ud" in source or "\\uD" in source:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except RecursionError:
            raise ValueError("JSON nested too deeply") from None


class _Reader:
    """Parses one text by recursive descent."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def whole(self) -> JsonValue:
        value = self._value(0)
        if self._next():
            raise ValueError(f"text after the JSON value, at position {self._position}")
        return value

    def _next(self) -> str:
        """The next character that is no space, or empty text at the end."""
        space = _SPACE.match(self._text, self._position)
        self._position = space.end() if space else self._position
        return self._text[self._position : self._position + 1]

    def _take(self, expected: str) -> None:
        if self._next() != expected:
            raise ValueError(f"{expected!r} is missing at position {self._position}")
        self._position += 1

    def _value(self, depth: int) -> JsonValue:
        if depth > _MAX_DEPTH:
            raise ValueError("JSON nested too deeply")
        start = self._next()
        if start == "{":
            return self._object(depth)
        if start == "[":
            return self._array(depth)
        scalar = _SCALAR.match(self._text, self._position)
        if scalar is None:
            raise ValueError(f"no JSON value at position {self._position}")
        self._position = scalar.end()
        value: JsonValue = json.loads(scalar[0])
        return value

    def _object(self, depth: int) -> dict[str, JsonValue]:
        self._take("{")
        members: dict[str, JsonValue] = {}
        while self._next() != "}":
            if members:
                self._take(",")
            key = self._value(depth + 1)
            self._take(":")
            members[_key(key)] = self._value(depth + 1)
        self._take("}")
        return members

    def _array(self, depth: int) -> list[JsonValue]:
        self._take("[")
        items: list[JsonValue] = []
        while self._next() != "]":
            if items:
                self._take(",")
            items.append(self._value(depth + 1))
        self._take("]")
        return items


def _key(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), sort_keys=True)
