"""Cores that break promises about failures: intervals of retries, and dead letters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

from aiorocketmq_fake.core.broker import Broker, Parts
from aiorocketmq_fake.core.commands.dead_letters import DeadLetters
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.events import StoredAs
from aiorocketmq_fake.core.values.model import (
    ChangeRequest,
    ClientSettings,
    Delivery,
    ForwardRequest,
    GroupConfig,
    MergedSettings,
    ReceiveRequest,
    RetryPolicy,
    StoredMessage,
)
from aiorocketmq_fake.core.values.names import dead_letter_topic

from conformance.tests.mutants.mutant import ROUNDTRIP, Mutant
from conformance.tests.mutants.tampering import Tampering


class _Policies(Broker, ABC):
    """Advertises a group's intervals as changed by `policy`."""

    def settings(self, client_id: str, settings: ClientSettings, *, now: float) -> MergedSettings:
        merged = super().settings(client_id, settings, now=now)
        policy = merged.retry_policy
        return replace(merged, retry_policy=policy and self.policy(policy))

    @abstractmethod
    def policy(self, policy: RetryPolicy) -> RetryPolicy: ...


class FirstIntervalOnly(_Policies):
    """Every retry waits for the first interval."""

    def policy(self, policy: RetryPolicy) -> RetryPolicy:
        return replace(policy, steps=policy.steps[:1])


class IntervalsInMilliseconds(_Policies):
    """Seconds of the back-off are treated as milliseconds."""

    def policy(self, policy: RetryPolicy) -> RetryPolicy:
        return replace(policy, steps=tuple(step / 1000 for step in policy.steps))


class EndlessGrowth(_Policies):
    """Exponential back-off has no maximum."""

    def policy(self, policy: RetryPolicy) -> RetryPolicy:
        return replace(policy, maximum=1e6 if policy.maximum else 0.0)


class ChangesFromReceive(Tampering):
    """A change of the lease counts from the receive, not from the call."""

    def delivered(self, request: ReceiveRequest, delivery: Delivery) -> Delivery:
        self._since = {**getattr(self, "_since", {}), delivery.receipt_handle: self.now}
        return delivery

    def change_invisible(self, request: ChangeRequest, *, now: float) -> str:
        since: float = getattr(self, "_since", {}).get(request.receipt_handle, now)
        left = max(0.0, (request.invisible or 0.0) - (now - since))
        return super().change_invisible(replace(request, invisible=left), now=now)


class ChangesWaitForTheLease(Broker):
    """A change to 0 s waits for the expiry of the old lease."""

    def change_invisible(self, request: ChangeRequest, *, now: float) -> str:
        lease = next((one for one in self.leases() if one.receipt_handle == request.receipt_handle), None)
        if lease is not None and not request.invisible:
            request = replace(request, invisible=lease.ends_at - now)
        return super().change_invisible(request, now=now)


