"""Delay: a message that was sent for a later time is not delivered before it.

INV-EARLY   The delivery was not seen before the time that the producer asked for, tolerance counted. How much later it
            may come is a server's own business (live-broker-session: at the next whole second).
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "delay",
    "A message that was sent for a later time does not come before it.",
    "deliveries of delayed messages",
)

DELIVERIES = (
    Rule(
        check=CHECK.name,
        invariant="INV-EARLY",
        judged="due_us is not null",
        violated="hi < due_us - early_us",
        margin="due_us - hi",
    ),
)
