"""The clock of a case: real time, or a fake's manual time that jumps whenever all tasks wait."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import selectors
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self, TypeVar

from aiorocketmq_conformance.probe.traffic import Traffic

T = TypeVar("T")

# Real seconds without traffic after which all tasks are assumed to wait. Responses cross loopback in well under a
# millisecond; the loop runs ready callbacks before the timer that ends this pause.
QUIET = 0.004
# How many of these pauses a client may need to read a server's command.
SLOW_READS = 50
# Real seconds after which a call that needs no time is considered to hang.
STUCK = 15.0


class Clock(Protocol):
    """The clock of a case, shared by all of its probe clients."""

    traffic: Traffic

    def now(self) -> float:
        """Return seconds on a monotonic clock."""

    def wall(self) -> float:
        """Return Unix seconds, comparable with the time stamps of the broker within `skew`."""

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""


class RealClock:
    """The machine's clock."""

    def __init__(self) -> None:
        self.traffic = Traffic()

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def wall(self) -> float:
        """Return Unix seconds."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds` of real time."""
        await asyncio.sleep(seconds)


class AutoClock:
    """Manual time of a fake that jumps to the next deadline whenever all calls wait in the broker.

    All tasks wait if no call is in progress but long polls that the broker has parked, and there was no traffic
    for `QUIET` real seconds. Then the earliest of the sleepers' and the broker's deadlines is reached. Used as
    `async with`, at whose end it stops.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float],
        advance_to: Callable[[float], Awaitable[None]],
        next_deadline: Callable[[], float | None],
        parked: Callable[[], int],
        commands: Callable[[], int] = lambda: 0,
    ) -> None:
        """Take functions of the fake: its time, its next deadline, the number of parked polls, and `advance_to`;
        `commands` counts the commands that it sent to clients. All times are Unix seconds. `advance_to` returns
        when everything due has taken effect."""
        self.traffic = Traffic()
        self._now = now
        self._advance_to = advance_to
        self._next_deadline = next_deadline
        self._parked = parked
        self._commands = commands
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
        """Return Unix seconds of the fake."""
        return self._now()

    def wall(self) -> float:
        """Return Unix seconds of the fake: it has no other clock."""
        return self._now()

    async def sleep(self, seconds: float) -> None:
        """Wait until the fake's time has moved by `seconds`; only this clock moves it."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now() + seconds, next(self._order), woken))
        self.traffic.steps += 1
        await woken

    async def _run(self) -> None:
        steps = -1
        while True:
            await asyncio.sleep(QUIET)
            if steps != self.traffic.steps:
                steps = self.traffic.steps
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
        pushed = self._commands()
        await self._advance_to(max(min(due), self._now()))
        await self._let_read(self._commands() - pushed)
        now = self._now()
        while self._sleepers and self._sleepers[0][0] <= now:
            woken = heapq.heappop(self._sleepers)[2]
            if not woken.done():
                woken.set_result(None)
        self.traffic.steps += 1

    async def _let_read(self, commands: int) -> None:
        """Let the probes read the server's commands: their time of arrival is judged by cases."""
        due = self.traffic.commands + commands
        for _ in range(SLOW_READS):
            if self.traffic.commands >= due:
                return
            await asyncio.sleep(QUIET)


class _Selector(selectors.DefaultSelector):
    """Selector that completes futures when the event loop has nothing to do."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[asyncio.Future[None]] = []

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for a file; not at all if there are futures to complete."""
        if timeout == 0 or not self.waiting:
            return super().select(timeout)
        if not (ready := super().select(0)):
            waiting, self.waiting = self.waiting, []
            for each in waiting:
                if not each.done():
                    each.set_result(None)
        return ready


class SettlingLoop(asyncio.SelectorEventLoop):
    """Event loop that reports when it has nothing to do."""

    def __init__(self) -> None:
        self._idle_selector = _Selector()
        super().__init__(self._idle_selector)

    async def idle(self) -> None:
        """Wait until all tasks wait for each other, for a timer, or for a file."""
        waiting = self.create_future()
        self._idle_selector.waiting.append(waiting)
        await waiting


class DrivenClock:
    """Manual time of a fake that moves only while the one task that drives the calls sleeps.

    Much quicker than `AutoClock`, which has to guess whether several tasks wait: between two steps of the driver
    nothing happens, and after each of them every response has arrived. Needs a `SettlingLoop`.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float],
        advance_to: Callable[[float], Awaitable[None]],
        next_deadline: Callable[[], float | None],
        parked: Callable[[], int],
    ) -> None:
        """Take functions of the fake, as `AutoClock` does."""
        self.traffic = Traffic()
        self.on_settled: Callable[[], None] = lambda: None
        """Called whenever all responses to what was done so far have arrived."""
        self._now = now
        self._advance_to = advance_to
        self._next_deadline = next_deadline
        self._parked = parked

    def now(self) -> float:
        """Return Unix seconds of the fake."""
        return self._now()

    def wall(self) -> float:
        """Return Unix seconds of the fake: it has no other clock."""
        return self._now()

    async def sleep(self, seconds: float) -> None:
        """Move the fake's time by `seconds`, from one of its deadlines to the next."""
        until = self._now() + seconds
        await self.settle()
        while (due := self._next_deadline()) is not None and due <= until:
            await self._advance_to(max(due, self._now()))
            await self.settle()
        await self._advance_to(until)
        await self.settle()

    async def settle(self) -> None:
        """Wait until no call is in progress but polls that the broker has parked.

        Raises RuntimeError in another loop than a `SettlingLoop`.
        """
        loop = asyncio.get_running_loop()
        if not isinstance(loop, SettlingLoop):
            raise RuntimeError(
                "a driven fake needs a SettlingLoop: asyncio.Runner(loop_factory=SettlingLoop)"
            )
        await loop.idle()
        while self.traffic.unary_under_way or self.traffic.receives_under_way > self._parked():
            # Such as a broker that writes to a disk.
            await asyncio.sleep(QUIET)
            await loop.idle()
        self.on_settled()


async def within(clock: Clock, seconds: float, waiting: Awaitable[T]) -> T:
    """Return the result of `waiting`; TimeoutError if `seconds` of the case's clock pass first.

    `waiting` is cancelled then.
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
