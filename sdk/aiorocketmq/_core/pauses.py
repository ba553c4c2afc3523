"""How long a consumer waits before it calls again: after failures, when throttled, between scans."""

from __future__ import annotations

import random

FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0
THROTTLED_PAUSE = 0.02
"""First pause after TOO_MANY_REQUESTS (client-behaviour.md 10.3)."""

FIRST_SCAN = 5.0
LONGEST_SCAN = 30.0


def failure_pause(failures: int, *, throttled: bool, rng: random.Random) -> float:
    """Seconds to wait after `failures` failures in a row (1 = the first), with jitter of a quarter down.

    The official clients wait a constant second, which marches a whole fleet in step against a server that has
    just come back (client-behaviour.md 7.2, 10.3).
    """
    first = THROTTLED_PAUSE if throttled else FIRST_PAUSE
    longest: float = min(LONGEST_PAUSE, first * 2 ** min(failures - 1, 16))
    return longest * (1 - rng.random() / 4)


def scan_pause(unchanged: int, *, rng: random.Random) -> float:
    """Seconds until the next look at the assignments, after `unchanged` looks that found nothing new.

    The official clients look every 5 s for ever (1.3); on a quiet cluster the pause grows to 30 s, because a
    thousand idle consumers would otherwise make 200 calls a second.
    """
    pause: float = min(LONGEST_SCAN, FIRST_SCAN * 2 ** min(unchanged, 8))
    return pause * (1 - rng.random() / 10)
