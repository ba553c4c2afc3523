"""Commits: a group's offset in a queue does not fall, and is not ahead of what was delivered.

INV-COMMIT  Without a reset or a seek, each committed offset is at least the one before it; and, as observed by
            consumers that own queues, without a filter, it is at most one more than the highest offset that any of
            them was delivered from the queue since it was assigned.
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "commits",
    "A group's committed offset does not fall, and is not ahead of what was delivered.",
    "written offsets",
    depends_on_time=False,
)

_FELL = "coalesce(committed < last.committed, false)"
# A member that was assigned the queue since then may continue where an unrecorded member committed.
_AHEAD = (
    "coalesce(committed > highest.offset + 1 and (begun is null or read > begun) and not filtered, false)"
)

PROGRESS = (
    Rule(
        check=CHECK.name,
        invariant="INV-COMMIT",
        judged="true",
        violated=f"{_FELL} or {_AHEAD}",
        first=f"if({_FELL}, last.place, highest.place)",
        second="place",
        exemptions=("reset", "restart"),
        keys=("gid", "null"),
    ),
)
