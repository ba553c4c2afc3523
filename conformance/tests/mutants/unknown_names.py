"""Brokers that break promises about unknown groups and topics."""

from __future__ import annotations

from dataclasses import replace

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import ClientType, Code, Refusal
from aiorocketmq_fake.core.values.model import (
    ChangeRequest,
    ClientSettings,
    ForwardRequest,
    GroupConfig,
    MergedSettings,
    Parked,
    Received,
    ReceiveRequest,
    RouteEntry,
    TopicConfig,
)

from conformance.tests.mutants.mutant import Mutant


class StrangersAssignedNothing(Broker):
    """Consumers of unknown groups are assigned no queue."""

    def query_assignment(
        self, client_id: str, topic: str, group: str, *, now: float
    ) -> tuple[RouteEntry, ...]:
        assignment = super().query_assignment(client_id, topic, group, now=now)
        return assignment if self.has_group(group) else ()


class ReceivesMakeOrderedGroups(Broker):
    """Groups created by a receive are ordered."""

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        if not self.has_group(request.group):
            self.create_group(GroupConfig(request.group, ordered=True), now=now)
        return super().receive(request, now=now)


class ReceivesMakeGroups(Broker):
    """Receives create groups, even if that is disabled."""

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        if not self.has_group(request.group):
            self.create_group(GroupConfig(request.group), now=now)
        return super().receive(request, now=now)


class StrangersChangeLeases(Broker):
    """A lease can be changed with any group."""

    def change_invisible(self, request: ChangeRequest, *, now: float) -> str:
        for lease in self.leases():
            if lease.receipt_handle == request.receipt_handle and lease.group != request.group:
                request = replace(request, group=lease.group)
        return super().change_invisible(request, now=now)


class ForwardsOfNobodyLost(Broker):
    """A forward in the name of an unknown group is answered with OK, without effect."""

    def forward_to_dead_letter_queue(self, request: ForwardRequest, *, now: float) -> None:
        if self.has_group(request.group):
            super().forward_to_dead_letter_queue(request, now=now)


class ClosedTakesSettings(Broker):
    """Settings of unknown groups are accepted, whether groups are created or not."""

    def settings(self, client_id: str, settings: ClientSettings, *, now: float) -> MergedSettings:
        if settings.subscription is not None and not self.has_group(settings.subscription.group):
            settings = replace(settings, client_type=ClientType.PRODUCER, topics=(), subscription=None)
        return super().settings(client_id, settings, now=now)


class SettingsMakeTopics(Broker):
    """Settings create the topics that they name."""

    def settings(self, client_id: str, settings: ClientSettings, *, now: float) -> MergedSettings:
        named = list(settings.topics or ())
        if settings.subscription is not None:
            named += [topic for topic, _ in settings.subscription.filters]
        for name in named:
            if self.topic(name) is None:
                self.create_topic(TopicConfig(name), now=now)
        return super().settings(client_id, settings, now=now)


class DeadLettersAlwaysThere(Broker):
    """A receive from the dead letters of an unknown group is answered empty."""

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        if request.topic.startswith("%DLQ%") and self.topic(request.topic) is None:
            return Received(Code.OK, "", ())
        return super().receive(request, now=now)


class BeatsOfNobodyRefused(Broker):
    """Heartbeats of unknown groups are refused as blank ones are."""

    def heartbeat(self, client_id: str, group: str, *, now: float) -> None:
        if group and not self.has_group(group):
            raise Refusal(Code.BAD_REQUEST, "nobody made that group.")
        super().heartbeat(client_id, group, now=now)


UNKNOWN = (
    Mutant(
        "mu-unknown-group-refused",
        ("life.unknown-group[*]", "life.unknown-group-heartbeat"),
        changes={"session_needs_group": True},
        defect="Settings and heartbeats of an unknown group are refused",
    ),
    Mutant(
        "mu-unknown-group-taken",
        ("life.unknown-group[*]", "life.unknown-group-heartbeat"),
        profile="apache-5.5",
        changes={"session_needs_group": False},
        defect="Settings and heartbeats of an unknown group are accepted",
    ),
    Mutant("mu-unknown-group-beats", ("life.unknown-group-heartbeat",), core=BeatsOfNobodyRefused),
    Mutant("mu-unknown-group-assigned", ("lb.unknown-group",), core=StrangersAssignedNothing),
    Mutant(
        "mu-unknown-group-ordered",
        ("fifo.unknown-group",),
        profile="apache-5.5",
        core=ReceivesMakeOrderedGroups,
    ),
    Mutant("mu-unknown-group-changes", ("simple.unknown-group-change",), core=StrangersChangeLeases),
    Mutant("mu-unknown-group-forwards", ("dlq.unknown-group",), core=ForwardsOfNobodyLost),
    Mutant("mu-unknown-topic-made", ("life.unknown-topic",), core=SettingsMakeTopics),
    Mutant("mu-unknown-dead-letters", ("dlq.unknown-topic",), core=DeadLettersAlwaysThere),
    Mutant(
        "mu-closed-opens",
        ("simple.closed-groups",),
        profile="apache-5.5",
        core=ReceivesMakeGroups,
    ),
    Mutant(
        "mu-closed-takes-settings",
        ("life.closed-groups",),
        profile="apache-5.5-cluster",
        core=ClosedTakesSettings,
    ),
)
