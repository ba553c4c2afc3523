"""Cores that break promises about the lifecycle of clients: refusals, permissions, expiry."""

from __future__ import annotations

from dataclasses import replace

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import Code, Permission, Refusal
from aiorocketmq_fake.core.values.model import ClientSettings, GroupConfig, MergedSettings, RouteEntry

from conformance.tests.mutants.mutant import ROUNDTRIP, SEND, Mutant


class ChangesOfGroupsUnseen(Broker):
    """Settings show a group as it was created."""

    def update_group(self, config: GroupConfig, *, now: float) -> None:
        before = next(one.config for one in self.groups() if one.config.name == config.name)
        self._made = {**getattr(self, "_made", {}), config.name: before}
        super().update_group(config, now=now)

    def settings(self, client_id: str, settings: ClientSettings, *, now: float) -> MergedSettings:
        merged = super().settings(client_id, settings, now=now)
        configs: dict[str, GroupConfig] = getattr(self, "_made", {})
        group = settings.subscription and configs.get(settings.subscription.group)
        return replace(merged, fifo=group.ordered, max_attempts=group.max_attempts) if group else merged


class AnySettings(Broker):
    """Settings are never refused."""

    def settings(self, client_id: str, settings: ClientSettings, *, now: float) -> MergedSettings:
        try:
            return super().settings(client_id, settings, now=now)
        except Refusal:
            return MergedSettings(17, None)


class RefusalsEndNothing(Broker):
    """Heartbeats and terminations are always OK."""

    def heartbeat(self, client_id: str, group: str, *, now: float) -> None:
        self.keep_alive(client_id, now=now)

    def terminate(self, client_id: str, group: str, *, now: float) -> None:
        try:
            super().terminate(client_id, group, now=now)
        except Refusal:
            self.keep_alive(client_id, now=now)


class PermissionsUntold(Broker):
    """Routes have every queue as readable and writable."""

    def query_route(self, topic: str, *, now: float, client_id: str = "") -> tuple[RouteEntry, ...]:
        entries = super().query_route(topic, now=now, client_id=client_id)
        return tuple(replace(entry, permission=Permission.READ_WRITE) for entry in entries)


class AssignmentsWithoutOrder(Broker):
    """Ordered groups are assigned like others."""

    def query_assignment(
        self, client_id: str, topic: str, group: str, *, now: float
    ) -> tuple[RouteEntry, ...]:
        try:
            assigned = super().query_assignment(client_id, topic, group, now=now)
        except Refusal as refusal:
            if refusal.code is Code.FORBIDDEN:
                return ()
            raise
        return tuple(replace(entry, queue_id=-1) for entry in assigned[:1])


LIFECYCLE = (
    Mutant("mu-group-changes-unseen", ("life.settings-group-change",), core=ChangesOfGroupsUnseen),
    Mutant("mu-any-settings", ("life.settings-illegal*", "life.settings-no-pubsub"), core=AnySettings),
    Mutant(
        "mu-refusals-end-nothing",
        ("life.heartbeat-illegal-group", "life.terminate-unknown"),
        core=RefusalsEndNothing,
    ),
    Mutant("mu-permissions-untold", ("life.route-permission*",), core=PermissionsUntold),
    Mutant(
        "mu-assignments-unordered",
        ("life.assignment-fifo", "life.assignment-unreadable"),
        core=AssignmentsWithoutOrder,
    ),
    Mutant(
        "MU78",
        ("life.idle-client-expires",),
        spares=(ROUNDTRIP, *SEND),
        changes={"client_expiry": 1e9},
        defect="leases are renewed for dead clients",
    ),
)
