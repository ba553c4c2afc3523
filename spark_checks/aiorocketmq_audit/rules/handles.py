"""Handles: a receipt handle stands for one delivery of one message.

INV-HANDLE  No two deliveries come with the same handle, unless one request was answered twice; and whoever uses a
            handle settles the message that it came with.
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "handles",
    "A receipt handle stands for one delivery of one message.",
    "receipt handles",
    depends_on_time=False,
)

HANDLES = (
    Rule(
        check=CHECK.name,
        invariant="INV-HANDLE",
        # A handle from before the recording is not known.
        judged="given > 0",
        violated="""given > 1 and (alone > 0 or request_least != request_most) or least != most""",
        first="first",
        second="last",
    ),
)
