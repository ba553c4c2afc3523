"""Origin: what is delivered was sent, as it was sent, and was not refused.

INV-CONTENT  The body of every delivery is the body that was sent, and so are its properties.
INV-FAILED   A send that was refused is never delivered.
INV-ORIGIN   On a broker's account, which knows all sends, nothing comes from nowhere; a client cannot know that.
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "origin",
    "What is delivered was sent, unchanged, and not refused.",
    "delivered messages whose send is known",
    depends_on_time=False,
)

JUDGED = "(sends > 0 or by_broker)"


def _is_other(part: str) -> str:
    """Sends of one id that differ say nothing, nor does an account that leaves the part out."""
    sent = f"sent_{part}_least"
    return f"""coalesce({sent} = sent_{part}_most and
        (given_{part}_least != {sent} or given_{part}_most != {sent}), false)"""


_CHANGED = f"({_is_other('body')} or {_is_other('props')})"
# All its sends were answered, and all answers were refusals.
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
        # The broker stored it after its account began, and recorded no send.
        violated="sends = 0 and given_store > began",
        first=_FIRST,
        second="given",
    ),
)
