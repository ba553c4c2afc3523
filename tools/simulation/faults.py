"""Makes the faults of a world happen, and knows how long each of them may be felt."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tools.simulation.broker import Machine
from tools.simulation.clients import Client
from tools.simulation.network import Network
from tools.simulation.world import FaultPlan


@dataclass(slots=True)
class Disturbance:
    """The time from the begin of a fault until its end."""

    plan: FaultPlan
    begun: float
    ended: float = float("inf")


class Faults:
    """All faults of one world."""

    def __init__(self, network: Network, machines: list[Machine], clients: list[Client]) -> None:
        self.disturbances: list[Disturbance] = []
        self._network = network
        self._machines = machines
        self._clients = clients
        self._away: set[str] = set()

    async def run(self, plan: FaultPlan) -> None:
        """Wait for the time of a fault, let it begin, and end it."""
        loop = self._network.loop
        await asyncio.sleep(plan.at - loop.elapsed)
        disturbance = Disturbance(plan, loop.elapsed)
        self.disturbances.append(disturbance)
        self._network.note(f"! {plan.kind} {plan.target} for {plan.seconds:g} s, {plan.value:g}")
        try:
            await self._broker(plan) if plan.kind in BROKER else await self._client(plan)
        finally:
            self._network.note(f"! end of {plan.kind}")
            disturbance.ended = loop.elapsed

    async def _client(self, plan: FaultPlan) -> None:
        weather, seconds = self._network.weather, plan.seconds
        hit = self._clients if plan.target < 0 else [self._clients[plan.target % len(self._clients)]]
        name = "*" if plan.target < 0 else hit[0].name
        match plan.kind:
            case "partition":
                held = {(name, each) for each in (("up", "down"), ("up",), ("down",))[int(plan.value)]}
                weather.held |= held
                await asyncio.sleep(seconds)
                weather.held -= held
                self._network.flush()
            case "lose" | "double" | "slow":
                table = {"lose": weather.lost, "double": weather.doubled, "slow": weather.slow}[plan.kind]
                table[name] = plan.value
                await asyncio.sleep(seconds)
                table.pop(name, None)
            case "cut" | "half-open":
                for connection in self._network.of(name):
                    connection.break_now() if plan.kind == "cut" else connection.half_open()
            case "skew":
                for client in hit:
                    client.skew(plan.value)
            case "hang":
                # These: a client that crashes meanwhile has another one then.
                processes = [client.process for client in hit]
                for process in processes:
                    process.hang()
                await asyncio.sleep(seconds)
                for process in processes:
                    process.resume()
            case "crash" | "vanish" | "cancel":
                mains = [(client, client.main) for client in hit if client.main is not None]
                for client, _ in mains:  # others have not begun
                    if plan.kind == "cancel":
                        client.cancel()
                    else:
                        client.crash(silently=plan.kind == "vanish")
                await asyncio.sleep(seconds)
                for client, main in mains:
                    if plan.kind == "cancel":
                        await client.cancelled(main)
                    client.launch()

    async def _broker(self, plan: FaultPlan) -> None:
        machine = self._machines[max(plan.target, 0) % len(self._machines)]
        if machine.name in self._away:
            return
        if plan.kind == "streams":
            machine.node.cut_streams()
        elif plan.kind == "jump":
            # All brokers of a cluster have one clock.
            begun_at = [each.door.instant() for each in self._machines]
            machine.node.clock.jump(plan.value)
            for each, begun in zip(self._machines, begun_at, strict=True):
                each.door.jumped(begun, plan.value)
        else:
            self._away.add(machine.name)
            begun = machine.door.stopping()
            await self._away_for(machine, plan)
            machine.door.started(begun, was_paused=plan.kind == "pause")
            self._away.discard(machine.name)

    async def _away_for(self, machine: Machine, plan: FaultPlan) -> None:
        match plan.kind:
            case "restart":
                await machine.node.stop()
            case "kill":
                await machine.node.crash()
            case "power":
                await machine.lose_power()
            case "pause":
                machine.node.pause()
        await asyncio.sleep(plan.seconds)
        match plan.kind:
            case "restart" | "kill":
                await machine.node.start()
            case "power":
                await machine.boot()
            case "pause":
                machine.node.resume()


BROKER = frozenset({"restart", "kill", "power", "pause", "jump", "streams"})
