"""The part of the page on groups: what was found by rule and group, and on how much data that rests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aiorocketmq_audit.overview import Group
from aiorocketmq_audit.verdicts import CheckResult

HEADS = ("group", "seen by", "verdict", "found", "deliveries", "again", "dead letters")
RULE_HEADS = ("check", "rule", "verdict", "broken", "possible", "rests on")


def rows_of_groups(groups: Iterable[Group]) -> list[tuple[str, ...]]:
    """One row for each group and observer."""
    return [
        (
            of.group,
            of.observer,
            _verdict(of.found.values(), is_seen=bool(of.deliveries)),
            "; ".join(f"{rule}: {_counts(counts)}" for rule, counts in of.found.items()) or "nothing",
            f"{of.deliveries:,}",
            f"{of.again:,}",
            f"{of.dead_letters:,}",
        )
        for of in groups
    ]


def rows_of_rules(checks: Iterable[CheckResult]) -> list[tuple[str, ...]]:
    """One row for each rule that found something, and one for each check that found nothing."""
    rows: list[tuple[str, ...]] = []
    for check in checks:
        rests = f"{check.tally.judged:,}"
        if not check.by_invariant:
            rows.append((check.name, "all of them", check.verdict.value, "0", "0", rests))
        for rule, counts in sorted(check.by_invariant.items()):
            broken, possible = counts.get("broken", 0), counts.get("possible", 0)
            verdict = _verdict([counts], is_seen=True)
            rows.append((check.name, rule, verdict, f"{broken:,}", f"{possible:,}", rests))
    return rows


def _verdict(found: Iterable[Mapping[str, int]], *, is_seen: bool) -> str:
    """Of one group alone: whether the whole recording supports a "valid" is told by the checks."""
    found = list(found)
    if any(counts.get("broken") for counts in found):
        return "invalid"
    if any(counts.get("possible") for counts in found):
        return "unknown"
    return "nothing broken" if is_seen else "nothing seen"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {name}" for name, n in sorted(counts.items()) if n)
