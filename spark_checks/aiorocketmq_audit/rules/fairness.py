"""Fairness: while a group polls and messages are available, no queue stalls.

INV-FAIR  There are no 60 s between two first deliveries from a queue to a group during which the later message was
          available and a poll of the group was begun and answered. Not judged: ordered groups, in which a message may
          wait for others, lite topics, in which it waits for subscribers, and groups with several filters, in which it
          waits for a member that wants it. As observed by a client it is possible only: deliveries to other members
          are unknown.
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "fairness",
    "While a group polls and messages are available, no queue stalls.",
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
