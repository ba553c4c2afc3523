"""Cores that break promises about retention and resets of groups."""

from __future__ import annotations

from dataclasses import replace

from aiorocketmq_fake.core.broker import Broker, Parts
from aiorocketmq_fake.core.commands.redelivery import Redelivery
from aiorocketmq_fake.core.records.leases import Lease
from aiorocketmq_fake.core.values.codes import Code, OffsetPolicy
from aiorocketmq_fake.core.values.model import (
    AckRequest,
    AckResult,
    Delivery,
    Parked,
    Pulled,
    PullRequest,
    Received,
    ReceiveRequest,
)
from aiorocketmq_fake.core.values.snapshots import Progress

from conformance.tests.mutants.mutant import SESSION, Mutant
from conformance.tests.mutants.pull import TamperingPulls
from conformance.tests.mutants.tampering import Tampering


class NothingExpires(Broker):
    """Messages never expire."""

    def set_retention(
        self, *, now: float, retention: float | None = None, disk_used: float | None = None
    ) -> None:
        super().set_retention(now=now, disk_used=disk_used)


class ExpiresEarly(Broker):
    """Messages expire after half of their retention."""

    def set_retention(
        self, *, now: float, retention: float | None = None, disk_used: float | None = None
    ) -> None:
        super().set_retention(now=now, retention=retention and retention / 2, disk_used=disk_used)


class DeletedComeBack(Redelivery):
    """Messages deleted in flight are redelivered."""

    def is_kept(self, lease: Lease) -> bool:
        return True


class StuckBehindMin(Broker):
    """A group with progress before the first message left receives nothing."""

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        self.advance(now)
        if any(one.offset < one.min_offset for one in self.offsets(request.group)):
            request = replace(request, batch_size=0, polling=5.0)
        return super().receive(request, now=now)

    def pull_classic(self, request: PullRequest, *, now: float, commit: int | None = None) -> Pulled | Parked:
        queue = self.queue(request.topic, request.queue_id)
        if queue is not None and request.offset < queue.min_offset:
            return Pulled(Code.MESSAGE_NOT_FOUND, "", (), request.offset)
        return super().pull_classic(request, now=now, commit=commit)


class ReadIsGone(TamperingPulls):
    """Messages committed by one group are deleted for all."""

    def pulling(self, request: PullRequest) -> PullRequest:
        read = [each.offset for each in self.offsets() if each.topic == request.topic]
        return replace(request, offset=max([request.offset, *read]))


class ResetsIgnored(Broker):
    """A reset has no effect."""

    def reset_offset(
        self, group: str, topic: str, policy: OffsetPolicy, *, now: float, timestamp: float | None = None
    ) -> tuple[int, ...]:
        return ()


class ResetsToTheEnd(Broker):
    """Every reset is one to the end."""

    def reset_offset(
        self, group: str, topic: str, policy: OffsetPolicy, *, now: float, timestamp: float | None = None
    ) -> tuple[int, ...]:
        return super().reset_offset(group, topic, OffsetPolicy.END, now=now)


class ResetsToTheBeginning(Broker):
    """Every reset is one to the beginning."""

    def reset_offset(
        self, group: str, topic: str, policy: OffsetPolicy, *, now: float, timestamp: float | None = None
    ) -> tuple[int, ...]:
        return super().reset_offset(group, topic, OffsetPolicy.BEGINNING, now=now)


class ResetsAllGroups(Broker):
    """A reset affects every group."""

    def reset_offset(
        self, group: str, topic: str, policy: OffsetPolicy, *, now: float, timestamp: float | None = None
    ) -> tuple[int, ...]:
        for other in self.groups():
            super().reset_offset(other.config.name, topic, policy, now=now, timestamp=timestamp)
        return super().reset_offset(group, topic, policy, now=now, timestamp=timestamp)


class OldAcksCount(Tampering):
    """Acks from before a reset settle messages that are redelivered after it."""

    _gone: frozenset[str] = frozenset()

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        self._gone |= {entry.message_id for entry in request.entries}
        return super().ack(request, now=now)

    def handed(self, request: ReceiveRequest, answer: Received) -> Received:
        kept: list[Delivery] = []
        for delivery in answer.deliveries:
            if delivery.message.content.message_id in self._gone:
                self.settle(request.client_id, request.group, delivery)
            else:
                kept.append(delivery)
        return Received(answer.code, answer.message, tuple(kept))


class ProgressAtReceive(Redelivery):
    """Received messages count as consumed, acked or not."""

    def redeliver(self, lease: Lease) -> None:
        return


