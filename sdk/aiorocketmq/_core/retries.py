"""Delays before another attempt, and whether there is one (client-behaviour.md, 9.3; its DEV marks)."""

from __future__ import annotations

from random import Random

from aiorocketmq._core.settings import Backoff

DECLARED_ATTEMPTS = 3
"""Attempts that the settings declare if only time bounds them, as official clients do (client-behaviour.md, 6.1)."""


def exponential(failures: int, *, initial: float, maximum: float, random: Random) -> float:
    """Seconds to wait after consecutive `failures`: doubles from `initial` to `maximum`, minus up to 25 % jitter.

    All delays of a client come from here. Without jitter, clients would return to a restarted server in step."""
    # The exponent is bounded because an outage of hours would otherwise overflow a float.
    return min(initial * 2.0 ** min(max(failures - 1, 0), 64), maximum) * (1.0 - random.random() / 4.0)


def send_delay(
    *,
    attempt: int,
    throttled: bool,
    can_switch: bool,
    initial: float,
    maximum: float,
    remaining: float,
    server: Backoff,
    random: Random,
) -> float | None:
    """Seconds to wait after attempt number `attempt` of a send has failed temporarily; None if it was the last.

    Decides which back-off applies. A throttling server has the delay of its own settings for the next attempt
    (client-behaviour.md, 9.3), up to 25 % longer; without one, it has the client's, and if the delay exceeds the
    `remaining` seconds of the budget, the attempt was the last. If another broker can take the message, the second
    attempt is made there at once. All other delays are the client's exponential back-off, cut to the remaining budget,
    so that the last attempt begins when the budget ends."""
    if remaining <= 0.0:
        return None
    if throttled:
        server_delay = server.delay(attempt + 1)
        if server_delay > 0.0:
            delay = server_delay * (1.0 + random.random() / 4.0)
            return delay if delay < remaining else None
    elif can_switch and attempt == 1:
        return 0.0
    return min(exponential(attempt, initial=initial, maximum=maximum, random=random), remaining)


def renewal_delay(failures: int, random: Random) -> float:
    """Seconds before a broken stream is reopened, after consecutive `failures`: from 1 s, doubling up to 2 s."""
    return exponential(failures, initial=1.0, maximum=2.0, random=random)


def start_delay(failures: int, random: Random) -> float:
    """Seconds before the start is retried, after consecutive `failures`: from 0.1 s, doubling up to 1 s."""
    return exponential(failures, initial=0.1, maximum=1.0, random=random)


def jittered(seconds: float, random: Random, spread: float = 0.2) -> float:
    """`seconds` plus or minus up to `spread` of it; for the periods of periodic jobs."""
    return seconds * (1.0 - spread + 2.0 * spread * random.random())


class Outage:
    """Schedule of the attempts to reach one unavailable server, which all sends to it share.

    While no connection can be made, every call fails alike. So one attempt at a time is made for all: the load of an
    outage, and the time to detect its end, do not depend on the number of waiting sends."""

    __slots__ = ("_initial", "_maximum", "_random", "attempts", "next_attempt", "since")

    def __init__(self, *, now: float, initial: float, maximum: float, random: Random) -> None:
        self._initial = initial
        self._maximum = maximum
        self._random = random
        self.since = now
        self.attempts = 0
        self.next_attempt = now
        self.attempted(now=now)

    def attempted(self, *, now: float) -> None:
        """Count an attempt that begins `now`, and set the time of the next one, whatever its outcome."""
        self.attempts += 1
        self.next_attempt = now + exponential(
            self.attempts, initial=self._initial, maximum=self._maximum, random=self._random
        )
