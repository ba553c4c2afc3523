"""The audit as JSON, with its own schema version; page and terminal render this document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from aiorocketmq_audit.frames.deliveries import LATENESS_S
from aiorocketmq_audit.frames.overview import LATENCY_S
from aiorocketmq_audit.report.sentences import sentence

if TYPE_CHECKING:
    from aiorocketmq_audit.audit import Audit
    from aiorocketmq_audit.verdicts import CheckResult

SCHEMA = 2
"""Version of this document, described by `summary.schema.json` in this folder: fields are added within a version, never
removed or renamed."""


def summary(audit: Audit, promises: Mapping[str, str]) -> dict[str, Any]:
    """Return the audit as values that `json` can serialise; `promises` are the texts of the checks."""
    gates, numbers, overview = audit.gates, audit.numbers, audit.overview
    return {
        "schema": SCHEMA,
        "program": f"aiorocketmq_audit {_version()}",
        "verdict": audit.verdict.value,
        "silent": audit.silent,
        "required": audit.overall.required,
        "spark": asdict(audit.spark),
        "recording": {
            "paths": audit.recording,
            "versions": gates.versions,
            "events": gates.events,
            "recorders": gates.recorders,
            "whole": gates.whole,
            "missing": gates.missing,
            "clocks": gates.clocks,
            "duplicated_rows": gates.duplicated,
            "unfinished_operations": gates.unfinished_operations,
            "operations": {kind: dict(counts) for kind, counts in gates.operations.items()},
            "started_us": gates.started_us,
            "ended_us": gates.ended_us,
        },
        "checks": [_check(audit, result, promises.get(result.name, "")) for result in audit.checks],
        "deliveries": {
            "total": numbers.deliveries,
            "first": numbers.first_deliveries,
            "redeliveries": numbers.redeliveries,
            "traced": numbers.traced,
            "confirmed": numbers.confirmed,
            "recovered": numbers.recovered,
            "causes": dict(numbers.causes),
            "by_attempt": {str(attempt): count for attempt, count in numbers.attempts.items()},
        },
        "exemptions": _exemptions(audit),
        "retry_ladder": [asdict(step) for step in numbers.ladder],
        "lateness": {"borders_s": LATENESS_S, "counts": dict(numbers.lateness)},
        "latency": {"borders_s": LATENCY_S, "counts": dict(overview.latency)},
        "dead_letters": {"slice_s": overview.slice_s, "counts": dict(overview.dead_letters)},
        "groups": [asdict(group) for group in overview.groups],
    }


def _check(audit: Audit, result: CheckResult, promise: str) -> dict[str, Any]:
    return {
        "name": result.name,
        "promise": promise,
        "verdict": result.verdict.value,
        "reasons": result.reasons,
        "judged": result.tally.judged,
        "broken": result.tally.broken,
        "possible": result.tally.possible,
        "exempted": dict(result.tally.exempted),
        "findings": {name: dict(counts) for name, counts in sorted(result.by_invariant.items())},
        "samples": [{**sample, "text": sentence(sample)} for sample in audit.samples.get(result.name, ())],
    }


def _exemptions(audit: Audit) -> dict[str, int]:
    """Return how often each exemption was applied, over all checks; E1 and E6 are causes of redeliveries."""
    causes = audit.numbers.causes
    used = Counter({"E1 lease changed": causes.get("change of unknown effect", 0)})
    used["E6 answer repeated"] = causes.get("answer repeated", 0)
    for result in audit.checks:
        used.update(result.tally.exempted)
    return {name: count for name, count in sorted(used.items()) if count}


def _version() -> str:
    try:
        return version("aiorocketmq")
    except PackageNotFoundError:
        # On a cluster the package is a plain zip, without metadata.
        return "unknown"
