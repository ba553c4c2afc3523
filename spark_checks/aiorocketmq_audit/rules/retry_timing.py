"""Retry timing: a message is redelivered when requested: not before, and not much later while the group polls.

INV-EARLY   After a change of its lease that requested a retry, a message is not delivered before that time.
INV-LATE    If a lease expired and a poll of the group is open from then until the bound, the message is redelivered
            by then. Without such a poll it is not judged.

INV-LATE does not apply to ordered groups, in which earlier messages go first, to groups with several filters, whose
polls may be for other messages, nor to deliveries by a poll that was open when the lease expired: servers before 5.4 do
not wake polls for redeliveries (live-broker-consumption V1). A message that the broker recorded as settled, or that
reached its last attempt, is not late.
"""

from __future__ import annotations

from aiorocketmq_audit.rules import pairs
from aiorocketmq_audit.rules.pairs import ACKED_IN_TIME, EARLY, REPEATED, REVERSIBLE, SURELY_EARLY
from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "retry timing",
    "A message is redelivered when requested: not before, and not much later.",
    "redeliveries",
)

PARKED_US = 30_000_000
"""An upper bound of the time that servers let a poll wait."""

_CERTAIN = f"{SURELY_EARLY} and not {REVERSIBLE}"
_BOUND = "until_hi + late_us"
# If the attempt is unknown, it may have been the last one.
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
