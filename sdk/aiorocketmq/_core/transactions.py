"""States of the transactions of one producer, and the answers to checks of servers (broker-semantics.md, 9).

                 ┌── check: silence
    RUNNING ─────┴──decide──► DECIDED ── check: silence for a while, then the same decision again
       └─────────leave──────► (forgotten) ── check: ask the application ──decide──► DECIDED

A server may check a message that was ended a moment ago, because it marks ends in batches (R9.11): a second commit
would deliver the message twice, so for some seconds such a check gets no answer; servers check again. While the block
of a transaction runs, only the block may decide."""

from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum

QUIET = 10.0
"""Seconds after an end in which a check is not answered: servers batch the marks of ends for up to 3 s (R9.11)."""
KEPT = 16_384
"""Decisions that are remembered: those of the quiet time at 1,600 a second. For older ones the checker is called."""


class Resolution(Enum):
    """Outcome of a transaction."""

    COMMIT = "commit"
    """It is delivered."""
    ROLLBACK = "rollback"
    """The message is dropped, and was never visible."""
    UNKNOWN = "unknown"
    """Not decided yet: the server checks again, by default every 30 seconds and 15 times."""


class Answer(Enum):
    """Action on a server's check."""

    SILENCE = "silence"
    """Nothing: it is decided elsewhere, or was decided a moment ago."""
    ASK = "ask"
    """Ask the application."""
    COMMIT = "commit"
    ROLLBACK = "rollback"


@dataclass(slots=True)
class _Decision:
    resolution: Resolution
    quiet_until: float


class Decisions:
    """The decisions by message id. Times are seconds of one clock that never decreases."""

    def __init__(self, kept: int = KEPT, quiet: float = QUIET) -> None:
        self._kept = kept
        self._quiet = quiet
        self._open: set[str] = set()
        self._decided: OrderedDict[str, _Decision] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open) + len(self._decided)

    def opened(self, message_id: str) -> None:
        """A block or a checker runs: until it has decided or left, no check is answered."""
        self._open.add(message_id)

    def left(self, message_id: str) -> None:
        """It was left undecided; the checker is called for the next check."""
        self._open.discard(message_id)

    def decided(
        self, message_id: str, resolution: Resolution, *, now: float, quiet: float | None = None
    ) -> None:
        """It is decided permanently, and checks are not answered for `quiet` seconds (None: the usual time).

        ValueError if it was decided otherwise before: a rolled-back message is never committed."""
        earlier = self._decided.get(message_id)
        if earlier is not None and earlier.resolution is not resolution:
            raise ValueError(f"message {message_id} was decided before: {earlier.resolution.value}")
        self._open.discard(message_id)
        self._decided[message_id] = _Decision(resolution, now + (self._quiet if quiet is None else quiet))
        self._decided.move_to_end(message_id)
        while len(self._decided) > self._kept:
            self._decided.popitem(last=False)

    def on_check(self, message_id: str, *, now: float) -> Answer:
        """Return the action on a check. After COMMIT or ROLLBACK, further checks are not answered for a while."""
        if message_id in self._open:
            return Answer.SILENCE
        decision = self._decided.get(message_id)
        if decision is None:
            return Answer.ASK
        if now < decision.quiet_until:
            return Answer.SILENCE
        decision.quiet_until = now + self._quiet
        return Answer(decision.resolution.value)
