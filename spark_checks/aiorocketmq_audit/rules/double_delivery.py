"""Double delivery: while one consumer of a group holds a lease on a message, or after it was acked, no other delivery.

INV-EXCL    Of two consecutive deliveries of a message to a group, the second does not begin before the first lease
            expired.
INV-ACKED   An ack that the server accepted while the lease lasted is final.

INV-DUP (every delivery after the first has a cause) follows from these two: `CAUSE` counts the causes. If the lease
ended because a retry was requested, INV-EARLY applies (`retry_timing`).
"""

from __future__ import annotations

from aiorocketmq_audit.rules import pairs
from aiorocketmq_audit.rules.pairs import ACKED_IN_TIME, EARLY, REPEATED, REVERSIBLE, SURELY_EARLY
from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "double delivery",
    "While a consumer leases a message, and after its ack, the message is not delivered to the group again.",
    "deliveries with a known lease",
)

_AFTER_ACK = f"{ACKED_IN_TIME} and coalesce(acked_hi < next.hi, false)"
_CERTAIN = f"({ACKED_IN_TIME} or {SURELY_EARLY}) and not {REVERSIBLE}"
# Where a change of unknown effect may have ended the lease (E1), only what is certain counts.
_VIOLATED = f"""next is not null and not {REPEATED} and ({ACKED_IN_TIME} or ({EARLY} and not retry_requested))
    and (not unsure or ({_CERTAIN}))"""
_EXEMPTIONS = (*pairs.EXEMPTIONS, "queue locked")
_LOCKED = {
    "batch": "if(locks_queue, batch, null)",
    "offset": "offset",
}

DELIVERIES = (
    Rule(
        check=CHECK.name,
        invariant="INV-ACKED",
        judged="until_lo is not null or acked_hi is not null",
        violated=f"{_AFTER_ACK} and not {REPEATED} and (not unsure or not {REVERSIBLE})",
        certain=f"not {REVERSIBLE}",
        margin="next.hi - acked_hi",
        first=pairs.FIRST,
        second=pairs.SECOND,
        own=pairs.SENT_TWICE,
        exemptions=_EXEMPTIONS,
        keys=pairs.KEYS,
        since="since",
        acked="acked_hi",
        facts=_LOCKED,
    ),
    Rule(
        check=CHECK.name,
        invariant="INV-EXCL",
        judged="until_lo is not null or acked_hi is not null",
        violated=f"({_VIOLATED}) and not ({_AFTER_ACK})",
        certain=_CERTAIN,
        margin="until_lo - next.hi",
        first=pairs.FIRST,
        second=pairs.SECOND,
        own=pairs.SENT_TWICE,
        exemptions=_EXEMPTIONS,
        keys=pairs.KEYS,
        since="since",
        acked="acked_hi",
        facts=_LOCKED,
    ),
)

CAUSE = f"""case
    when next is null then null
    when {REPEATED} then 'answer repeated'
    when copies then 'sent twice'
    when {ACKED_IN_TIME} then 'none'
    when {SURELY_EARLY} and not {REVERSIBLE} then 'none'
    when retry_requested then 'retry requested'
    when unsure then 'change of unknown effect'
    when ack_unsure then 'ack of unknown effect'
    when until_lo is null then 'lease not recorded'
    else 'lease ended' end"""
"""The cause of the next delivery (INV-DUP); null for the last delivery."""
