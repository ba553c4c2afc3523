"""Ordering: an ordered group is delivered the messages of a message group in the order of their offsets, one by one.

INV-ORD         Before a message is delivered, every earlier one of its message group that was delivered is settled
                (acked, forwarded, dead-lettered, attempts exhausted), or is part of the same answer.
INV-ORD-FIRST   First deliveries have increasing offsets.
INV-ORD-HANDLE  A push consumer's handlers process the messages of a message group one at a time: no handler begins
                while another one runs that still leases its message. A handler that runs beyond its lease is not
                counted: by then another consumer may lease the message.

Clocks of two recorders may differ slightly: events within that tolerance prove nothing.
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import ITSELF, Check, Rule

CHECK = Check(
    "ordering",
    "An ordered group is delivered the messages of a message group one by one, in the order of their offsets.",
    "first deliveries of ordered messages",
    by_order=True,
)

NEVER = 1 << 62
"""The end of intervals without an end."""

EXEMPTIONS = ("reset", "restart", "filters differ")

_JUDGED = "number = 1 and ordered and grouped and offset is not null"
# With a higher number it is not the first attempt, even if the earlier ones are not recorded.
_PASSED = """coalesce(coalesce(attempt, 1) = 1 and passed.offset > offset
    and passed.hi <= hi - if(passed.recorder = recorder, 0, apart_us), false)"""
_OPEN = """coalesce(open.end > hi + if(open.one_clock and open.recorder = recorder, 0, apart_us)
    and open.offset < offset and open.answer != answer, false)"""

DELIVERIES = (
    Rule(
        check=CHECK.name,
        invariant="INV-ORD-FIRST",
        judged=_JUDGED,
        violated=_PASSED,
        margin="hi - passed.hi",
        first="struct(passed.hi as at, passed.recorder as recorder, passed.seq as seq)",
        second=ITSELF,
        exemptions=EXEMPTIONS,
        keys=("gid", "null"),
    ),
    Rule(
        check=CHECK.name,
        invariant="INV-ORD",
        judged=_JUDGED,
        violated=f"{_OPEN} and not {_PASSED}",
        # A message that was never settled has no end, so that the margin is unknown.
        margin=f"if(open.end < {NEVER}, open.end - hi, null)",
        first="struct(open.hi as at, open.recorder as recorder, open.seq as seq)",
        second=ITSELF,
        exemptions=EXEMPTIONS,
        keys=("gid", "null"),
    ),
)

_BESIDE = "if(other.recorder = recorder, 0, apart_us)"

HANDLERS = (
    Rule(
        check=CHECK.name,
        invariant="INV-ORD-HANDLE",
        judged="true",
        # If the begins lie within the clock tolerance, their order is unknown: then each began while the other ran.
        violated=f"""other.until > at + {_BESIDE}
            and (other.at + {_BESIDE} <= at or coalesce(until > other.at + {_BESIDE}, false))""",
        margin=f"if(other.until < {NEVER}, other.until - at, null)",
        first="struct(other.at as at, other.recorder as recorder, other.seq as seq)",
        second="struct(at, recorder, seq)",
        exemptions=("reset", "owner gone", "restart"),
        keys=("gid", "other.client"),
    ),
)
