"""Timers of clients in this process on the broker's clock."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from contextvars import Context, copy_context

from aiorocketmq_fake.edge.clock import Clock

__all__ = ["Timer", "Timers"]

Callback = Callable[[], object]


class Timer:
    """A callback with its time."""

    __slots__ = ("_callback", "_context")

    def __init__(self, callback: Callback) -> None:
        self._callback: Callback | None = callback
        self._context: Context = copy_context()

    @property
    def is_over(self) -> bool:
        """Whether it has run or was cancelled."""
        return self._callback is None

    def cancel(self) -> None:
        """Cancel it; without effect if it has run or was cancelled."""
        self._callback = None

    def run(self) -> None:
        """Call back in its original context; an exception goes to the event loop's handler, as for its own timers."""
        callback, self._callback = self._callback, None
        if callback is None:
            return
        try:
            self._context.run(callback)
        except Exception as error:  # foreign code
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"a timer of the broker's clock failed: {callback!r}", "exception": error}
            )


class Timers:
    """All timers, in order of time. On a manual clock they wait for `run_due`, unless they are due already."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._count = 0
        self._wake_up: asyncio.TimerHandle | None = None

    def call_at(self, when: float, callback: Callback, clock: Clock) -> Timer:
        """Run `callback` at `when` on `clock` or later, never from within this call."""
        timer = Timer(callback)
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, timer))
        self.arm(clock)
        return timer

    def next_deadline(self) -> float | None:
        """Return the next deadline, None without one."""
        while self._heap and self._heap[0][2].is_over:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run_due(self, now: float) -> bool:
        """Run the callbacks due at `now`, in order; return whether there were any."""
        ran = False
        while (due := self.next_deadline()) is not None and due <= now:
            heapq.heappop(self._heap)[2].run()
            ran = True
        return ran

    def arm(self, clock: Clock) -> None:
        """Schedule the next one on the event loop if the clock is real or the timer is due already."""
        if self._wake_up is not None:
            self._wake_up.cancel()
            self._wake_up = None
        due = self.next_deadline()
        if due is None:
            return
        delay = max(0.0, due - clock.now())
        if not clock.is_manual or not delay:
            self._wake_up = asyncio.get_running_loop().call_later(delay, self._on_loop, clock)

    def _on_loop(self, clock: Clock) -> None:
        self._wake_up = None
        self.run_due(clock.now())
        self.arm(clock)
