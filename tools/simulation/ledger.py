"""What the applications of a world saw: their sends, and the runs of their handlers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

OPEN = float("inf")


@dataclass(slots=True)
class Sending:
    """One send, as its application knows it."""

    number: int
    producer: str
    life: int
    begun: float
    ended: float = OPEN
    result: str = "open"
    """`ok`, `failed`, `cancelled` or `open`."""
    error: str = ""
    truth: str = ""
    """Of a transaction: what its block decided, `commit` or `rollback`; empty if it did not come so far."""


@dataclass(slots=True)
class Handling:
    """One run of a handler."""

    group: str
    number: int
    client: str
    life: int
    attempt: int
    begun: float
    ended: float = OPEN
    result: str = "open"
    """`ok`, `fail`, `later`, `dead`, or `cancelled`."""
    is_unsettled: bool = False
    """Its application was told that the message could not be settled."""


@dataclass(slots=True)
class Ledger:
    """All of them."""

    sendings: dict[int, Sending] = field(default_factory=dict)
    handlings: dict[tuple[str, int], list[Handling]] = field(default_factory=lambda: defaultdict(list))
    """By group and message."""
    order: list[Handling] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    """Rule and text of what an application must never see."""
    errors: list[str] = field(default_factory=list)
    """Errors that faults may explain."""

    def begin(self, handling: Handling) -> Handling:
        """Add a run of a handler."""
        self.handlings[handling.group, handling.number].append(handling)
        self.order.append(handling)
        return handling

    def is_consumed(self, group: str, number: int) -> bool:
        """Return whether a handler of the group has succeeded with a message."""
        return any(each.result == "ok" for each in self.handlings.get((group, number), ()))
