"""The page of rules: what each says, the profile fields that it touches, the cases that prove it."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

from aiorocketmq_conformance.case import Registry
from aiorocketmq_fake.core.values import profile

RULE = re.compile(r"R\d+\.\d+")
_RANGE = re.compile(r"(R\d+)\.(\d+)[-\u2013]R?(?:\d+\.)?(\d+)")
_SHOWN = 6
_HEAD = """# Rules

Written by `python -m tools.pages` (do not edit). A rule is one promise of RocketMQ's contract; docstrings and cases
cite it by its number. *Fields* are those of the fake's profiles that choose how the rule is kept. A rule without cases
says why.

| rule | says | fields | cases |
| --- | --- | --- | --- |
"""


def known(source: Path) -> tuple[dict[str, str], dict[str, str]]:
    """What the rules say, and why some have no case."""
    document = tomllib.loads(source.read_text(encoding="utf-8"))
    return document["says"], document["unproven"]


def cited(text: str) -> set[str]:
    """The rules that a text names, ranges such as R3.1-R3.4 included."""
    found = set(RULE.findall(text))
    for chapter, first, last in _RANGE.findall(text):
        found |= {f"{chapter}.{number}" for number in range(int(first), int(last) + 1)}
    return found


def cases_by_rule(cases: Registry) -> dict[str, list[str]]:
    """The stems of the cases that cite each rule, in the order of their declaration."""
    proven: dict[str, list[str]] = defaultdict(list)
    for case in cases:
        for rule in {rule for text in case.rules for rule in cited(text)}:
            if case.stem not in proven[rule]:
                proven[rule].append(case.stem)
    return proven


def fields_by_rule() -> dict[str, list[str]]:
    """The fields of a profile whose docstrings cite each rule."""
    tree = ast.parse(Path(profile.__file__).read_text(encoding="utf-8"))
    (body,) = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Profile"]
    touched: dict[str, list[str]] = defaultdict(list)
    for field, told in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(told, ast.Expr):
            for rule in cited(ast.unparse(told)):
                touched[rule].append(ast.unparse(field.target))
    return touched


def unreasoned(source: Path, cases: Registry) -> list[str]:
    """Rules that have neither a case nor a reason, and reasons of rules that have a case."""
    says, reasons = known(source)
    proven = cases_by_rule(cases)
    return [rule for rule in says if not proven.get(rule) and rule not in reasons]


def page(source: Path, cases: Registry) -> str:
    """The whole page."""
    says, reasons = known(source)
    proven, touched = cases_by_rule(cases), fields_by_rule()
    rows = []
    for rule, text in says.items():
        fields = ", ".join(f"`{name}`" for name in touched.get(rule, ()))
        mine = proven.get(rule, [])
        shown = ", ".join(f"`{stem}`" for stem in mine[:_SHOWN])
        more = f" and {len(mine) - _SHOWN} more" if len(mine) > _SHOWN else ""
        proof = shown + more if mine else f"*none: {reasons.get(rule, 'no reason on record')}*"
        rows.append(f"| {rule} | {text} | {fields} | {proof} |")
    return _HEAD + "\n".join(rows) + "\n"
