"""Cores that break promises about consumers that join and leave, lost calls, and restarts."""

from __future__ import annotations

from dataclasses import replace

from aiorocketmq_fake.core.broker import Broker, Parts
from aiorocketmq_fake.core.commands.redelivery import Redelivery
from aiorocketmq_fake.core.records.leases import Lease
from aiorocketmq_fake.core.values.codes import Code
from aiorocketmq_fake.core.values.model import (
    AckOutcome,
    AckRequest,
    AckResult,
    ClientSettings,
    GroupConfig,
    MergedSettings,
    OutgoingMessage,
    Parked,
    Received,
    ReceiveRequest,
    SendOutcome,
)

from conformance.tests.mutants.balance import FirstComerTakesAll
from conformance.tests.mutants.mutant import Mutant
from conformance.tests.mutants.transactions import ChecksToTheSender


class CrashLosesWhatWasHeld(Broker):
    """The crash of a consumer settles its in-flight messages."""

    def lose_stream(self, client_id: str, *, now: float) -> None:
        super().lose_stream(client_id, now=now)
        for lease in self._state.leases.all():
            if lease.client_id == client_id:
                self._leasing.settle(lease)


class _RemembersAcks(Broker):
    """Keeps the leases that were acknowledged."""

    acked: tuple[Lease, ...] = ()

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        held = [self._state.leases.by_handle.get(entry.receipt_handle) for entry in request.entries]
        self.acked += tuple(lease for lease in held if lease is not None)
        return super().ack(request, now=now)

    def bring_acked_back(self, client_id: str | None = None) -> None:
        for lease in self.acked:
            if client_id in (None, lease.client_id) and lease.order is None:
                self._redelivery.redeliver(lease)
        self.acked = ()


class LeavingBringsAckedBack(_RemembersAcks):
    """Acknowledged messages of a consumer are redelivered when it terminates."""

    def terminate(self, client_id: str, group: str, *, now: float) -> None:
        super().terminate(client_id, group, now=now)
        self.bring_acked_back(client_id)


class RestartForgetsAcks(_RemembersAcks):
    """A restart loses acknowledgements."""

    def restart(self, *, now: float) -> None:
        super().restart(now=now)
        self.bring_acked_back()


class JoiningFallsBack(Broker):
    """The progress of a group is reduced by ten whenever a consumer joins."""

    def settings(self, client_id: str, settings: ClientSettings, *, now: float) -> MergedSettings:
        joins = client_id not in self._state.clients and settings.subscription is not None
        merged = super().settings(client_id, settings, now=now)
        if joins and settings.subscription is not None:
            for (group, _), consumption in self._state.consumptions.items():
                if group == settings.subscription.group:
                    for queue_id, position in consumption.positions().items():
                        consumption.move(queue_id, max(0, position - 10))
        return merged


class DeafAfterTermination(Broker):
    """After a termination the group receives nothing for ten minutes."""

    def terminate(self, client_id: str, group: str, *, now: float) -> None:
        super().terminate(client_id, group, now=now)
        self.deaf = {**getattr(self, "deaf", {}), group: now + 600.0}

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        if now < getattr(self, "deaf", {}).get(request.group, 0.0):
            request = replace(request, batch_size=0)
        return super().receive(request, now=now)


class AcksWithoutEffect(Broker):
    """Acks are answered OK and change nothing."""

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        self.advance(now)
        entries = tuple(
            AckOutcome(entry.message_id, entry.receipt_handle, Code.OK, "OK") for entry in request.entries
        )
        return AckResult(Code.OK, entries)


class NothingComesBack(Redelivery):
    """Messages that are not acknowledged in time are lost."""

    def redeliver(self, lease: Lease) -> None:
        return


class TakenAndDropped(Broker):
    """Every seventh message is acknowledged and not stored."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        self.count = getattr(self, "count", 0) + 1
        if self.count % 7:
            return super().send(messages, now=now, client_id=client_id)
        return tuple(
            SendOutcome(Code.OK, message.message_id, message.message_id, 0, 0) for message in messages
        )


class LateAcksCount(Broker):
    """An ack with an expired lease settles the message, even if another consumer has leased it."""

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        self.advance(now)
        outcomes = []
        for entry in request.entries:
            lease = self._state.leases.by_handle.get(entry.receipt_handle) or next(
                (
                    one
                    for one in self._state.leases.all()
                    if one.message.content.message_id == entry.message_id
                ),
                None,
            )
            if lease is not None:
                self._leasing.settle(lease)
            outcomes.append(AckOutcome(entry.message_id, entry.receipt_handle, Code.OK, "OK"))
        return AckResult(Code.OK, tuple(outcomes))


class OneMoreTry(Broker):
    """Messages become dead letters one attempt late."""

    def create_group(self, config: GroupConfig, *, now: float) -> None:
        super().create_group(replace(config, max_attempts=config.max_attempts + 1), now=now)


class ByTheClientsClock(Broker):
    """Delays are counted by the clock of the client."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        return super().send(
            tuple(_skewed(message, now) for message in messages), now=now, client_id=client_id
        )


def _skewed(message: OutgoingMessage, now: float) -> OutgoingMessage:
    if message.delivery_timestamp is None or message.born_timestamp is None:
        return message
    return replace(message, delivery_timestamp=message.delivery_timestamp + message.born_timestamp - now)


FAILURES = (
    Mutant("MU74", ("reb.crash", "reb.crash-dups-bounded", "reb.fifo-handover"), core=CrashLosesWhatWasHeld),
    Mutant("MU75", ("reb.leave-clean",), core=LeavingBringsAckedBack),
    Mutant("MU100", ("fault.broker-restart-clean",), core=RestartForgetsAcks),
    Mutant("MU106", ("reb.join-no-loss", "reb.all-leave-return"), core=JoiningFallsBack),
    Mutant("mu-newcomer-starves", ("reb.join-gets-share",), core=FirstComerTakesAll),
    Mutant("mu-deaf-after-good-bye", ("reb.flap", "reb.all-leave-return"), core=DeafAfterTermination),
    Mutant("mu-acks-vanish", ("fault.ack-reply-lost", "fault.reset-peer"), core=AcksWithoutEffect),
    Mutant(
        "mu-nothing-comes-back",
        ("fault.ack-request-lost", "fault.receive-reply-lost"),
        parts=Parts(redelivery=NothingComesBack),
    ),
    Mutant("mu-taken-and-dropped", ("fault.latency-300ms", "fault.jitter-loss"), core=TakenAndDropped),
    Mutant("mu-late-acks-count", ("fault.partition-consumer", "fault.consumer-pause"), core=LateAcksCount),
    Mutant(
        "mu-one-more-try",
        ("fault.crash-loop-consumer",),
        ("life.heartbeat-ok[simple]", "send.body-roundtrip[cjk]"),
        core=OneMoreTry,
    ),
    Mutant("mu-sender-only", ("fault.producer-crash-tx",), core=ChecksToTheSender),
    Mutant("mu-client-clock", ("fault.clock-skew-client",), core=ByTheClientsClock),
)
