"""The matrix of cases and targets from recorded runs, and where a server and the fake that stands for it differ."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiorocketmq_conformance.verdicts import Verdict

TARGETS = (
    "fake:documented",
    "fake:apache-5.5",
    "apache:5.5.0",
    "fake:apache-5.5-cluster",
    "apache:5.5.0:cluster",
    "apache:5.4.0",
    "apache:5.3.3",
    "apache:5.2.0",
    "apache:4.9.7",
)
PAIRS = (("fake:apache-5.5", "apache:5.5.0"), ("fake:apache-5.5-cluster", "apache:5.5.0:cluster"))
"""Each fake that stands for a server, and that server."""
DEMANDED = 0.99
_SIGNS = {
    "pass": "✓", "fail": "✗", "xfail": "known", "xpass": "✗", "error": "!", "n/a": "n/a",
    "inconclusive": "?", "blocked": "?", "not-run": "·",
}  # fmt: skip
_HEAD = """# What the targets keep

Written by `python -m tools.pages` from recorded runs (do not edit); `nox -s real` and `nox -s conformance` repeat them.

✓ kept · ✗ broken · known: broken, and on the list of known deviations with its reason · ? recorded, not judged ·
n/a: not judged, for a reason that is told below · ! the case itself broke · empty: not in that run.

