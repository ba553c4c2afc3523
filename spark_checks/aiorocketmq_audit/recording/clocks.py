"""Bounds of recorders' clocks relative to the server's (INV-CLOCK), from aggregates of the gates.

A time t of a recorder lies between t + least and t + most in server time. Each row with a server timestamp bounds that:
a delivery was answered, and a plain message stored, between call and answer; a `clock.sample` states it; a broker
records by its own clock. One clock is assumed for all servers, without drift: if bounds contradict each other, the
interval between them is taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pyspark.sql import Row

STEP_US = 50_000
"""A wall clock that deviates from the monotonic one by more than this was stepped; slewing stays below."""

_BESIDE = "try_subtract(t_wall_us, t_mono_ns div 1000)"
_SERVER = """case when kind = 'deliver' then server_deliver_us
    when kind = 'send' and phase = 'ok' and due_us is null and tx_id is null then store_us end"""
_AT_BROKER = "if(observer = 'broker', 0, null)"

COUNTED = {
    "beside_least": f"min({_BESIDE})",
    "beside_most": f"max({_BESIDE})",
    "clock_least": f"""max(if(kind = 'clock.sample', try_subtract(clk['offset_us'], clk['error_us']),
        coalesce(try_subtract({_SERVER}, t_wall_us), {_AT_BROKER})))""",
    # Servers truncate their timestamps to milliseconds.
    "clock_most": f"""min(if(kind = 'clock.sample', try_add(clk['offset_us'], clk['error_us']),
        coalesce(try_subtract(try_add({_SERVER}, 999), invoked_us), {_AT_BROKER})))""",
}
"""Aggregates of the gates for clocks, in Spark SQL."""


def bounds(own: Sequence[Row]) -> tuple[int, int] | None:
    """Return the least and greatest (server clock - recorder clock) in µs for one recorder; None if unknown."""
    least, most = _limits(own)
    if least is None or most is None or max(_steps_us(own)) > STEP_US:
        return None
    return min(least, most), max(least, most)


def disagreements(name: str, own: Sequence[Row], skew_us: int) -> list[str]:
    """Return what is wrong with the clock of recorder `name`: stepped, or more than `skew_us` off the server's."""
    wrong = [
        f"the wall clock of recorder {name} was stepped by {step / 1e6:.3f} s."
        for step in _steps_us(own)
        if step > STEP_US
    ]
    least, most = _limits(own)
    apart = max(least or 0, -(most or 0))
    if apart > skew_us:
        wrong.append(
            f"the clock of recorder {name} differs from the server's by {apart / 1e6:.3f} s or more."
        )
    return wrong


def _limits(own: Sequence[Row]) -> tuple[int | None, int | None]:
    least = max((row.clock_least for row in own if row.clock_least is not None), default=None)
    most = min((row.clock_most for row in own if row.clock_most is not None), default=None)
    return least, most


def _steps_us(own: Sequence[Row]) -> list[int]:
    """Return by boot how far the wall clock deviated from the monotonic one."""
    boots = defaultdict[str, list[Row]](list)
    for row in own:
        boots[row.boot].append(row)
    return [max(row.beside_most for row in of) - min(row.beside_least for row in of) for of in boots.values()]
