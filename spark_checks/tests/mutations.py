"""Changes of conditions, made mechanically: Spark parses the texts of rules, and each change is one of one node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aiorocketmq_audit.rules.rule import Rule
from pyspark.sql import SparkSession

COMPARISONS = {
    "LessThan": ("<=", ">"),
    "LessThanOrEqual": ("<", ">"),
    "GreaterThan": (">=", "<"),
    "GreaterThanOrEqual": (">", "<"),
    "EqualTo": ("!=",),
}
"""By Spark's class: what is written instead."""

TOLERANCES = ("early_us", "late_us", "apart_us")

CONDITIONS = ("judged", "violated", "certain")


@dataclass(frozen=True)
class Change:
    """One change."""

    what: str
    rules: Sequence[tuple[int, Rule]]
    """Those of the frame that are other by it, with their place."""


def changes(rules: Sequence[Rule], spark: SparkSession) -> Iterator[Change]:
    """All changes of the rules of one frame: comparisons reversed or with the other side of their border, operands of
    `and` and `or` left out, negations and tolerances dropped, and what exempts, confirms or makes certain taken away.

    What occurs in several conditions is written once, and so is changed in all of them.
    """
    parser = spark._jsparkSession.sessionState().sqlParser()
    nodes: dict[tuple[str, str], None] = {}

    def written(text: str) -> str:
        tree = parser.parseExpression(text)
        nodes.update(dict.fromkeys(_changed(tree)))
        return str(tree.sql())

    spelled = [
        replace(
            rule,
            judged=written(rule.judged),
            violated=written(rule.violated),
            certain=written(rule.certain),
            own={name: written(text) for name, text in rule.own.items()},
        )
        for rule in rules
    ]
    for old, new in nodes:
        changed = [(place, _replaced(rule, old, new)) for place, rule in enumerate(spelled)]
        yield Change(f"{old} → {new}", [(place, rule) for place, rule in changed if rule != spelled[place]])
    for place, rule in enumerate(spelled):
        for what, more in _without(rule):
            yield Change(f"{rule.invariant}: {what}", [(place, replace(rule, **more))])


def _replaced(rule: Rule, old: str, new: str) -> Rule:
    own = {name: text.replace(old, new) for name, text in rule.own.items()}
    return replace(rule, own=own, **{name: getattr(rule, name).replace(old, new) for name in CONDITIONS})


def _without(rule: Rule) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in rule.own:
        yield f"no {name} of its own", {"own": {key: rule.own[key] for key in rule.own if key != name}}
    for name in rule.exemptions:
        yield f"no {name}", {"exemptions": tuple(each for each in rule.exemptions if each != name)}
    nothing: dict[str, Any] = {"since": None, "acked": "null", "keys": ("null", "null"), "confirmed": None}
    for field, value in (*nothing.items(), ("certain", "true"), ("certain", "false")):
        if getattr(rule, field) != value:
            yield f"{field} is {value}", {field: value}
    if "missing" in rule.facts:
        yield "nothing is missing", {"facts": {**rule.facts, "missing": f"{rule.facts['missing']} * 0"}}


def _changed(tree: Any) -> Iterator[tuple[str, str]]:
    """Texts of nodes, each with what to write instead."""
    kind, text = tree.getClass().getSimpleName(), tree.sql()
    children = [tree.children().apply(place) for place in range(tree.children().size())]
    sides = [child.sql() for child in children]
    if kind in COMPARISONS:
        for other in COMPARISONS[kind]:
            yield text, f"({sides[0]} {other} {sides[1]})"
    if kind in ("And", "Or"):
        yield text, sides[0]
        yield text, sides[1]
    if kind == "Not":
        yield text, sides[0]
    if kind in ("IsNull", "IsNotNull"):
        yield text, f"({sides[0]} IS {'NOT ' if kind == 'IsNull' else ''}NULL)"
    if kind in ("Add", "Subtract", *COMPARISONS):
        for place, child in enumerate(children):
            is_number = child.getClass().getSimpleName() == "Literal" and sides[place] not in ("0", "1")
            if is_number or sides[place] in TOLERANCES:
                between = text[len(sides[0]) + 1 : -len(sides[1]) - 1]
                left, right = ("0" if each == place else side for each, side in enumerate(sides))
                yield text, f"({left}{between}{right})"
    for child in children:
        yield from _changed(child)
