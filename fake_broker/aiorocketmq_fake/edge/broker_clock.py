"""The broker's clock for tests: read it, and move it if it is manual."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from types import MappingProxyType

from aiorocketmq_fake.core.values.events import (
    Acked,
    Delivered,
    Event,
    LeaseChanged,
    LeaseEnded,
    ReceiveEnded,
)
from aiorocketmq_fake.edge.clock import Clock, RealClock
from aiorocketmq_fake.edge.clock_users import ClockUser, ClockUsers
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.telemetry import Telemetry
from aiorocketmq_fake.edge.timers import Timer, Timers

__all__ = ["BrokerClock"]

logger = logging.getLogger("aiorocketmq_fake.clock")

# While a manual clock moves, clients with an open stream count as alive this often: well below R2.15's 120 s.
HEARTBEAT = 60.0
# Longest wait for a caller to read its answer, in real seconds: it must not stop the clock.
WRITING = 5.0
# Default patience with clients on this clock, in real seconds for their work at one instant.
WORKING = 5.0
# Longest step in seconds: all timers due on the way fire one after the other.
CENTURY = 36_525 * 86_400.0
NOBODY: Mapping[str, int] = MappingProxyType({})


class BrokerClock:
    """The broker's clock; `advance` moves a manual one.

    A client on the same event loop that uses it (`clock=broker.clock`) times leases, renewals and ordered retries by
    it; `advance` then waits for the client's work.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[Driver, Telemetry]] = []
        self._moving = asyncio.Lock()
        self._users = ClockUsers()
        self._timers = Timers()

    def add(self, driver: Driver, telemetry: Telemetry) -> None:
        """Add a broker to this clock; all of them have the same source of time."""
        self._parts.append((driver, telemetry))

    @property
    def _source(self) -> Clock:
        return self._parts[0][0].clock

    @property
    def is_manual(self) -> bool:
        """Whether the clock moves only by `advance`."""
        return self._source.is_manual

    @property
    def parked(self) -> int:
        """Number of parked receives and pulls."""
        return sum(len(driver.parked) for driver, _ in self._parts)

    def now(self) -> float:
        """Return the broker's present in Unix seconds."""
        return self._source.now()

    def time(self) -> float:
        """Return the same, under the name of the client's clock interface."""
        return self.now()

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Run `callback` at `when`, in Unix seconds, or later; never from within this call."""
        return self._timers.call_at(when, callback, self._source)

    def join(self, user: ClockUser) -> None:
        """Make `advance` wait for the work of a client; clients call this themselves."""
        self._users.join(user)

    def leave(self, user: ClockUser) -> None:
        """Stop waiting for a client."""
        self._users.leave(user)

    def utc(self) -> datetime:
        """Return the broker's present as an aware datetime."""
        return datetime.fromtimestamp(self.now(), UTC)

    def next_deadline(self) -> float | None:
        """Return the next deadline of a broker or client on this clock, in Unix seconds.

        None without one.
        """
        dues = [self._timers.next_deadline(), *(driver.next_deadline() for driver, _ in self._parts)]
        return min((due for due in dues if due is not None), default=None)

    def jump(self, seconds: float) -> None:
        """Set the clock forward, or back, as a machine's clock is set.

        Forward, all timers that became due fire at once, as of the new time; `advance` would fire each at its own.
        Back, a real clock stops until the machine's has caught up, since the broker's time is monotonic; a manual one
        stays where it is.
        """
        if not -CENTURY <= seconds <= CENTURY:
            raise ValueError(f"seconds must be -{CENTURY:.0f} to {CENTURY:.0f}, got {seconds}")
        source = self._source
        now = source.now() + seconds
        if isinstance(source, RealClock):
            source.jump(seconds)
            now = source.now()
        for driver, _ in self._parts:
            if driver.frozen:
                driver.clock.reach(now)  # its timers wait for the end of the pause
            elif source.is_manual and seconds < 0:
                driver.core.advance(now)
            else:
                driver.leap(now)
        self._timers.arm(source)

    async def advance(
        self,
        *,
        seconds: float = 0.0,
        minutes: float = 0.0,
        hours: float = 0.0,
        patience: float | None = None,
        forget_clients: bool = False,
    ) -> None:
        """Move a manual clock: timers fire in order, each at its own time, and every answer is written.

        Clients on this clock have their deadlines on it. Before it moves and at each instant with an event it waits
        until they have done their work: renewals, handlers, settling, receives, and the first receive after a restart
        of the broker. That takes at most `patience` real seconds, by default 5; work that is still in progress then,
        such as a handler that waits for the test itself, is named in a warning and ignored from then on.

        Other clients live in real time. With `patience`, the clock waits at its start and after each answered receive
        until the deliveries are settled (acknowledged, changed or forwarded) and the consumer polls again, but at
        most so many real seconds: one call covers a whole series of retries. Without it, the clock never waits for
        them; with 0 it waits for no client at all. Their heartbeats cannot keep up with a clock that jumps, so
        clients with an open telemetry stream count as alive, unless `forget_clients` says otherwise. Two calls at
        once move the clock one after the other. Raises ValueError for a negative step, RuntimeError if the clock is
        real. If cancelled, it stops where it is.
        """
        step = seconds + 60 * minutes + 3600 * hours
        if step < 0:
            raise ValueError(f"the step must be 0 s or more, got {step}")
        if not step <= CENTURY:
            raise ValueError(f"the step must be at most {CENTURY:.0f} s, got {step}")
        await self._advance(lambda: self.now() + step, patience, forget_clients)

    async def advance_to(
        self, instant: float, *, patience: float | None = None, forget_clients: bool = False
    ) -> None:
        """Move a manual clock to a Unix time as `advance` does; a past time changes nothing."""
        await self._advance(lambda: instant, patience, forget_clients)

    async def _advance(
        self, target_of: Callable[[], float], patience: float | None, forget_clients: bool
    ) -> None:
        if not self.is_manual:
            raise RuntimeError("only a manual clock can be moved: start the broker with clock='manual'.")
        self._parts[0][0].check_loop()
        async with self._moving:
            target = target_of()
            await self._users_idle(patience)
            if patience:
                await self._settle(
                    _InFlight(self._users.client_ids, self._unsettled(), self._expected()), patience
                )
            await self._move(self.now(), patience)
            while (instant := self._next_stop(target, forget_clients)) < target:
                await self._move(instant, patience)
            await self._move(target, patience)
            for driver, _ in self._parts:
                await driver.durable()

    def _next_stop(self, target: float, forget_clients: bool) -> float:
        """Return the next instant at which something is due, at most `target`."""
        now = self.now()
        stop = target
        for driver, telemetry in self._parts:
            if not forget_clients and (clients := telemetry.client_ids()):
                for client_id in clients:
                    driver.run(driver.core.keep_alive, client_id)
                stop = min(stop, now + HEARTBEAT)
        due = self.next_deadline()
        return stop if due is None else min(stop, max(due, now))

    async def _move(self, instant: float, patience: float | None) -> None:
        handed_out = _InFlight(self._users.client_ids)
        with self._listening(handed_out):
            for driver, _ in self._parts:
                driver.reach(instant)
            self._timers.run_due(self.now())
            if not await self._written():
                logger.warning("an answer was not written within %s s; the clock continues", WRITING)
            await self._users_idle(patience)
        if patience and handed_out.clients:
            await self._settle(handed_out, patience)

    async def _users_idle(self, patience: float | None) -> None:
        """Wait until the clients on this clock have done their work at this instant."""

        def is_settling() -> bool:
            return self._timers.run_due(self.now()) or any(
                driver.in_progress.count for driver, _ in self._parts
            )

        def parked(client_id: str) -> int:
            return sum(driver.parked.count(client_id) for driver, _ in self._parts)

        def is_missing(client_id: str) -> bool:
            return any(client_id in driver.parked.missing for driver, _ in self._parts)

        if patience != 0:
            await self._users.wait_idle(
                WORKING if patience is None else patience, parked, is_missing, is_settling
            )

    async def _written(self) -> bool:
        """Wait until every answer of every broker is written; an answer of one may wake another."""
        while True:
            for driver, _ in self._parts:
                if not await driver.in_progress.wait(WRITING):
                    return False
            if not any(driver.in_progress.count for driver, _ in self._parts):
                return True

    def _unsettled(self) -> set[str]:
        """Return the handles of messages in flight that their consumers have neither settled nor changed.

        Consumers without a telemetry stream will never settle them; users of this clock are excluded.
        """
        handles: set[str] = set()
        for driver, telemetry in self._parts:
            connected = self._strangers(telemetry)
            held = {lease.receipt_handle for lease in driver.core.leases() if lease.client_id in connected}
            handles |= held.intersection(event.delivery.receipt_handle for event in driver.core.deliveries())
        return handles

    def _expected(self) -> dict[str, int]:
        """Return the connected clients, each with its minimal number of polls.

        Push consumers poll all the time; one that has just started must not miss the first step.
        """
        expected: dict[str, int] = {}
        for driver, telemetry in self._parts:
            strangers, polling = self._strangers(telemetry), driver.polling()
            known = [client.client_id for client in driver.core.clients()]
            expected.update({each: int(each in polling) for each in known if each in strangers})
        return expected

    def _strangers(self, telemetry: Telemetry) -> set[str]:
        """Return the connected clients that do not use this clock."""
        return set(telemetry.client_ids()) - self._users.client_ids

    def _is_back(self, client_id: str, at_least: int) -> bool:
        """Return whether a client has parked polls at every broker that it is connected to."""
        return all(
            driver.parked.is_back(client_id, at_least)
            for driver, telemetry in self._parts
            if client_id in telemetry.client_ids() or len(self._parts) == 1
        )

    def _listening(self, handed_out: _InFlight) -> ExitStack:
        listening = ExitStack()
        for driver, _ in self._parts:
            listening.enter_context(driver.events.listen(handed_out.watch))
        return listening

    async def _settle(self, handed_out: _InFlight, patience: float) -> None:
        """Wait until consumers have settled their deliveries and poll again."""
        with self._listening(handed_out):
            await handed_out.wait(patience, self._is_back)
            await self._written()


