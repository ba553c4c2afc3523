"""What a run found, as values and as the JSON of `result.json`; inventory 6.2."""

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
"""Version of the JSON document; grows when a key changes its meaning or goes."""

# What differs between two cases with one cause: names that cases made, ids, numbers.
_VARIABLE = re.compile(rf"\b{PREFIX}-[\w-]+|\b[0-9A-Fa-f]{{12,}}\b|\d+(\.\d+)?")

Json = dict[str, object]
EXIT_PASSED, EXIT_FAILED, EXIT_UNKNOWN = 0, 1, 3


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How one case ended on one target."""

    case: Case
    verdict: Verdict
    detail: str = ""
    """Why, in words; empty for a plain pass."""
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
        """Whether the promise stands undecided although it was to be judged."""
        undecided = self.verdict in {Verdict.INCONCLUSIVE, Verdict.BLOCKED, Verdict.NOT_RUN}
        return undecided and self.case.level is not Level.INFORMATIONAL

    def to_json(self) -> Json:
        """This result as it stands in `result.json`."""
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
    """Cases that ended with the same detail, but for names, ids and numbers."""

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
    """What was shown not to work, one sentence each: cases that need it are not judged."""

    def count(self, verdict: Verdict) -> int:
        """How many cases ended so."""
        return sum(result.verdict is verdict for result in self.results)

    @property
    def headline(self) -> str:
        """`N passed, N failed, N skipped`; the three always add up to the number of cases."""
        counts = Counter(result.verdict.counts_as for result in self.results)
        return f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"

    @property
    def exit_code(self) -> int:
        """1 if a promise was broken, 3 if too little was seen to judge, else 0."""
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
        """This run as it stands in `result.json`."""
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
