"""Expressions from strangers: whatever comes, it costs little and is answered by a filter or one sentence."""

import time
from functools import partial

import pytest
from aiorocketmq_fake.core.filters.sql.comparison import NotComparableError
from aiorocketmq_fake.core.filters.sql.parser import parse
from aiorocketmq_fake.core.filters.sql.tokens import KEYWORDS, SqlError
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.sql_dialect import PUBLISHED, SERVER, SqlDialect
from hypothesis import given, strategies as st

DIALECTS = pytest.mark.parametrize("dialect", [PUBLISHED, SERVER], ids=["published", "server"])
LONG = limits.SQL_LENGTH_MAX

WORDS = st.sampled_from(
    [
        *sorted(KEYWORDS),
        *[
            "a",
            "b",
            "TAGS",
            "LIKE",
            "=",
            "<>",
            "<",
            ">",
            "<=",
            ">=",
            "(",
            ")",
            ",",
            "+",
            "-",
            "--",
            "/*",
            "*/",
        ],
        *[
            "'x'",
            "'it''s'",
            "'",
            "1",
            "0",
            "1.5",
            ".5",
            "5.",
            "1e5",
            "9L",
            "9" * 20,
            "!",
            ";",
            ".",
            "\x00",
            "ä",
        ],
    ]
)


def refusal_of(text: str, dialect: SqlDialect) -> str:
    """The sentence that refuses an expression, empty when it is read."""
    try:
        parse(text, dialect)
    except SqlError as error:
        return str(error) or "refused without a word"
    return ""


@DIALECTS
@given(text=st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=25).map(" ".join)))
def test_any_text_is_a_filter_or_is_refused_in_one_sentence(dialect: SqlDialect, text: str) -> None:
    if sentence := refusal_of(text, dialect):
        assert "\n" not in sentence or "\n" in text
        assert 10 < len(sentence) < 200
        return
    node = parse(text, dialect)
    for properties in ({}, {"a": "1", "b": "x", "TAGS": "true"}):
        try:
            assert node.evaluate(properties.get) in (True, False, None)
        except NotComparableError:
            assert dialect.errors_reject


@DIALECTS
@pytest.mark.parametrize(
    "text",
    [
        "(" * 60_000,
        "(" * 30_000 + "a" + ")" * 30_000,
        "NOT " * 16_000 + "a",
        "- " * 30_000 + "1 = 1",
        "a = " * 16_000 + "a",
        "(a = " * 12_000 + "a",
        "a IS NULL" + " IS NULL" * 8_000,
        "a" + " CONTAINS 'x'" * 5_000,
        "'" * (LONG - 1),
        "/*" * 30_000,
        "a = 1 /*" + "*" * 60_000,
        "1" * 60_000 + " = a",
        "." * 60_000,
        "a = 1" + "e" * 60_000 + "'",
        "a = 1 " * 10_000,
        "x" * (LONG + 1),
    ],
    ids=lambda text: f"{text[:12]!r}",
)
def test_hostile_expressions_are_soon_judged(dialect: SqlDialect, text: str) -> None:
    began = time.process_time()
    assert len(refusal_of(text, dialect)) < 200
    assert time.process_time() - began < 2.0


@DIALECTS
@pytest.mark.parametrize(
    "text",
    [
        "a IN (" + ", ".join(f"'{number}'" for number in range(6_000)) + ")",
        " OR ".join(f"a = {number}" for number in range(4_000)),
        " AND ".join(["a = 5999"] * 4_000),
        "(" * 100 + "a = 5999" + ")" * 100,
        "NOT NOT " * 50 + "(a = 5999)",
    ],
    ids=["in", "or", "and", "parentheses", "not"],
)
def test_large_expressions_of_good_will_are_served(dialect: SqlDialect, text: str) -> None:
    filter_ = parse(text, dialect)
    expected = "OR" not in text
    assert filter_.evaluate({"a": "5999"}.get) is expected
    assert filter_.evaluate({"a": "5"}.get) is (not expected or "IN" in text)


@DIALECTS
@pytest.mark.parametrize("value", ["9" * 16_000 + "x", "0" * 16_000, " " * 16_000, "1e" + "9" * 16_000])
def test_hostile_properties_are_soon_compared(dialect: SqlDialect, value: str) -> None:
    began = time.process_time()
    for text in ("a = 1", "a > 1.5", "a = b", "a > b"):
        ask = partial(parse(text, dialect).evaluate, {"a": value, "b": value}.get)
        try:
            assert ask() in (True, False, None)
        except NotComparableError:
            assert dialect.errors_reject
    assert time.process_time() - began < 1.0
