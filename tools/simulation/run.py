"""Runs one world from its begin to its end, and judges it."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random

from aiorocketmq_conformance.explore.timeline import timeline
from aiorocketmq_conformance.model.judgement import judge
from aiorocketmq_conformance.model.semantics import semantics_of
from aiorocketmq_conformance.targets.declarations import DECLARATIONS
from aiorocketmq_fake.core.values.profiles import PROFILES

from tools.simulation.broker import Machine
from tools.simulation.clients import CONSUMERS, LEAVING, Client, ProducerClient
from tools.simulation.door import BrokerDoor
from tools.simulation.faults import Faults
from tools.simulation.ledger import OPEN, Ledger
from tools.simulation.loop import DeadlockError, VirtualLoop
from tools.simulation.network import Network
from tools.simulation.promises import Broken, Promises
from tools.simulation.world import World

PATIENCE = 400.0
"""Seconds after the last fault and the last send within which everything must be consumed, unless handlers are still
busy with copies."""
SETTLING = 120.0
"""Seconds after that, and after the last handler, within which nothing is leased any more."""
COPIES = 600.0
"""Seconds within which handlers must end what was sent more than once, copy after copy."""
RESTING = 1.0
"""Seconds after which nothing that belongs to a client may still run."""


@dataclass(slots=True)
class Outcome:
    """What became of a world."""

    world: World
    broken: list[Broken]
    digest: int = 0
    """Checksum of everything that crossed the network."""
    elapsed: float = 0.0
    """Seconds of virtual time."""
    messages: int = 0
    calls: int = 0
    trace: Sequence[str] = ()
    history: Sequence[str] = ()

    @property
    def lines(self) -> list[str]:
        """What was broken, one line for each."""
        return [f"{each.rule}: {each.text}" for each in self.broken]

    @property
    def rules(self) -> frozenset[str]:
        """The rules that were broken."""
        return frozenset(each.rule for each in self.broken)


def run(world: World, *, is_traced: bool = False) -> Outcome:
    """Run a world in virtual time."""
    loop = VirtualLoop()
    outcome = Outcome(world, [])
    try:
        with _errors_logged() as errors:
            simulation = Simulation(world, loop, outcome, is_traced=is_traced)
            try:
                loop.run_until_complete(simulation.run())
            except DeadlockError as error:
                outcome.broken.append(Broken("deadlock", str(error)))
            except Exception as error:  # of a recovery, say: whatever it is, this world has shown it
                outcome.broken.append(Broken("exception", repr(error)))
            try:
                _end_tasks(loop)
            except DeadlockError as error:
                outcome.broken.append(Broken("deadlock", f"at the end: {error}"))
            outcome.broken += [Broken("exception", text) for text in (*loop.failures, *errors)]
        outcome.digest, outcome.elapsed = simulation.network.digest, loop.elapsed
        outcome.trace = simulation.network.trace
        return outcome
    finally:
        loop.close()


def _end_tasks(loop: VirtualLoop) -> None:
    """End what a world that was left early has left behind."""
    if tasks := sorted(asyncio.all_tasks(loop), key=hash):
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.wait(tasks, timeout=LEAVING))


class _Errors(logging.Handler):
    """Collects what the broker logs as an error: it answers with INTERNAL then, which clients survive."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self.texts.append(f"{record.name}: {record.getMessage()} {error!r}")


@contextmanager
def _errors_logged() -> Iterator[list[str]]:
    """Collect errors that nothing explains, and write nothing to the terminal."""
    handler = _Errors()
    quiet = logging.getLogger("aiorocketmq")
    loggers = [logging.getLogger(name) for name in ("aiorocketmq_fake", "aiorocketmq.tasks", "asyncio")]
    before = [(each, each.level, each.propagate) for each in (quiet, *loggers)]
    quiet.setLevel(logging.CRITICAL)
    for each in loggers:
        each.addHandler(handler)
        each.setLevel(logging.ERROR)
        each.propagate = False
    try:
        yield handler.texts
    finally:
        for each, level, propagates in before:
            each.removeHandler(handler)
            each.setLevel(level)
            each.propagate = propagates


