"""Recall: a delayed message that was recalled in time is not delivered.

INV-RECALL  After a recall that was answered OK more than a second before its delivery time, a message is never
            delivered. Later recalls may be too late.
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "recall", "A delayed message that was recalled in time is not delivered.", "messages recalled in time"
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
