"""What rules about two deliveries of one message to one group, one after the other, have in common."""

from __future__ import annotations

from types import MappingProxyType

FIRST = "struct(lo as at, recorder, seq)"
SECOND = "struct(next.hi as at, next.recorder as recorder, next.seq as seq)"

SENT_TWICE = MappingProxyType({"sent twice": "copies"})
"""Two copies of one message, which a producer sent again: each is delivered for itself."""

KEYS = ("gid", "client")

EXEMPTIONS = ("reset", "owner gone", "restart")

REPEATED = "coalesce(again = next.again, false)"
"""One receive request was answered twice (E6)."""

REVERSIBLE = "coalesce(next.lo + next.lease_us <= hi + early_us, false)"
"""Both may have happened in the other order, the lease of the one that was seen later being over before."""

ACKED_IN_TIME = "coalesce(acked_hi <= coalesce(until_lo, acked_hi), false)"
"""The server accepted an ack while the lease was surely alive."""

SURELY_EARLY = "coalesce(next.hi < until_lo - early_us, false)"
"""The next delivery came before the earliest end of the lease, tolerance counted."""

EARLY = f"({SURELY_EARLY} or (coalesce(next.hi < until_hi - early_us, false) and not attested))"
"""It came, or may have come, before the end. What a client only suspects the broker's own account settles: it knows
the instants."""
