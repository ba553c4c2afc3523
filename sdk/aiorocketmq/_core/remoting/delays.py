"""Delivery times of delayed messages: levels, and times from 5.0 on; remoting-protocol.md 6.12."""

from __future__ import annotations

LEVELS = (1, 5, 10, 30, *range(60, 601, 60), 1200, 1800, 3600, 7200)
"""Seconds of the delay levels 1 to 18."""
TIMERS_SINCE = 413
"""V5_0_0: older brokers ignore a delivery time and deliver at once."""


def delay_properties(*, due_us: int, delay: float | None, version: int) -> dict[str, str] | None:
    """Return the properties of a message that is due at `due_us` (microseconds since 1970), for a broker of `version`.

    None if the broker is older than 5.0 and `delay`, the seconds that the sender specified, is none of its levels."""
    if version >= TIMERS_SINCE:
        return {"TIMER_DELIVER_MS": str(due_us // 1000)}
    if delay is None or delay not in LEVELS:
        return None
    return {"DELAY": str(LEVELS.index(int(delay)) + 1)}


def level_of(seconds: float) -> int:
    """The shortest level that lasts at least `seconds`; the longest one if there is none."""
    return next((level for level, lasts in enumerate(LEVELS, 1) if lasts >= seconds), len(LEVELS))
