"""The audit as JSON: for machines, with a schema version of its own."""

from __future__ import annotations

import dataclasses
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from aiorocketmq_audit.figures import BUCKETS_S
from aiorocketmq_audit.run import Audit

SCHEMA = 1
"""Version of this document's shape, which is `summary.schema.json` beside this module: fields are added within a
version, never removed or renamed."""


def summary(audit: Audit) -> dict[str, Any]:
    """The audit as values that `json` can write."""
    gates, numbers = audit.gates, audit.numbers
    return {
        "schema": SCHEMA,
        "program": f"aiorocketmq_audit {_version()}",
        "verdict": audit.verdict.value,
        "recording": {
            "paths": list(audit.recording),
            "versions": list(gates.versions),
            "events": gates.events,
            "recorders": list(gates.recorders),
            "whole": gates.whole,
            "missing": list(gates.missing),
            "clocks": list(gates.clocks),
            "duplicated_rows": gates.duplicated,
            "unfinished_operations": gates.unfinished_operations,
            "operations": {kind: dict(counts) for kind, counts in gates.operations.items()},
            "started_us": gates.started_us,
            "ended_us": gates.ended_us,
        },
        "checks": [
            {
                "name": result.name,
                "verdict": result.verdict.value,
                "reasons": list(result.reasons),
                "judged": result.tally.judged,
                "broken": result.tally.broken,
                "possible": result.tally.possible,
                "excused": dict(result.tally.exempted),
                "findings": {name: dict(counts) for name, counts in result.by_invariant.items()},
                "samples": list(audit.samples.get(result.name, ())),
            }
            for result in audit.checks
        ],
        "deliveries": {
            "total": numbers.deliveries,
            "first": numbers.first_deliveries,
            "again": numbers.redeliveries,
            "confirmed": numbers.confirmed,
            "recovered": numbers.recovered,
            "causes": numbers.causes,
            "by_attempt": {str(attempt): count for attempt, count in numbers.attempts.items()},
        },
        "excuses": excuses(audit),
        "retry_ladder": [dataclasses.asdict(step) for step in numbers.ladder],
        "lateness": {
            "borders_s": list(BUCKETS_S),
            "counts": {k: list(v) for k, v in numbers.lateness.items()},
        },
        "groups": [
            {
                "observer": group.observer,
                "group": group.group,
                "deliveries": group.deliveries,
                "again": group.again,
                "dead_letters": group.dead_letters,
                "found": {rule: dict(counts) for rule, counts in group.found.items()},
            }
            for group in audit.overview.groups
        ],
    }


def excuses(audit: Audit) -> dict[str, int]:
    """How often each excuse was used, by all checks together; E1 and E6 are told by the causes of redeliveries."""
    used = Counter(
        {
            "E1 lease changed": audit.numbers.causes.get("change of unknown effect", 0),
            "E6 answer repeated": audit.numbers.causes.get("answer repeated", 0),
        }
    )
    for result in audit.checks:
        used.update(result.tally.exempted)
    return {name: count for name, count in sorted(used.items()) if count}


def _version() -> str:
    try:
        return version("aiorocketmq")
    except PackageNotFoundError:
        # Shipped to a cluster as a plain zip, without its metadata.
        return "unknown"
