"""What follows from how a handler ended: acknowledge, give back, run again, or give up."""

from __future__ import annotations

from dataclasses import dataclass

from aiorocketmq._core.settings import Backoff

MAX_RETRY_LATER = 43_200.0
"""Longest wait a handler may choose, in seconds: the longest lease a server grants (R6.11)."""

SHORTEST_SUSPENSION = 0.05
"""Seconds that a lite topic waits at least (client-behaviour.md, 13)."""


class RetryLater(Exception):
    """Raise in a handler to have the message again after `seconds` (0 to 43,200).

    Normal groups: the server hands it out again, to any consumer of the group, not before that time. Ordered
    groups: this consumer runs the handler again itself and holds the message group meanwhile. Lite topics: the
    server holds the lite topic for so long. The attempt counts.
    """

    def __init__(self, seconds: float) -> None:
        if not 0 <= seconds <= MAX_RETRY_LATER:
            raise ValueError(f"RetryLater takes 0 to {MAX_RETRY_LATER:.0f} seconds, not {seconds!r}")
        super().__init__(f"retry after {seconds} s")
        self.seconds = float(seconds)


class DeadLetter(Exception):
    """Raise in a push consumer's handler to give the message up at once, to the group's dead-letter topic.

    `reason` is logged; the server does not store it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Tell the server that the message is done."""


ACKNOWLEDGE = Acknowledge()


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Let the server hand the message out again after `delay` seconds."""

    delay: float
    suspend: bool = False
    """Whether all that waits behind it in its lite topic has to wait as long."""


@dataclass(frozen=True, slots=True)
class RunAgain:
    """Keep the message and its message group, and run the handler again after `delay` seconds."""

    delay: float


@dataclass(frozen=True, slots=True)
class ForwardToDeadLetters:
    """Have the server move the message to the group's dead-letter topic."""

    reason: str


Outcome = Acknowledge | GiveBack | RunAgain | ForwardToDeadLetters


def outcome_of(
    failure: BaseException | None, *, ordered: bool, attempt: int, backoff: Backoff, lite: bool = False
) -> Outcome:
    """Decide by how delivery number `attempt` ended (None: well); client-behaviour.md 10.6, 10.8.

    A normal group's message beyond its last attempt is given back as well: the server itself moves it at the
    next receive (R7.6). An ordered group's is forwarded by the client, as nobody else may receive it
    meanwhile.
    """
    if failure is None:
        return ACKNOWLEDGE
    if isinstance(failure, DeadLetter):
        return ForwardToDeadLetters(failure.reason)
    if lite and isinstance(failure, RetryLater):
        return GiveBack(max(failure.seconds, SHORTEST_SUSPENSION), suspend=True)
    delay = failure.seconds if isinstance(failure, RetryLater) else backoff.delay(attempt)
    if not ordered:
        return GiveBack(delay)
    if attempt >= backoff.max_attempts:
        return ForwardToDeadLetters(f"attempt {attempt} of {backoff.max_attempts} failed: {failure!r}")
    return RunAgain(delay)


def outcome_of_corrupted(reason: str, *, ordered: bool, attempt: int, backoff: Backoff) -> Outcome:
    """Decide about a message whose body fails its digest or encoding: no handler sees it.

    Another delivery may be whole, so a normal group gives it back; an ordered group cannot wait for that
    (client-behaviour.md 10.6).
    """
    if ordered:
        return ForwardToDeadLetters(reason)
    return GiveBack(backoff.delay(attempt))
