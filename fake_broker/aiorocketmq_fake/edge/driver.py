"""Drives the core: provides the time, arms the one timer, passes answers to waiters."""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import ClientType
from aiorocketmq_fake.core.values.model import (
    CommandForClient,
    ForChannels,
    Output,
    Parked,
    PollAnswered,
    Pulled,
    PullRequest,
    Received,
    ReceiveRequest,
)
from aiorocketmq_fake.edge.clock import Clock
from aiorocketmq_fake.edge.events import Events
from aiorocketmq_fake.edge.gate import Gate
from aiorocketmq_fake.edge.in_progress import InProgress
from aiorocketmq_fake.edge.parking import Parking

__all__ = ["CommandLog", "Driver"]

R = TypeVar("R")

# Longest timer, in seconds; asyncio accepts longer ones, but they are only replaced anyway.
LONGEST_TIMER = 3600.0
# Commands that change nothing, and are not journaled.
READS = frozenset({"query_route", "get_offset", "query_offset", "check_access"})
# How early a loop's timer may fire, in seconds.
EARLY = 0.002


class CommandLog(Protocol):
    """Keeps the commands of a core, so that another one can do them again; a journal on disk."""

    def admit(self, command: str) -> None:
        """Raise Refusal if the command cannot be kept at present."""

    def note(self, command: str, arguments: tuple[Any, ...], keywords: dict[str, Any], now: float) -> None:
        """Keep a command that was just run, also a refused one. Any: each has its own arguments."""

    async def durable(self) -> None:
        """Return when all noted commands are safe; Refusal if they cannot be."""


