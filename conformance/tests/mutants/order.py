"""Cores with defective order records: what blocks an ordered group, and what is delivered next."""

from __future__ import annotations

from dataclasses import replace
from heapq import heappush

from aiorocketmq_fake.core.broker import Broker, Parts
from aiorocketmq_fake.core.commands.receiving import Receiving
from aiorocketmq_fake.core.filters.expressions import Filter
from aiorocketmq_fake.core.records.consumption import Consumption
from aiorocketmq_fake.core.records.leases import Lease, Order, Skipped
from aiorocketmq_fake.core.records.message_group_order import MessageGroupOrder, MessageGroupQueue
from aiorocketmq_fake.core.records.topics import Queue
from aiorocketmq_fake.core.values.model import (
    AckRequest,
    AckResult,
    Parked,
    Received,
    ReceiveRequest,
    StoredMessage,
)

from conformance.tests.mutants.mutant import Mutant
from conformance.tests.mutants.settling import AnyHandleAcks


def broken(records: type[MessageGroupOrder]) -> Parts:
    """Parts of a core with these order records."""

    class Reading(Consumption):
        __slots__ = ()

        def order(self, queue: Queue) -> Order:
            if queue.id not in self.orders:
                self.orders[queue.id] = records(queue, self.position(queue))
            return self.orders[queue.id]

    class Receives(Receiving):
        def _consumption(self, request: ReceiveRequest, apart: bool) -> Consumption:
            consumption = super()._consumption(request, apart)
            if not isinstance(consumption, Reading):
                state, key = self._state, (request.group, request.topic)
                consumption = Reading(state.profile, consumption.group, consumption.topic)
                state.consumptions[key] = consumption
            return consumption

    return Parts(receiving=Receives)


class NothingBlocks(MessageGroupOrder):
    """Message-group queues are not blocked while their messages are in flight."""

    every = 1
    """Of so many takes one finds the group_queues open."""
    _takes = 0

    def take(
        self, limit: int, wanted: Filter | None, attempt_id: str, skipped: Skipped
    ) -> list[tuple[StoredMessage, int]]:
        self._takes += 1
        if self._takes % self.every:
            return super().take(limit, wanted, attempt_id, skipped)
        held = {key: dict(group_queue.flight) for key, group_queue in self.group_queues.items()}
        for key, group_queue in self.group_queues.items():
            group_queue.flight.clear()
            if group_queue.waiting:
                heappush(self._ready, (group_queue.waiting[0].offset, key))
        taken = super().take(limit, wanted, attempt_id, skipped)
        for key, flight in held.items():
            self.group_queues.setdefault(key, MessageGroupQueue()).flight.update(flight)
        return taken


class SometimesOpen(NothingBlocks):
    """Every third receive finds message-group queues unblocked."""

    every = 3


class AnyAckOpens(MessageGroupOrder):
    """One ack unblocks the message-group queue although others of its batch are in flight."""

    def settle(self, message: StoredMessage) -> bool:
        group_queue = self.group_queues.get(message.content.message_group)
        if group_queue is not None:
            for offset in list(group_queue.flight):
                if offset != message.offset:
                    del group_queue.flight[offset]
        return super().settle(message)


class HeadSkipped(MessageGroupOrder):
    """A message whose lease expired is skipped."""

    def ended(self, message: StoredMessage, counted: bool) -> bool:
        return self.settle(message)


class ToTheTail(MessageGroupOrder):
    """A message whose lease expired is moved behind the others of its group."""

    def ended(self, message: StoredMessage, counted: bool) -> bool:
        group_queue = self.group_queues.get(message.content.message_group)
        if group_queue is None or message.offset not in group_queue.flight:
            return False
        del group_queue.flight[message.offset]
        while (lease := self._scan()) is not None:
            self.group_queues.setdefault(lease.content.message_group, MessageGroupQueue()).waiting.append(
                lease
            )
        group_queue.waiting.append(message)
        return self._reopen(message.content.message_group, group_queue)


