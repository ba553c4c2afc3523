"""What a store of handled messages has to do."""

from __future__ import annotations

from enum import Enum
from typing import Protocol


class Claim(Enum):
    """The answer to who asks for the right to handle a message."""

    GRANTED = "granted"
    """Handle it; nobody else may until the claim ends."""
    HELD = "held"
    """Somebody else is at it right now."""
    DONE = "done"
    """It was handled before."""


class DeduplicationStore(Protocol):
    """Remembers claims and what was done, each for a time.

    Every call is one atomic step among all who share the store. `owner` is a name that is made anew for each claim;
    what somebody does who does not hold the claim any more has no effect."""

    async def claim(self, key: str, owner: str, seconds: float) -> Claim:
        """Grant `key` to `owner` for `seconds` unless it is done or claimed by another."""

    async def renew(self, key: str, owner: str, seconds: float) -> None:
        """Let the claim of `owner` end `seconds` from now."""

    async def done(self, key: str, owner: str, seconds: float) -> None:
        """Turn the claim of `owner` into a note that `key` is done, kept for `seconds`."""

    async def release(self, key: str, owner: str) -> None:
        """Give the claim of `owner` up: the next one who asks gets it."""
