"""Derives verdicts from counts: valid, invalid or unknown, each with reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from aiorocketmq_audit.recording.gates import Gates

EXEMPTED_SHARE = 0.5
"""If exemptions apply to more than this share of the redeliveries, the verdict is unknown (inventory 5.3)."""

USUAL = ("queue moved",)
"""Exemptions that do not count towards that share: queues that move are the only cause of a second read."""


class Verdict(Enum):
    """The result of a check; merged, invalid wins over unknown, unknown over valid."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of a check."""

    judged: int
    """Events that it judged."""
    broken: int = 0
    possible: int = 0
    exempted: Mapping[str, int] = field(default_factory=dict)
    """Findings that do not count, by the name of the exemption."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The verdict of one check."""

    name: str
    verdict: Verdict
    reasons: tuple[str, ...]
    tally: Tally
    by_invariant: Mapping[str, Mapping[str, int]]
    """Findings by invariant, then `broken` or `possible`."""
    has_subject: bool
    """Whether the recording holds anything for this check to judge; otherwise the check is silent."""


@dataclass(frozen=True, slots=True)
class Overall:
    """The verdict of all checks together."""

    verdict: Verdict
    silent: tuple[str, ...] = ()
    """Checks for which the recording holds nothing to judge."""
    required: tuple[str, ...] = ()
    """Those of `silent` that were required, so that the verdict is not valid."""


def judge(
    name: str,
    tally: Tally,
    by_invariant: Mapping[str, Mapping[str, int]],
    gates: Gates,
    *,
    subject: str,
    depends_on_time: bool,
    redeliveries: int = 0,
    doubts: Iterable[str] = (),
) -> CheckResult:
    """Return the verdict of one check.

    `subject` names in words what the check judges; `doubts` are further reasons for not being valid.
    """
    reasons = list(doubts)
    has_subject = bool(tally.judged or reasons)
    if not tally.judged:
        reasons.append(f"nothing to judge: the recording holds no {subject}.")
    reasons += gates.missing
    if depends_on_time:
        reasons += gates.clocks
    if tally.possible:
        reasons.append(f"{tally.possible} finding(s) are possible but not proven.")
    exempted = sum(n for name, n in tally.exempted.items() if name not in USUAL)
    if redeliveries and exempted > EXEMPTED_SHARE * redeliveries:
        reasons.append(f"exemptions apply to {exempted} of {redeliveries} redeliveries.")
    if tally.broken:
        verdict = Verdict.INVALID
        reasons.insert(0, f"{tally.broken} broken promise(s) among {tally.judged} {subject}.")
    elif reasons:
        verdict = Verdict.UNKNOWN
    else:
        verdict = Verdict.VALID
        reasons.append(f"{tally.judged} {subject} judged, none broken.")
    return CheckResult(name, verdict, tuple(reasons), tally, by_invariant, has_subject)


def overall(results: Iterable[CheckResult], gates: Gates, require: Sequence[str] = ()) -> Overall:
    """Merge the verdicts of checks.

    A silent check does not affect the verdict, unless all are silent or it is in `require`; a required check that did
    not run counts as silent.
    """
    results = tuple(results)
    silent = tuple(result.name for result in results if not result.has_subject)
    judging = {result.name: result.verdict for result in results if result.has_subject}
    required = tuple(dict.fromkeys(name for name in require if name not in judging))
    silent += tuple(name for name in required if name not in silent)
    if any(result.verdict is Verdict.INVALID for result in results):
        verdict = Verdict.INVALID
    elif required or not judging or not gates.whole or Verdict.UNKNOWN in judging.values():
        verdict = Verdict.UNKNOWN
    else:
        verdict = Verdict.VALID
    return Overall(verdict, silent, required)
