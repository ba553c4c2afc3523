"""Attempts: the number of a delivery's attempt grows by one with each delivery, up to the group's limit.

INV-ATTEMPT  Of two consecutive deliveries of a message to a group, the second has the next number. It may be the same
             if one request was answered twice (E6), if the broker reverted a delivery that it could not write, or if
             the consumer gave it back without counting it (suspend), and the same or less in groups that lock whole
             queues (E5). It may be more by one for each poll with a lost answer (E7). A message is read from a queue
             once more, as the same attempt, if the queue moved to another member of the group, or its member rejoined
             (E8). If only clients recorded it, a consumer that was not recorded may have received the numbers between:
             possible, not proven.
INV-LIMIT    No attempt is below 1, or above the maximum of a normal group (in ordered groups, consumers forward
             messages after the last attempt).
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

_STAYS = f"coalesce(next.attempt <= attempt and not {pairs.REPEATED} and not uncounted, false)"
# Numbers are missing, and there is no observation by the broker.
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
        # All messages of an answer that contains a new message have its number (live-broker-consumption 11.17).
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
