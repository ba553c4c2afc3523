"""Cores that break promises about killed and paused brokers, and about operations of test brokers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from aiorocketmq_fake.core.broker import Broker, Parts
from aiorocketmq_fake.core.values.model import (
    Delivery,
    OutgoingMessage,
    Received,
    ReceiveRequest,
    RouteEntry,
    SendOutcome,
    StoredMessage,
    TopicConfig,
)

from conformance.tests.mutants.delay import DelaysLostOnRestart
from conformance.tests.mutants.faults import NothingComesBack
from conformance.tests.mutants.mutant import Mutant
from conformance.tests.mutants.tampering import Tampering
from conformance.tests.mutants.transactions import SecondCommitsDeliver


class MissedTicksReplayed(Tampering):
    """After a pause a message is redelivered once for every ten seconds since its lease expired."""

    def leap(self, *, now: float) -> None:
        self.missed = Counter[str]()
        for lease in self.leases():
            over = max(0, int((now - lease.ends_at) // 10.0))
            self.missed[lease.message_id] = over
        super().leap(now=now)

    def handed(self, request: ReceiveRequest, answer: Received) -> Received:
        missed = getattr(self, "missed", Counter[str]())
        burst: list[Delivery] = []
        for delivery in answer.deliveries:
            burst += [delivery] * (1 + missed.pop(delivery.message.content.message_id, 0))
        return replace(answer, deliveries=tuple(burst))


class PausesEndLeases(Broker):
    """Messages in flight during a pause are redelivered to others."""

    def leap(self, *, now: float) -> None:
        super().leap(now=now)
        self.release_deliveries(tuple(lease.receipt_handle for lease in self.leases()), now=now)


class FollowsTheClockBack(Broker):
    """Timers follow a clock that is set back, and leases expire with it."""

    def advance(self, now: float) -> None:
        if now < self.now:
            held = tuple(lease.receipt_handle for lease in self.leases())
            self.release_deliveries(held, now=self.now)
        super().advance(now)


class CrashForgetsSends(Broker):
    """The newest messages are lost in a crash."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        self.last = messages[0].topic if messages else ""
        return super().send(messages, now=now, client_id=client_id)

    def restart(self, *, now: float) -> None:
        for queue in self._state.topics[self.last].queues if getattr(self, "last", "") else ():
            del queue.entries[-1:]
        super().restart(now=now)


class RatesIgnored(Broker):
    """Rates are never enforced."""

    def limit_rate(self, rpc: str, per_second: float | None, *, now: float) -> None:
        return


class RefusedIsStoredAndBusy(Broker):
    """A call above the rate limit is refused, but takes effect."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        rate = self.throttle.rates.get("SendMessage")
        if rate is not None:
            self.throttle.limit("SendMessage", None)
            super().send(messages, now=now, client_id=client_id)
            self.throttle.limit("SendMessage", 0)
        return super().send(messages, now=now, client_id=client_id)


class TrialOfAnother(Broker):
    """A consumer is asked to verify another message."""

    def verify_message(self, client_id: str, message: StoredMessage, *, now: float) -> str:
        other = replace(message, content=replace(message.content, body=b"another"))
        return super().verify_message(client_id, other, now=now)


class QueuesOwnedTwice(Broker):
    """The first queue is assigned to every pull client."""

    def query_assignment(
        self, client_id: str, topic: str, group: str, *, now: float
    ) -> tuple[RouteEntry, ...]:
        own = super().query_assignment(client_id, topic, group, now=now)
        if own and own[0].queue_id > 0:
            return (replace(own[0], queue_id=0), *own)
        return own


class NewQueuesUnread(Broker):
    """Queues added to a topic are written to and never read."""

    def __init__(self, *given: Any, **named: Any) -> None:  # Any: whatever the core takes
        super().__init__(*given, **named)
        self._known: dict[str, int] = {}

    def create_topic(self, config: TopicConfig, *, now: float) -> None:
        super().create_topic(config, now=now)
        self._known[config.name] = config.read_queues

    def update_topic(self, config: TopicConfig, *, now: float) -> None:
        first = min(config.read_queues, self._known.get(config.name, config.read_queues))
        super().update_topic(replace(config, read_queues=first), now=now)


class LiteTopicsUncounted(Broker):
    """The number of lite topics is not limited."""

    def update_topic(self, config: TopicConfig, *, now: float) -> None:
        super().update_topic(replace(config, lite_limit=0), now=now)


class LiteTopicsForEver(Broker):
    """Lite topics never expire."""

    def update_topic(self, config: TopicConfig, *, now: float) -> None:
        super().update_topic(replace(config, lite_expiration=None), now=now)


PROCESSES = (
    Mutant("MU98", ("fault.pause-over-expiry",), core=MissedTicksReplayed),
    Mutant("MU99", ("timing.wall-clock-jump",), core=FollowsTheClockBack),
    Mutant("MU105", ("pull.assignment-exclusive",), core=QueuesOwnedTwice),
    Mutant("mu-pauses-end-leases", ("fault.broker-pause",), core=PausesEndLeases),
    Mutant("mu-crash-forgets-sends", ("fault.broker-kill",), core=CrashForgetsSends),
    Mutant("mu-downtime-forgets-delays", ("delay.downtime-over-due",), core=DelaysLostOnRestart),
    Mutant("mu-void-takes-all", ("fault.half-open",), parts=Parts(redelivery=NothingComesBack)),
    Mutant("mu-commits-add-up", ("tx.reply-lost",), core=SecondCommitsDeliver),
    Mutant("mu-rates-ignored", ("send.throttled", "send.throttle-refill"), core=RatesIgnored),
    Mutant("mu-throttled-stored", ("send.throttled",), core=RefusedIsStoredAndBusy),
    Mutant("mu-trial-of-another", ("life.verify-message",), core=TrialOfAnother),
    Mutant("mu-new-queues-unread", ("reb.queue-increase",), core=NewQueuesUnread),
    Mutant("mu-lite-uncounted", ("lite.topic-quota", "lite.ttl"), core=LiteTopicsUncounted),
    Mutant("mu-lite-never-ends", ("lite.ttl",), core=LiteTopicsForEver),
)
