"""Values during the evaluation of an expression, and how they compare (5.6).

Properties are strings. Compared with a number they are parsed as numbers, as Java parses them; other strings cannot
be compared.
"""

import re
from math import copysign, isnan

from aiorocketmq_fake.core.values.sql_dialect import SqlDialect

Value = str | int | float | bool | None
"""None is the absent value, and also the truth value "unknown"."""

LONG_MAX = 2**63 - 1
INTEGER_MAX = 2**31 - 1

_LONG = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_HEX_DOUBLE = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?"
)
_BLANKS = "".join(map(chr, range(33)))


class NotComparableError(Exception):
    """Two values cannot be compared: the string is no number."""


def equals(left: Value, right: Value, dialect: SqlDialect) -> bool | None:
    """Compare by `=`: None is unknown. Raises NotComparableError."""
    if left is None or right is None:
        if not dialect.nulls_compare or (left is None and right is not None):
            return None
        return left is None
    if isinstance(left, str) and isinstance(right, str):
        return left == right
    pair = _alike(left, right, dialect)
    return pair is not None and _key(pair[0]) == _key(pair[1])


def precedes(left: Value, right: Value, dialect: SqlDialect) -> int | None:
    """Compare by order: negative, 0 or positive like left minus right; None is unknown. Raises
    NotComparableError."""
    if left is None or right is None:
        return None
    if isinstance(left, str) and isinstance(right, str):
        first, second = _double(left), _double(right)
        return _sign(first, second)
    pair = _alike(left, right, dialect)
    return None if pair is None else _sign(*pair)


def _alike(
    left: str | float | bool, right: str | float | bool, dialect: SqlDialect
) -> tuple[float, float] | None:
    """Convert two values of different types to one type, None if that is impossible."""
    if isinstance(left, bool) or isinstance(right, bool):
        if isinstance(left, str):
            return _is_true(left), bool(right)
        if isinstance(right, str):
            if not dialect.booleans_at_the_left_convert:
                raise NotComparableError
            return bool(left), _is_true(right)
        return (left, right) if isinstance(left, bool) and isinstance(right, bool) else None
    if isinstance(left, str):
        left = _number_like(left, right, dialect)
    if isinstance(right, str):
        right = _number_like(right, left, dialect)
    if isinstance(left, float) or isinstance(right, float):
        return float(left), float(right)
    return left, right


def _number_like(text: str, other: str | float, dialect: SqlDialect) -> float:
    if isinstance(other, float):
        return _double(text)
    number = _long(text)
    narrow = dialect.small_integers_are_narrow and isinstance(other, int) and abs(other) <= INTEGER_MAX
    if narrow and not -INTEGER_MAX - 1 <= number <= INTEGER_MAX:
        raise NotComparableError
    return number


def _is_true(text: str) -> bool:
    return text.lower() == "true"


def _long(text: str) -> int:
    """Parse a 64-bit integer as Java does."""
    if _LONG.fullmatch(text):
        digits = text.lstrip("+-").lstrip("0") or "0"
        if len(digits) <= 19:
            number = -int(digits) if text[0] == "-" else int(digits)
            if -LONG_MAX - 1 <= number <= LONG_MAX:
                return number
    raise NotComparableError


def _double(text: str) -> float:
    """Parse a floating-point number as Java does: surrounding blanks, a type letter, hexadecimal, NaN."""
    text = text.strip(_BLANKS)
    if _DOUBLE.fullmatch(text):
        return float(text if text[-1] in "yN" else text.rstrip("fFdD"))
    if _HEX_DOUBLE.fullmatch(text):
        try:
            return float.fromhex(text[:-1] if text[-1] in "fFdD" else text)
        except OverflowError:
            return copysign(float("inf"), -1 if text[0] == "-" else 1)
    raise NotComparableError


def _sign(left: float, right: float) -> int:
    first, second = _key(left), _key(right)
    return (first > second) - (first < second)


def _key(number: float) -> tuple[bool, float, float]:
    """Order numbers as Java does: NaN last and equal to itself, -0.0 before 0.0."""
    if isinstance(number, float):
        return (True, 0.0, 0.0) if isnan(number) else (False, number, copysign(1.0, number))
    return False, number, 1.0 if number >= 0 else -1.0
