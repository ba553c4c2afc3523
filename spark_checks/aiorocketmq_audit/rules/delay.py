"""Delay: a delayed message is not delivered before its delivery time.

INV-EARLY   The delivery was not observed before the delivery time of the send, within the tolerance. How much later it
            may be is not specified (live-broker-session: servers deliver at the next whole second).
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "delay",
    "A delayed message is not delivered before its delivery time.",
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
