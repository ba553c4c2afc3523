"""The ends of leases: by time, by failed deliveries, put off by renewal; and what comes after (7.1, 7.4,
8)."""

from aiorocketmq_fake.core.commands.dead_letters import DeadLetters
from aiorocketmq_fake.core.commands.polls import PollBook
from aiorocketmq_fake.core.commands.storing import Storage
from aiorocketmq_fake.core.records.groups import retry_delay
from aiorocketmq_fake.core.records.leases import Lease, Reader
from aiorocketmq_fake.core.records.timers import Alarm
from aiorocketmq_fake.core.state import State, milliseconds
from aiorocketmq_fake.core.values.choices import Exhaustion
from aiorocketmq_fake.core.values.events import (
    LeaseChanged,
    LeaseEnd,
    LeaseEnded,
    NotRevived,
    OffsetCommitted,
    Revived,
    StoredAs,
)
from aiorocketmq_fake.core.values.handles import encode
from aiorocketmq_fake.core.values.model import ReceiveRequest
from aiorocketmq_fake.core.values.names import retry_topic


class _Waking(Alarm):
    """Polls of one consumption are to be woken."""

    __slots__ = ("consumption",)

    def __init__(self, consumption: Reader) -> None:
        self.ticket = 0
        self.consumption = consumption


