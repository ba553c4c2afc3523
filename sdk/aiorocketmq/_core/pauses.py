"""Pauses of consumers between calls: after failures, if throttled, between queries for assignments."""

from __future__ import annotations

import random

from aiorocketmq._core.retries import exponential

FIRST_PAUSE = 0.2
LONGEST_PAUSE = 2.0
"""Seconds: a client must be back within 5 s of its server's return, and the transport may take as long again."""
THROTTLED_PAUSE = 0.02
"""First pause after TOO_MANY_REQUESTS (client-behaviour.md 10.3)."""

AT_ONCE = 0.2
"""Seconds: an empty answer that comes sooner was not waited for."""
FREE_ANSWERS = 8
"""Empty answers at once in a row that cause no pause: filtered messages and moved queues make some."""
FIRST_IDLE, LONGEST_IDLE = 0.01, 0.5
"""Pauses after further ones, in seconds."""

ALIGNED = 5.0
"""Polls end at multiples of this many seconds of the event loop's clock."""
SHORTEST_ALIGNED = 2 * ALIGNED
"""Shorter polls are not aligned: servers extend what is below 5 s (live-broker-consumption.md, 2)."""
FIRST_SCAN = 5.0
LONGEST_SCAN = 30.0


def failure_pause(failures: int, *, throttled: bool, rng: random.Random) -> float:
    """Seconds to wait after consecutive `failures` (1 = the first), with the jitter of `exponential`.

    The official clients wait a constant second (client-behaviour.md 7.2, 10.3)."""
    first = THROTTLED_PAUSE if throttled else FIRST_PAUSE
    return exponential(failures, initial=first, maximum=LONGEST_PAUSE, random=rng)


def idle_pause(answers: int, *, rng: random.Random) -> float:
    """Seconds until the next poll, after consecutive `answers` that were empty and came at once.

    A server that does not wait for messages would otherwise be polled thousands of times a second."""
    if answers <= FREE_ANSWERS:
        return 0.0
    return exponential(answers - FREE_ANSWERS, initial=FIRST_IDLE, maximum=LONGEST_IDLE, random=rng)


def scan_pause(unchanged: int) -> float:
    """Seconds until the next query for assignments, after `unchanged` queries without a change.

    The official clients query every 5 s (1.3); on a quiet cluster the pause grows to 30 s, because a thousand idle
    consumers would otherwise make 200 calls a second."""
    return min(LONGEST_SCAN, FIRST_SCAN * 2.0 ** min(unchanged, 8))


def poll_length(longest: float, *, now: float) -> float:
    """Seconds of a poll that may last `longest`: shorter by up to ALIGNED, so that it ends when others do.

    Polls of a thousand idle consumers then end and begin together, which costs a fraction of as many single moments.
    Only the first poll of a queue is much shorter. Polls below SHORTEST_ALIGNED are not changed."""
    return longest if longest < SHORTEST_ALIGNED else longest - (now + longest) % ALIGNED
