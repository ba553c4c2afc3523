"""Random expressions, each written together with a second way to work it out.

A strategy draws a text and a plain function that says what the text means for some properties. Nothing of the
core takes part in the function: it knows three-valued logic from two tables and numbers from `Fraction`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import pytest
from aiorocketmq_fake.core.filters.sql.comparison import NotComparableError
from aiorocketmq_fake.core.filters.sql.parser import parse
from aiorocketmq_fake.core.values.sql_dialect import PUBLISHED, SERVER, SqlDialect
from hypothesis import given, strategies as st

Properties = Mapping[str, str]
Truth = bool | None


class Rejected(Exception):
    """The message is rejected as a whole."""


@dataclass(frozen=True)
class Sentence:
    """An expression, and what it means."""

    text: str
    means: Callable[[Properties, bool], Truth]
    """`strict`: what cannot be compared rejects the message, as on a server; else it is unknown."""


NAMES = ("a", "b", "c", "$d", "_e")
TEXTS = ("1", "2", "-3", "+4", "1.5", "2.0", "x", "it's", "true", "FALSE", "", "007")
NUMBERS = ("1", "2", "3L", "7", "1.5", "2.0", ".5", "2e0")

AND = {
    (True, True): True,
    (True, False): False,
    (False, True): False,
    (False, False): False,
    (None, True): None,
    (True, None): None,
    (None, False): False,
    (False, None): False,
    (None, None): None,
}

properties = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TEXTS), max_size=5)
names = st.sampled_from(NAMES)
texts = st.sampled_from(TEXTS)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def number_in(text: str, literal: str) -> Fraction | None:
    """Parse a property compared with a literal: with an integer only integers are numbers."""
    whole = literal.rstrip("L").isdigit()
    try:
        number = Fraction(text)
    except ValueError:
        return None
    return None if whole and "." in text else number


def failed(strict: bool) -> Truth:
    if strict:
        raise Rejected
    return None


def compared(name: str, operator: str, literal: str) -> Sentence:
    right = Fraction(literal.rstrip("L"))
    tests: dict[str, Callable[[Fraction], bool]] = {
        "=": lambda left: left == right,
        "<>": lambda left: left != right,
        "<": lambda left: left < right,
        ">": lambda left: left > right,
        "<=": lambda left: left <= right,
        ">=": lambda left: left >= right,
    }

    def means(given: Properties, strict: bool) -> Truth:
        if name not in given:
            return None
        left = number_in(given[name], literal)
        return failed(strict) if left is None else tests[operator](left)

    return Sentence(f"{name} {operator} {literal}", means)


def between(name: str, negated: bool, low: str, high: str) -> Sentence:
    first, last = sorted((low, high), key=lambda text: Fraction(text.rstrip("L")))
    word = "NOT BETWEEN" if negated else "BETWEEN"
    below, above = compared(name, "<", first), compared(name, ">", last)

    def means(given: Properties, strict: bool) -> Truth:
        # Asked from left to right: who is below is not asked whether it is above.
        low_side = below.means(given, strict)
        outside = True if low_side else or_(low_side, above.means(given, strict))
        return outside if negated else not_(outside)

    return Sentence(f"{name} {word} {first} AND {last}", means)


def same_text(name: str, text: str, negated: bool) -> Sentence:
    return Sentence(
        f"{name} {'<>' if negated else '='} {quoted(text)}",
        lambda given, _: None if name not in given else (given[name] == text) is not negated,
    )


def one_of(name: str, choices: list[str], negated: bool) -> Sentence:
    listed = ", ".join(map(quoted, choices))
    return Sentence(
        f"{name} {'NOT ' * negated}IN ({listed})",
        lambda given, _: None if name not in given else (given[name] in choices) is not negated,
    )


def holding(name: str, word: str, text: str, negated: bool) -> Sentence:
    tests = {"CONTAINS": str.__contains__, "STARTSWITH": str.startswith, "ENDSWITH": str.endswith}

    def means(given: Properties, strict: bool) -> Truth:
        if name not in given:
            return False if strict else None
        return bool(text) and tests[word](given[name], text) is not negated

    return Sentence(f"{name} {'NOT ' * negated}{word} {quoted(text)}", means)


def absent(name: str, negated: bool) -> Sentence:
    word = "IS NOT NULL" if negated else "IS NULL"
    return Sentence(f"{name} {word}", lambda given, _: (name in given) is negated)


def not_(truth: Truth) -> Truth:
    return None if truth is None else not truth


def or_(left: Truth, right: Truth) -> Truth:
    return not_(AND[not_(left), not_(right)])


def inverse(inner: Sentence) -> Sentence:
    return Sentence(f"NOT ({inner.text})", lambda given, strict: not_(inner.means(given, strict)))


def both(left: Sentence, right: Sentence) -> Sentence:
    def means(given: Properties, strict: bool) -> Truth:
        first = left.means(given, strict)
        return False if first is False else AND[first, right.means(given, strict)]

    return Sentence(f"({left.text}) AND ({right.text})", means)


def either(left: Sentence, right: Sentence) -> Sentence:
    def means(given: Properties, strict: bool) -> Truth:
        first = left.means(given, strict)
        return True if first is True else or_(first, right.means(given, strict))

    return Sentence(f"({left.text}) OR ({right.text})", means)


def mixed(left: Sentence, middle: Sentence, right: Sentence) -> Sentence:
    """AND binds tighter than OR."""
    meant = either(left, both(middle, right))
    return replace(meant, text=f"({left.text}) OR ({middle.text}) AND ({right.text})")


ATOMS = st.one_of(
    st.builds(compared, names, st.sampled_from(["=", "<>", "<", ">", "<=", ">="]), st.sampled_from(NUMBERS)),
    st.builds(between, names, st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(NUMBERS)),
    st.builds(same_text, names, texts, st.booleans()),
    st.builds(one_of, names, st.lists(texts, min_size=1, max_size=3), st.booleans()),
    st.builds(holding, names, st.sampled_from(["CONTAINS", "STARTSWITH", "ENDSWITH"]), texts, st.booleans()),
    st.builds(absent, names, st.booleans()),
    st.sampled_from(
        [
            Sentence("TRUE", lambda *_: True),
            Sentence("FALSE", lambda *_: False),
            Sentence("NULL", lambda *_: None),
        ]
    ),
)
SENTENCES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds(inverse, inner),
        st.builds(both, inner, inner),
        st.builds(either, inner, inner),
        st.builds(mixed, inner, inner, inner),
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("dialect", [PUBLISHED, SERVER], ids=["published", "server"])
@given(sentence=SENTENCES, properties=properties, spaces=st.sampled_from([" ", "\n", " /* c */ ", "\t--c\n"]))
def test_parsed_expressions_keep_their_meaning(
    dialect: SqlDialect, sentence: Sentence, properties: Properties, spaces: str
) -> None:
    strict = dialect.errors_reject
    try:
        expected: Truth | str = sentence.means(properties, strict)
    except Rejected:
        expected = "rejected"
    try:
        value: object = parse(spaces + sentence.text + spaces, dialect).evaluate(properties.get)
    except NotComparableError:
        value = "rejected"
    assert value == expected
