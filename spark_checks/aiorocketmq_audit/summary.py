"""The audit as JSON: for machines, with a schema version of its own."""

from __future__ import annotations

import dataclasses
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from aiorocketmq_audit.figures import BUCKETS_S
from aiorocketmq_audit.run import Audit

SCHEMA = 1
"""Version of this document's shape: fields are added within a version, never removed or renamed."""


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
                "excused": dict(result.tally.excused),
                "findings": {name: dict(counts) for name, counts in result.by_invariant.items()},
                "samples": list(audit.samples.get(result.name, ())),
            }
            for result in audit.checks
        ],
        "deliveries": {
            "total": numbers.deliveries,
            "first": numbers.first_deliveries,
            "again": numbers.redeliveries,
            "causes": numbers.causes,
            "by_attempt": {str(attempt): count for attempt, count in numbers.attempts.items()},
        },
        "retry_ladder": [dataclasses.asdict(step) for step in numbers.ladder],
        "lateness": {
            "borders_s": list(BUCKETS_S),
            "counts": {k: list(v) for k, v in numbers.lateness.items()},
        },
    }


def _version() -> str:
    try:
        return version("aiorocketmq")
    except PackageNotFoundError:
        # Shipped to a cluster as a plain zip, without its metadata.
        return "unknown"
