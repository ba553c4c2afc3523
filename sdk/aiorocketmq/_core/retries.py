"""Which failures are worth another try, and after how long (client-behaviour.md, 9.3; its DEV marks)."""

from __future__ import annotations

from random import Random

from aiorocketmq._core.settings import Backoff

_UNREACHABLE_PAUSE = 0.05
"""Base of the pause after a broken connection, in seconds: long enough for another server to take over."""


def send_delay(
    *, attempt: int, may_retry: bool, throttled: bool, unreachable: bool, backoff: Backoff, random: Random
) -> float | None:
    """Seconds to wait after failed try number `attempt` of a send, or None when it is final.

    A throttling server gets the wait of its own back-off settings for the next attempt; a broken connection a
    short one that grows; anything else that may be tried again goes to the next server at once."""
    if not may_retry or attempt >= backoff.max_attempts:
        return None
    if throttled:
        return backoff.delay(attempt + 1)
    if unreachable:
        return jittered(_UNREACHABLE_PAUSE * 2 ** min(attempt - 1, 5), random)
    return 0.0


def renewal_delay(failures: int, random: Random) -> float:
    """Seconds before a broken stream is opened again, after `failures` in a row: from 1 s, doubling up to 30
    s.

    Spread, so that many clients do not come back to a restarted server in one moment."""
    return jittered(min(2.0 ** max(failures - 1, 0), 30.0), random)


def start_delay(failures: int, random: Random) -> float:
    """Seconds before the start is tried again, after `failures` in a row: from 0.1 s, doubling up to 1 s."""
    return jittered(min(0.1 * 2.0 ** max(failures - 1, 0), 1.0), random)


def jittered(seconds: float, random: Random, spread: float = 0.2) -> float:
    """`seconds`, off by up to `spread` of it in either direction."""
    return seconds * (1.0 - spread + 2.0 * spread * random.random())
