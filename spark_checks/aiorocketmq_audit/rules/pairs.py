"""Conditions shared by rules about two consecutive deliveries of one message to one group."""

from __future__ import annotations

from types import MappingProxyType

FIRST = "struct(lo as at, recorder, seq)"
SECOND = "struct(next.hi as at, next.recorder as recorder, next.seq as seq)"

SENT_TWICE = MappingProxyType({"sent twice": "copies"})
"""Two copies of one message, because a producer retried its send: each copy is delivered separately."""

KEYS = ("gid", "client")

EXEMPTIONS = ("reset", "owner gone", "restart")

REPEATED = "coalesce(again = next.again, false)"
"""One receive request was answered twice (E6)."""

REVERSIBLE = "coalesce(next.lo + next.lease_us <= hi + early_us, false)"
"""Both may have happened in the reverse order: the lease of the one observed later may have expired before."""

ACKED_IN_TIME = "coalesce(acked_hi <= coalesce(until_lo, acked_hi), false)"
"""The server accepted an ack surely before the lease expired."""

SURELY_EARLY = "coalesce(next.hi < until_lo - early_us, false)"
"""The next delivery was before the earliest end of the lease, within the tolerance."""

EARLY = f"({SURELY_EARLY} or (coalesce(next.hi < until_hi - early_us, false) and not attested))"
"""It came, or may have come, before the end. What a client only suspects the broker's own account settles: it knows
the instants."""
