"""Attempts: the number of a delivery's attempt grows by one with each delivery, up to the group's limit.

INV-ATTEMPT  Of two consecutive deliveries of a message to a group the second has the next number. It may be the same
             where one request was answered twice (E6), or where the broker took back what it could not write, and the
             same or less in groups that lock whole queues (E5). It may be more where answers of polls were lost, by
             one for each (E7). What was read from a queue is read once more, as the same attempt, where the queue has
             moved to another member of the group, or its member has come back (E8). Where only a client saw it,
             somebody who was not recorded may have had the numbers between: that is possible, not proven.
INV-LIMIT    No attempt is below 1, or above the maximum of a normal group (ordered ones are given up by their
             consumers).
"""

from __future__ import annotations

from aiorocketmq_audit.rules import pairs
from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "attempts",
    "Every delivery has the next number, up to the group's limit.",
    "deliveries with a known attempt",
    depends_on_time=False,
)

_STAYS = f"coalesce(next.attempt <= attempt and not {pairs.REPEATED} and not taken_back, false)"
# Numbers are missing, and nobody else knows better.
_SKIPS = "coalesce(next.attempt > attempt + 1 and not attested, false)"

DELIVERIES = (
    Rule(
        check=CHECK.name,
        invariant="INV-ATTEMPT",
        judged="attempt is not null",
        violated=f"{_STAYS} or {_SKIPS}",
        certain=f"by_broker or not {_SKIPS}",
        first=pairs.FIRST,
        second=pairs.SECOND,
        # Of an answer with a new message all have its number (live-broker-consumption 11.17).
        own={**pairs.SENT_TWICE, "queue locked": f"{_STAYS} and locks_queue"},
        exemptions=("answer lost", *pairs.EXEMPTIONS, "queue moved"),
        keys=pairs.KEYS,
        since="since",
        acked="acked_hi",
        facts={"poll": "poll", "missing": f"if({_SKIPS}, next.attempt - attempt - 1, null)"},
    ),
    Rule(
        check=CHECK.name,
        invariant="INV-LIMIT",
        judged="attempt is not null",
        violated="""attempt < 1 or coalesce(attempt > max_attempts and max_attempts > 0 and not ordered, false)""",
    ),
)
