"""Cores that break promises about receives."""

from __future__ import annotations

from dataclasses import replace

from aiorocketmq_conformance.probe.proxy import ProxyFaults
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import Code, FilterType, Refusal
from aiorocketmq_fake.core.values.model import (
    AckEntry,
    AckRequest,
    Delivery,
    FilterExpression,
    Output,
    Parked,
    PollAnswered,
    Received,
    ReceiveRequest,
    TopicConfig,
)

from conformance.tests.mutants import wire
from conformance.tests.mutants.mutant import Mutant
from conformance.tests.mutants.tampering import Tampering, content

EMPTY = Received(Code.MESSAGE_NOT_FOUND, "no new message")


class LeasesShortened(Tampering):
    """Leases expire a fifth early."""

    def asked(self, request: ReceiveRequest) -> ReceiveRequest:
        return replace(request, invisible=request.invisible and request.invisible * 0.8)


class NoLeases(Tampering):
    """Messages in flight become visible to others after a second."""

    def asked(self, request: ReceiveRequest) -> ReceiveRequest:
        return replace(request, invisible=request.invisible and 1.0)


class EndlessLeases(Tampering):
    """Leases never expire."""

    def asked(self, request: ReceiveRequest) -> ReceiveRequest:
        return replace(request, invisible=request.invisible and 43_200.0)


class EverythingRenewed(Tampering):
    """Leases are renewed without the flag."""

    def asked(self, request: ReceiveRequest) -> ReceiveRequest:
        return replace(request, auto_renew=True)


class BatchesDoubled(Tampering):
    """A receive returns up to twice the requested batch."""

    def asked(self, request: ReceiveRequest) -> ReceiveRequest:
        return replace(request, batch_size=request.batch_size * 2)


class FiltersIgnored(Tampering):
    """Filters are ignored."""

    def asked(self, request: ReceiveRequest) -> ReceiveRequest:
        return replace(request, filter=FilterExpression())


class FiltersLostOnRetry(Tampering):
    """The filter is lost on redelivery."""

    def asked(self, request: ReceiveRequest) -> ReceiveRequest:
        return (
            replace(request, filter=FilterExpression()) if request.filter.type is FilterType.TAG else request
        )

    def handed(self, request: ReceiveRequest, answer: Received) -> Received:
        tags = {tag.strip() for tag in request.filter.expression.split("||")}
        kept = []
        for delivery in answer.deliveries:
            if "*" in tags or delivery.attempt > 1 or delivery.message.content.tag in tags:
                kept.append(delivery)
            else:
                self.settle(request.client_id, request.group, delivery)
        return replace(answer, deliveries=tuple(kept))


class AttemptsFromZero(Tampering):
    """Attempts start at 0."""

    def delivered(self, request: ReceiveRequest, delivery: Delivery) -> Delivery:
        return replace(delivery, attempt=delivery.attempt - 1)


class AttemptsAlwaysOne(Tampering):
    """The attempt number is always 1."""

    def delivered(self, request: ReceiveRequest, delivery: Delivery) -> Delivery:
        return replace(delivery, attempt=1)


class AttemptsOfAllGroups(Tampering):
    """The attempt number counts all groups together."""

    def delivered(self, request: ReceiveRequest, delivery: Delivery) -> Delivery:
        counts: dict[str, int] = getattr(self, "_counts", {})
        self._counts = counts
        id_ = delivery.message.content.message_id
        counts[id_] = counts.get(id_, 0) + 1
        return replace(delivery, attempt=counts[id_])


class NewIdsOnRetry(Tampering):
    """The message id is rewritten on redelivery."""

    def delivered(self, request: ReceiveRequest, delivery: Delivery) -> Delivery:
        if delivery.attempt == 1:
            return delivery
        return content(delivery, message_id=delivery.message.content.message_id + "R")


class RetryTopicShown(Tampering):
    """Redeliveries have a retry topic."""

    def delivered(self, request: ReceiveRequest, delivery: Delivery) -> Delivery:
        if delivery.attempt == 1:
            return delivery
        return content(delivery, topic=f"%RETRY%{request.group}")


class BatchesReversed(Tampering):
    """Batches are delivered in reverse order."""

    def handed(self, request: ReceiveRequest, answer: Received) -> Received:
        return replace(answer, deliveries=answer.deliveries[::-1])


