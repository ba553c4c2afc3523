"""Queues: consumers that own whole queues own them exclusively, and read each in the order of its offsets.

INV-ASSIGN    The ownerships of a queue by two consumers of a group overlap by no more than the duration of a rebalance:
              pull consumers, and push consumers of the remoting protocol.
INV-PULL-ORD  Deliveries from a queue to one of them have increasing offsets, unless the queue was assigned again, or
              the consumer did a seek. Retries are not judged: push consumers read them from other queues.
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "queues",
    "Consumers that own whole queues own them exclusively, and read each in order.",
    "ownerships of queues and deliveries to owners",
)

REBALANCE_US = 30_000_000
"""For how long two owners are tolerated: clients rebalance every 20 s, not at the same time."""

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