class ChangesGathered(Broker):
    """All changes of the lease end at the next quarter of a minute."""

    def change_invisible(self, request: ChangeRequest, *, now: float) -> str:
        end = -(-(now + (request.invisible or 0.0)) // 15) * 15
        return super().change_invisible(replace(request, invisible=end - now), now=now)


class LeasesFromStoreTime(Tampering):
    """Leases are counted from the store, not from the receive."""

    def delivered(self, request: ReceiveRequest, delivery: Delivery) -> Delivery:
        age = self.now - delivery.message.store_timestamp
        if request.invisible and age > 0:
            left = max(0.001, request.invisible - age)
            change = ChangeRequest(
                request.client_id,
                request.group,
                request.topic,
                delivery.receipt_handle,
                left,
                delivery.message.content.message_id,
            )
            return replace(delivery, receipt_handle=Broker.change_invisible(self, change, now=self.now))
        return delivery


class OneAttemptLess(Broker):
    """Messages become dead letters one attempt early."""

    def create_group(self, config: GroupConfig, *, now: float) -> None:
        super().create_group(replace(config, max_attempts=max(1, config.max_attempts - 1)), now=now)

    def settings(self, client_id: str, settings: ClientSettings, *, now: float) -> MergedSettings:
        merged = super().settings(client_id, settings, now=now)
        return replace(merged, max_attempts=merged.max_attempts + 1)


class OriginalsKept(DeadLetters):
    """The original of a dead letter is still redelivered."""

    def copy(self, group: str, message: StoredMessage) -> StoredMessage:
        topic = self._state.topics[message.topic]
        kept = self._storage.append(
            topic, message.queue_id, message.content, message.message_type, StoredAs.SENT
        )
        self._storage.announce(topic, kept)
        return super().copy(group, message)


class SomeWrittenTwice(DeadLetters):
    """Every fourth dead letter is written twice."""

    _count = 0

    def copy(self, group: str, message: StoredMessage) -> StoredMessage:
        self._count += 1
        if self._count % 4 == 0:
            super().copy(group, message)
        return super().copy(group, message)


class ForwardsWrittenTwice(DeadLetters):
    """A forward writes two dead letters."""

    def forward(self, group: str, message: StoredMessage, attempt: int) -> None:
        super().forward(group, message, attempt)
        self.copy(group, message)


class DeadLettersBare(DeadLetters):
    """Dead letters lose tag, keys and properties."""

    def copy(self, group: str, message: StoredMessage) -> StoredMessage:
        bare = replace(message.content, tag="", keys=(), properties={})
        return super().copy(group, replace(message, content=bare))


class DeadLettersShared(DeadLetters):
    """The dead letters of one group are those of all."""

    def copy(self, group: str, message: StoredMessage) -> StoredMessage:
        for other in list(self._state.groups):
            if other != group and dead_letter_topic(other) not in self._state.topics:
                super().copy(other, message)
        return super().copy(group, message)


class ForwardsIgnored(Broker):
    """A forward to the dead letters is OK and does nothing."""

    def forward_to_dead_letter_queue(self, request: ForwardRequest, *, now: float) -> None:
        self.advance(now)


class AnythingForwarded(Broker):
    """A forward is OK whatever its handle is."""

    def forward_to_dead_letter_queue(self, request: ForwardRequest, *, now: float) -> None:
        try:
            super().forward_to_dead_letter_queue(request, now=now)
        except Refusal as refusal:
            if refusal.code is Code.ILLEGAL_TOPIC:
                raise


class RestartsLoseDeadLetters(Broker):
    """A restart loses all dead letters."""

    def restart(self, *, now: float) -> None:
        super().restart(now=now)
        for topic in self.topics():
            if topic.config.name.startswith("%DLQ%"):
                self.delete_topic(topic.config.name, now=now)


LADDERS = ("life.settings-simple", "timing.custom-ladder", "timing.last-step-repeats")
SPARES = ("life.heartbeat-ok[simple]", ROUNDTRIP)
FAILING = (
    Mutant("MU11", ("timing.invisible*", "simple.expiry-redelivers"), core=LeasesFromStoreTime),
    Mutant("MU21", ("dlq.not-before", "retry.total-attempts[1]", "dlq.after-limit"), core=OneAttemptLess),
    Mutant("MU23", ("dlq.gone-from-source", "dlq.forward-rpc"), parts=Parts(dead_letters=OriginalsKept)),
    Mutant("MU25", ("dlq.once",), parts=Parts(dead_letters=SomeWrittenTwice)),
    Mutant("mu-forwards-doubled", ("dlq.forward-twice",), parts=Parts(dead_letters=ForwardsWrittenTwice)),
    Mutant(
        "MU26",
        ("dlq.content[origin]",),
        changes={"dead_letters_tell_origin": False},
        defect="dead letters do not have their origin",
    ),
    Mutant("mu-dead-letters-bare", ("dlq.content[message]",), parts=Parts(dead_letters=DeadLettersBare)),
    Mutant(
        "MU27",
        ("dlq.forward-rpc", "dlq.forward-twice", "dlq.forward-then-ack", "dlq.fifo-continues"),
        core=ForwardsIgnored,
    ),
    Mutant("mu-anything-forwarded", ("dlq.forward-bad-handle",), core=AnythingForwarded),
    Mutant("MU110", ("dlq.per-group",), parts=Parts(dead_letters=DeadLettersShared)),
    Mutant("mu-restart-loses-dead-letters", ("dlq.restart",), core=RestartsLoseDeadLetters),
    Mutant("MU28", LADDERS, SPARES, FirstIntervalOnly),
    Mutant("MU29", LADDERS, SPARES, IntervalsInMilliseconds),
    Mutant("MU30", ("timing.exponential",), core=EndlessGrowth),
    Mutant("mu-changes-from-receive", ("timing.change-from-call",), core=ChangesFromReceive),
    Mutant("mu-changes-gathered", ("timing.independent", "timing.custom-ladder"), core=ChangesGathered),
    Mutant(
        "MU107",
        ("simple.change-now", "retry.attempt-steps", "retry.nack-counts"),
        core=ChangesWaitForTheLease,
    ),
)
