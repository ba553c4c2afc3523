"""Interface of a store of handled messages."""

from __future__ import annotations

from enum import Enum
from typing import Protocol


class Claim(Enum):
    """Result of a claim."""

    GRANTED = "granted"
    """The claim is granted: handle the message; others may not until the claim ends."""
    HELD = "held"
    """Another owner has the claim."""
    DONE = "done"
    """It was handled before."""


class DeduplicationStore(Protocol):
    """Store that remembers, each for a time, which messages are claimed and which were handled.

    Every call is one atomic step among all processes that share the store. `key` names a message, `owner` is unique for
    each claim, `seconds` is above 0. A call of an owner who has lost its claim to another has no effect; a store may
    honour one that has merely expired. Errors of the store are raised to the hook, which fails the handling: the
    message is redelivered. A cancelled call may or may not have taken effect; repeating it is harmless."""

    async def claim(self, key: str, owner: str, seconds: float) -> Claim:
        """Grant `key` to `owner` for `seconds`, unless it is done or claimed by another owner.

        Returns GRANTED, HELD or DONE; GRANTED again, with a new end, if the owner has the claim already."""

    async def renew(self, key: str, owner: str, seconds: float) -> None:
        """Extend the claim of `owner` to `seconds` from now; no effect if the owner does not have it."""

    async def done(self, key: str, owner: str, seconds: float) -> None:
        """Mark `key` as done for `seconds` instead of claimed by `owner`; no effect without the claim."""

    async def release(self, key: str, owner: str) -> None:
        """Release the claim of `owner`, so that the next `claim` is granted; no effect without the claim."""