class _InFlight:
    """Tracks messages in flight, except those of `users` of the clock, until they are settled."""

    def __init__(
        self, users: Collection[str], handles: Iterable[str] = (), clients: Mapping[str, int] = NOBODY
    ) -> None:
        self._users = users
        self.clients = dict(clients)
        """Clients that got an answer or are expected to poll, with their minimal number of polls."""
        self._open = set(handles)
        self._changed = asyncio.Event()

    def watch(self, events: Sequence[Event]) -> None:
        """Follow an event."""
        for event in events:
            match event:
                case Delivered(client_id=client_id) | ReceiveEnded(client_id=client_id) if (
                    client_id in self._users
                ):
                    pass
                case Delivered(client_id=client_id, delivery=delivery):
                    self.clients.setdefault(client_id, 0)
                    self._open.add(delivery.receipt_handle)
                case ReceiveEnded(client_id=client_id, cancelled=False):
                    self.clients.setdefault(client_id, 0)
                case LeaseChanged(previous_handle=handle):
                    self._open.discard(handle)
                case Acked(receipt_handle=handle) | LeaseEnded(receipt_handle=handle):
                    self._open.discard(handle)
                case _:
                    pass
        self._changed.set()

    async def wait(self, timeout: float, is_back: Callable[[str, int], bool]) -> None:
        """Wait until nothing is open and every client polls again, or `timeout` real seconds have passed."""
        try:
            async with asyncio.timeout(timeout):
                while self._open or not all(itertools.starmap(is_back, self.clients.items())):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return
