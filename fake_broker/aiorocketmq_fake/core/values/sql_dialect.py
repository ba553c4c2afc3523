"""Where the published language and a real server's reading of it differ, one named field each.

All of the server's were measured on 5.5.0 with 600 expressions (`tests/core/sql/live_table.json`); the
switch `enablePropertyFilter` made no difference there.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlDialect:
    """One complete choice of how an expression is read."""

    rest_is_ignored: bool
    """Text after a complete expression is dropped: `s LIKE 'a%'` is the bare property `s`. Else it is
    refused."""
    comments_need_a_line_end: bool
    """`--` at the last line is no comment but two minus signs."""
    not_binds_tightest: bool
    """`NOT a = 1` negates `a`; else it negates the comparison, as in SQL92."""
    nulls_compare: bool
    """Two absent values are equal, and a value differs from an absent one at its right; else unknown."""
    errors_reject: bool
    """A value that cannot be compared rejects the message whatever the rest of the expression says; else that
    part is unknown."""
    absent_text_is_false: bool
    """CONTAINS, STARTSWITH, ENDSWITH and their NOT are false for an absent value, not unknown."""
    booleans_at_the_left_convert: bool
    """A truth value at the left equals a text at the right that spells it; at the right it always does."""
    small_integers_are_narrow: bool
    """Beside an integer of 32 bits a text must be one too: `BORN_TIMESTAMP > 1000` compares nothing."""
    float_zero_is_legal: bool
    """`0.0` is a literal; else it is refused like one too large."""


PUBLISHED = SqlDialect(
    rest_is_ignored=False,
    comments_need_a_line_end=False,
    not_binds_tightest=False,
    nulls_compare=False,
    errors_reject=False,
    absent_text_is_false=False,
    booleans_at_the_left_convert=True,
    small_integers_are_narrow=False,
    float_zero_is_legal=True,
)
"""SQL92's logic over the operators that the product documents name, and those that servers have beside."""

SERVER = SqlDialect(
    rest_is_ignored=True,
    comments_need_a_line_end=True,
    not_binds_tightest=True,
    nulls_compare=True,
    errors_reject=True,
    absent_text_is_false=True,
    booleans_at_the_left_convert=False,
    small_integers_are_narrow=True,
    float_zero_is_legal=False,
)
"""What 5.5.0 was seen to do."""
