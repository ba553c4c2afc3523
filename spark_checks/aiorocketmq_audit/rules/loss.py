"""Loss: no stored message is skipped, and none is missing after a group was drained.

INV-LOSS-MID  Between the lowest and the highest offset that a group was first delivered from a queue, every message
              that matches its filter was delivered to it. An ordered group does not deliver a message group while one
              of its messages is leased: there the rule applies to each message group separately, and a message group
              does not begin behind a message that was stored while the group already read the queue (INV-ORD-GAP). The
              rest of the queue is not judged: it may still be delivered. Groups with several filters are not judged
              either: members with narrower ones pass over messages.
INV-LOSS      After a group was drained (empty polls for long enough), every message due to it is settled.

As observed by a client both are possible, not proven, since deliveries to other consumers of the group are unknown; if
the broker recorded the group as well, its observation decides.
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "loss",
    "No stored message is skipped.",
    "stored messages that groups have passed",
    depends_on_time=False,
)

STORED = (
    Rule(
        check=CHECK.name,
        invariant="INV-LOSS-MID",
        judged="true",
        violated="came is null",
        certain="by_broker",
        first="place",
        second="beyond",
        # One message may be lost in several groups.
        keys=("wish", "null"),
    ),
)

DRAINED = (
    Rule(
        check=CHECK.name,
        invariant="INV-LOSS",
        judged="true",
        violated="done is null",
        certain="by_broker",
        first="sent",
        second="drained",
        # One message may be lost in several groups.
        keys=("wish", "null"),
    ),
)
