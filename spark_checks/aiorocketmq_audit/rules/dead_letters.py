"""Dead letters: a message becomes a dead letter once, after its last attempt, and is not delivered afterwards.

INV-DLQ       A message becomes a dead letter of a group once, not before its last attempt (unless a consumer forwarded
              it), and is not delivered afterwards.
INV-DLQ-LIVE  After its last attempt in a normal group that was drained, a message has become one.

Both as observed by a broker: a client that reads a dead-letter topic sees copies, not the time of their creation.
"""

from __future__ import annotations

from aiorocketmq_audit.rules import pairs
from aiorocketmq_audit.rules.rule import ITSELF, Check, Rule

CHECK = Check(
    "dead letters",
    "A message becomes a dead letter once, after its last attempt, and is not delivered afterwards.",
    "dead letters",
    depends_on_time=False,
)

_TWICE = "letters > 1"
_TOO_SOON = "(forwards = 0 and coalesce(first.attempt < max_attempts, false))"

DEAD_LETTERS = (
    Rule(
        check=CHECK.name,
        invariant="INV-DLQ",
        judged="true",
        violated=f"{_TWICE} or {_TOO_SOON}",
        margin=f"if({_TWICE}, last.place.at - first.place.at, null)",
        first="first.place",
        second="last.place",
        own={"sent twice": f"places > 1 and not {_TOO_SOON}"},
    ),
)

DELIVERIES = (
    Rule(
        check=CHECK.name,
        invariant="INV-DLQ",
        judged="dead_hi is not null and next is not null",
        violated="dead_hi < next.lo",
        margin="next.lo - dead_hi",
        first=pairs.FIRST,
        second=pairs.SECOND,
        own=pairs.SENT_TWICE,
        exemptions=pairs.EXEMPTIONS,
        keys=pairs.KEYS,
        since="since",
        acked="acked_hi",
    ),
    Rule(
        check=CHECK.name,
        invariant="INV-DLQ-LIVE",
        judged="""drained.at > until_hi and by_broker and next is null and attempt >= max_attempts and max_attempts > 0
            and not coalesce(ordered, true) and not ack_unsure and (dead_hi is not null or ended_lo is null)""",
        violated="dead_hi is null",
        margin="drained.at - until_hi",
        first=ITSELF,
        second="struct(drained.at as at, recorder, seq)",
    ),
)
