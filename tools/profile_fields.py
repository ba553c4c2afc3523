"""Which conformance cases decide the fields that the profile `apache-5.5-cluster` inherits from the local one.

`python -m tools.profile_fields` replaces the value of one field at a time in the fake, runs the cases that read the
field, and keeps those that end otherwise than before in `profile-fields.json`, beside the page that
`tools.profile_page` makes of it; if there are none, those that note another answer. Cases that cite a rule of the
field's docstring run first; the others run only if none of those decides. An hour of work: name fields to measure only
these again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import ClassVar, NamedTuple

from aiorocketmq_conformance.case import Case, load
from aiorocketmq_conformance.results import CaseResult
from aiorocketmq_conformance.runner import Run
from aiorocketmq_conformance.targets.declarations import DECLARATIONS
from aiorocketmq_conformance.targets.fake import BundledFake
from aiorocketmq_fake.core.values.profile import Profile
from aiorocketmq_fake.core.values.profiles import APACHE_5_5, APACHE_5_5_CLUSTER, DOCUMENTED

from tools.matrix_page import answers
from tools.rules_page import cases_by_rule, fields_by_rule

KEPT = Path(__file__).resolve().parents[1] / "docs" / "reference" / "profile-fields.json"
# Exact times, as the bundled fake has them.
_BASE = replace(APACHE_5_5_CLUSTER, revive_spread=0.0)


def inherited() -> list[str]:
    """Return the fields in which the profile for a separate proxy equals the local one, but for those that the fake
    of cases sets otherwise."""
    names = [field.name for field in fields(Profile)]
    return [name for name in names if getattr(APACHE_5_5, name) == getattr(_BASE, name)]


def alternatives(name: str) -> list[object]:
    """Return other values of a field: the documented one, or, if that is equal, the opposite or other numbers."""
    value, documented = getattr(_BASE, name), getattr(DOCUMENTED, name)
    if value != documented:
        return [documented]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value // 4, value * 4] if value else [4]
    if isinstance(value, float):
        return [value / 4, value * 4] if value else [4.0]
    if isinstance(value, tuple):
        return [tuple(each / 4 for each in value)]
    assert value is None, f"{name} is {value!r}: say what else it can be"
    return [300.0]


class Outcome(NamedTuple):
    """How a case ended."""

    verdict: str
    answers: dict[str, object]
    """What it noted, but for numbers."""


Deciding = dict[str, list[str]]
"""Cases that end otherwise (`verdict`), or note another answer (`answers`)."""


async def outcomes(
    cases: Sequence[Case],
    profile: Profile,
    *,
    jobs: int | None = None,
    on_result: Callable[[CaseResult], None] = lambda _: None,
) -> dict[str, Outcome]:
    """Run cases on the fake with this profile."""
    declaration = DECLARATIONS["fake-apache-5.5-cluster"]
    async with BundledFake(profile, declaration=declaration) as broker:
        run = await Run(cases, broker, jobs=jobs, on_result=on_result).finish()
    return {result.case.id: Outcome(result.verdict.value, answers(result.notes)) for result in run.results}


class _Watched(Profile):
    """A profile that notes which of its fields are read."""

    __slots__ = ()
    read: ClassVar[set[str]] = set()

    def __getattribute__(self, name: str) -> object:
        # Copies (`dataclasses.replace`) read every field, and are no use of one.
        if "aiorocketmq_fake" in sys._getframe(1).f_code.co_filename:
            _Watched.read.add(name)
        return super().__getattribute__(name)


async def readers(cases: Sequence[Case]) -> tuple[dict[str, Outcome], dict[str, list[Case]]]:
    """Run the cases one at a time; return how they end, and the cases that read each field.

    Answers that a second run notes otherwise are left out."""
    found: dict[str, list[Case]] = {}

    def note(result: CaseResult) -> None:
        for name in _Watched.read:
            found.setdefault(name, []).append(result.case)
        _Watched.read.clear()

    watched = _Watched(**{field.name: getattr(_BASE, field.name) for field in fields(Profile)})
    _Watched.read.clear()
    first, second = await outcomes(cases, watched, jobs=1, on_result=note), await outcomes(cases, _BASE)
    steady = {
        case: Outcome(
            outcome.verdict,
            {
                name: value
                for name, value in outcome.answers.items()
                if second[case].answers.get(name) == value
            },
        )
        for case, outcome in first.items()
    }
    return steady, found


async def deciding(name: str, cases: Sequence[Case], before: dict[str, Outcome]) -> Deciding:
    """Return the cases that end otherwise with another value of the field, and those that note another answer."""
    by_verdict: set[str] = set()
    by_answers: set[str] = set()
    for value in alternatives(name):
        changed = replace(_BASE, **{name: value})  # type: ignore[arg-type]  # fields of many types
        for case, after in (await outcomes(cases, changed)).items():
            if after.verdict != before[case].verdict:
                by_verdict.add(case)
            elif any(after.answers.get(key) != value for key, value in before[case].answers.items()):
                by_answers.add(case)
    return {"verdict": sorted(by_verdict), "answers": sorted(by_answers - by_verdict)}


async def measure(names: Iterable[str], patterns: Sequence[str]) -> None:
    """Measure these fields by the cases that match, and keep what decides them."""
    cases = load().select(patterns)
    before, by_field = await readers(cases)
    cited = cases_by_rule(load())
    rules: dict[str, set[str]] = {}
    for rule, touched in fields_by_rule().items():
        for name in touched:
            rules.setdefault(name, set()).update(cited.get(rule, ()))
    for name in names:
        reading = by_field.get(name, [])
        first = [case for case in reading if case.stem in rules.get(name, ())]
        rest = [case for case in reading if case not in first]
        decided = await deciding(name, first, before)
        if not decided["verdict"]:
            others = await deciding(name, rest, before)
            decided = {key: sorted({*decided[key], *others[key]}) for key in decided}
        kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
        kept[name] = decided
        KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        shown = ", ".join((*decided["verdict"], *decided["answers"])) or "none"
        print(f"{name}: {len(first)} + {len(rest)} cases read it, decided by {shown}")
        sys.stdout.flush()


def main() -> None:
    """Read the names of fields, and measure them."""
    known = inherited()
    parser = argparse.ArgumentParser(prog="python -m tools.profile_fields", description=__doc__)
    parser.add_argument("fields", nargs="*", metavar="FIELD", help="default: all that are inherited")
    parser.add_argument("--select", nargs="+", default=(), metavar="GLOB", help="only by these cases")
    options = parser.parse_args()
    names = options.fields or known
    if unknown := sorted(set(names) - set(known)):
        parser.error(
            f"no inherited field is named {', '.join(unknown)}: see docs/reference/profile-fields.md"
        )
    logging.disable(logging.CRITICAL)
    asyncio.run(measure(names, options.select))


if __name__ == "__main__":
    main()