class Simulation:
    """One world while it runs."""

    def __init__(self, world: World, loop: VirtualLoop, outcome: Outcome, *, is_traced: bool) -> None:
        self.network = Network(loop, Random(f"{world.seed}/network"), self._door)
        self.network.is_traced = is_traced
        self._world = world
        self._loop = loop
        self._outcome = outcome
        self._is_traced = is_traced
        self._ledger = Ledger()
        profile = replace(PROFILES[world.profile], revive_spread=0.0)
        self._machines: list[Machine] = []
        for place in range(world.brokers):
            machine = Machine(
                self.network,
                f"broker-{'ab'[place]}",
                f"10.0.0.{place + 1}:8081",
                profile,
                seed=world.seed + place,
                has_disk=world.has_disk,
                leader=self._machines[0] if self._machines else None,
            )
            self._machines.append(machine)
        plans = [*world.producers, *world.consumers]
        self._clients: list[Client] = []
        for place, plan in enumerate(plans):
            kind = ProducerClient if plan.group is None else CONSUMERS[world.groups[plan.group].kind]
            address = self._machines[place % len(self._machines)].address
            self._clients.append(kind(world, self.network, self._ledger, plan, place, address))
        self._faults = Faults(self.network, self._machines, self._clients)

    def _door(self, address: str) -> BrokerDoor:
        return next(each.door for each in self._machines if each.address == address)

    async def run(self) -> None:
        """Live through the world, and judge it."""
        await self._prepare()
        acts = [asyncio.create_task(self._live(client)) for client in self._clients]
        acts += [asyncio.create_task(self._send(place)) for place in range(len(self._world.sends))]
        acts += [asyncio.create_task(self._faults.run(plan)) for plan in self._world.faults]
        await asyncio.gather(*acts)
        await self._until(lambda: not self._promises().missing(), PATIENCE)
        since = self._loop.elapsed

        def is_at_rest() -> bool:
            return not self._leased() and not self._promises().missing()

        await self._until(lambda: is_at_rest() or self._idle(since) > SETTLING, COPIES)
        leased = self._leased()
        broken = self._outcome.broken
        broken += [Broken("lease", f"{each} is still leased") for each in leased]
        await self._leave()
        broken += self._promises().broken()
        semantics = semantics_of(DECLARATIONS[f"fake-{self._world.profile}"].numbers)
        # Brokers count the age of a half message from its birth, by the clock of its client.
        skew = sum(abs(each.value) for each in self._world.faults if each.kind in ("jump", "skew"))
        semantics = replace(semantics, immunity=semantics.immunity - skew)
        for machine in self._machines:
            events = machine.door.history
            violations = judge(events, semantics)
            broken += [Broken(f"model: {each.rule}", f"{each.at.at:.3f} {machine.name}: {each.text}")
                       for each in violations]  # fmt: skip
            self._outcome.calls += len(events)
            if self._is_traced:
                self._outcome.history = [*self._outcome.history, *timeline(events, violations)]
        self._outcome.messages = len(self._ledger.sendings)

    def _promises(self) -> Promises:
        dead = {
            group.name: {
                int(message.body[1:])
                for machine in self._machines
                for message in machine.node.dead_letters(group.name)
            }
            for group in self._world.groups
        }
        doors = [machine.door for machine in self._machines]
        return Promises(
            self._world, self._ledger, doors, self._faults.disturbances, dead, self.network.slow_retries
        )

    async def _prepare(self) -> None:
        for machine in self._machines:
            await machine.node.start()
            for topic in self._world.topics:
                await machine.node.create_topic(topic.name, type=topic.type, queues=topic.queues)
                machine.door.topic_created(topic.name, topic.type, topic.queues)
            for group in self._world.groups:
                await machine.node.create_group(
                    group.name, ordered=group.ordered, max_attempts=group.max_attempts, backoff=group.steps
                )
                machine.door.group_created(group.name, group.ordered, group.max_attempts, group.steps)

    async def _live(self, client: Client) -> None:
        await asyncio.sleep(client.plan.begin)
        client.launch()
        if client.plan.end is not None:
            await asyncio.sleep(client.plan.end - client.plan.begin)
            client.leave()

    async def _send(self, place: int) -> None:
        plan = self._world.sends[place]
        await asyncio.sleep(plan.at)
        client = self._clients[plan.producer]
        assert isinstance(client, ProducerClient)
        await asyncio.wait((client.process.start(client.send(plan)),))

    def _leased(self) -> list[str]:
        return [
            f"{lease.receipt_handle[:20]} by {lease.client_id}"
            for machine in self._machines
            for lease in machine.node.leases()
        ]

    def _idle(self, since: float) -> float:
        """Return the seconds since the last handler has ended, or since a moment after that."""
        return self._loop.elapsed - max(
            [since, *(each.ended for each in self._ledger.order if each.ended < OPEN)]
        )

    async def _until(self, is_done: Callable[[], bool], patience: float) -> None:
        until = self._loop.elapsed + patience
        while not is_done() and self._loop.elapsed < until:  # noqa: ASYNC110  # looking costs no time
            await asyncio.sleep(1.0)

    async def _leave(self) -> None:
        """Let all clients leave; nothing of them may be left."""
        for client in self._clients:
            client.leave()
        mains = {client.main: client for client in self._clients if client.main is not None}
        _, late = await asyncio.wait(mains, timeout=LEAVING)
        names = sorted(task.get_name() for task in late)
        self._outcome.broken += [Broken("leave", f"{name} did not leave in {LEAVING:g} s") for name in names]
        for task in late:
            task.cancel()
        for main, client in mains.items():
            if main.done() and not main.cancelled() and (error := main.exception()) is not None:
                self._outcome.broken.append(Broken("exception", f"{client.name}: {error!r}"))
        await asyncio.sleep(RESTING)
        for machine in self._machines:
            machine.door.stopping()  # polls of clients that could not say goodbye are still waiting
            await machine.node.stop()
        await asyncio.sleep(RESTING)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        self._outcome.broken += [
            Broken("task", f"{task.get_name()} still runs: {task.get_coro()}")
            for task in sorted(left, key=hash)
        ]
        for task in left:
            task.cancel()
        gc.collect()  # tasks whose exceptions nobody has seen report them now
