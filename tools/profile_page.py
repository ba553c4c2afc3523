"""The page of the fields that the profile `apache-5.5-cluster` inherits, with the cases that decide each."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from aiorocketmq_fake.core import profile

from tools.matrix_page import read_runs
from tools.profile_fields import KEPT, inherited

_FAKE, _SERVER = "fake:apache-5.5-cluster", "apache:5.5.0:cluster"
_SOURCE = re.compile(r"\(([^()]*(?:§|R\d|\d+\.\d|O\d|seen|trap|table)[^()]*)\)")
_HEAD = """# What the cluster profile inherits

Written by `python -m tools.pages` (do not edit) from what `python -m tools.profile_fields` measured on the fake:
cases that end otherwise if the field of `apache-5.5-cluster` has another value (the documented one, the opposite, a
quarter or four times the number). *Live* compares them with the recorded run of a real 5.5.0 behind a separate proxy:
they ended there as on the fake (shown), only cases for information did (recorded), they have not been run or ended
otherwise (no). *Source* is that of the field's docstring; a field that no case decides has only this one, because the
suite's cases allow both values, none looks, or another field hides the difference.

"""


def measured() -> dict[str, list[str]]:
    """Return the deciding cases by field."""
    return dict(json.loads(KEPT.read_text(encoding="utf-8")))


def page(runs: Path) -> str:
    """Return the whole page."""
    kept, sources, decided = read_runs(runs), _sources(), measured()
    on_fake, on_server = (kept[target]["verdicts"] for target in (_FAKE, _SERVER))
    rows, count = [], dict.fromkeys(("shown", "recorded", "no", "no case"), 0)
    for name in inherited():
        cases = decided[name]
        live = _live(cases, on_fake, on_server)
        count[live] += 1
        shown = ", ".join(f"`{case}`" for case in cases[:4]) + (
            f" and {len(cases) - 4} more" if len(cases) > 4 else ""
        )
        rows.append(f"| `{name}` | {shown} | {live} | {sources.get(name, '')} |")
    told = ", ".join(f"{live}: {number}" for live, number in count.items())
    return (
        f"{_HEAD}{len(rows)} fields. {told}.\n\n| field | decided by | live | source |\n"
        "| --- | --- | --- | --- |\n" + "\n".join(rows) + "\n"
    )


def _live(cases: list[str], on_fake: Mapping[str, str], on_server: Mapping[str, str]) -> str:
    equal = {on_server[case] for case in cases if case in on_server and on_server[case] == on_fake.get(case)}
    if not cases:
        return "no case"
    if equal & {"pass", "xfail"}:
        return "shown"
    return "recorded" if "inconclusive" in equal else "no"


def _sources() -> dict[str, str]:
    """Return what each field's docstring cites."""
    tree = ast.parse(Path(profile.__file__).read_text(encoding="utf-8"))
    (body,) = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Profile"]
    found = {}
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            cited = _SOURCE.findall(" ".join(ast.literal_eval(text.value).split()))
            found[ast.unparse(field.target)] = "; ".join(cited)
    return found
