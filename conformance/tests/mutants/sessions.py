"""Cores that break promises about settings, heartbeats and routes."""

from __future__ import annotations

from dataclasses import replace

from aiorocketmq_conformance.probe.proxy import ProxyFaults
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.model import (
    AckOutcome,
    AckRequest,
    AckResult,
    ClientSettings,
    GroupConfig,
    MergedSettings,
    RouteEntry,
    TopicConfig,
)

from conformance.tests.mutants import wire
from conformance.tests.mutants.mutant import ROUNDTRIP, SEND, Mutant


class NoProducerLimits(Broker):
    """Producer settings have no limits."""

    def settings(self, client_id: str, settings: ClientSettings, *, now: float) -> MergedSettings:
        return replace(super().settings(client_id, settings, now=now), max_body_size=0)


class NeverFifo(Broker):
    """Settings always report fifo = false."""

    def settings(self, client_id: str, settings: ClientSettings, *, now: float) -> MergedSettings:
        return replace(super().settings(client_id, settings, now=now), fifo=False)


class OneAttemptMoreAdvertised(Broker):
    """Settings report one attempt more than the group has."""

    def settings(self, client_id: str, settings: ClientSettings, *, now: float) -> MergedSettings:
        merged = super().settings(client_id, settings, now=now)
        return replace(merged, max_attempts=merged.max_attempts + 1)


class SettingsOnce(Broker):
    """Settings sent again end the stream."""

    def settings(self, client_id: str, settings: ClientSettings, *, now: float) -> MergedSettings:
        if client_id in {client.client_id for client in self.clients()}:
            raise Refusal(Code.BAD_REQUEST, "settings were sent before.")
        return super().settings(client_id, settings, now=now)


class ReconnectsForgetHandles(Broker):
    """A client that sends its settings again cannot settle its messages."""

    def settings(self, client_id: str, settings: ClientSettings, *, now: float) -> MergedSettings:
        if client_id in {client.client_id for client in self.clients()}:
            spent: set[str] = getattr(self, "_spent", set())
            self._spent = spent | {
                lease.receipt_handle for lease in self.leases() if lease.client_id == client_id
            }
        return super().settings(client_id, settings, now=now)

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        spent: set[str] = getattr(self, "_spent", set())
        if any(entry.receipt_handle in spent for entry in request.entries):
            code = Code.INVALID_RECEIPT_HANDLE
            outcomes = (
                AckOutcome(each.message_id, each.receipt_handle, code, "") for each in request.entries
            )
            return AckResult(code, tuple(outcomes))
        return super().ack(request, now=now)


class HeartbeatsOfAnybody(Broker):
    """Heartbeats of unknown clients are OK."""

    def heartbeat(self, client_id: str, group: str, *, now: float) -> None:
        self.keep_alive(client_id, now=now)


class NoHeartbeats(Broker):
    """Every heartbeat is refused."""

    def heartbeat(self, client_id: str, group: str, *, now: float) -> None:
        raise Refusal(Code.UNRECOGNIZED_CLIENT_TYPE, "nobody is known.")


class FarewellsIgnored(Broker):
    """Termination leaves the client registered."""

    def terminate(self, client_id: str, group: str, *, now: float) -> None:
        self.keep_alive(client_id, now=now)


class FarewellReleasesOne(Broker):
    """Termination releases the oldest message of its client; the other leases run to their end."""

    def terminate(self, client_id: str, group: str, *, now: float) -> None:
        renewing = self._state.leases.renewing.get(client_id, ())
        _, *others = sorted(renewing, key=lambda lease: lease.message.position) or (None,)
        for lease in others:
            self._state.leases.stop_renewing(lease)
            self._leasing.schedule(lease)
        super().terminate(client_id, group, now=now)


class RoutesMissAQueue(Broker):
    """Routes lack the last queue."""

    def query_route(self, topic: str, *, now: float, client_id: str = "") -> tuple[RouteEntry, ...]:
        return super().query_route(topic, now=now, client_id=client_id)[:-1]


class RoutesCreateTopics(Broker):
    """A route query creates the topic."""

    def query_route(self, topic: str, *, now: float, client_id: str = "") -> tuple[RouteEntry, ...]:
        if topic not in {topic_view.config.name for topic_view in self.topics()}:
            self.create_topic(TopicConfig(topic), now=now)
        return super().query_route(topic, now=now, client_id=client_id)


