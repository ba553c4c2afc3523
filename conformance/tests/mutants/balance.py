"""Cores that break promises about several consumers of one group, and about several groups."""

from __future__ import annotations

from dataclasses import replace

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.model import Parked, Received, ReceiveRequest, RouteEntry

from conformance.tests.mutants.mutant import Mutant


class FirstComerTakesAll(Broker):
    """The first consumer of a group receives everything."""

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        owners: dict[tuple[str, str], str] = getattr(self, "_owners", {})
        self._owners = owners
        owner = owners.setdefault((request.group, request.topic), request.client_id)
        if owner != request.client_id:
            request = replace(request, batch_size=0)
        return super().receive(request, now=now)


class StrictTurns(Broker):
    """The consumers of a group must take turns."""

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        turns: dict[str, list[str]] = getattr(self, "_turns", {})
        self._turns = turns
        waiting = turns.setdefault(request.group, [])
        if request.client_id not in waiting:
            waiting.append(request.client_id)
        if waiting[0] != request.client_id:
            return super().receive(replace(request, batch_size=0, polling=0.2), now=now)
        received = super().receive(request, now=now)
        if isinstance(received, Received) and received.deliveries:
            waiting.append(waiting.pop(0))
        return received


class BlockedByOtherGroups(Broker):
    """Messages leased by one group are hidden from all others."""

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        if any(lease.topic == request.topic and lease.group != request.group for lease in self.leases()):
            request = replace(request, batch_size=0)
        return super().receive(request, now=now)


class AssignmentsMissAQueue(Broker):
    """Assignments lack the last queue."""

    def query_assignment(
        self, client_id: str, topic: str, group: str, *, now: float
    ) -> tuple[RouteEntry, ...]:
        assigned = super().query_assignment(client_id, topic, group, now=now)
        (config,) = (one.config for one in self.topics() if one.config.name == topic)
        return tuple(replace(assigned[0], queue_id=queue) for queue in range(config.read_queues - 1))


SHARING = (
    Mutant(
        "mu-first-comer",
        ("lb.even-4", "lb.more-consumers-than-queues", "lb.fifo-spread"),
        core=FirstComerTakesAll,
    ),
    Mutant("mu-strict-turns", ("lb.slow-consumer",), core=StrictTurns),
    Mutant("mu-groups-block", ("lb.stalled-group-isolated",), core=BlockedByOtherGroups),
    Mutant("MU76", ("lb.all-queues-served*", "life.assignment-covers*"), core=AssignmentsMissAQueue),
)
