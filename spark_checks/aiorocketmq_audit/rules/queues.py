"""Queues: consumers that own whole queues own them alone, and read each in the order of its offsets.

INV-ASSIGN    The times at which two consumers of a group own a queue overlap by no more than the time that a rebalance
              takes: pull consumers, and push consumers of the remoting protocol.
INV-PULL-ORD  What one of them is delivered from a queue has increasing offsets, unless it was assigned anew, or went to
              another offset on purpose. Retries are left out: they come to push consumers from other queues.
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "queues",
    "Consumers that own whole queues own them alone, and read each in order.",
    "ownerships of queues and deliveries to owners",
)

REBALANCE_US = 30_000_000
"""How long two owners are tolerated: clients rebalance every 20 s, each at its own time."""

OWNERSHIPS = (
    Rule(
        check=CHECK.name,
        invariant="INV-ASSIGN",
        judged="true",
        violated=f"worst.us > {REBALANCE_US}",
        margin="worst.us",
        first="worst.o_began",
        second="began",
    ),
)

READS = (
    Rule(
        check=CHECK.name,
        invariant="INV-PULL-ORD",
        judged="true",
        violated="offset <= before.offset",
        first="before.place",
        second="place",
        exemptions=("reset", "assigned anew", "owner gone", "restart"),
        keys=("gid", "client"),
    ),
)
