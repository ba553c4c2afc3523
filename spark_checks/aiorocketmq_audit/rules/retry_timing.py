"""Retry timing: a message comes again when it was asked to: not before, and not much later while somebody asks for it.

INV-EARLY   After a change of its lease that requested a retry, a message is not delivered before that time.
INV-LATE    When a lease has ended and a poll of the group stays open from then until the bound, the message has come
            by then. Without such a poll nothing is said: nobody asked.

Ordered groups are left out of INV-LATE, as others may have to go first; so is what comes by a poll that was out
already when the lease ended, because servers before 5.4 wake none for what comes again (live-broker-consumption V1).
A late message that the broker recorded as settled, or that used up its attempts, is not waited for.
"""

from __future__ import annotations

from aiorocketmq_audit.rules import pairs
from aiorocketmq_audit.rules.pairs import ACKED_IN_TIME, EARLY, REPEATED, REVERSIBLE, SURELY_EARLY
from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "retry timing",
    "A message comes again when it was asked to: not before, and not much later.",
    "redeliveries",
)

PARKED_US = 30_000_000
"""No server lets a poll wait for as long as that."""

_CERTAIN = f"{SURELY_EARLY} and not {REVERSIBLE}"
_BOUND = "until_hi + late_us"
# Whoever does not know its number does not know whether it was the last one.
_OPEN = "next is null and done_lo is null and attempt is not null"
_PARKED = f"coalesce(next.polled_us < {PARKED_US} and next.hi - next.polled_us <= until_hi, false)"

DELIVERIES = (
    Rule(
        check=CHECK.name,
        invariant="INV-EARLY",
        judged="next is not null",
        violated=f"""retry_requested and {EARLY} and not {ACKED_IN_TIME} and not {REPEATED}
            and (not unsure or ({_CERTAIN}))""",
        certain=_CERTAIN,
        margin="until_lo - next.hi",
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
        invariant="INV-LATE",
        judged=f"next is not null or coalesce({_OPEN} and ended_us > {_BOUND}, false)",
        violated=f"""(next.hi > {_BOUND} or ({_OPEN} and ended_us > {_BOUND})) and not coalesce(ordered, false)
            and acked_hi is null and not unsure and not copies and not {_PARKED}""",
        margin="next.hi - until_hi",
        first=pairs.FIRST,
        second=pairs.SECOND,
        exemptions=("restart",),
        since="since",
        confirmed="a poll was open",
        facts={"account": "account", "poll": "poll", "queue": "queue", "until": "until_hi", "bound": _BOUND},
    ),
)