class ProgressPerClient(Broker):
    """Every client starts where its group started."""

    _known: frozenset[str] = frozenset()

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        groups = {group for group, _ in map(self._split, self._known)}
        if request.group in groups and f"{request.group}@{request.client_id}" not in self._known:
            self.reset_offset(request.group, request.topic, OffsetPolicy.BEGINNING, now=now)
        self._known |= {f"{request.group}@{request.client_id}"}
        return super().receive(request, now=now)

    def _split(self, known: str) -> tuple[str, str]:
        group, _, client = known.partition("@")
        return group, client


class ProgressUntilTermination(Broker):
    """A group starts again when its last client has left."""

    def terminate(self, client_id: str, group: str, *, now: float) -> None:
        super().terminate(client_id, group, now=now)
        for place in self.offsets(group):
            self.reset_offset(group, place.topic, OffsetPolicy.BEGINNING, now=now)


class ProgressUntilRestart(Broker):
    """A restart loses the progress of groups."""

    def restart(self, *, now: float) -> None:
        super().restart(now=now)
        for place in self.offsets():
            self.reset_offset(place.group, place.topic, OffsetPolicy.BEGINNING, now=now)


class BeginsAtTheSecondReceive(Broker):
    """A group starts at its second receive."""

    _asked: tuple[str, ...] = ()

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        self._asked += (request.group,)
        if self._asked.count(request.group) == 2:
            self.reset_offset(request.group, request.topic, OffsetPolicy.END, now=now)
        return super().receive(request, now=now)


class LagWithoutEnd(Broker):
    """Progress is reported one message too low."""

    def offsets(self, group: str | None = None) -> tuple[Progress, ...]:
        return tuple(replace(one, offset=one.offset - 1, lag=one.lag + 1) for one in super().offsets(group))


KEEPING = (
    Mutant(
        "mu-nothing-expires",
        (
            "keep.expires",
            "keep.unconsumed-deleted",
            "keep.in-message-group",
            "keep.by-age",
            "keep.progress-behind-min",
            "keep.inflight-over-expiry",
            "pull.trimmed-offset",
        ),
        core=NothingExpires,
    ),
    Mutant("mu-expires-early", ("keep.before-expiry",), core=ExpiresEarly),
    Mutant("mu-deleted-come-back", ("keep.inflight-over-expiry",), parts=Parts(redelivery=DeletedComeBack)),
    Mutant(
        "mu-stuck-behind-min",
        ("keep.progress-behind-min", "keep.expires[remoting]"),
        core=StuckBehindMin,
    ),
    Mutant("mu-read-is-gone", ("keep.read-stays",), core=ReadIsGone),
    Mutant(
        "mu-resets-ignored",
        (
            "offset.reset-back-time",
            "offset.reset-forward",
            "offset.reset-middle",
            "offset.reset-ordered",
            "offset.reset-repeat",
            "offset.reset-one-group",
        ),
        core=ResetsIgnored,
    ),
    Mutant(
        "mu-resets-to-the-end",
        (
            "keep.acked-stays",
            "offset.reset-back-time",
            "offset.reset-middle",
            "offset.reset-repeat",
            "offset.reset-ordered",
        ),
        core=ResetsToTheEnd,
    ),
    Mutant(
        "mu-resets-to-the-beginning",
        (
            "offset.reset-forward",
            "offset.reset-middle",
            "offset.reset-repeat",
            "offset.reset-inflight-ack",
            "offset.reset-future-ordered",
        ),
        core=ResetsToTheBeginning,
    ),
    Mutant("MU81", ("offset.reset-one-group",), core=ResetsAllGroups),
    Mutant("MU82", ("offset.reset-inflight-ack",), core=OldAcksCount),
    Mutant("MU79", ("offset.resume-unacked", "offset.restart"), parts=Parts(redelivery=ProgressAtReceive)),
    Mutant("MU80", ("offset.resume-other-client",), core=ProgressPerClient),
    Mutant("mu-progress-until-termination", ("offset.resume",), core=ProgressUntilTermination),
    Mutant("mu-progress-until-restart", ("offset.restart",), core=ProgressUntilRestart),
    Mutant(
        "mu-begins-at-second-receive",
        ("offset.new-group-after-prime",),
        spares=SESSION,
        core=BeginsAtTheSecondReceive,
    ),
    Mutant("mu-lag-behind", ("offset.lag-zero", "offset.lag-counts"), core=LagWithoutEnd),
)
