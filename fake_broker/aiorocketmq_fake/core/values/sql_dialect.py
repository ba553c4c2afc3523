"""SQL dialects: one field for every point in which the published language and a real server's parser differ.

Values of the server were measured on 5.5.0 and 5.3.3 with 671 expressions (`cases/filters/sql_table.json` of the
suite); the switch `enablePropertyFilter` made no difference there.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlDialect:
    """One dialect of SQL expressions."""

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
    """A value that cannot be compared rejects the message regardless of the rest of the expression; else that part is
    unknown."""
    absent_text_is_false: bool
    """CONTAINS, STARTSWITH, ENDSWITH and their NOT are false for an absent value, not unknown."""
    booleans_at_the_left_convert: bool
    """A boolean on the left equals a string on the right that spells it; on the right it always does."""
    small_integers_are_narrow: bool
    """Compared with a 32-bit integer, a string must be one too: `BORN_TIMESTAMP > 1000` is never true."""
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
"""SQL92's logic over the operators in the product documents, and additional ones of servers."""

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
"""The behaviour of 5.5.0 as observed."""
