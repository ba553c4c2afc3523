"""Origin: every delivered message was sent, with the same content, and its send was not rejected.

INV-CONTENT  Body and properties of every delivery are those of the send.
INV-FAILED   A message whose sends were all rejected is never delivered.
INV-ORIGIN   As observed by a broker, which records all sends, every delivered message was sent; not judged for clients.
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "origin",
    "Every delivered message was sent, with the same content, and was not rejected.",
    "delivered messages whose send is known",
    depends_on_time=False,
)

JUDGED = "(sends > 0 or by_broker)"


def _is_other(part: str) -> str:
    """Unknown if sends of one id differ, or if the observer does not record the part."""
    sent = f"sent_{part}_least"
    return f"""coalesce({sent} = sent_{part}_most and
        (given_{part}_least != {sent} or given_{part}_most != {sent}), false)"""


_CHANGED = f"({_is_other('body')} or {_is_other('props')})"
# All its sends were answered, and all were rejected.
REFUSED = "(refused > 0 and answered = refused and called <= answered)"
_FIRST = "coalesce(sent, given)"

MESSAGES = (
    Rule(
        check=CHECK.name,
        invariant="INV-CONTENT",
        judged=JUDGED,
        violated=_CHANGED,
        first=_FIRST,
        second="given",
    ),
    Rule(
        check=CHECK.name,
        invariant="INV-FAILED",
        judged=JUDGED,
        violated=f"{REFUSED} and not {_CHANGED}",
        first=_FIRST,
        second="given",
    ),
    Rule(
        check=CHECK.name,
        invariant="INV-ORIGIN",
        judged=JUDGED,
        # The broker stored it after its recording began, and recorded no send.
        violated="sends = 0 and given_store > began",
        first=_FIRST,
        second="given",
    ),
)