class LeaseEnds:
    """Ends, prolongs and settles leases, and brings messages back."""

    def __init__(
        self, state: State, storage: Storage, polls: PollBook[ReceiveRequest], dead_letters: DeadLetters
    ) -> None:
        self._state = state
        self._storage = storage
        self._polls = polls
        self._dead_letters = dead_letters

    def schedule(self, lease: Lease) -> None:
        """Set the alarm of a lease: its end, or its renewal some time before."""
        agenda = self._state.agenda
        if lease.auto_renew:
            ahead = milliseconds(self._state.profile.renew_ahead)
            agenda.set(lease, max(lease.expires - ahead, self._state.now), self._renew)
        else:
            agenda.set(lease, lease.expires, self.end)

    def change(self, lease: Lease, length: int, *, renewal: bool = False) -> str:
        """Let a lease end `length` ms from now, under a new handle (R6.10, R6.11)."""
        state = self._state
        previous = lease.handle
        expires = state.now + length
        handle, popped = self._changed_handle(lease, expires)
        if not renewal and lease.auto_renew:
            state.leases.stop_renewing(lease)
        state.leases.rename(lease, handle, keep_first=renewal)
        lease.extended = expires > lease.expires
        lease.popped = popped
        lease.expires = expires
        self.schedule(lease)
        state.events.append(
            LeaseChanged(
                state.at,
                lease.consumption.group.name,
                lease.client_id,
                lease.message,
                lease.attempt,
                handle,
                previous,
                lease.first_handle,
                length / 1000,
                renewal,
            )
        )
        return handle

    def settle(self, lease: Lease) -> None:
        """End a lease for good: its message is consumed."""
        self._state.agenda.cancel(lease)
        self._state.leases.remove(lease, acked=True)
        if lease.order is not None and self.settle_ordered(lease):
            self._polls.wake(lease.consumption.topic.name, lease.consumption.group.name)

    def settle_ordered(self, lease: Lease) -> bool:
        """Tell the order record of a lease that its message is consumed; True when others came free."""
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

    def drop(self, lease: Lease, reason: LeaseEnd) -> None:
        """End a lease without a return of its message: something else takes care of it."""
        self._state.agenda.cancel(lease)
        self._state.leases.remove(lease, acked=False)
        self.tell_end(lease, reason)

    def give_back(self, handles: tuple[str, ...]) -> None:
        """Take deliveries back that could not be written (R5.7)."""
        profile = self._state.profile
        for handle in handles:
            lease = self._state.leases.by_handle.get(handle)
            if lease is not None:
                ordered = lease.order is not None
                lease.counts = profile.ordered_undelivered_counts if ordered else profile.undelivered_counts
                lease.end = LeaseEnd.UNDELIVERED
                self._hold(lease, milliseconds(profile.undelivered_hold))

    def release_client(self, client_id: str) -> None:
        """Let the auto-renewed leases of a client that is gone end soon (R7.9)."""
        for lease in sorted(self._state.leases.renewing.get(client_id, ()), key=_by_age):
            self._hold(lease, milliseconds(self._state.profile.termination_hold))

    def stop_all_renewals(self) -> None:
        """Let all leases end when their present time is over: the proxy forgot them (R12.7)."""
        for leases in list(self._state.leases.renewing.values()):
            for lease in sorted(leases, key=_by_age):
                self._state.leases.stop_renewing(lease)
                self.schedule(lease)

    def _hold(self, lease: Lease, length: int) -> None:
        if lease.auto_renew:
            self._state.leases.stop_renewing(lease)
        lease.expires = self._state.now + length
        if length:
            self._state.agenda.set(lease, lease.expires, self.end)
        else:
            self._state.agenda.cancel(lease)
            self.end(lease)

    def _changed_handle(self, lease: Lease, expires: int) -> tuple[str, int]:
        state = self._state
        message = lease.message
        popped = lease.popped if lease.order is not None else state.now
        while True:
            handle = encode(
                message.offset,
                popped,
                expires - popped,
                lease.revive_queue,
                message.topic != lease.consumption.topic.name,
                state.broker,
                message.queue_id,
                message.offset,
                message.position,
                state.profile.changed_handles_grow,
            )
            # Two changes of one delivery within a millisecond would else give one handle to two leases.
            if lease.order is not None or not state.leases.knows(handle):
                return handle, popped
            popped += 1

    def _renew(self, lease: Lease) -> None:
        """Prolong an auto-renewed lease, until it has lasted too long (R7.8)."""
        state = self._state
        profile = state.profile
        if state.now - lease.first_popped >= milliseconds(profile.renew_limit):
            state.leases.stop_renewing(lease)
            delay = retry_delay(lease.consumption.group.config, profile, lease.message.attempts_before)
            self.change(lease, milliseconds(delay), renewal=True)
            return
        step = profile.renew_steps[min(lease.renewals, len(profile.renew_steps) - 1)]
        lease.renewals += 1
        self.change(lease, milliseconds(step), renewal=True)

    def end(self, lease: Lease) -> None:
        """The time of a lease is over."""
        state = self._state
        state.leases.remove(lease, acked=False)
        self.tell_end(lease, lease.end)
        if not self.is_kept(lease):
            self._tell_loss(lease)
            if self.settle_ordered(lease):
                self._wake(lease)
        elif self._gives_up(lease):
            self._dead_letters.give_up(lease.consumption.group.name, lease.message, lease.attempt)
            if self.settle_ordered(lease):
                self._wake(lease)
        elif lease.order is not None:
            freed = lease.order.ended(lease.message, lease.counts)
            self._tell_return(lease)
            if freed and not self._goes_unnoticed(lease):
                self._wake(lease)
        elif latency := self._latency():
            state.agenda.set(lease, state.now + latency, self.bring_back)
        else:
            self.bring_back(lease)

    def _latency(self) -> int:
        """Tell after how many milliseconds a redelivery is stored."""
        profile = self._state.profile
        # Seen on 5.5.0 (n = 234): 2.0 s at least, half of all below 3.3 s, the last after 5.9 s.
        most = profile.revive_spread
        spread = self._state.rng.triangular(0.0, most, 0.15 * most) if most else 0.0
        return milliseconds(profile.revive_latency + spread)

    def bring_back(self, lease: Lease) -> None:
        """Store a copy in the retry topic (R7.1)."""
        state = self._state
        consumption = lease.consumption
        group, topic = consumption.group.name, consumption.topic.name
        if state.consumptions.get((group, topic)) is not consumption:
            return
        message = lease.message
        if not self.is_kept(lease):
            self._tell_loss(lease)
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
        self._tell_return(lease)
        self._storage.announce(consumption.retry, copy)
        if state.profile.retries_wake_polls:
            self._polls.stored(topic, copy, group)

    def is_kept(self, lease: Lease) -> bool:
        """Tell whether a message is still in its queue: deleted ones cannot come back (R11.3)."""
        message, own = lease.message, lease.consumption.topic
        # Lite topics have their queues where their group reads them.
        topic = own if own.system else self._state.topics.get(message.topic)
        return topic is not None and topic.queues[message.queue_id].min_offset <= message.offset

    def _tell_loss(self, lease: Lease) -> None:
        group = lease.consumption.group.name
        self._state.events.append(NotRevived(self._state.at, group, lease.message))

    def _gives_up(self, lease: Lease) -> bool:
        config = lease.consumption.group.config
        return (
            self._state.profile.exhaustion is Exhaustion.AT_LEASE_END
            and lease.counts
            and lease.attempt >= config.max_attempts
        )

    def _goes_unnoticed(self, lease: Lease) -> bool:
        """Tell whether parked polls miss this end: a quirk of real servers (consumption §1, R8.11)."""
        return (
            lease.extended
            and not self._state.profile.ordered_extension_wakes
            and lease.order is not None
            and lease.order.outstanding() > 1
        )

    def _wake(self, lease: Lease) -> None:
        latency = milliseconds(self._state.profile.ordered_wake_latency)
        waking = _Waking(lease.consumption)
        if latency:
            self._state.agenda.set(waking, self._state.now + latency, self._on_waking)
        else:
            self._on_waking(waking)

    def _on_waking(self, waking: _Waking) -> None:
        self._polls.wake(waking.consumption.topic.name, waking.consumption.group.name)

    def tell_end(self, lease: Lease, reason: LeaseEnd) -> None:
        """Tell that a lease ended without an ack."""
        self._state.events.append(
            LeaseEnded(
                self._state.at,
                lease.consumption.group.name,
                lease.client_id,
                lease.message,
                lease.attempt,
                lease.handle,
                lease.first_handle,
                reason,
            )
        )

    def _tell_return(self, lease: Lease) -> None:
        attempt = lease.attempt + lease.counts
        group = lease.consumption.group.name
        self._state.events.append(Revived(self._state.at, group, lease.message, attempt))


def _by_age(lease: Lease) -> int:
    return lease.message.position
