"""Filters of plans: lists of tags, lite topics, and SQL expressions that are made together with their meaning.

An expression is a function of a number: servers get its text, and here it is Python. Expressions keep to what SQL92
and Apache's servers read alike, which differ about texts that are no numbers, and about NOT without parentheses.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import TypeAlias

from aiorocketmq_conformance.model.calls import Content, Filter

SQL = "sql:"
"""Before the number of an expression; other filters are lists of tags."""
PRICE, WEIGHT, REGION = "xprice", "xweight", "xregion"
"""Properties: an integer, a number with one decimal place, a text."""
REGIONS = ("eu", "EU", "us", "it's", "asia")

Truth: TypeAlias = bool | None
"""None is unknown: the value of a comparison with an absent property."""
Values: TypeAlias = Mapping[str, str]
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


@dataclass(frozen=True, slots=True)
class Selection:
    """An SQL expression and its meaning."""

    text: str
    meaning: Callable[[Values], Truth]


def tags(text: str) -> Filter:
    """Return the filter of a list of tags."""
    if text.strip() in ("", "*"):
        return Filter(text, lambda content: True)
    wanted = {term.strip() for term in text.split("||")} - {""}
    return Filter(text, lambda content: (content.tag or "") in wanted)


def lite(*names: str) -> Filter:
    """Return the filter of a client that has subscribed to some lite topics."""
    text = " ".join(sorted(names))
    return Filter(text, lambda content: content.message_group in text.split(), is_lite=True)


def filter_of(text: str) -> Filter:
    """Return the filter of a plan: an expression by its number, or a list of tags."""
    if not text.startswith(SQL):
        return tags(text)
    expression = selection(text)

    def selects(content: Content) -> bool:
        tag = {} if content.tag is None else {"TAGS": content.tag}
        return expression.meaning(dict(content.properties) | tag) is True

    return Filter(expression.text, selects, is_sql=True)


@lru_cache(maxsize=4096)
def selection(filter_: str) -> Selection:
    """Return the expression of a filter."""
    return _junction(Random(filter_), deep=True)


def _junction(source: Random, *, deep: bool, negated: bool = False) -> Selection:
    """Return terms joined by AND and OR, of which AND binds tighter."""
    terms = [
        _term(source, deep=deep, negated=negated)
        for _ in range(source.choice((1, 1, 2, 3) if deep else (2, 3)))
    ]
    words = [source.choice(("AND", "OR")) for _ in terms[1:]]
    text = terms[0].text
    alternatives = [[terms[0].meaning]]
    for word, term in zip(words, terms[1:], strict=True):
        text += f" {source.choice((word, word.lower()))} {term.text}"
        if word == "OR":
            alternatives.append([])
        alternatives[-1].append(term.meaning)
    return Selection(
        text, lambda values: _any([_all([each(values) for each in every]) for every in alternatives])
    )


def _term(source: Random, *, deep: bool, negated: bool) -> Selection:
    if deep and source.random() < 0.25:
        negates = source.random() < 0.5
        inner = _junction(source, deep=False, negated=negates)
        if negates:
            return Selection(f"NOT ({inner.text})", lambda values: _not(inner.meaning(values)))
        return Selection(f"({inner.text})", inner.meaning)
    # Servers disagree whether a text that is not there lacks "no such part".
    made = source.choice(_ATOMS[:-1] if negated else _ATOMS)
    return made(source)


def _comparison(source: Random) -> Selection:
    name, limit = source.choice(((PRICE, source.randint(-3, 6)), (WEIGHT, source.randint(0, 4) + 0.5)))
    word = source.choice(sorted(_COMPARISONS))
    compare, gap = _COMPARISONS[word], source.choice(("", " ", "  ", "\n", " /* */ "))
    return Selection(
        f"{name}{gap}{word}{gap}{limit}",
        lambda values: compare(float(values[name]), limit) if name in values else None,
    )


def _between(source: Random) -> Selection:
    low = source.randint(-3, 6)
    high = low + source.randint(0, 4)
    negates = source.random() < 0.5

    def meaning(values: Values) -> Truth:
        if PRICE not in values:
            return None
        return (low <= int(values[PRICE]) <= high) is not negates

    return Selection(f"{PRICE} {'NOT ' * negates}BETWEEN {low} AND {high}", meaning)


def _equal(source: Random) -> Selection:
    name, text = source.choice(((REGION, source.choice(REGIONS)), ("TAGS", source.choice(("a", "ab", "b")))))
    differs = source.random() < 0.4
    return Selection(
        f"{name} {'<>' if differs else '='} {_quoted(text)}",
        lambda values: (values[name] == text) is not differs if name in values else None,
    )


def _one_of(source: Random) -> Selection:
    texts = source.sample(REGIONS, source.randint(1, 3))
    negates = source.random() < 0.5
    return Selection(
        f"{REGION} {'NOT ' * negates}IN ({', '.join(map(_quoted, texts))})",
        lambda values: (values[REGION] in texts) is not negates if REGION in values else None,
    )


def _absent(source: Random) -> Selection:
    name = source.choice((PRICE, WEIGHT, REGION, "TAGS", "xnever"))
    negates = source.random() < 0.5
    return Selection(f"{name} IS {'NOT ' * negates}NULL", lambda values: (name not in values) is not negates)


def _constant(source: Random) -> Selection:
    value = source.random() < 0.5
    return Selection(str(value).upper(), lambda values: value)


def _part(source: Random) -> Selection:
    word, text = source.choice(sorted(_TESTS)), source.choice(("u", "e", "s", "it'", "EU"))
    return Selection(
        f"{REGION} {word} {_quoted(text)}",
        lambda values: _TESTS[word](values[REGION], text) if REGION in values else None,
    )


_ATOMS = (_comparison, _comparison, _between, _equal, _one_of, _absent, _constant, _part)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _all(truths: Sequence[Truth]) -> Truth:
    if False in truths:
        return False
    return None if None in truths else True


def _any(truths: Sequence[Truth]) -> Truth:
    if True in truths:
        return True
    return None if None in truths else False


def _not(truth: Truth) -> Truth:
    return None if truth is None else not truth
