"""Cores that break promises about acks, lease changes and dead letters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import Code, OffsetPolicy, Refusal
from aiorocketmq_fake.core.values.model import (
    AckEntry,
    AckOutcome,
    AckRequest,
    AckResult,
    ChangeRequest,
    Received,
    ReceiveRequest,
)
from aiorocketmq_fake.core.values.snapshots import Lease

from conformance.tests.mutants.mutant import Mutant
from conformance.tests.mutants.tampering import Tampering


def _all_ok(request: AckRequest) -> AckResult:
    outcomes = (
        AckOutcome(entry.message_id, entry.receipt_handle, Code.OK, "OK") for entry in request.entries
    )
    return AckResult(Code.OK, tuple(outcomes))


class SecondAckCounts(Broker):
    """A message is settled only by its second ack."""

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        acked: set[str] = getattr(self, "_seen", set())
        handles = {entry.receipt_handle for entry in request.entries}
        self._seen = acked | handles
        return super().ack(request, now=now) if handles <= acked else _all_ok(request)


class AnyHandleAcks(Tampering):
    """Any handle is accepted: only the message id is checked."""

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        by_id = {lease.message_id: lease.receipt_handle for lease in self.leases(request.group)}
        entries = tuple(
            replace(e, receipt_handle=by_id.get(e.message_id, e.receipt_handle)) for e in request.entries
        )
        super().ack(replace(request, entries=entries), now=now)
        return _all_ok(request)


class FirstHandlesLapse(Tampering):
    """After a renewal an ack with the handle first delivered is OK and does nothing."""

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        if any(self.lease_of(entry.receipt_handle) for entry in request.entries):
            return super().ack(request, now=now)
        return _all_ok(request)


class OnlyTheHolderSettles(Tampering):
    """A message is settled only by the client that received it, not by others with its handle."""

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        for entry in request.entries:
            lease = self.lease_of(entry.receipt_handle)
            if lease is not None and lease.client_id != request.client_id:
                raise Refusal(Code.INVALID_RECEIPT_HANDLE, "another client has this message.")
        return super().ack(request, now=now)


class LateAcksOk(Broker):
    """Expired handles are acked with OK."""

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        super().ack(request, now=now)
        return _all_ok(request)


class LateAcksDrop(Tampering):
    """An expired handle is refused, but the message is dropped."""

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        result = super().ack(request, now=now)
        gone = {each.message_id for each in result.entries if each.code is Code.INVALID_RECEIPT_HANDLE}
        self._gone: set[str] = getattr(self, "_gone", set()) | gone
        return result

    def handed(self, request: ReceiveRequest, answer: Received) -> Received:
        gone: set[str] = getattr(self, "_gone", set())
        for delivery in answer.deliveries:
            if delivery.message.content.message_id in gone:
                self.settle(request.client_id, request.group, delivery)
        kept = tuple(one for one in answer.deliveries if one.message.content.message_id not in gone)
        return replace(answer, deliveries=kept)


class OnlyFirstOfBatchAcked(Broker):
    """Of a batch of acks only the first counts, and all are OK."""

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        super().ack(replace(request, entries=request.entries[:1]), now=now)
        return _all_ok(request)


class OneBadAckSpoilsAll(Tampering):
    """One bad ack fails the whole request."""

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        if all(self.lease_of(entry.receipt_handle) for entry in request.entries):
            return super().ack(request, now=now)
        code = Code.INVALID_RECEIPT_HANDLE
        return AckResult(
            code, tuple(AckOutcome(e.message_id, e.receipt_handle, code, "") for e in request.entries)
        )


class AcksForAllGroups(Tampering):
    """An ack in one group settles for all groups."""

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        ids = {entry.message_id for entry in request.entries}
        for lease in self.leases():
            if lease.message_id in ids and lease.group != request.group:
                self._ack_lease(lease, now)
        return super().ack(request, now=now)

    def _ack_lease(self, lease: Lease, now: float) -> None:
        entry = AckEntry(lease.message_id, lease.receipt_handle)
        Broker.ack(self, AckRequest(lease.client_id, lease.group, self._topic_of(lease), (entry,)), now=now)

    def _topic_of(self, lease: Lease) -> str:
        sent = (one for topic in self.topics() for one in self.messages(topic.config.name))
        return next(one.content.topic for one in sent if one.content.message_id == lease.message_id)


class HandleAloneCounts(AcksForAllGroups):
    """An ack in the name of another group or topic settles."""

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        for entry in request.entries:
            if lease := self.lease_of(entry.receipt_handle):
                self._ack_lease(lease, now)
        return Broker.ack(self, request, now=now)


class AcksReachBack(AcksForAllGroups):
    """Progress follows the highest ack."""

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        for entry in request.entries:
            acked = self.lease_of(entry.receipt_handle)
            for lease in self.leases(request.group) if acked else ():
                assert acked is not None
                if (lease.topic, lease.queue) == (
                    acked.topic,
                    acked.queue,
                ) and lease.offset < acked.offset:
                    self._ack_lease(lease, now)
        return Broker.ack(self, request, now=now)


class _ChangesIgnored(Broker, ABC):
    """Lease changes for which `ignores` is true are answered, but have no effect."""

    @abstractmethod
    def ignores(self, asked: float, left: float) -> bool: ...

    def change_invisible(self, request: ChangeRequest, *, now: float) -> str:
        lease = next((one for one in self.leases() if one.receipt_handle == request.receipt_handle), None)
        if lease is None:
            return super().change_invisible(request, now=now)
        left = lease.ends_at - now
        if self.ignores(request.invisible or 0.0, left):
            request = replace(request, invisible=left)
        return super().change_invisible(request, now=now)


class ShorterChangesIgnored(_ChangesIgnored):
    """Changes to a shorter lease are ignored."""

    def ignores(self, asked: float, left: float) -> bool:
        return asked < left


class LongerChangesIgnored(_ChangesIgnored):
    """Changes to a longer lease are ignored."""

    def ignores(self, asked: float, left: float) -> bool:
        return asked > left


class ChangesAdded(Broker):
    """A change adds to what is left of the lease."""

    def change_invisible(self, request: ChangeRequest, *, now: float) -> str:
        lease = next((one for one in self.leases() if one.receipt_handle == request.receipt_handle), None)
        left = lease.ends_at - now if lease else 0.0
        return super().change_invisible(
            replace(request, invisible=(request.invisible or 0.0) + left), now=now
        )


class ChangesHalved(Broker):
    """A change lasts half of the requested time."""

    def change_invisible(self, request: ChangeRequest, *, now: float) -> str:
        return super().change_invisible(replace(request, invisible=(request.invisible or 0.0) / 2), now=now)


class OldHandleReturned(Broker):
    """A change answers with the old handle."""

    def change_invisible(self, request: ChangeRequest, *, now: float) -> str:
        super().change_invisible(request, now=now)
        return request.receipt_handle


class ExpiredChangesOk(Broker):
    """A change of an expired lease is OK."""

    def change_invisible(self, request: ChangeRequest, *, now: float) -> str:
        try:
            return super().change_invisible(request, now=now)
        except Refusal:
            return request.receipt_handle + " "


class RestartsReleaseLeases(Broker):
    """A restart redelivers in-flight messages at once."""

    def restart(self, *, now: float) -> None:
        held = tuple(lease.receipt_handle for lease in self.leases())
        super().restart(now=now)
        self.release_deliveries(held, now=now)


class RestartsStartOver(Broker):
    """A restart sends every group back to the beginning."""

    def restart(self, *, now: float) -> None:
        progress = {(one.group, one.topic) for one in self.offsets() if not one.topic.startswith("%")}
        super().restart(now=now)
        for group, topic in sorted(progress):
            self.reset_offset(group, topic, OffsetPolicy.BEGINNING, now=now)


class RestartsLoseMessages(Broker):
    """A restart loses every message that was stored."""

    def restart(self, *, now: float) -> None:
        configs = [topic.config for topic in self.topics() if not topic.system]
        super().restart(now=now)
        for config in configs:
            self.delete_topic(config.name, now=now)
            self.create_topic(config, now=now)


SETTLING = (
    Mutant(
        "MU01",
        (
            "simple.receive-ack*",
            "simple.ack-batch",
            "simple.change-new-handle",
            "life.stream-reconnect",
            "push.success-final",
            "retry.success-ends",
            "fifo.single-group",
            "fifo.ack-unblocks",
            "fifo.other-queue-progress",
        ),
        core=SecondAckCounts,
    ),
    Mutant(
        "MU02",
        ("simple.ack-garbage*", "simple.ack-late", "fifo.old-handle-after-redelivery"),
        core=AnyHandleAcks,
    ),
    Mutant(
        "MU03",
        ("simple.ack-late", "simple.ack-mixed", "fifo.expired-ack"),
        core=LateAcksOk,
    ),
    Mutant(
        "MU04",
        ("simple.ack-late", "fifo.expired-ack"),
        core=LateAcksDrop,
    ),
    Mutant(
        "MU05",
        ("simple.ack-batch", "simple.nack-subset"),
        core=OnlyFirstOfBatchAcked,
    ),
    Mutant(
        "MU06",
        ("simple.ack-mixed",),
        core=OneBadAckSpoilsAll,
    ),
    Mutant(
        "MU07",
        ("push.groups-broadcast",),
        core=AcksForAllGroups,
    ),
    Mutant(
        "MU08",
        ("simple.ack-wrong-group", "simple.ack-wrong-topic"),
        core=HandleAloneCounts,
    ),
    Mutant(
        "MU101",
        ("simple.nack-subset", "fifo.gap-ack"),
        core=AcksReachBack,
    ),
    Mutant(
        "MU14",
        ("simple.change-shorten", "push.nack-interval", "retry.nack-counts", "fifo.change-shorter"),
        core=ShorterChangesIgnored,
    ),
    Mutant("MU15", ("simple.change-extend", "fifo.change-longer"), core=LongerChangesIgnored),
    Mutant(
        "MU13",
        (
            "simple.change-extend",
            "simple.change-shorten",
            "push.nack-interval",
            "fifo.change-longer",
            "timing.custom-ladder",
            "simple.change-chain",
        ),
        core=ChangesAdded,
    ),
    Mutant(
        "mu-changes-halved",
        (
            "simple.change-extend",
            "push.nack-interval",
            "fifo.change-longer",
            "timing.never-early",
            "timing.under-load",
            "timing.first-retry-stock",
            "timing.change-from-call",
        ),
        core=ChangesHalved,
    ),
    Mutant(
        "MU16",
        ("simple.change-new-handle",),
        core=OldHandleReturned,
    ),
    Mutant(
        "MU17",
        ("simple.change-expired",),
        core=ExpiredChangesOk,
    ),
    Mutant(
        "mu-restart-loses-all",
        ("send.durable-restart", "simple.inflight-survives-restart", "fifo.restart-keeps-order"),
        core=RestartsLoseMessages,
    ),
    Mutant(
        "mu-restart-releases",
        ("simple.inflight-survives-restart",),
        core=RestartsReleaseLeases,
    ),
    Mutant(
        "mu-restart-starts-over",
        ("fifo.restart-keeps-order", "simple.inflight-survives-restart"),
        core=RestartsStartOver,
    ),
    Mutant(
        "MU77",
        ("push.auto-renew-holds", "push.auto-renew-original-handle", "push.renewed-often"),
        changes={"auto_renews": False},
        defect="the server does not renew leases",
    ),
    Mutant(
        "mu-only-the-holder-settles",
        ("fault.proxy-switch",),
        core=OnlyTheHolderSettles,
    ),
    Mutant(
        "mu-first-handles-lapse",
        ("push.auto-renew-original-handle",),
        core=FirstHandlesLapse,
    ),
)
