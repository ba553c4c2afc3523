"""Results of a run, as values and as the JSON of `result.json`; inventory 6.2."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from aiorocketmq_conformance.case import Case, Level
from aiorocketmq_conformance.declaration import Declaration
from aiorocketmq_conformance.target import PREFIX
from aiorocketmq_conformance.verdicts import Verdict

SCHEMA = 1
"""Version of the JSON document; incremented if a key changes its meaning or is removed."""

# What differs between two cases with one cause: generated names, ids, numbers.
_VARIABLE = re.compile(rf"\b{PREFIX}-[\w-]+|\b[0-9A-Fa-f]{{12,}}\b|\d+(\.\d+)?")

Json = dict[str, object]
EXIT_PASSED, EXIT_FAILED, EXIT_UNKNOWN = 0, 1, 3


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of one case on one target."""

    case: Case
    verdict: Verdict
    detail: str = ""
    """The reason; empty for a plain pass."""
    seconds: float = 0.0
    """Real seconds that it took."""
    target_seconds: float = 0.0
    """Seconds that passed on the target's own clock."""
    notes: Mapping[str, object] = field(default_factory=dict)
    """What the case measured."""
    evidence: str = ""
    """Traceback of a failed or broken case."""

    @property
    def leaves_unknown(self) -> bool:
        """Whether the case has no verdict although it was to be judged."""
        undecided = self.verdict in {Verdict.INCONCLUSIVE, Verdict.BLOCKED, Verdict.NOT_RUN}
        return undecided and self.case.level is not Level.INFORMATIONAL

    def to_json(self) -> Json:
        """Return this result as in `result.json`."""
        return {
            "id": self.case.id,
            "group": self.case.group,
            "level": self.case.level.value,
            "rules": list(self.case.rules),
            "needs": list(self.case.needs),
            "claim": self.case.claim,
            "verdict": self.verdict.value,
            "detail": self.detail,
            "seconds": round(self.seconds, 3),
            "target_seconds": round(self.target_seconds, 3),
            "notes": dict(self.notes),
            "evidence": self.evidence,
        }


@dataclass(frozen=True, slots=True)
class Cause:
    """Cases whose details differ in names, ids and numbers only."""

    detail: str
    """That of the first case."""
    cases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunResult:
    """One run of the selected cases against one target."""

    target: str
    """As given to `--target`."""
    declaration: Declaration
    started: datetime
    seconds: float
    suite_version: str
    results: tuple[CaseResult, ...]
    blocked: tuple[str, ...] = ()
    """Steps that failed, one sentence each: cases that need them are not judged."""

    def count(self, verdict: Verdict) -> int:
        """Return the number of cases with this verdict."""
        return sum(result.verdict is verdict for result in self.results)

    @property
    def headline(self) -> str:
        """`N passed, N failed, N skipped`; the three always add up to the number of cases."""
        counts = Counter(result.verdict.counts_as for result in self.results)
        return f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"

    @property
    def exit_code(self) -> int:
        """1 if a case failed, 3 if there is no verdict, else 0."""
        if any(result.verdict.fails_the_run for result in self.results):
            return EXIT_FAILED
        decided = any(result.verdict in {Verdict.PASS, Verdict.XFAIL} for result in self.results)
        if decided and self.blocked:
            return EXIT_FAILED
        if not decided or any(result.leaves_unknown for result in self.results):
            return EXIT_UNKNOWN
        return EXIT_PASSED

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Cases that failed or are not judged, by cause: the largest first."""
        cases: dict[str, list[CaseResult]] = {}
        for result in self.results:
            is_blocked = result.verdict is Verdict.BLOCKED
            undecided = result.leaves_unknown and result.verdict is not Verdict.NOT_RUN
            if result.verdict.fails_the_run or is_blocked or undecided:
                cases.setdefault(_VARIABLE.sub("…", result.detail), []).append(result)
        ordered = sorted(cases.values(), key=lambda results: -len(results))
        return tuple(Cause(each[0].detail, tuple(result.case.id for result in each)) for each in ordered)

    def to_json(self) -> Json:
        """Return this run as in `result.json`."""
        return {
            "schema": SCHEMA,
            "target": self.target,
            "product": self.declaration.product,
            "version": self.declaration.version,
            "capabilities": sorted(self.declaration.capabilities),
            "numbers": dict(self.declaration.numbers),
            "started": self.started.isoformat(),
            "seconds": round(self.seconds, 3),
            "suite_version": self.suite_version,
            "headline": self.headline,
            "counts": {verdict.value: self.count(verdict) for verdict in Verdict},
            "exit_code": self.exit_code,
            "blocked": list(self.blocked),
            "causes": [{"detail": cause.detail, "cases": list(cause.cases)} for cause in self.causes],
            "cases": [result.to_json() for result in self.results],
        }
