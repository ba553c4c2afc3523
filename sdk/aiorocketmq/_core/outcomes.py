"""Outcomes of handlers: acknowledge, release, retry locally, or move to the dead-letter topic."""

from __future__ import annotations

from dataclasses import dataclass

from aiorocketmq._core.settings import Backoff

MAX_RETRY_LATER = 43_200.0
"""Longest delay a handler may choose, in seconds: the longest lease a server grants (R6.11)."""

SHORTEST_SUSPENSION = 0.05
"""Minimum delay of a lite topic in seconds (client-behaviour.md, 13)."""


class RetryLater(Exception):
    """Raise in a handler to get the message again after `seconds` (0 to 43,200).

    Normal groups: the server redelivers it to any consumer of the group, not before that time. Ordered groups: this
    consumer retries the handler itself, and the message group waits meanwhile. Lite topics: the server blocks the lite
    topic for that time. The attempt counts. Raises ValueError out of range."""

    def __init__(self, seconds: float) -> None:
        if not 0 <= seconds <= MAX_RETRY_LATER:
            raise ValueError(f"RetryLater takes 0 to {MAX_RETRY_LATER:.0f} seconds, not {seconds!r}")
        super().__init__(f"retry after {seconds} s")
        self.seconds = float(seconds)


class DeadLetter(Exception):
    """Raise in a push consumer's handler to move the message to the group's dead-letter topic at once.

    `reason` is logged; the server does not store it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Acknowledge the message."""


ACKNOWLEDGE = Acknowledge()


@dataclass(frozen=True, slots=True)
class Release:
    """Make the message visible again after `delay` seconds."""

    delay: float
    suspend: bool = False
    """Whether all messages behind it in its lite topic are delayed as well."""


@dataclass(frozen=True, slots=True)
class RetryLocally:
    """Keep the message and its message group, and call the handler again after `delay` seconds."""

    delay: float


@dataclass(frozen=True, slots=True)
class ForwardToDeadLetters:
    """Move the message to the group's dead-letter topic."""

    reason: str


Outcome = Acknowledge | Release | RetryLocally | ForwardToDeadLetters


def outcome_of(
    failure: BaseException | None, *, ordered: bool, attempt: int, backoff: Backoff, lite: bool = False
) -> Outcome:
    """Return what follows from the result of delivery number `attempt` (None: success); client-behaviour.md 10.6, 10.8.

    A normal group's message is released after its last attempt as well: the server itself moves it at the next receive
    (R7.6). An ordered group's is forwarded by the client, since no other client may receive it meanwhile."""
    if failure is None:
        return ACKNOWLEDGE
    if isinstance(failure, DeadLetter):
        return ForwardToDeadLetters(failure.reason)
    if lite and isinstance(failure, RetryLater):
        return Release(max(failure.seconds, SHORTEST_SUSPENSION), suspend=True)
    delay = failure.seconds if isinstance(failure, RetryLater) else backoff.delay(attempt)
    if not ordered:
        return Release(delay)
    if attempt >= backoff.max_attempts:
        return ForwardToDeadLetters(f"attempt {attempt} of {backoff.max_attempts} failed: {failure!r}")
    return RetryLocally(delay)


def outcome_of_corrupted(reason: str, *, ordered: bool, attempt: int, backoff: Backoff) -> Outcome:
    """Return what follows for a message whose body fails its checksum or encoding: no handler gets it.

    Another delivery may be intact, so a normal group releases it; an ordered group cannot wait for that
    (client-behaviour.md 10.6)."""
    if ordered:
        return ForwardToDeadLetters(reason)
    return Release(backoff.delay(attempt))
