"""Bugs that are planted into client and fake, one at a time, and what the simulation must find of them.

`python -m conformance.tests.simulation.planted [NAME...]` prints the first seed that finds each.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from aiorocketmq._aio.event import Signal
from aiorocketmq._aio.tasks import Tasks, Watch
from aiorocketmq._core.dispatch import FifoDispatch
from aiorocketmq._core.half_open import HalfOpenWatch
from aiorocketmq._core.outcomes import ACKNOWLEDGE, RetryLater, outcome_of
from aiorocketmq._core.renewals import Renewals
from aiorocketmq._produce.group_locks import GroupLocks
from aiorocketmq._produce.transactions import Transactions
from aiorocketmq._pull.fetching import Fetching
from aiorocketmq._push import consumption
from aiorocketmq._push.consumption import Consumption
from aiorocketmq._push.receiving import Receiving
from aiorocketmq._push.settler import BackgroundSettler
from aiorocketmq._push.workers import Workers
from aiorocketmq._session.session import Session
from aiorocketmq._session.settings_stream import SettingsStream
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.commands.polls import PollBook
from aiorocketmq_fake.core.records.half_messages import HalfMessages
from aiorocketmq_fake.edge.driver import Driver

from conformance.tests.mutants.catalogue import mutant
from conformance.tests.mutants.mutant import Mutant
from tools.simulation.promises import BREAKS
from tools.simulation.run import Outcome, run
from tools.simulation.world import World, generate

MOST = 2_000
"""Seeds within which each must be found."""

Owner = Any
"""A class or module. Any: attributes of all kinds are replaced."""


@dataclass(frozen=True, slots=True)
class Planted:
    """One bug, and a seed that finds it."""

    name: str
    defect: str
    seed: int
    rule: str
    """A promise that it breaks in the world of the seed."""
    swap: tuple[Owner, str, object] | None = None
    """An attribute, and what replaces it."""
    mutant: Mutant | None = None
    needs: Callable[[World], bool] = lambda world: True
    """Whether a world has what the bug is about; others are skipped by the search."""

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Replace the attribute, or apply the mutant, until the block is left."""
        if self.mutant is not None:
            with self.mutant.applied():
                yield
            return
        assert self.swap is not None, "a bug has the one or the other"
        owner, name, value = self.swap
        before = vars(owner)[name]
        setattr(owner, name, value)
        try:
            yield
        finally:
            setattr(owner, name, before)

    def run(self, world: World) -> Outcome:
        """Run a world with this bug."""
        with self.planted():
            return run(world)


def first_found(bug: Planted, seeds: range) -> Outcome | None:
    """Return the outcome of the first world in which the bug breaks a promise; None if it survives."""
    for world in filter(bug.needs, map(generate, seeds)):
        outcome = bug.run(world)
        if outcome.broken:
            return outcome
    return None


# What is wrong: each a function in place of a method. Any: the receivers and arguments are those of the methods.


def _nothing(*arguments: Any, **keywords: Any) -> None:
    return None


async def _nothing_async(*arguments: Any, **keywords: Any) -> None:
    return None


def _wake_first(self: Any) -> None:
    self._is_set = True
    futures, self._futures = self._futures[:1], self._futures[1:]
    for future in futures:
        if not future.done():
            future.set_result(None)


def _worked(self: Any) -> None:
    self.reason = self._kind = None


def _renewed_once(self: Any, key: Any, *, ends_at: float) -> None:
    self.discard(key)


def _arrived_twice(arrived: Callable[..., None]) -> Callable[..., None]:
    def twice(self: Any, queue: Any, messages: Sequence[Any]) -> None:
        arrived(self, queue, [*messages, *messages[:1]])

    return twice


@asynccontextmanager
async def _no_lock(self: Any, topic: str, message_group: str, until: float) -> AsyncIterator[bool]:
    yield True


def _without_delay(release: Callable[..., None]) -> Callable[..., None]:
    def at_once(self: Any, delivery: Any, delay: float, *, suspend: bool = False) -> None:
        release(self, delivery, 0.0, suspend=suspend)

    return at_once


def _later_is_done(outcome_of: Callable[..., object]) -> Callable[..., object]:
    def outcome(failure: Exception, **keywords: Any) -> object:
        return ACKNOWLEDGE if isinstance(failure, RetryLater) else outcome_of(failure, **keywords)

    return outcome


def _acknowledged(self: Any, delivery: Any, reason: str) -> None:
    self.acknowledge(delivery)


def _once(live: Callable[..., Any]) -> Callable[..., Any]:
    async def live_once(self: Any, watch: Any) -> object:
        if watch.failures:
            await asyncio.Event().wait()
        return await live(self, watch)

    return live_once


def _too_far(commit: Callable[..., Any]) -> Callable[..., Any]:
    async def committed(self: Any, queue: Any, offset: int) -> None:
        await commit(self, queue, offset + 1)

    return committed


def _unsettled(self: Any, delivery: Any) -> list[Any]:
    return []


def _forgetful(restart: Callable[..., None]) -> Callable[..., None]:
    def restarted(self: Any, *, now: float) -> None:
        restart(self, now=now)
        HalfMessages.__init__(self._half_messages)

    return restarted


