"""The broker's clock as a test sees it: read it, and where it is manual, move it."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from types import MappingProxyType

from aiorocketmq_fake.core.values.codes import ClientType
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

logger = logging.getLogger(__name__)

# While the clock is moved by hand, clients with an open stream count as heard of this often: well below R2.15's 120 s.
HEARTBEAT = 60.0
# A caller that does not read its answer must not stop the clock: so long is waited for it, in real seconds.
WRITING = 5.0
# Clients that go by this clock have so many real seconds for their work at one instant, unless a caller says otherwise.
WORKING = 5.0
# No step is longer, in seconds: everything that is due on the way happens one after the other.
CENTURY = 36_525 * 86_400.0
NOBODY: Mapping[str, int] = MappingProxyType({})


class BrokerClock:
    """What time it is for the broker; `advance` moves a manual clock.

    A client on the same event loop that is given it (`clock=broker.clock`) takes leases, renewals and retries in
    ordered groups from it; `advance` then waits for its work by itself.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[Driver, Telemetry]] = []
        self._moving = asyncio.Lock()
        self._users = ClockUsers()
        self._timers = Timers()

    def tell(self, driver: Driver, telemetry: Telemetry) -> None:
        """Let one more broker go by this clock; all of them have the same source of time."""
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
        """How many receives and pulls wait for messages."""
        return sum(len(driver.parked) for driver, _ in self._parts)

    def now(self) -> float:
        """Return the broker's present in Unix seconds."""
        return self._source.now()

    def time(self) -> float:
        """Return the same, under the name that clients know."""
        return self.now()

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Run `callback` at `when`, in Unix seconds, or later; never from within this call."""
        return self._timers.call_at(when, callback, self._source)

    def join(self, user: ClockUser) -> None:
        """Let `advance` wait for the work of a client from now on; clients do this by themselves."""
        self._users.join(user)

    def leave(self, user: ClockUser) -> None:
        """Wait for it no more."""
        self._users.leave(user)

    def utc(self) -> datetime:
        """Return the broker's present as an aware datetime."""
        return datetime.fromtimestamp(self.now(), UTC)

    def next_deadline(self) -> float | None:
        """Tell when something is due next, for a broker or a client that goes by this clock, in Unix seconds.

        None when nothing is."""
        dues = [self._timers.next_deadline(), *(driver.next_deadline() for driver, _ in self._parts)]
        return min((due for due in dues if due is not None), default=None)

    def jump(self, seconds: float) -> None:
        """Set the clock forward, or back, as a machine's clock is set.

        Forward, everything that became due happens at once, as of the new time; `advance` would let it happen bit by
        bit. Back, a real clock stands still until the machine's has caught up, since the broker's time never falls; a
        manual one stays where it is, and the broker is told of an earlier time.
        """
        if not -CENTURY <= seconds <= CENTURY:
            raise ValueError(f"the clock cannot jump by {seconds} s: give at most {CENTURY:.0f}.")
        source = self._source
        now = source.now() + seconds
        if isinstance(source, RealClock):
            source.jump(seconds)
            now = source.now()
        for driver, _ in self._parts:
            if source.is_manual and seconds < 0:
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
        """Move a manual clock: everything due happens, in order, each at its own time, and every answer is written.

        Clients that were given this clock have their deadlines on it. Before it moves and at each instant at which
        something happened it rests until they have done their work: renewals, handlers, settling, receives. That takes
        at most `patience` real seconds, 5 unless it is given; what still goes on then, as a handler that waits for the
        test itself, is named in a warning and not waited for again, and the clock goes on.

        Other clients live in real time. With `patience`, the clock rests at its start and each time that a receive was
        answered until what was handed out is settled (acknowledged, changed or forwarded) and the consumer waits for
        more, but at most so many real seconds: a whole ladder of retries passes in one call. Without it, the clock
        never waits for them; with 0 it waits for no client at all.
        Their heartbeats cannot keep up with a clock that jumps, so clients with an open telemetry stream count as
        alive, unless `forget_clients` says otherwise. Two calls at once move the clock one after the other.
        Raises ValueError for a negative step, RuntimeError where the clock is real. Cancelled, it stops where it is.
        """
        step = seconds + 60 * minutes + 3600 * hours
        if step < 0:
            raise ValueError(f"the clock cannot go back by {-step} s: give a positive step.")
        if not step <= CENTURY:
            raise ValueError(f"the clock cannot move by {step} s: give at most {CENTURY:.0f}.")
        await self._advance(lambda: self.now() + step, patience, forget_clients)

    async def advance_to(
        self, instant: float, *, patience: float | None = None, forget_clients: bool = False
    ) -> None:
        """Move a manual clock to a Unix time as `advance` does; one that is past already changes nothing."""
        await self._advance(lambda: instant, patience, forget_clients)

    async def _advance(
        self, target_of: Callable[[], float], patience: float | None, forget_clients: bool
    ) -> None:
        if not self.is_manual:
            raise RuntimeError(
                "this broker's clock is real and moves by itself: start it with clock='manual'."
            )
        async with self._moving:
            target = target_of()
            await self._users_idle(patience)
            if patience:
                await self._settle(
                    _HandedOut(self._users.client_ids, self._unsettled(), self._expected()), patience
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
        handed_out = _HandedOut(self._users.client_ids)
        with self._listening(handed_out):
            for driver, _ in self._parts:
                driver.reach(instant)
            self._timers.run_due(self.now())
            if not await self._written():
                logger.warning(
                    "an answer could not be written within %s s: the clock goes on without it", WRITING
                )
            await self._users_idle(patience)
        if patience and handed_out.clients:
            await self._settle(handed_out, patience)

    async def _users_idle(self, patience: float | None) -> None:
        """Wait until the clients that go by this clock have done what is to be done at this instant."""

        def is_settling() -> bool:
            return self._timers.run_due(self.now()) or any(driver.quiet.working for driver, _ in self._parts)

        def parked(client_id: str) -> int:
            return sum(driver.parked.count(client_id) for driver, _ in self._parts)

        if patience != 0:
            await self._users.wait_idle(WORKING if patience is None else patience, parked, is_settling)

    async def _written(self) -> bool:
        """Wait until every answer of every broker is written; what one of them says may wake another."""
        while True:
            for driver, _ in self._parts:
                if not await driver.quiet.wait(WRITING):
                    return False
            if not any(driver.quiet.working for driver, _ in self._parts):
                return True

    def _unsettled(self) -> set[str]:
        """Return the handles of messages that consumers have and did nothing about: a change makes a new one.

        Who has no telemetry stream any more will never do anything about them; users of this clock are not among them.
        """
        handles: set[str] = set()
        for driver, telemetry in self._parts:
            connected = self._strangers(telemetry)
            held = {lease.receipt_handle for lease in driver.core.leases() if lease.client_id in connected}
            handles |= held.intersection(delivery.receipt_handle for delivery in driver.core.deliveries())
        return handles

    def _expected(self) -> dict[str, int]:
        """Return the clients that are there, each with the number of polls that it has at the least.

        Push consumers poll all the time; one that has only just begun must not miss the first step.
        """
        return {
            client.client_id: int(client.settings.client_type is ClientType.PUSH_CONSUMER)
            for driver, telemetry in self._parts
            for client in driver.core.clients()
            if client.client_id in self._strangers(telemetry)
        }

    def _strangers(self, telemetry: Telemetry) -> set[str]:
        """Return the clients that are there and do not go by this clock."""
        return set(telemetry.client_ids()) - self._users.client_ids

    def _is_back(self, client_id: str, at_least: int) -> bool:
        """Tell whether a client waits at every broker that it is connected to."""
        return all(
            driver.parked.is_back(client_id, at_least)
            for driver, telemetry in self._parts
            if client_id in telemetry.client_ids() or len(self._parts) == 1
        )

    def _listening(self, handed_out: _HandedOut) -> ExitStack:
        listening = ExitStack()
        for driver, _ in self._parts:
            listening.enter_context(driver.events.listen(handed_out.watch))
        return listening

    async def _settle(self, handed_out: _HandedOut, patience: float) -> None:
        """Wait until consumers have settled what they have and wait for more."""
        with self._listening(handed_out):
            await handed_out.wait(patience, self._is_back)
            await self._written()


class _HandedOut:
    """Tracks messages that consumers have leased, except those of `users` of the clock, until they are settled."""

    def __init__(
        self, users: Collection[str], handles: Iterable[str] = (), clients: Mapping[str, int] = NOBODY
    ) -> None:
        self._users = users
        self.clients = dict(clients)
        """Who got an answer, or is expected to wait for one, and with how many polls at the least."""
        self._open = set(handles)
        self._changed = asyncio.Event()

    def watch(self, events: Sequence[Event]) -> None:
        """Take note of what happened."""
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
        """Wait until nothing is open and every client is back, or `timeout` real seconds are over."""
        try:
            async with asyncio.timeout(timeout):
                while self._open or not all(itertools.starmap(is_back, self.clients.items())):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return
