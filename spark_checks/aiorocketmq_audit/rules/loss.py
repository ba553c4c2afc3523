"""Loss: nothing that was stored is passed over, and nothing is missing when a group was drained.

INV-LOSS-MID  Below the highest offset that a group was first delivered from a queue, and above the lowest, every
              message that the group wants was delivered to it. An ordered group leaves a message group alone while one
              of its messages is held: of such groups this is said of each message group by itself, and so is that no
              message group begins behind a message that was stored when the group read the queue already (INV-ORD-GAP).
              Nothing is said of the rest of the queue: it may yet come.
INV-LOSS      When a group has polled empty for long enough, every message that it must have had is settled.

A client cannot know what other consumers of its group got, so on its account both are possible, not proven; and where
the broker's account of the group is there, that decides.
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "loss",
    "Nothing that was stored is passed over.",
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
        # A message may be lost for several groups.
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
        # A message may be lost for several groups.
        keys=("wish", "null"),
    ),
)