def _mutant(name: str, seed: int, rule: str) -> Planted:
    """Return one of the mutants that prove the conformance cases."""
    found = mutant(name)
    return Planted(name, found.defect, seed, rule, mutant=found)


def _fault(*kinds: str, of: str = "") -> Callable[[World], bool]:
    """Return whether worlds have one of these faults, and a topic or group of a kind."""

    def has(world: World) -> bool:
        kinds_of = {*(topic.type for topic in world.topics), *(group.kind for group in world.groups)}
        return any(fault.kind in kinds for fault in world.faults) and (not of or of in kinds_of)

    return has


def _only(*kinds: str) -> Callable[[World], bool]:
    """Return whether worlds have push consumers, and faults of these kinds only."""

    def has(world: World) -> bool:
        is_meant = world.faults and all(fault.kind in kinds for fault in world.faults)
        return bool(is_meant) and any(group.kind == "push" for group in world.groups)

    return has


_ARRIVED_TWICE = _arrived_twice(Consumption._arrived)
_AT_ONCE = _without_delay(BackgroundSettler.release)
_DONE = _later_is_done(outcome_of)
_ONCE = _once(SettingsStream._live_once)

PLANTED = (
    # The client
    Planted("room", "a poll that waits for room is not woken", 0, "lost", (Receiving, "room_made", _nothing)),
    Planted("signal", "a signal wakes its first waiter only", 3, "lost", (Signal, "set", _wake_first)),
    Planted("turn", "a message group stops after a message", 6, "lost", (FifoDispatch, "finish", _nothing)),
    Planted(
        "back-off",
        "back-off is never reset",
        501,
        "back-off",
        (Watch, "worked", _worked),
        needs=_only(*BREAKS),
    ),
    Planted("renewal", "a lease is renewed once", 6, "order", (Renewals, "renewed", _renewed_once)),
    Planted(
        "double", "a delivery is dispatched twice", 0, "twice", (Consumption, "_arrived", _ARRIVED_TWICE)
    ),
    Planted(
        "resync",
        "settings that a server has forgotten are not sent again",
        3,
        "back-off",
        (Session, "resync", _nothing_async),
        needs=_fault("restart", "kill", "power"),
    ),
    Planted("check", "checks are not answered", 4, "lost", (Transactions, "on_check", _nothing_async)),
    Planted(
        "overtaking", "sends of a message group overtake", 12, "send order", (GroupLocks, "of", _no_lock)
    ),
    Planted(
        "retry", "failed messages come back at once", 0, "early", (BackgroundSettler, "release", _AT_ONCE)
    ),
    Planted("order", "message groups have no order", 6, "order", (consumption, "order_key_of", _nothing)),
    Planted("later", "RetryLater acknowledges", 0, "lost", (consumption, "outcome_of", _DONE)),
    Planted(
        "dead letter", "DeadLetter acknowledges", 1, "lost", (BackgroundSettler, "forward", _acknowledged)
    ),
    Planted(
        "half-open",
        "half-open connections are not replaced",
        11,
        "lost",
        (HalfOpenWatch, "should_reconnect", lambda *_, **__: False),
        needs=_fault("half-open"),
    ),
    Planted(
        "stream", "a broken settings stream stays closed", 0, "lost", (SettingsStream, "_live_once", _ONCE)
    ),
    Planted(
        "commit",
        "a pull consumer commits one message too many",
        75,
        "lost",
        (Fetching, "commit", _too_far(Fetching.commit)),
        needs=_fault("crash", "vanish", "cancel", of="pull"),
    ),
    Planted(
        "behind", "messages behind a failed one wait forever", 8, "lost", (Workers, "unsettled", _unsettled)
    ),
    Planted("task", "background tasks survive their client", 0, "task", (Tasks, "end", _nothing_async)),
    # The fake
    Planted(
        "wake", "a stored message wakes no parked poll", 0, "model: wake", (PollBook, "stored", _nothing)
    ),
    Planted(
        "restart",
        "a restart loses half messages",
        18,
        "lost",
        (Broker, "restart", _forgetful(Broker.restart)),
        needs=_fault("restart", "kill", of="TRANSACTION"),
    ),
    Planted(
        "flush",
        "answers do not wait for the disk",
        0,
        "lost",
        (Driver, "durable", _nothing_async),
        needs=_fault("power"),
    ),
    _mutant("MU01", 0, "twice"),
    _mutant("MU12", 0, "model: empty"),
    _mutant("MU21", 0, "model: empty"),
    _mutant("MU43", 0, "model: delay"),
)


def main(names: Sequence[str]) -> int:
    """Print a line for each bug, or for the named ones; 1 if one survives."""
    survived = 0
    for bug in PLANTED:
        if not names or bug.name in names:
            outcome = first_found(bug, range(MOST))
            if outcome is None:
                print(f"{bug.name:14} SURVIVED: {bug.defect}", flush=True)
                survived += 1
            else:
                rules = ", ".join(sorted(outcome.rules))
                print(f"{bug.name:14} seed {outcome.world.seed}: {rules}; {bug.defect}", flush=True)
    return min(survived, 1)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