class IllegalIsUnknown(Broker):
    """Illegal topic names are answered like unknown ones."""

    def query_route(self, topic: str, *, now: float, client_id: str = "") -> tuple[RouteEntry, ...]:
        try:
            return super().query_route(topic, now=now, client_id=client_id)
        except Refusal as refusal:
            raise Refusal(Code.TOPIC_NOT_FOUND, "there is no such topic.") from refusal


class FirstQueueAssigned(Broker):
    """Only the first queue is assigned."""

    def query_assignment(
        self, client_id: str, topic: str, group: str, *, now: float
    ) -> tuple[RouteEntry, ...]:
        assigned = super().query_assignment(client_id, topic, group, now=now)
        return tuple(replace(entry, queue_id=0) for entry in assigned[:1])


class OrderFlagIgnored(Broker):
    """The order flag of groups is ignored."""

    def create_group(self, config: GroupConfig, *, now: float) -> None:
        super().create_group(replace(config, ordered=False), now=now)


class OneAttemptMore(Broker):
    """Messages have one attempt too many."""

    def create_group(self, config: GroupConfig, *, now: float) -> None:
        super().create_group(replace(config, max_attempts=config.max_attempts + 1), now=now)

    def settings(self, client_id: str, settings: ClientSettings, *, now: float) -> MergedSettings:
        merged = super().settings(client_id, settings, now=now)
        return replace(merged, max_attempts=max(1, merged.max_attempts - 1))


SESSIONS = (
    Mutant(
        "MU108",
        ("life.settings-producer",),
        core=NoProducerLimits,
    ),
    Mutant(
        "MU92",
        ("life.settings-consumer[ordered-17]",),
        core=NeverFifo,
    ),
    Mutant(
        "mu-advertised-attempts",
        ("life.settings-consumer*", "life.settings-simple"),
        spares=SEND,
        core=OneAttemptMoreAdvertised,
    ),
    Mutant(
        "mu-settings-once",
        (
            "life.settings-resend",
            "life.stream-reconnect",
            "life.stream-beside",
            "life.server-survives-bad-command",
        ),
        core=SettingsOnce,
    ),
    Mutant(
        "mu-reconnect-forgets",
        ("life.stream-reconnect",),
        core=ReconnectsForgetHandles,
    ),
    Mutant(
        "MU93",
        ("life.client-id-required*",),
        faults=ProxyFaults(headers=wire.anonymous),
        defect="the client-id header is not required",
    ),
    Mutant(
        "mu-heartbeat-anybody",
        ("life.heartbeat-unknown", "life.terminate-ok"),
        core=HeartbeatsOfAnybody,
    ),
    Mutant(
        "mu-heartbeat-nobody",
        ("life.heartbeat-ok*", "life.terminate-ok"),
        spares=(ROUNDTRIP,),
        core=NoHeartbeats,
    ),
    Mutant(
        "MU109",
        ("life.terminate-ok", "push.client-gone-releases"),
        core=FarewellsIgnored,
    ),
    Mutant("mu-farewell-releases-one", ("push.client-gone-releases",), core=FarewellReleasesOne),
    Mutant("mu-route-misses-queue", ("life.route-ok",), core=RoutesMissAQueue),
    Mutant(
        "mu-route-creates",
        ("life.route-unknown-topic",),
        core=RoutesCreateTopics,
    ),
    Mutant(
        "mu-illegal-is-unknown",
        ("life.route-illegal-topic*",),
        core=IllegalIsUnknown,
    ),
    Mutant(
        "mu-first-queue-assigned",
        ("life.assignment-covers*",),
        core=FirstQueueAssigned,
    ),
    Mutant(
        "MU22",
        ("retry.total-attempts*", "fifo.exhausted-unblocks"),
        core=OneAttemptMore,
    ),
    Mutant(
        "MU41",
        (
            "life.settings-consumer[ordered-17]",
            "fifo.unacked-blocks",
            "fifo.ack-unblocks",
            "fifo.gap-ack",
            "fifo.first-ack-only",
            "fifo.change-shorter",
            "fifo.change-longer",
            "fifo.old-handle-after-redelivery",
            "fifo.expired-ack",
            "fifo.exhausted-unblocks",
            "fifo.one-inflight-consumer",
            "fifo.push-inline-retry",
            "fifo.push-retry-3-groups",
            "fifo.consumer-crash",
            "fifo.other-queue-progress",
        ),
        core=OrderFlagIgnored,
    ),
)
