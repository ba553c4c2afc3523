"""Transactions: a half message is delivered after an attempted commit, never after a rollback alone.

INV-TX        No message of a recorded transaction is delivered before a commit was attempted. If only a client recorded
              it, without a rollback, another producer of the group may have committed it: possible, not proven.
INV-TX-CHECK  After a decision was answered OK, the server stops its checks within one interval. A decision resolves one
              half message, and a duplicated send stores several of one transaction: not judged if the broker recorded
              several, possible if their number is unknown. A killed server may check the last decisions again (E4).
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "transactions",
    "A half message is delivered after its commit, and is not checked after its decision.",
    "transactions",
)

CHECK_US = 31_000_000
"""One interval between checks (30 s) and a second: decisions are written in batches (broker-semantics R9.11)."""

TRANSACTIONS = (
    Rule(
        check=CHECK.name,
        invariant="INV-TX",
        judged="true",
        violated="given is not null and not coalesce(commit_lo <= given.at, false)",
        certain="by_broker or rolled is not null or commit_lo is not null",
        margin="commit_lo - given.at",
        first="began",
        second="coalesce(given, began)",
    ),
    Rule(
        check=CHECK.name,
        invariant="INV-TX-CHECK",
        judged="asked is not null and decided is not null and halves <= 1",
        violated=f"asked.at > decided.at + {CHECK_US}",
        certain="halves = 1",
        margin="asked.at - decided.at",
        first="decided",
        second="asked",
        exemptions=("restart",),
        acked="decided.at",
    ),
)