class SomeGivenTwice(Tampering):
    """Some messages are delivered to two receives."""

    _count = 0
    _copy: Delivery | None = None

    def handed(self, request: ReceiveRequest, answer: Received) -> Received:
        deliveries = answer.deliveries
        if deliveries and self._copy is not None:
            deliveries, self._copy = (*deliveries, self._copy), None
        elif deliveries:
            self._count += len(deliveries)
            if self._count >= 5:
                self._count, self._copy = 0, deliveries[0]
        return replace(answer, deliveries=deliveries)


class MessagesUnderWrongStatus(Tampering):
    """Messages are delivered with the status of an empty response."""

    def handed(self, request: ReceiveRequest, answer: Received) -> Received:
        return replace(answer, code=Code.MESSAGE_NOT_FOUND)


class RefusalsLookEmpty(Broker):
    """RefusedError receives look like empty ones."""

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        try:
            return super().receive(request, now=now)
        except Refusal:
            return EMPTY


class ReceivesCreateTopics(Broker):
    """A receive creates its topic."""

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        if request.topic not in {topic.config.name for topic in self.topics()}:
            self.create_topic(TopicConfig(request.topic), now=now)
        return super().receive(request, now=now)


class DeadLettersUnreadable(Broker):
    """Messages without attempts left do not become dead letters."""

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        if request.topic.startswith("%DLQ%"):
            request = replace(request, filter=FilterExpression("no message has this tag"))
        return super().receive(request, now=now)


class ImpatientPolls(Broker):
    """A long poll without messages is answered at once."""

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        received = super().receive(request, now=now)
        if isinstance(received, Parked):
            self.cancel_poll(received.poll_id, now=now)
            return EMPTY
        return received


class SleepyPolls(Broker):
    """A long poll is completed only when its time has expired."""

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        received = super().receive(request, now=now)
        if isinstance(received, Parked):
            self._until = {**getattr(self, "_until", {}), received.poll_id: received.until}
        return received

    def take_outputs(self) -> tuple[Output, ...]:
        held: list[Output] = [*getattr(self, "_held", []), *super().take_outputs()]
        self._held = [output for output in held if self._must_wait(output)]
        return tuple(output for output in held if not self._must_wait(output))

    def next_deadline(self) -> float | None:
        ends = [self._until[output.poll_id] for output in getattr(self, "_held", [])]
        due = super().next_deadline()
        return min([*ends, due] if due is not None else ends, default=None)

    def advance(self, now: float) -> None:
        super().advance(now)
        self._present = now

    def _must_wait(self, output: Output) -> bool:
        if not isinstance(output, PollAnswered):
            return False
        until: float = self._until.get(output.poll_id, 0.0)
        return until > getattr(self, "_present", 0.0)


class CancelledAreLost(Broker):
    """Messages of a cancelled receive are lost."""

    def release_deliveries(self, receipt_handles: tuple[str, ...], *, now: float) -> None:
        for lease in self.leases():
            if lease.receipt_handle in receipt_handles:
                entry = AckEntry(lease.message_id, lease.receipt_handle)
                self.ack(AckRequest(lease.client_id, lease.group, lease.topic, (entry,)), now=now)


class BlockedByAnything(Broker):
    """Any message in flight blocks all others of its group."""

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        if any(lease.topic == request.topic for lease in self.leases(request.group)):
            request = replace(request, batch_size=0, polling=5.0)
        return super().receive(request, now=now)


