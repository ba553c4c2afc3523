"""Leasing: how leases are timed, changed, renewed, released and settled (6, 7.4)."""

from aiorocketmq_fake.core.commands.polls import PollBook
from aiorocketmq_fake.core.commands.redelivery import Redelivery, report_end
from aiorocketmq_fake.core.records.groups import retry_delay
from aiorocketmq_fake.core.records.leases import Lease
from aiorocketmq_fake.core.state import State, milliseconds
from aiorocketmq_fake.core.values.events import LeaseChanged, LeaseEnd, Resurrected
from aiorocketmq_fake.core.values.handles import encode
from aiorocketmq_fake.core.values.model import ReceiveRequest


class Leasing:
    """The life of leases; `redelivery` takes over when they end without an ack."""

    def __init__(self, state: State, polls: PollBook[ReceiveRequest], redelivery: Redelivery) -> None:
        self._state = state
        self._polls = polls
        self._redelivery = redelivery

    def schedule(self, lease: Lease) -> None:
        """Set the timer of a lease: its expiry, or its renewal some time before."""
        timers = self._state.timers
        if lease.auto_renew:
            ahead = milliseconds(self._state.profile.renew_ahead)
            timers.set(lease, max(lease.expires - ahead, self._state.now), self._renew)
        else:
            timers.set(lease, lease.expires, self._redelivery.expire)

    def change(self, lease: Lease, length: int, used: str = "") -> str:
        """Set the end of a lease to `length` ms from now, and return its new handle (R6.10, R6.11).

        `used` is the handle of the caller, empty for a renewal.
        """
        state = self._state
        previous = lease.handle
        expires = state.now + length
        handle, popped = self._changed_handle(lease, expires)
        renewal = not used
        left = self._left_behind(lease) if self.is_missed(lease, used) else None
        if not renewal and lease.auto_renew:
            state.leases.stop_renewing(lease)
        state.leases.rename(lease, handle, keep_first=renewal)
        lease.extended = expires > lease.expires
        lease.popped = popped
        lease.expires = expires
        self.schedule(lease)
        group, message = lease.consumption.group.name, lease.message
        state.events.append(
            LeaseChanged(
                state.at,
                group,
                lease.client_id,
                message,
                lease.attempt,
                handle,
                previous,
                lease.first_handle,
                length / 1000,
                renewal,
                lease.counts,
            )
        )
        if left is not None:
            state.leases.add(left)
            self.schedule(left)
            state.events.append(
                Resurrected(state.at, group, lease.client_id, message, handle, previous, length / 1000)
            )
        return self._shown(lease)

    def is_missed(self, lease: Lease, used: str) -> bool:
        """Return whether a call with the handle `used` does not reach the lease, as its changed handle is wrong."""
        return lease.changed and used != lease.handle and self._shown(lease) != lease.handle

    def abandon(self, lease: Lease) -> None:
        """Let a lease expire at its present end."""
        if lease.auto_renew:
            self._state.leases.stop_renewing(lease)
            self.schedule(lease)

    def settle(self, lease: Lease) -> None:
        """End a lease because its message is consumed."""
        self._state.timers.cancel(lease)
        self._state.leases.remove(lease, acked=True)
        if lease.order is not None and self._redelivery.settle_ordered(lease):
            self._polls.wake(lease.consumption.topic.name, lease.consumption.group.name)

    def drop(self, lease: Lease, reason: LeaseEnd) -> None:
        """End a lease without redelivering its message: the caller takes care of that."""
        self._state.timers.cancel(lease)
        self._state.leases.remove(lease, acked=False)
        report_end(self._state, lease, reason)

    def release_deliveries(self, handles: tuple[str, ...]) -> None:
        """Release deliveries that could not be written (R5.7)."""
        profile = self._state.profile
        for handle in handles:
            lease = self._state.leases.by_handle.get(handle)
            if lease is not None:
                ordered = lease.order is not None
                lease.counts = profile.ordered_undelivered_counts if ordered else profile.undelivered_counts
                lease.end = LeaseEnd.UNDELIVERED
                self._hold(lease, milliseconds(profile.undelivered_hold))

    def release_client(self, client_id: str) -> None:
        """Shorten the auto-renewed leases of a disconnected client (R7.9)."""
        for lease in sorted(self._state.leases.renewing.get(client_id, ()), key=_by_age):
            self._hold(lease, milliseconds(self._state.profile.termination_hold))

    def stop_all_renewals(self) -> None:
        """Stop renewing: all leases expire at their present end, as the proxy lost its memory (R12.7)."""
        for leases in list(self._state.leases.renewing.values()):
            for lease in sorted(leases, key=_by_age):
                self.abandon(lease)

    def _hold(self, lease: Lease, length: int) -> None:
        if lease.auto_renew:
            self._state.leases.stop_renewing(lease)
        lease.expires = self._state.now + length
        if length:
            self._state.timers.set(lease, lease.expires, self._redelivery.expire)
        else:
            self._state.timers.cancel(lease)
            self._redelivery.expire(lease)

    def _left_behind(self, lease: Lease) -> Lease:
        """Return a lease with the present handle and end of another one that gets new ones."""
        copy = Lease(
            lease.consumption,
            lease.message,
            lease.attempt,
            lease.client_id,
            lease.handle,
            lease.popped,
            lease.expires,
            lease.revive_queue,
            False,
            None,
        )
        copy.first_handle, copy.first_popped = lease.first_handle, lease.first_popped
        copy.changed, copy.counts = True, lease.counts
        return copy

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
            # Otherwise two changes within a millisecond, of one delivery or in two groups, give two leases one handle.
            if not state.leases.knows(handle):
                return handle, popped
            if lease.order is None:
                popped += 1
            else:
                expires += 1  # handles of ordered groups are known by the time of their receive

    def _shown(self, lease: Lease) -> str:
        """Return the changed handle of a lease as its client gets it, which need not be the one that reaches it."""
        if not self._state.profile.changed_handles_keep_start or lease.order is not None:
            return lease.handle
        return f"{lease.first_handle.partition(' ')[0]} {lease.handle.partition(' ')[2]}"

    def _renew(self, lease: Lease) -> None:
        """Renew an auto-renewed lease, up to the profile's limit (R7.8)."""
        state = self._state
        profile = state.profile
        if state.now - lease.first_popped >= milliseconds(profile.renew_limit):
            state.leases.stop_renewing(lease)
            delay = retry_delay(lease.consumption.group.config, profile, lease.message.attempts_before)
            self.change(lease, milliseconds(delay))
            return
        step = profile.renew_steps[min(lease.renewals, len(profile.renew_steps) - 1)]
        lease.renewals += 1
        self.change(lease, milliseconds(step))


def _by_age(lease: Lease) -> int:
    return lease.message.position