"""

Run = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """One case that a server and the fake that stands for it end differently."""

    fake: str
    server: str
    case: str
    on_fake: str
    on_server: str


def read_runs(folder: Path) -> dict[str, Run]:
    """The recorded runs by target, in the order of the page."""
    runs = {run["target"]: run for run in map(_read, sorted(folder.glob("*.json")))}
    return {target: runs[target] for target in TARGETS if target in runs}


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def compact(run: Run) -> dict[str, Any]:
    """What the page needs of one run of a `result.json`."""
    return {
        "target": run["target"],
        "started": run["started"][:10],
        "seconds": round(run["seconds"], 1),
        "headline": run["headline"],
        "verdicts": {case["id"]: case["verdict"] for case in run["cases"]},
        "details": {
            case["id"]: case["detail"]
            for case in run["cases"]
            if case["verdict"] in {"fail", "error", "xpass"}
        },
        "known": {case["id"]: case["detail"] for case in run["cases"] if case["verdict"] == "xfail"},
        "unjudged": {
            case["id"]: case["detail"]
            for case in run["cases"]
            if case["verdict"] in {"n/a", "blocked", "not-run"}
        },
        "notes": {case["id"]: notes for case in run["cases"] if (notes := answers(case["notes"]))},
    }


def answers(notes: Mapping[str, object]) -> dict[str, object]:
    """What a case noted of answers: texts and yes or no; numbers differ from run to run."""
    return {name: value for name, value in notes.items() if isinstance(value, str | bool)}


def replaced(whole: Run, part: Run) -> dict[str, Any]:
    """A run in which the cases of another one stand in the places of its own."""
    mended = dict(whole)
    for key in ("details", "known", "unjudged", "notes"):
        kept = {case: why for case, why in whole.get(key, {}).items() if case not in part["verdicts"]}
        mended[key] = {**kept, **part.get(key, {})}
    mended["verdicts"] = {**whole["verdicts"], **part["verdicts"]}
    mended["again"] = sorted({*whole.get("again", []), *part["verdicts"]})
    counts = Counter(Verdict(verdict).counts_as for verdict in mended["verdicts"].values())
    mended["headline"] = ", ".join(f"{counts[name]} {name}" for name in ("passed", "failed", "skipped"))
    return mended


def held(verdict: str | None) -> bool | None:
    """Whether a promise was kept; None where it was not judged."""
    return {"pass": True, "xpass": True, "fail": False, "xfail": False}.get(verdict or "")


def agreement(fake: Run, server: Run) -> tuple[int, list[Difference]]:
    """How many cases both judged, and those that they ended differently."""
    judged, differing = 0, []
    for case, on_server in server["verdicts"].items():
        on_fake = fake["verdicts"].get(case)
        if held(on_fake) is None or held(on_server) is None:
            continue
        judged += 1
        if held(on_fake) != held(on_server):
            differing.append(Difference(fake["target"], server["target"], case, str(on_fake), on_server))
    return judged, differing


def reasons(source: Path) -> dict[str, str]:
    """Why cases end differently, by case id."""
    return dict(tomllib.loads(source.read_text(encoding="utf-8")))


def page(runs: Mapping[str, Run], why: Mapping[str, str]) -> str:
    """The whole page."""
    parts = [
        _summary(runs),
        _agreements(runs, why),
        _broken(runs, why),
        _known(runs),
        _unjudged(runs),
        _matrix(runs),
    ]
    return _HEAD + "\n".join(parts)


def _summary(runs: Mapping[str, Run]) -> str:
    lines = ["| target | day | seconds | ended |", "| --- | --- | --- | --- |"]
    lines += [
        f"| `{target}` | {run['started']} | {run['seconds']:g} | {run['headline']}{_again(run)} |"
        for target, run in runs.items()
    ]
    return "\n".join(lines) + "\n"


def _again(run: Run) -> str:
    again = run.get("again", [])
    return f"; {_shortly(again)} run again later" if again else ""


def _agreements(runs: Mapping[str, Run], why: Mapping[str, str]) -> str:
    parts = ["## Do the fakes do what the servers do?\n"]
    for fake, server in PAIRS:
        if fake not in runs or server not in runs:
            continue
        judged, differing = agreement(runs[fake], runs[server])
        share = (judged - len(differing)) / judged if judged else 0.0
        parts.append(
            f"`{fake}` and `{server}` end {judged - len(differing)} of {judged} judged cases alike: {share:.1%}.\n"
        )
        if differing:
            parts += ["| case | fake | server | why |", "| --- | --- | --- | --- |"]
            parts += [
                f"| `{one.case}` | {_SIGNS[one.on_fake]} | {_SIGNS[one.on_server]} | {_why(one, why)} |"
                for one in differing
            ]
            parts.append("")
    return "\n".join(parts)


def unexplained(runs: Mapping[str, Run], why: Mapping[str, str]) -> list[str]:
    """Cases that a run saw broken and that nobody has explained."""
    return [case for run in runs.values() for case in run["details"] if case not in why]


def _broken(runs: Mapping[str, Run], why: Mapping[str, str]) -> str:
    lines = ["## What was broken, and why\n", "| target | case | seen | why |", "| --- | --- | --- | --- |"]
    for target, run in runs.items():
        for case, seen in run["details"].items():
            told = " ".join(seen.split())[:120].replace("|", "\\|")
            lines.append(f"| `{target}` | `{case}` | {told} | {why.get(case, 'no reason on record')} |")
    return "\n".join(lines) + "\n" if len(lines) > 3 else ""


def _known(runs: Mapping[str, Run]) -> str:
    lines = ["## What is known to be broken\n", "| target | case | why |", "| --- | --- | --- |"]
    for target, run in runs.items():
        for case, detail in run.get("known", {}).items():
            reason = detail.removeprefix("known: ").partition("; seen: ")[0]
            told = " ".join(reason.split()).replace("|", "\\|")
            lines.append(f"| `{target}` | `{case}` | {told} |")
    return "\n".join(lines) + "\n"


def _unjudged(runs: Mapping[str, Run]) -> str:
    lines = ["## What was not judged, and why\n", "| target | cases | why |", "| --- | --- | --- |"]
    for target, run in runs.items():
        by_reason: dict[str, list[str]] = {}
        for case, reason in run.get("unjudged", {}).items():
            by_reason.setdefault(reason, []).append(case)
        for reason, cases in by_reason.items():
            told = " ".join(reason.split()).replace("|", "\\|")
            lines.append(f"| `{target}` | {_shortly(cases)} | {told} |")
    return "\n".join(lines) + "\n"


def _shortly(cases: list[str]) -> str:
    """The cases by name, or their groups with numbers where they are many."""
    if len(cases) <= 3:
        return ", ".join(f"`{case}`" for case in cases)
    groups = Counter(case.partition(".")[0] for case in cases)
    return ", ".join(f"{number} of `{group}.*`" for group, number in groups.items())


def _why(one: Difference, why: Mapping[str, str]) -> str:
    return why.get(one.case, "no reason on record")


def _matrix(runs: Mapping[str, Run]) -> str:
    names = [target.replace("fake:", "fake ").replace("apache:", "apache ") for target in runs]
    lines = ["## Every case\n", f"| case | {' | '.join(names)} |", f"| --- |{' --- |' * len(names)}"]
    cases = sorted({case for run in runs.values() for case in run["verdicts"]})
    for case in cases:
        signs = [_SIGNS.get(run["verdicts"].get(case, ""), "") for run in runs.values()]
        lines.append(f"| `{case}` | {' | '.join(signs)} |")
    return "\n".join(lines) + "\n"
