"""Counters of a push consumer since its start."""

from __future__ import annotations

from dataclasses import dataclass

from aiorocketmq._core.outcomes import Acknowledge, ForwardToDeadLetters, Outcome, Release


@dataclass(frozen=True, slots=True)
class PushStatistics:
    """Counters of a push consumer since its start, and what is in flight now."""

    received: int
    """Deliveries, repeated ones included."""
    handled: int
    """Handler runs that returned."""
    failed: int
    """Handler calls that raised, were cancelled, or exceeded `handler_timeout`."""
    acknowledged: int
    """Messages whose ack the server has confirmed."""
    released: int
    """Messages that were released or left to be redelivered: failures, corrupted ones, and those that waited at a
    stop."""
    dead_lettered: int
    """Messages that this client moved to the dead-letter topic; in normal groups the server does that itself."""
    lost: int
    """Messages whose lease expired before they were settled: others may have received them."""
    in_flight: int
    """Messages that were received and are not settled."""
    waiting: int
    """Of these: messages that wait for a free handler, or for their turn."""
    running: int
    """Handlers that run."""
    body_bytes: int
    """Bytes of the bodies of messages in flight."""


class Counts:
    """The sums behind `PushStatistics`."""

    __slots__ = ("acknowledged", "dead_lettered", "failed", "handled", "lost", "received", "released")

    def __init__(self) -> None:
        self.received = self.handled = self.failed = 0
        self.acknowledged = self.released = self.dead_lettered = self.lost = 0

    def statistics(self, *, in_flight: int, waiting: int, running: int, body_bytes: int) -> PushStatistics:
        """Return the counters, with what is in flight."""
        return PushStatistics(
            received=self.received,
            handled=self.handled,
            failed=self.failed,
            acknowledged=self.acknowledged,
            released=self.released,
            dead_lettered=self.dead_lettered,
            lost=self.lost,
            in_flight=in_flight,
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
        elif isinstance(outcome, Release):
            self.released += 1
        elif is_done:
            self.acknowledged += 1
        else:
            self.lost += 1
