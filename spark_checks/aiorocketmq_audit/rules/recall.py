"""Recall: a delayed message that was taken back in time does not come.

INV-RECALL  A recall that was answered OK more than a second before the message was due means that nobody ever gets it.
            Later ones may lose the race.
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "recall", "A delayed message that was taken back in time does not come.", "messages taken back in time"
)

RACE_US = 1_000_000

RECALLS = (
    Rule(
        check=CHECK.name,
        invariant="INV-RECALL",
        judged=f"recalled.at < due_us - {RACE_US}",
        violated="given is not null",
        margin="due_us - recalled.at",
        first="recalled",
        second="coalesce(given, recalled)",
    ),
)
