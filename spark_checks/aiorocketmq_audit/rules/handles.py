"""Handles: a receipt handle identifies one delivery of one message.

INV-HANDLE  No two deliveries have the same handle, unless one request was answered twice; and a request with a handle
            settles the message that was delivered with it.
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "handles",
    "A receipt handle identifies one delivery of one message.",
    "receipt handles",
    depends_on_time=False,
)

HANDLES = (
    Rule(
        check=CHECK.name,
        invariant="INV-HANDLE",
        # Handles from before the recording are unknown.
        judged="given > 0",
        violated="""given > 1 and (alone > 0 or request_least != request_most) or least != most""",
        first="first",
        second="last",
    ),
)
