"""Changes of conditions, made mechanically: Spark parses a rule's texts, and each change is one of one node of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from aiorocketmq_audit.rules.rule import Rule
from pyspark.sql import SparkSession

COMPARISONS = {
    "LessThan": ("<", "<=", ">"),
    "LessThanOrEqual": ("<=", "<", ">"),
    "GreaterThan": (">", ">=", "<"),
    "GreaterThanOrEqual": (">=", ">", "<"),
    "EqualTo": ("=", "!="),
}
"""By Spark's class: how it is written, and what is written instead."""

TOLERANCES = ("early_us", "late_us", "apart_us")

FIELDS = ("judged", "violated", "certain")


@dataclass(frozen=True)
class Change:
    """A rule with one change."""

    what: str
    rule: Rule


def changes(rule: Rule, spark: SparkSession) -> Iterator[Change]:
    """All changes: comparisons reversed or with the other side of their border, operands of `and` and `or` left out,
    negations and tolerances dropped, and what exempts, confirms or makes certain taken away."""
    parser = spark._jsparkSession.sessionState().sqlParser()
    trees = {name: parser.parseExpression(getattr(rule, name)) for name in FIELDS}
    own = {name: parser.parseExpression(text) for name, text in rule.own.items()}
    texts = {name: tree.sql() for name, tree in trees.items()}
    owned = {name: tree.sql() for name, tree in own.items()}
    seen = {""}
    for tree in (*trees.values(), *own.values()):
        for old, new in _changed(tree):
            if f"{old} → {new}" not in seen:
                seen.add(f"{old} → {new}")
                # What occurs in several places is one thought.
                mine = {name: text.replace(old, new) for name, text in texts.items()}
                yours = {name: text.replace(old, new) for name, text in owned.items()}
                yield Change(f"{old} → {new}", replace(rule, **mine, own=yours))
    for name in rule.own:
        yield Change(f"no {name} of its own", replace(rule, own={k: v for k, v in rule.own.items() if k != name}))
    for name in rule.exemptions:
        rest = tuple(each for each in rule.exemptions if each != name)
        yield Change(f"no {name}", replace(rule, exemptions=rest))
    for field, value in (("since", None), ("acked", "null"), ("keys", ("null", "null")), ("confirmed", None)):
        if getattr(rule, field) != value:
            yield Change(f"{field} is {value}", replace(rule, **{field: value}))
    for value in ("true", "false"):
        if rule.certain != value:
            yield Change(f"certain is {value}", replace(rule, certain=value))
    for name, text in rule.facts.items():
        if name == "missing":
            yield Change(f"{name} is 0", replace(rule, facts={**rule.facts, name: f"{text} * 0"}))


def _changed(tree: Any) -> Iterator[tuple[str, str]]:
    """Texts of nodes, each with what to write instead."""
    kind, text = tree.getClass().getSimpleName(), tree.sql()
    children = [tree.children().apply(place) for place in range(tree.children().size())]
    if kind in COMPARISONS:
        written, *others = COMPARISONS[kind]
        left, right = (child.sql() for child in children)
        for other in others:
            yield f"({left} {written} {right})", f"({left} {other} {right})"
    if kind in ("And", "Or"):
        for left_out, kept in (children, reversed(children)):
            yield text, kept.sql()
    if kind == "Not":
        yield text, children[0].sql()
    if kind in ("IsNull", "IsNotNull"):
        yield text, f"({children[0].sql()} IS {'NOT ' if kind == 'IsNull' else ''}NULL)"
    if kind in ("Add", "Subtract", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual"):
        for place, child in enumerate(children):
            is_number = child.getClass().getSimpleName() == "Literal" and child.sql().rstrip("L") not in "01"
            if is_number or child.sql() in TOLERANCES:
                sides = [each.sql() for each in children]
                new = [*sides[:place], "0", *sides[place + 1 :]]
                sign = text[len(sides[0]) + 1 : -len(sides[1]) - 1]
                yield text, f"({new[0]}{sign}{new[1]})"
    for child in children:
        yield from _changed(child)
