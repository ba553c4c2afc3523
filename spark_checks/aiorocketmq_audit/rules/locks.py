"""Locks: one member of a group holds the lock of a queue, and handles the queue's messages only while it holds it.

INV-LOCK       A broker does not grant the lock of a queue while another member of the group surely holds it: from the
               answer that granted it until its holder requests the release, or is refused a renewal, or LIVES_US after
               the last request.
INV-LOCK-WORK  A consumer that takes locks handles a message only while it holds the lock of the queue from which it
               was read: the handler begins after the lock was granted, and ends before the consumer requests the
               release, is refused a renewal, or has not renewed for LIVES_US.

Locks are in a broker's memory: after a restart they are granted again (E4). Retries are not judged: they are read from
other queues.
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "locks",
    "One member of a group holds the lock of a queue, and handles its messages only while it holds it.",
    "grants of locks, and handlers of consumers that take locks",
)

LIVES_US = 60_000_000
"""Brokers release a lock so long after its last request."""

_BESIDE = "if(before.recorder = recorder, 0, apart_us)"

GRANTS = (
    Rule(
        check=CHECK.name,
        invariant="INV-LOCK",
        judged="true",
        violated=f"""before.client != client and before.at + {_BESIDE} <= called
            and place.at + {_BESIDE} < before.until""",
        margin="before.until - place.at",
        first="before.place",
        second="place",
        exemptions=("restart",),
    ),
)

_BEGINS_WITHOUT = "not coalesce(lock.is_held, false) or place.at > lock.until"
_LOSES = "coalesce(end.losses > losses or end.place.at > end.lock.until, false)"

WORK = (
    Rule(
        check=CHECK.name,
        invariant="INV-LOCK-WORK",
        judged="true",
        violated=f"{_BEGINS_WITHOUT} or {_LOSES}",
        first=f"coalesce(if({_BEGINS_WITHOUT}, lock.place, end.lock.place), place)",
        second=f"if({_BEGINS_WITHOUT}, place, end.place)",
        exemptions=("restart",),
        since="granted_at",
    ),
)
