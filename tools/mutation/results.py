"""Figures of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Result = Mapping[str, Any]


def summary(results: Sequence[Result]) -> list[str]:
    """Return the figures, a line each."""
    groups = {"all": results} | {
        f"seen by {audience}": [each for each in results if each["audience"] == audience]
        for audience in ("clients", "operators")
    }
    survivors = [each for each in results if not is_found(each)]
    return [
        *(_figures(name, group) for name, group in groups.items()),
        f"{len(survivors)} survivors: {sum(not each['asked'] for each in survivors)} that no case or test executes,"
        f" {sum(each['left_out'] > 0 for each in survivors)} not judged by everything that executes them",
    ]


def is_found(result: Result) -> bool:
    """Whether anything objected."""
    return bool(result["suite"] or result["test"])


def share(part: int, whole: int) -> str:
    """Return a number and its share of a whole."""
    return f"{part} ({part / whole:.0%})" if whole else "0"


def _figures(name: str, results: Sequence[Result]) -> str:
    suite = sum(bool(each["suite"]) for each in results)
    found = sum(is_found(each) for each in results)
    of = len(results)
    return f"{name}: {of} mutants, {share(suite, of)} found by cases and explorer, {share(found, of)} by all"
