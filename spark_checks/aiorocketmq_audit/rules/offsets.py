"""Offsets: an offset of a queue holds one message, and serial sends of a producer have increasing offsets.

INV-OFFSET      Receipts and first attempts name one message for each (queue, offset). Not judged: retries, which are
                read from other queues, and deliveries to a client after a poll of its group with a lost answer.
INV-OFFSET-ORD  If a send was answered before the producer began the next one to the same queue, the offset of the next
                one is higher.

A server that crashed before it flushed assigns offsets again (E4).
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "offsets",
    "An offset of a queue holds one message, and serial sends of a producer have increasing offsets.",
    "places and sends in a row",
    depends_on_time=False,
)

PLACES = (
    Rule(
        check=CHECK.name,
        invariant="INV-OFFSET",
        judged="true",
        violated="other is not null",
        first="first",
        second="other",
        exemptions=("restart",),
    ),
)

SENDS = (
    Rule(
        check=CHECK.name,
        invariant="INV-OFFSET-ORD",
        judged="true",
        violated="""struct(before.place.at, before.place.seq) < struct(called.at, called.seq)
            and offset <= before.offset""",
        first="before.place",
        second="place",
        exemptions=("restart",),
    ),
)
