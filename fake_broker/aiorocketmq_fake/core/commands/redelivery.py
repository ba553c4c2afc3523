"""Redelivery of messages whose lease ended without an ack (7.1, 7.4, 8)."""

from aiorocketmq_fake.core.commands.dead_letters import DeadLetters
from aiorocketmq_fake.core.commands.polls import PollBook
from aiorocketmq_fake.core.commands.storing import Storage
from aiorocketmq_fake.core.records.leases import Lease, Reader
from aiorocketmq_fake.core.records.timers import Timer
from aiorocketmq_fake.core.state import State, milliseconds
from aiorocketmq_fake.core.values.choices import Exhaustion
from aiorocketmq_fake.core.values.events import (
    LeaseEnd,
    LeaseEnded,
    NotRevived,
    OffsetCommitted,
    Revived,
    StoredAs,
)
from aiorocketmq_fake.core.values.model import ReceiveRequest
from aiorocketmq_fake.core.values.names import retry_topic


class _Waking(Timer):
    """Timer that tries the parked polls of one group on one topic."""

    __slots__ = ("consumption",)

    def __init__(self, consumption: Reader) -> None:
        self.ticket = 0
        self.consumption = consumption


class Redelivery:
    """Makes messages of ended leases available again, or gives them up."""

    def __init__(
        self, state: State, storage: Storage, polls: PollBook[ReceiveRequest], dead_letters: DeadLetters
    ) -> None:
        self._state = state
        self._storage = storage
        self._polls = polls
        self._dead_letters = dead_letters

    def expire(self, lease: Lease) -> None:
        """End a lease that expired, and redeliver its message, or give it up."""
        state = self._state
        state.leases.remove(lease, acked=False)
        report_end(self._state, lease, lease.end)
        if not self.is_kept(lease):
            self._report_loss(lease)
            if self.settle_ordered(lease):
                self._wake(lease)
        elif self._gives_up(lease):
            self._dead_letters.give_up(lease.consumption.group.name, lease.message, lease.attempt)
            if self.settle_ordered(lease):
                self._wake(lease)
        elif lease.order is not None:
            freed = lease.order.ended(lease.message, lease.counts)
            self._report_return(lease)
            if freed and not self._goes_unnoticed(lease):
                self._wake(lease)
        elif latency := self._latency():
            state.timers.set(lease, state.now + latency, self.redeliver)
        else:
            self.redeliver(lease)

    def redeliver(self, lease: Lease) -> None:
        """Store a copy in the retry topic (R7.1)."""
        state = self._state
        consumption = lease.consumption
        group, topic = consumption.group.name, consumption.topic.name
        if state.consumptions.get((group, topic)) is not consumption:
            return
        message = lease.message
        if not self.is_kept(lease):
            self._report_loss(lease)
            return
        if consumption.retry is None:
            consumption.retry = self._storage.system_topic(retry_topic(group, topic))
        first = message.first_copy or message
        copy = self._storage.append(
            consumption.retry,
            0,
            message.content,
            message.message_type,
            StoredAs.RETRY,
            attempts_before=message.attempts_before + lease.counts,
            first_copy=first if state.profile.retries_keep_position else None,
            transaction_id=message.transaction_id,
        )
        self._report_return(lease)
        self._storage.announce(consumption.retry, copy)
        if state.profile.retries_wake_polls:
            self._polls.stored(topic, copy, group)

    def is_kept(self, lease: Lease) -> bool:
        """Return whether a message is still in its queue: deleted ones cannot be redelivered (R11.3)."""
        message, own = lease.message, lease.consumption.topic
        # Lite topics have their queues where their group reads them.
        topic = own if own.system else self._state.topics.get(message.topic)
        return topic is not None and topic.queues[message.queue_id].min_offset <= message.offset

    def settle_ordered(self, lease: Lease) -> bool:
        """Settle the message in the order record of its lease; True if others became available."""
        order = lease.order
        if order is None:
            return False
        committed = order.committed
        freed = order.settle(lease.message)
        if order.committed != committed and not lease.consumption.topic.system:
            consumption = lease.consumption
            self._state.events.append(
                OffsetCommitted(
                    self._state.at,
                    consumption.group.name,
                    consumption.topic.name,
                    lease.message.queue_id,
                    order.committed,
                )
            )
        return freed

    def _latency(self) -> int:
        """Return after how many milliseconds a redelivery is stored."""
        profile = self._state.profile
        # Observed on 5.5.0 (n = 234): 2.0 s at least, half of all below 3.3 s, the last after 5.9 s.
        most = profile.revive_spread
        spread = self._state.rng.triangular(0.0, most, 0.15 * most) if most else 0.0
        return milliseconds(profile.revive_latency + spread)

    def _report_loss(self, lease: Lease) -> None:
        group = lease.consumption.group.name
        self._state.events.append(NotRevived(self._state.at, group, lease.message))

    def _report_return(self, lease: Lease) -> None:
        attempt = lease.attempt + lease.counts
        group = lease.consumption.group.name
        self._state.events.append(Revived(self._state.at, group, lease.message, attempt))

    def _gives_up(self, lease: Lease) -> bool:
        config = lease.consumption.group.config
        return (
            self._state.profile.exhaustion is Exhaustion.AT_LEASE_END
            and lease.counts
            and lease.attempt >= config.max_attempts
        )

    def _goes_unnoticed(self, lease: Lease) -> bool:
        """Return whether parked polls miss this expiry: real servers look again only when the lease of the first
        outstanding message ends (R8.11, seen on 5.5.0)."""
        return (
            lease.extended
            and not self._state.profile.ordered_extension_wakes
            and lease.order is not None
            and lease.message.offset > lease.order.committed
        )

    def _wake(self, lease: Lease) -> None:
        latency = milliseconds(self._state.profile.ordered_wake_latency)
        waking = _Waking(lease.consumption)
        if latency:
            self._state.timers.set(waking, self._state.now + latency, self._on_waking)
        else:
            self._on_waking(waking)

    def _on_waking(self, waking: _Waking) -> None:
        self._polls.wake(waking.consumption.topic.name, waking.consumption.group.name)


def report_end(state: State, lease: Lease, reason: LeaseEnd) -> None:
    """Report that a lease ended without an ack."""
    state.events.append(
        LeaseEnded(
            state.at,
            lease.consumption.group.name,
            lease.client_id,
            lease.message,
            lease.attempt,
            lease.handle,
            lease.first_handle,
            reason,
        )
    )
