"""Offsets: a place in a queue holds one message, and serial sends of a producer take increasing places.

INV-OFFSET      Receipts and first attempts name one message for each (queue, offset). Retries are left out: they come
                from other queues. So is what a client gets after a poll of its group that lost its answer.
INV-OFFSET-ORD  When a send was answered before the next one to the same queue by the same producer began, that one's
                offset is higher.

A server that crashed before it had written everything gives places away again (E4).
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "offsets",
    "A place in a queue holds one message, and sends one after the other take places one after the other.",
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