RECEIVING = (
    Mutant("MU72", ("simple.cancelled-receive",), core=CancelledAreLost),
    Mutant(
        "mu-wrong-status",
        ("simple.stream-shape",),
        core=MessagesUnderWrongStatus,
    ),
    Mutant(
        "mu-no-time-stamp",
        ("simple.stream-shape",),
        faults=ProxyFaults(received=wire.no_time_stamp),
        defect="the delivery time stamp is missing",
    ),
    Mutant(
        "mu-refusals-empty",
        ("simple.error-shape*", "simple.unknown-topic", "simple.system-group"),
        core=RefusalsLookEmpty,
    ),
    Mutant(
        "MU70",
        ("simple.empty-await*", "simple.await-wakes", "simple.many-waiters", "simple.poll-of-deadline"),
        core=ImpatientPolls,
    ),
    Mutant(
        "MU69",
        ("simple.await-wakes", "fifo.ack-unblocks"),
        core=SleepyPolls,
    ),
    Mutant(
        "MU71",
        ("simple.batch-cap", "simple.batch-huge"),
        changes={"receive_batch_max": 1000},
        defect="the batch size is not limited",
    ),
    Mutant(
        "mu-batches-doubled",
        ("simple.batch-exact*", "simple.batch-cap"),
        core=BatchesDoubled,
        changes={"receive_batch_max": 1000},
    ),
    Mutant(
        "MU09",
        ("simple.inflight-hidden", "simple.expiry-redelivers", "push.no-renew-without-flag"),
        core=NoLeases,
    ),
    Mutant(
        "MU10",
        (
            "simple.expiry-redelivers",
            "push.no-renew-without-flag",
            "fifo.consumer-crash",
            "fifo.first-ack-only",
        ),
        core=LeasesShortened,
    ),
    Mutant(
        "MU12",
        (
            "simple.expiry-redelivers",
            "simple.cancelled-receive",
            "simple.ack-garbage*",
            "simple.ack-wrong-*",
            "simple.nack-subset",
            "retry.expiry-counts",
            "retry.no-regress",
            "push.no-renew-without-flag",
            "push.groups-broadcast",
            "fifo.unacked-blocks",
            "fifo.gap-ack",
            "fifo.attempts-grow",
            "fifo.consumer-crash",
            "timing.invisible*",
            "retry.any-consumer",
            "simple.expiry-x3",
            "dlq.consumable",
            "dlq.simple-consumer",
        ),
        core=EndlessLeases,
    ),
    Mutant(
        "MU73",
        ("lb.share-no-overlap", "simple.two-consumers-disjoint", "simple.four-pollers", "fifo.many-groups"),
        core=SomeGivenTwice,
    ),
    Mutant("MU91", ("simple.unknown-topic",), core=ReceivesCreateTopics),
    Mutant(
        "MU20",
        ("send.first-attempt-is-1*", "retry.attempt-steps", "push.consume-10"),
        core=AttemptsFromZero,
    ),
    Mutant(
        "MU18",
        (
            "retry.attempt-steps",
            "retry.expiry-counts",
            "retry.nack-counts",
            "retry.success-ends",
            "retry.total-attempts[1]",
            "retry.total-attempts[3]",
            "retry.no-regress",
            "retry.delayed-and-tx*",
            "push.nack-interval",
            "push.fail-redelivers",
            "push.throw-is-failure",
            "simple.change-*ten*",
            "fifo.attempts-grow",
            "fifo.unacked-blocks",
            "fifo.change-*er",
        ),
        core=AttemptsAlwaysOne,
    ),
    Mutant(
        "MU19",
        ("retry.per-group", "retry.no-regress", "push.groups-broadcast"),
        core=AttemptsOfAllGroups,
    ),
    Mutant(
        "MU88",
        ("retry.identity*", "simple.expiry-redelivers"),
        core=NewIdsOnRetry,
    ),
    Mutant(
        "mu-retry-topic-shown",
        ("retry.topic-name-hidden", "retry.identity*"),
        core=RetryTopicShown,
    ),
    Mutant("MU65", ("retry.filter-kept",), core=FiltersLostOnRetry),
    Mutant(
        "mu-filters-ignored",
        (
            "retry.filter-kept",
            "fifo.tag-filter-no-block",
            "simple.await-wakes-filter",
            "simple.resubscribe",
            "retry.sql-kept",
            "filter.tag-one",
            "filter.tag-none-match",
            "filter.tag-untagged",
        ),
        core=FiltersIgnored,
    ),
    Mutant(
        "MU24",
        ("retry.total-attempts*", "fifo.exhausted-unblocks", "dlq.after-limit", "dlq.simple-consumer"),
        core=DeadLettersUnreadable,
    ),
    Mutant(
        "MU42",
        ("retry.others-flow", "fifo.unordered-group"),
        core=BlockedByAnything,
    ),
    Mutant(
        "mu-everything-renewed",
        ("push.no-renew-without-flag", "simple.expiry-redelivers"),
        core=EverythingRenewed,
    ),
    Mutant(
        "mu-batches-reversed",
        (
            "fifo.batch-prefix",
            "fifo.many-groups",
            "fifo.two-producers",
            "fifo.two-groups-100",
            "fifo.push-inline-retry",
            "fifo.tag-filter-no-block",
        ),
        core=BatchesReversed,
    ),
)