class Driver:
    """Owns a core on one event loop. Every command goes through `run`, so that its outputs are always processed."""

    def __init__(self, core: Broker, clock: Clock, events: Events, journal: CommandLog | None = None) -> None:
        self.core = core
        self.journal = journal
        """The journal on disk; None for a core in memory only."""
        self.clock = clock
        self.events = events
        self.in_progress = InProgress()
        self.gate = Gate(self.in_progress)
        """Closed, it cuts the broker off from all its clients."""
        self.parked = Parking()
        """The parked polls."""
        self.frozen = False
        """While paused, no timer fires, and time stands still for commands."""
        self.deliver_command: Callable[[CommandForClient], None] = lambda order: None
        """Sends commands to clients; set by the telemetry service."""
        self.deliver_to_channels: Callable[[ForChannels], None] = lambda output: None
        """Sends requests to clients of the classic protocol; set by their port."""
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._sleeper_count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    def begin(self) -> None:
        """Make the running event loop that of the broker."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.parked.begin()

    def check_loop(self) -> None:
        """Raise RuntimeError on another event loop than the broker's."""
        if self._loop is not None and self._loop is not asyncio.get_running_loop():
            raise RuntimeError(
                "this fake broker runs on another event loop: await its methods there, or call them by "
                "`broker.portal` if it was opened by `with`."
            )

    def read(self, inspect: Callable[[], R]) -> R:
        """Return the result of `inspect`; called in another thread, it runs on the broker's event loop."""
        if self._loop is None or not self._loop.is_running() or self._thread == threading.get_ident():
            return inspect()

        async def read_there() -> R:
            return inspect()

        return asyncio.run_coroutine_threadsafe(read_there(), self._loop).result()

    def run(self, command: Callable[..., R], *arguments: object, **keywords: object) -> R:
        """Run one command of the core now, and process its outputs; a Refusal propagates."""
        # A paused broker does nothing but notice what its clients cancel: its timers wait for the end of the pause.
        now = self.core.now if self.frozen else self.clock.now()
        if self.journal is not None:
            self.journal.admit(command.__name__)
        try:
            result = command(*arguments, now=now, **keywords)
            if isinstance(result, Parked):
                # Registered before outputs are processed: this very command may have produced the answer.
                self.parked.add(result.poll_id, _request_of(arguments))
            return result
        finally:
            if self.journal is not None and command.__name__ not in READS:
                self.journal.note(command.__name__, arguments, keywords, now)
            self.settle()

    async def durable(self) -> None:
        """Return when all that happened so far is durable; Refusal if it cannot be written.

        No client gets an answer before. For a core in memory only, this is at once.
        """
        if self.journal is not None:
            await self.journal.durable()

    def settle(self) -> None:
        """Process outputs and events of the core, and arm the timer for its next deadline."""
        core = self.core
        if happened := core.take_events():
            self.events.publish(happened)
        if outputs := core.take_outputs():
            self._process_outputs(outputs)
        if not self.clock.is_manual:
            self._arm()

    async def poll(self, poll_id: int, real_timeout: float | None) -> Received | Pulled:
        """Wait for a parked poll's answer; after `real_timeout` seconds of real time it is ended.

        If cancelled, the poll is cancelled in the core, and messages of its answer are released.
        """
        future = self.parked[poll_id]
        self.in_progress.leave()
        try:
            if real_timeout is not None:
                await asyncio.wait((future,), timeout=real_timeout)
                self.run(self.core.end_poll, poll_id)
            return await future
        except asyncio.CancelledError:
            if _has_answer(future):
                self.release_deliveries(future.result())
            else:
                self.in_progress.enter()
            raise
        finally:
            if self.parked.pop(poll_id) is not None:
                self.run(self.core.cancel_poll, poll_id)

    def polling(self) -> set[str]:
        """Return the ids of the push consumers: they poll all the time."""
        clients = self.core.clients()
        return {one.client_id for one in clients if one.settings.client_type is ClientType.PUSH_CONSUMER}

    def end_polls(self) -> None:
        """Answer every parked poll now, as if it timed out."""
        for poll_id in self.parked.numbers():
            self.run(self.core.end_poll, poll_id)

    def next_deadline(self) -> float | None:
        """Return the next deadline of the core or of a sleeper."""
        if self.frozen:
            return None
        due = self.core.next_deadline()
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)  # the sleeper was cancelled
        if self._sleepers and (due is None or self._sleepers[0][0] < due):
            return self._sleepers[0][0]
        return due

    def reach(self, instant: float) -> None:
        """Fire all timers due up to `instant`."""
        now = self.clock.reach(instant)
        if self.frozen:
            return
        self.core.advance(now)
        if self.journal is not None and (self.clock.is_manual or self.core.has_outputs):
            # What clients are told must happen again. A real clock does the rest by itself after a restart; the
            # journal repeats each step of a manual one at its own time.
            self.journal.note("advance", (), {}, now)
        self._wake(now)
        self.settle()

    def leap(self, instant: float) -> None:
        """Continue at `instant` after a pause: timers that became due fire as of then."""
        self.frozen = False
        if self.journal is not None:
            # Done again, timers that have fired before must not be among those that fire late now.
            self.journal.note("advance", (), {}, self.core.now)
        now = self.clock.reach(instant)
        # The timer counts the seconds of a clock that has just been set.
        self.stop()
        self.run(self.core.leap)
        self._wake(now)
        self.settle()

    def _wake(self, now: float) -> None:
        while self._sleepers and self._sleepers[0][0] <= now:
            _, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                self.in_progress.enter()
                future.set_result(None)

    async def sleep(self, seconds: float) -> None:
        """Sleep on the broker's clock; called by work that counts as in progress."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleeper_count += 1
        heapq.heappush(self._sleepers, (self.clock.now() + seconds, self._sleeper_count, future))
        self.settle()
        self.in_progress.leave()
        try:
            await future
        except asyncio.CancelledError:
            if not _has_answer(future):
                self.in_progress.enter()
            raise

    def stop(self) -> None:
        """Disarm the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _process_outputs(self, outputs: tuple[Output, ...]) -> None:
        for output in outputs:
            if isinstance(output, PollAnswered):
                future = self.parked.pop(output.poll_id)
                if future is None or future.done():
                    self.release_deliveries(output.result)
                else:
                    self.in_progress.enter()
                    future.set_result(output.result)
            elif isinstance(output, ForChannels):
                self.deliver_to_channels(output)
            else:
                self.deliver_command(output)

    def release_deliveries(self, result: Received | Pulled) -> None:
        """Release deliveries to a disconnected caller (R5.7)."""
        if isinstance(result, Received) and result.deliveries:
            self.run(
                self.core.release_deliveries, tuple(delivery.receipt_handle for delivery in result.deliveries)
            )

    def _arm(self) -> None:
        due = self.next_deadline()
        if due is None:
            return
        if self._timer is not None:
            if due >= self._armed_for:
                # The old timer fires early without effect: cheaper than a new timer for every command.
                return
            self._timer.cancel()
        delay = min(max(due - self.clock.now(), 0.0), LONGEST_TIMER)
        self._armed_for = due
        self._timer = asyncio.get_running_loop().call_later(delay, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self.frozen:
            return
        due = self.next_deadline()
        now = self.clock.now()
        if due is not None and due - now < EARLY:
            # A loop may fire slightly early; the core must never see a time before the deadline.
            now = max(due, now)
        self.reach(now)


def _request_of(arguments: tuple[object, ...]) -> ReceiveRequest | PullRequest:
    """Return the request that was parked."""
    return next(item for item in arguments if isinstance(item, (ReceiveRequest, PullRequest)))


def _has_answer(future: asyncio.Future[R]) -> bool:
    return future.done() and not future.cancelled()
