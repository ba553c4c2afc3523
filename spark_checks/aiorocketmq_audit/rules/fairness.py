"""Fairness: while somebody asks and something waits, every queue of a group goes on.

INV-FAIR  Between two first deliveries from a queue to a group there are no 60 s through which a message waited that
          came afterwards, and in which a poll of the group was asked and answered. Ordered groups are left out: what
          waits there may have to; so are lite topics, whose messages wait for clients that want them. A client cannot
          see what others of its group got: on its account it is possible only.
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "fairness",
    "While somebody asks and something waits, every queue of a group goes on.",
    "half minutes of queues",
)

STANDSTILL_US = 60_000_000

SLICES = (
    Rule(
        check=CHECK.name,
        invariant="INV-FAIR",
        judged="true",
        violated="polls is not null",
        certain="by_broker",
        margin=f"begin.at - since - {STANDSTILL_US}",
        first="before",
        second="begin",
    ),
)