class ReturnsByEnd(MessageGroupOrder):
    """Messages of a batch are redelivered in the order in which their leases ended."""

    def ended(self, message: StoredMessage, counted: bool) -> bool:
        key = message.content.message_group
        group_queue = self.group_queues.get(key)
        by_end = [*group_queue.back, message] if group_queue is not None else []
        is_free = super().ended(message, counted)
        if is_free and group_queue is not None:
            for each in by_end:
                group_queue.waiting.remove(each)
            group_queue.waiting.extendleft(reversed(by_end))
            heappush(self._ready, (group_queue.waiting[0].offset, key))
        return is_free


class RepeatsCount(MessageGroupOrder):
    """A receive repeated with its attempt id counts as an attempt."""

    def release(self, attempt_id: str) -> list[Lease]:
        leases = super().release(attempt_id)
        for lease in leases:
            self._counts[lease.message.offset] += 1
        return leases


class NewIdsOvertake(MessageGroupOrder):
    """A receive with a new attempt id returns messages leased by others."""

    def release(self, attempt_id: str) -> list[Lease]:
        others = [attempt for attempt in list(self._attempts) if attempt != attempt_id]
        return [
            lease
            for attempt in [attempt_id, *others]
            for lease in super(NewIdsOvertake, self).release(attempt)
        ]


class OrderedBlocksTopic(Broker):
    """In-flight messages of one queue block an ordered group in all queues."""

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        ordered = {one.config.name for one in self.groups() if one.config.ordered}
        if request.group in ordered and self.leases(request.group):
            request = replace(request, batch_size=0, polling=5.0)
        return super().receive(request, now=now)


class DeadHeadBlocks(Broker):
    """A dead-lettered head keeps its group blocked."""

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        if self.dead_letters(request.group):
            request = replace(request, batch_size=0)
        return super().receive(request, now=now)


class OlderHandlesRelease(AnyHandleAcks):
    """An ack of an earlier delivery releases an ordered group's next message."""

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        ordered = {one.config.name for one in self.groups() if one.config.ordered}
        if request.group in ordered and any(lease.attempt > 1 for lease in self.leases(request.group)):
            return super().ack(request, now=now)
        return Broker.ack(self, request, now=now)


ORDERING = (
    Mutant(
        "MU31",
        ("fifo.unacked-blocks", "fifo.first-ack-only", "fifo.gap-ack"),
        parts=broken(NothingBlocks),
        defect="The next message is delivered while the head is in flight.",
    ),
    Mutant(
        "MU32",
        ("fifo.gap-ack",),
        parts=broken(AnyAckOpens),
        defect="A group is released when any message of the batch is acked.",
    ),
    Mutant(
        "MU33",
        ("fifo.unacked-blocks", "fifo.change-shorter", "fifo.change-middle"),
        parts=broken(HeadSkipped),
        defect="After its lease the head is skipped.",
    ),
    Mutant(
        "MU34",
        ("fifo.change-shorter", "fifo.consumer-crash"),
        parts=broken(ToTheTail),
        defect="A message that failed is moved to the tail of its group.",
    ),
    Mutant(
        "mu-order-of-ends",
        ("fifo.change-middle",),
        parts=broken(ReturnsByEnd),
        defect="Messages of a batch are redelivered in the order in which their leases ended.",
    ),
    Mutant("MU36", ("fifo.other-queue-progress",), core=OrderedBlocksTopic),
    Mutant("MU37", ("fifo.exhausted-unblocks", "dlq.fifo-continues"), core=DeadHeadBlocks),
    Mutant("MU38", ("fifo.old-handle-after-redelivery",), core=OlderHandlesRelease),
    Mutant(
        "MU39",
        ("fifo.reentrant-attempt-id",),
        parts=broken(RepeatsCount),
        defect="The same attempt id increments the attempt.",
    ),
    Mutant(
        "MU40",
        ("fifo.new-attempt-id-blocked",),
        parts=broken(NewIdsOvertake),
        defect="A new attempt id may overtake.",
    ),
    Mutant(
        "MU102",
        ("fifo.one-inflight-consumer",),
        parts=broken(SometimesOpen),
        defect="Two concurrent receives may return messages of one message group.",
    ),
)
