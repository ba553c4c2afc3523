"""The clock of a case: real time, or a fake's manual time that jumps whenever everybody waits."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self, TypeVar

from aiorocketmq_conformance.probe.traffic import Traffic

T = TypeVar("T")

# Real seconds without any step on the wire after which everybody is taken to wait. Answers cross loopback in
# well under a millisecond; the loop runs whatever became ready before the timer that ends this pause.
QUIET = 0.004
# How many of these pauses a client may need to read what was pushed to it.
SLOW_READS = 50
# Real seconds after which waiting for an answer that needs no time is taken for a hang.
STUCK = 15.0


class Clock(Protocol):
    """Time as a case sees it; all of a case's probe clients share one."""

    traffic: Traffic

    def now(self) -> float:
        """Seconds on a clock that never steps back."""

    def wall(self) -> float:
        """Unix seconds, comparable with the time stamps of the broker within `skew`."""

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""


class RealClock:
    """The machine's clock."""

    def __init__(self) -> None:
        self.traffic = Traffic()

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def wall(self) -> float:
        """Unix seconds."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds` of real time."""
        await asyncio.sleep(seconds)


class AutoClock:
    """Manual time of a fake that jumps to the next deadline whenever all calls wait in the broker.

    Everybody waits when no call is under way but long polls which the broker has parked, and nothing moved on
    the wire for `QUIET` real seconds. Then the earliest of the sleepers' and the broker's deadlines comes due.
    Used as `async with`: leaving it ends the jumping.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float],
        advance_to: Callable[[float], Awaitable[None]],
        next_deadline: Callable[[], float | None],
        parked: Callable[[], int],
        orders: Callable[[], int] = lambda: 0,
    ) -> None:
        """Take the fake's face: its time, its next deadline, how many polls it has parked, and `advance_to`;
        `orders` counts what it pushed to clients unasked.

        All times are Unix seconds. `advance_to` returns when everything due has taken effect.
        """
        self.traffic = Traffic()
        self._now = now
        self._advance_to = advance_to
        self._next_deadline = next_deadline
        self._parked = parked
        self._orders = orders
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="conformance-auto-clock")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    def now(self) -> float:
        """Unix seconds of the fake."""
        return self._now()

    def wall(self) -> float:
        """Unix seconds of the fake: it knows no other clock."""
        return self._now()

    async def sleep(self, seconds: float) -> None:
        """Return when the fake's time has moved by `seconds`; nobody but this clock moves it."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now() + seconds, next(self._order), woken))
        self.traffic.steps += 1
        await woken

    async def _run(self) -> None:
        seen = -1
        while True:
            await asyncio.sleep(QUIET)
            if seen != self.traffic.steps:
                seen = self.traffic.steps
            elif self._everybody_waits():
                await self._jump()

    def _everybody_waits(self) -> bool:
        traffic = self.traffic
        if traffic.unary_under_way or traffic.receives_under_way > self._parked():
            return False
        self._drop_cancelled()
        return bool(traffic.receives_under_way or self._sleepers)

    def _drop_cancelled(self) -> None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)

    async def _jump(self) -> None:
        due = [time for time in (self._next_deadline(),) if time is not None]
        due += [self._sleepers[0][0]] if self._sleepers else []
        if not due:
            return
        pushed = self._orders()
        await self._advance_to(max(min(due), self._now()))
        await self._let_read(self._orders() - pushed)
        now = self._now()
        while self._sleepers and self._sleepers[0][0] <= now:
            woken = heapq.heappop(self._sleepers)[2]
            if not woken.done():
                woken.set_result(None)
        self.traffic.steps += 1

    async def _let_read(self, orders: int) -> None:
        """Let the probes read what was pushed to them: when it came is part of what cases judge."""
        due = self.traffic.orders + orders
        for _ in range(SLOW_READS):
            if self.traffic.orders >= due:
                return
            await asyncio.sleep(QUIET)


async def within(clock: Clock, seconds: float, waiting: Awaitable[T]) -> T:
    """The result of `waiting`, or TimeoutError when `seconds` of the case's clock have passed first.

    What is waited for is cancelled then.
    """
    task = asyncio.ensure_future(waiting)
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, alarm}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise TimeoutError(f"nothing within {seconds:g} s")
        return task.result()
    finally:
        for pending in (task, alarm):
            if not pending.done():
                pending.cancel()
        await asyncio.gather(task, alarm, return_exceptions=True)
