"""Drives the core: tells it the time, arms the one timer, carries its answers to those who wait for them."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from aiorocketmq_fake.core.broker import Broker
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
from aiorocketmq_fake.edge.parking import Parking
from aiorocketmq_fake.edge.quiet import Quiet

if TYPE_CHECKING:
    from aiorocketmq_fake.edge.storage.journal import Journal

__all__ = ["Driver"]

R = TypeVar("R")

# asyncio refuses nothing, but a timer of weeks is only ever there to be replaced.
LONGEST_TIMER = 3600.0
# Commands that change nothing, and so need not be kept on disk.
READS = frozenset({"query_route", "get_offset", "query_offset", "check_access"})
# How much too early a loop's timer may fire, in seconds.
EARLY = 0.002


class Driver:
    """Owns a core on one event loop. Every command goes through `run`, so that nothing it causes is left lying."""

    def __init__(self, core: Broker, clock: Clock, events: Events, journal: Journal | None = None) -> None:
        self.core = core
        self.journal = journal
        """What keeps the core on disk; None where it lives in memory only."""
        self.clock = clock
        self.events = events
        self.quiet = Quiet()
        self.gate = Gate(self.quiet)
        """Shut, it cuts the broker off from all its clients."""
        self.parked = Parking()
        """The polls that wait."""
        self.frozen = False
        """While it is, time passes and nothing becomes due."""
        self.deliver_command: Callable[[CommandForClient], None] = lambda order: None
        """Where orders for clients go: set by the telemetry service."""
        self.deliver_to_channels: Callable[[ForChannels], None] = lambda output: None
        """Where requests to clients of the classic protocol go: set by the port that serves them."""
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._sleeper_count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = 0.0

    def run(self, command: Callable[..., R], *arguments: object, **keywords: object) -> R:
        """Run one command of the core at the present; a Refusal passes through. Then settle what it caused."""
        now = self.clock.now()
        if self.journal is not None:
            self.journal.admit(command.__name__)
        try:
            result = command(*arguments, now=now, **keywords)
            if isinstance(result, Parked):
                # Its place must be there before the outputs are: this very command may have brought the answer.
                self.parked.add(result.poll_id, _request_of(arguments))
            return result
        finally:
            if self.journal is not None and command.__name__ not in READS:
                self.journal.note(command.__name__, arguments, keywords, now)
            self.settle()

    async def durable(self) -> None:
        """Return when all that happened so far survives the end of this process; Refusal where it cannot.

        Nothing is told to a client before. Where the core lives in memory only, this is at once.
        """
        if self.journal is not None:
            await self.journal.durable()

    def settle(self) -> None:
        """Hand on what the core has to say, and arm the timer for what it will have to say."""
        core = self.core
        if happened := core.take_events():
            self.events.publish(happened)
        if outputs := core.take_outputs():
            self._hand_out(outputs)
        if not self.clock.is_manual:
            self._arm()

    async def poll(self, poll_id: int, real_timeout: float | None) -> Received | Pulled:
        """Wait for a parked poll's answer; after `real_timeout` seconds of real time the core is asked to end it.

        Cancelled, the core is told that the caller went away, and gets back what it had answered.
        """
        future = self.parked[poll_id]
        self.quiet.leave()
        try:
            if real_timeout is not None:
                await asyncio.wait((future,), timeout=real_timeout)
                self.run(self.core.end_poll, poll_id)
            return await future
        except asyncio.CancelledError:
            if _has_answer(future):
                self.give_back(future.result())
            else:
                self.quiet.enter()
            raise
        finally:
            if self.parked.pop(poll_id) is not None:
                self.run(self.core.cancel_poll, poll_id)

    def end_polls(self) -> None:
        """Answer every parked poll now, as if its time were over."""
        for poll_id in self.parked.numbers():
            self.run(self.core.end_poll, poll_id)

    def next_deadline(self) -> float | None:
        """Tell when something is due next, in the core or for a sleeper."""
        if self.frozen:
            return None
        due = self.core.next_deadline()
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)  # whoever slept was cancelled
        if self._sleepers and (due is None or self._sleepers[0][0] < due):
            return self._sleepers[0][0]
        return due

    def reach(self, instant: float) -> None:
        """Let everything due up to `instant` happen."""
        now = self.clock.reach(instant)
        if self.frozen:
            return
        self.core.advance(now)
        if self.journal is not None and self.clock.is_manual:
            # A real clock goes on by itself after a restart; what it made happen happens again at its own time.
            self.journal.note("advance", (), {}, now)
        self._wake(now)
        self.settle()

    def leap(self, instant: float) -> None:
        """Go on at `instant`, frozen or not until now: what became due meanwhile happens as of then."""
        self.frozen = False
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
                self.quiet.enter()
                future.set_result(None)

    async def sleep(self, seconds: float) -> None:
        """Let time pass on the broker's clock; called by work that counts as in progress."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleeper_count += 1
        heapq.heappush(self._sleepers, (self.clock.now() + seconds, self._sleeper_count, future))
        self.settle()
        self.quiet.leave()
        try:
            await future
        except asyncio.CancelledError:
            if not _has_answer(future):
                self.quiet.enter()
            raise

    def stop(self) -> None:
        """Disarm the timer; nothing happens by itself any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hand_out(self, outputs: tuple[Output, ...]) -> None:
        for output in outputs:
            if isinstance(output, PollAnswered):
                future = self.parked.pop(output.poll_id)
                if future is None or future.done():
                    self.give_back(output.result)
                else:
                    self.quiet.enter()
                    future.set_result(output.result)
            elif isinstance(output, ForChannels):
                self.deliver_to_channels(output)
            else:
                self.deliver_command(output)

    def give_back(self, result: Received | Pulled) -> None:
        """Take back what was handed to a caller that is gone (R5.7)."""
        if isinstance(result, Received) and result.deliveries:
            self.run(self.core.give_back, tuple(delivery.receipt_handle for delivery in result.deliveries))

    def _arm(self) -> None:
        due = self.next_deadline()
        if due is None:
            return
        if self._timer is not None:
            if due >= self._armed_for:
                # It fires early and finds nothing to do: cheaper than a new timer for every command.
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
            # A loop may fire a hair early; the core must never see a time before the one it asked for.
            now = max(due, now)
        self.reach(now)


def _request_of(arguments: tuple[object, ...]) -> ReceiveRequest | PullRequest:
    """Return the request that was parked."""
    return next(item for item in arguments if isinstance(item, (ReceiveRequest, PullRequest)))


def _has_answer(future: asyncio.Future[R]) -> bool:
    return future.done() and not future.cancelled()
