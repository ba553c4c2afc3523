"""The page of machine-made mutants, from kept results and the reasons why survivors are equivalent."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tools.mutation.results import Result, is_found, share

_HEAD = """# Machine-made mutants

Written by `python -m tools.pages` (do not edit) from `mutation.json`, which `nox -s mutation` measured.

A *mutant* is this code with one small change: an argument left out or None, a value not assigned, `<` for `<=`, `and`
for `or`, a number one larger, another text. It is *found* if a conformance case, the explorer or a test fails on it.
mutmut's operators make the mutants. Texts for people (with a space or values in them), logs, names of enumerations,
annotations, and functions with decorators other than `staticmethod` and `classmethod` are left as they are.

Samples are random, over all lines, those included that nothing executes. A mutant is judged by what executes its
lines, the fastest first: the fake by cases and the explorer, then by the tests of the fake and the SDK; the SDK by its
tests. *Clients* can see what a mutant does; *operators* alone see events, recordings, metrics, files of the journal,
the control port, and the clock and the faults that a test sets, which no case can judge. An *equivalent* mutant does
nothing else that anybody is promised; each is named with the reason.
"""
_NAMES = {"fake": "the fake", "sdk": "the SDK"}
PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "fake": {
        "the fake: what operators see only": ("operators",),
        "the fake's core": ("fake_broker/aiorocketmq_fake/core/",),
        "the fake's edge of the remoting protocol": ("fake_broker/aiorocketmq_fake/edge/remoting/",),
        "the fake's edge of gRPC": ("fake_broker/aiorocketmq_fake/edge/",),
    },
    "sdk": {
        "the SDK's core": ("sdk/aiorocketmq/_core/",),
        "the SDK's clients": ("sdk/aiorocketmq/",),
    },
}
"""Rows of the table: a mutant is in the first one whose beginning its name has."""


def page(results: Path, equivalents: Path) -> str:
    """Return the page."""
    kept = json.loads(results.read_text("utf-8"))
    packages: dict[str, list[Result]] = {name: kept[name] for name in PARTS}
    reasons: dict[str, str] = tomllib.loads(equivalents.read_text("utf-8"))
    text = [_HEAD, "## Figures, equivalent ones left out\n"]
    text += ["| mutants of | judged | found by all | that cases execute | found by cases and explorer |"]
    text += ["| --- | --- | --- | --- | --- |"]
    for name, parts in PARTS.items():
        judged = [each for each in packages[name] if each["name"] not in reasons]
        by_part: dict[str, list[Result]] = {part: [] for part in parts}
        for each in judged:
            by_part[next(part for part, begins in parts.items() if _is_in(each, begins))].append(each)
        text += [_row(part, some) for part, some in by_part.items()]
        text += [_row(f"all of {_NAMES[name]}", judged)]
        if name == "fake":
            seen = [each for each in judged if each["audience"] == "clients"]
            text += [_row("all of the fake that clients can see", seen)]
    text += ["", *(f"- {note}" for note in kept["notes"])]
    for name, judged in packages.items():
        names = [each for each in judged if each["name"] in reasons]
        text += [f"\n## Survivors of {_NAMES[name]}\n"]
        survivors = [each for each in judged if not is_found(each) and each["name"] not in reasons]
        for each in sorted(survivors, key=lambda one: (one["name"].split(":")[0], one["line"])):
            nobody = "" if each["asked"] else ", which no case or test executes"
            text += [f"`{each['name']}` (line {each['line']}){nobody}\n\n```diff\n{each['diff']}\n```\n"]
        text += [f"### Equivalent: {len(names)}\n"]
        for each in sorted(names, key=lambda one: str(one["name"])):
            text += [f"- `{each['name']}`: {reasons[each['name']]}"]
    return "\n".join(text) + "\n"


def _is_in(result: Result, begins: tuple[str, ...]) -> bool:
    if "operators" in begins:
        return bool(result["audience"] == "operators")
    return str(result["name"]).startswith(begins)


def _row(name: str, results: Sequence[Result]) -> str:
    found = share(sum(map(is_found, results)), len(results))
    executed = [each for each in results if each["cases"]]
    if not executed:
        return f"| {name} | {len(results)} | {found} | | |"
    suite = share(sum(bool(each["suite"]) for each in executed), len(executed))
    return f"| {name} | {len(results)} | {found} | {len(executed)} | {suite} |"
