"""From counts to verdicts: valid, invalid or unknown, with the reasons in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from aiorocketmq_audit.gates import Gates

EXCUSED_SHARE = 0.5
"""When excuses explain more than this share of the redeliveries, nobody can say what was tested (inventory 5.3)."""


class Verdict(Enum):
    """What a check says; merged, invalid wins over unknown, unknown over valid."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Tally:
    """What a check counted."""

    judged: int
    """Facts that it looked at."""
    broken: int = 0
    possible: int = 0
    excused: Mapping[str, int] = field(default_factory=dict)


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
    """Whether the recording held anything that this check is about."""


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
    """Decide. `subject` says in words what the check judges; `doubts` are further reasons for not being valid."""
    reasons = list(doubts)
    has_subject = bool(tally.judged or reasons)
    if not tally.judged:
        reasons.append(f"nothing to judge: the recording holds no {subject}.")
    reasons += gates.missing
    if depends_on_time:
        reasons += gates.clocks
    if tally.possible:
        reasons.append(f"{tally.possible} finding(s) are possible but not proven.")
    excused = sum(tally.excused.values())
    if redeliveries and excused > EXCUSED_SHARE * redeliveries:
        reasons.append(f"excuses explain {excused} of {redeliveries} redeliveries.")
    if tally.broken:
        verdict = Verdict.INVALID
        reasons.insert(0, f"{tally.broken} broken promise(s) among {tally.judged} {subject}.")
    elif reasons:
        verdict = Verdict.UNKNOWN
    else:
        verdict = Verdict.VALID
        reasons.append(f"{tally.judged} {subject} judged, none broken.")
    return CheckResult(name, verdict, tuple(reasons), tally, by_invariant, has_subject)


def overall(results: Iterable[CheckResult], gates: Gates) -> Verdict:
    """Merge: a check without a subject says nothing, unless all of them say nothing."""
    results = tuple(results)
    if any(result.verdict is Verdict.INVALID for result in results):
        return Verdict.INVALID
    spoken = [result.verdict for result in results if result.has_subject]
    if not spoken or not gates.whole or Verdict.UNKNOWN in spoken:
        return Verdict.UNKNOWN
    return Verdict.VALID
