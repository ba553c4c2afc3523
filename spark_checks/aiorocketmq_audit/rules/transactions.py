"""Transactions: a half message is delivered after a commit was tried, never after a rollback alone.

INV-TX        Of a transaction that the account knows, nothing is delivered before a commit was tried. Where only a
              client recorded it, and nobody rolled back, another producer of its group may have committed unseen:
              possible, not proven.
INV-TX-CHECK  When a decision was answered OK, the server stops asking within one interval of checks. A decision ends
              one half message, and a send that the network repeated stores several of one transaction: where the broker
              recorded several, it may ask about those that are left; where nobody recorded how many there are, that is
              possible only. A killed server may ask again about what it was told last (E4).
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "transactions",
    "A half message comes when it was committed, and nobody is asked about it for ever.",
    "transactions",
)

CHECK_US = 31_000_000
"""One interval between checks (30 s) and a second: a decision is written in batches (broker-semantics R9.11)."""

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
