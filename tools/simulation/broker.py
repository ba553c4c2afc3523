"""A simulated broker: the fake's core and edge on a port in memory, with a disk that a loss of power cuts short."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from random import Random
from typing import Any

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.events import Event, Resurrected
from aiorocketmq_fake.core.values.profile import Profile
from aiorocketmq_fake.edge.address import Address
from aiorocketmq_fake.edge.clock import RealClock
from aiorocketmq_fake.edge.endpoint import split
from aiorocketmq_fake.edge.node import Node
from aiorocketmq_fake.edge.storage.commands import Command, redo

from tools.simulation.door import BrokerDoor
from tools.simulation.loop import START
from tools.simulation.network import Network

FLUSH = 0.02
"""The longest wait for the disk in seconds."""


class Disk:
    """What survives a loss of power: the commands whose flush had ended."""

    def __init__(self) -> None:
        self.commands: list[Command] = []


class MemoryJournal:
    """Does for a core what the fake's journal does, on a simulated disk: nothing is answered before it is flushed.

    It keeps commands instead of bytes, and makes no checkpoints: layout and damage of files are not simulated.
    """

    def __init__(self, disk: Disk, core: Broker, random: Random) -> None:
        self._disk = disk
        self._core = core
        self._random = random
        self._pending: list[Command] = []
        self._noted = self._flushed = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        self.has_power = True

    def admit(self, command: str) -> None:
        """Admit everything: this disk never fills."""

    def note(self, command: str, arguments: tuple[Any, ...], keywords: dict[str, Any], now: float) -> None:
        """Queue a command that was just run. Any: each has its own arguments."""
        if self.has_power:
            self._pending.append((command, arguments, keywords, now, self._core.mark()))
            self._noted += 1

    async def durable(self) -> None:
        """Return when all queued commands are on disk."""
        if self._flushed >= self._noted:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._noted, future))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write(), name="journal")
        await future

    async def _write(self) -> None:
        try:
            while self._pending:
                batch, self._pending = self._pending, []
                await asyncio.sleep(self._random.uniform(0.0005, FLUSH))
                self._disk.commands += batch
                self._flushed += len(batch)
                waiting, self._waiting = self._waiting, []
                for number, future in waiting:
                    if number > self._flushed:
                        self._waiting.append((number, future))
                    elif not future.done():
                        future.set_result(None)
        finally:
            self._writing = None

    def lose_power(self) -> None:
        """Write nothing any more."""
        self.has_power = False
        self._pending.clear()
        if self._writing is not None:
            self._writing.cancel()


class Machine:
    """One broker with its disk, over several lives."""

    def __init__(
        self,
        network: Network,
        name: str,
        address: str,
        profile: Profile,
        *,
        seed: int,
        has_disk: bool,
        leader: Machine | None = None,
    ) -> None:
        """`leader` is another one of its cluster; `has_disk` is needed to survive a loss of power."""
        self.name = name
        self.address = address
        self.clock: RealClock = (
            RealClock(lambda: START + network.loop.elapsed) if leader is None else leader.clock
        )
        self.door = BrokerDoor(self, network.loop, latency=FLUSH if has_disk else 0.0)
        self._network = network
        self._profile = profile
        self._seed = seed
        self._leader = leader
        self._disk = Disk() if has_disk else None
        self._random = Random(f"{seed}/{name}/disk")
        self._journal: MemoryJournal | None = None
        self._listening = ExitStack()
        self.node = self._boot(self._new_core())

    def _new_core(self) -> Broker:
        host, port = split(self.address)
        # From the beginning of time: what is replayed must have happened after it.
        return Broker(self._profile, now=START, rng=Random(self._seed), host=host, port=port, name=self.name)

    def _boot(self, core: Broker) -> Node:
        if self._disk is not None:
            self._journal = MemoryJournal(self._disk, core, self._random)
        host, port = split(self.address)
        node = Node(
            core,
            self.clock,
            Address(host, port),
            None,
            self._journal,
            None if self._leader is None else self._leader.node,
            self._seed,
            make_port=self._network.host.port,
        )
        self._listening.enter_context(node.events.listen(self._note_copies))
        return node

    def _note_copies(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if isinstance(event, Resurrected):
                self.door.copied.add((event.group, event.message.content.body.decode()))

    async def lose_power(self) -> None:
        """Stop at once: what was not flushed is gone, and no client is told."""
        assert self._journal is not None
        self._journal.lose_power()
        for connection in self._connections():
            connection.up.is_dead = connection.down.is_dead = True
        self.door.lose_power()
        await self.node.crash()

    async def boot(self) -> None:
        """Start again with what the disk has; ValueError if doing it again has another effect than the first time."""
        assert self._disk is not None
        core = self._new_core()
        redo(core, self._disk.commands)
        now = max(self.clock.now(), core.now)
        core.restart(now=now)
        core.take_events()
        core.take_outputs()
        self._disk.commands.append(("restart", (), {}, now, core.mark()))
        self.node = self._boot(core)
        await self.node.start()
        for connection in self._connections():
            connection.break_now()

    def _connections(self) -> list[Any]:
        return [each for each in self._network.connections if each.address == self.address]
