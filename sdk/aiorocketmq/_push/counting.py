"""Counts what a push consumer has done since its start."""

from __future__ import annotations

from dataclasses import dataclass

from aiorocketmq._core.outcomes import Acknowledge, ForwardToDeadLetters, GiveBack, Outcome


@dataclass(frozen=True, slots=True)
class PushStatistics:
    """What a push consumer has done since its start, and what it has in hand at this moment."""

    received: int
    """Deliveries, repeated ones included."""
    handled: int
    """Handler runs that returned."""
    failed: int
    """Handler runs that raised, were cancelled, or took longer than `handler_timeout`."""
    acknowledged: int
    """Messages whose ack the server has confirmed."""
    given_back: int
    """Messages that were given back, or left to come again: failures, corrupted ones, and what a stop found waiting."""
    dead_lettered: int
    """Messages that were moved to the dead letters from here; in normal groups the server does that itself."""
    lost: int
    """Messages whose lease ended before they were settled: others may have got them."""
    in_hand: int
    """Messages received whose settling has not ended."""
    waiting: int
    """Of these: for a free handler, or for their turn."""
    running: int
    """Handlers that run."""
    body_bytes: int
    """Bytes of the bodies in hand."""


class Counts:
    """The sums behind `PushStatistics`."""

    __slots__ = ("acknowledged", "dead_lettered", "failed", "given_back", "handled", "lost", "received")

    def __init__(self) -> None:
        self.received = self.handled = self.failed = 0
        self.acknowledged = self.given_back = self.dead_lettered = self.lost = 0

    def statistics(self, *, in_hand: int, waiting: int, running: int, body_bytes: int) -> PushStatistics:
        """What was done so far, with what is in hand."""
        return PushStatistics(
            received=self.received,
            handled=self.handled,
            failed=self.failed,
            acknowledged=self.acknowledged,
            given_back=self.given_back,
            dead_lettered=self.dead_lettered,
            lost=self.lost,
            in_hand=in_hand,
            waiting=waiting,
            running=running,
            body_bytes=body_bytes,
        )

    def settled(self, outcome: Outcome | None, *, is_done: bool) -> None:
        """Count the end of one message; None stands for one that was settled by its handler or lost."""
        if isinstance(outcome, Acknowledge) and is_done:
            self.acknowledged += 1
        elif isinstance(outcome, ForwardToDeadLetters) and is_done:
            self.dead_lettered += 1
        elif isinstance(outcome, GiveBack):
            self.given_back += 1
        elif is_done:
            self.acknowledged += 1
        else:
            self.lost += 1
