"""Settling: commands with the handles of leased messages: ack, change, forward (6)."""

from __future__ import annotations

from dataclasses import dataclass

from aiorocketmq_fake.core.commands.dead_letters import DeadLetters
from aiorocketmq_fake.core.commands.leasing import Leasing
from aiorocketmq_fake.core.commands.redelivery import report_end
from aiorocketmq_fake.core.commands.registry import receiver_group
from aiorocketmq_fake.core.records.consumption import Consumption
from aiorocketmq_fake.core.records.leases import Lease
from aiorocketmq_fake.core.records.queue_order import QueueOrder
from aiorocketmq_fake.core.state import State, milliseconds
from aiorocketmq_fake.core.values.choices import WrongHandle
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.events import (
    Acked,
    LeaseEnd,
    Refused,
    Resurrected,
    WrongMessageDeadLettered,
)
from aiorocketmq_fake.core.values.handles import Handle, decode, encode
from aiorocketmq_fake.core.values.model import (
    AckEntry,
    AckOutcome,
    AckRequest,
    AckResult,
    ChangeRequest,
    ForwardRequest,
    StoredMessage,
)
from aiorocketmq_fake.core.values.names import retry_topic

_OK = Code.OK
"""Alias: attribute access on the enum is ten times slower, for every ack."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The message that a handle without a live lease refers to."""

    handle: Handle
    message: StoredMessage
    consumption: Consumption | None


class Settling:
    """The commands that take a receipt handle."""

    def __init__(self, state: State, dead_letters: DeadLetters, leasing: Leasing) -> None:
        self._state = state
        self._dead_letters = dead_letters
        self._leasing = leasing

    # Ack

    def ack(self, request: AckRequest) -> AckResult:
        """Settle each entry on its own (R6.5); the overall code is the common one (R6.6)."""
        state = self._state
        state.check_topic(request.topic)
        state.check_group(request.group)
        if not request.entries:
            raise Refusal(state.profile.no_entries_code, "The ack names no message.")
        outcomes = tuple([self._ack_entry(request, entry) for entry in request.entries])
        code = outcomes[0].code
        if len(outcomes) > 1 and any(outcome.code is not code for outcome in outcomes):
            code = Code.MULTIPLE_RESULTS
        return AckResult(code, outcomes)

    def _ack_entry(self, request: AckRequest, entry: AckEntry) -> AckOutcome:
        state = self._state
        try:
            lease = self._held(
                request.group, request.topic, request.client_id, entry.receipt_handle, entry.message_id
            )
            if lease is None:
                lease = self._ack_without_lease(request, entry)
        except Refusal as refusal:
            state.events.append(
                Refused(state.at, "AckMessage", request.client_id, refusal.code, refusal.message)
            )
            return AckOutcome(entry.message_id, entry.receipt_handle, refusal.code, refusal.message)
        if lease is not None and self._leasing.is_missed(lease, entry.receipt_handle):
            self._leasing.abandon(lease)
            lease = None
        state.events.append(
            Acked(
                state.at,
                request.group,
                request.topic,
                request.client_id,
                entry.message_id,
                entry.receipt_handle,
                lease.first_handle if lease else "",
                lease.message if lease else None,
                lease.attempt if lease else 0,
                lease is not None,
            )
        )
        if lease is not None:
            self._leasing.settle(lease)
        return AckOutcome(entry.message_id, entry.receipt_handle, _OK, "")

    def _ack_without_lease(self, request: AckRequest, entry: AckEntry) -> Lease | None:
        """Handle an ack without a live lease: refuse, accept without effect, or find the lease it means."""
        place = self._place(request.group, request.topic, entry.receipt_handle)
        if place.handle.is_ordered:
            lease = self._ordered_lease(place)
            if lease is not None:
                return lease
        if self._state.profile.ack_without_lease_ok or self._state.leases.was_acked(entry.receipt_handle):
            return None
        raise Refusal(
            Code.INVALID_RECEIPT_HANDLE,
            f"The receipt handle {_short(entry.receipt_handle)} does not hold the message any more.",
        )

    def _ordered_lease(self, place: _Place) -> Lease | None:
        """Find the live lease that an older handle of an ordered delivery still acks (consumption §1,
        R8.9)."""
        if place.consumption is None or not self._state.profile.ordered_old_handles_ack:
            return None
        order = place.consumption.orders.get(place.handle.queue_id)
        if not isinstance(order, QueueOrder) or place.handle.popped != order.popped:
            return None
        offset = place.handle.offset
        if offset >= order.committed and offset not in order.counts:
            raise Refusal(
                self._state.profile.unknown_position_code,
                f"The message at offset {offset} was not part of the last delivery of its queue.",
            )
        return order.open.get(offset)

    # Change

    def change(self, request: ChangeRequest) -> str:
        """Change the end of a lease (6.3)."""
        state = self._state
        profile = state.profile
        state.check_topic(request.topic)
        state.check_group(request.group)
        invisible = request.invisible or 0.0
        if not 0.0 <= invisible <= profile.invisible_max:
            raise Refusal(
                Code.ILLEGAL_INVISIBLE_TIME,
                f"The invisible duration {invisible:g} is not 0 to {profile.invisible_max:g} s.",
            )
        self._check_client(request.client_id)
        length = milliseconds(invisible)
        lease = self._held(
            request.group, request.topic, request.client_id, request.receipt_handle, request.message_id
        )
        if lease is None:
            return self._change_without_lease(request, length)
        return self._change_lease(lease, request, length)

    def _change_lease(self, lease: Lease, request: ChangeRequest, length: int) -> str:
        profile = self._state.profile
        suspend_counts = profile.ordered_suspend_counts if lease.order is not None else profile.suspend_counts
        lease.counts = not request.suspend or suspend_counts
        return self._leasing.change(lease, length, request.receipt_handle)

    def _change_without_lease(self, request: ChangeRequest, length: int) -> str:
        """Handle a change without a live lease: refuse, answer without effect, or lease once more (R6.12)."""
        profile = self._state.profile
        place = self._place(request.group, request.topic, request.receipt_handle)
        if place.handle.is_ordered and profile.ack_without_lease_ok:
            lease = self._ordered_lease(place)
            if lease is not None:
                return self._change_lease(lease, request, length)
            # R6.13: the offset is committed already.
            return self._meaningless(place.handle)
        acked = self._state.leases.was_acked(request.receipt_handle)
        choice = profile.change_after_ack if acked else profile.change_with_old_handle
        if request.group not in self._state.groups and choice is not WrongHandle.REFUSED:
            # Observed on 5.5.0: a lease is recorded for a group that does not exist.
            return self._meaningless(place.handle)
        if choice is WrongHandle.REFUSED or place.consumption is None or place.handle.is_ordered:
            raise Refusal(
                Code.INVALID_RECEIPT_HANDLE,
                f"The receipt handle {_short(request.receipt_handle)} does not hold the message any more.",
            )
        return self._lease_again(request, place.consumption, place, length)

    def _meaningless(self, handle: Handle) -> str:
        """Return a handle without a lease."""
        return encode(handle.start, 0, 0, 0, False, self._state.broker, 0, handle.offset, 0, changed=True)

    def _lease_again(
        self, request: ChangeRequest, consumption: Consumption, place: _Place, length: int
    ) -> str:
        """Lease a message once more, as servers do that check handles only (O6)."""
        state = self._state
        message = place.message
        lease = Lease(
            consumption,
            message,
            message.attempts_before + 1,
            request.client_id,
            request.receipt_handle,
            place.handle.popped,
            state.now + length,
            place.handle.revive_queue,
            False,
            None,
        )
        lease.counts = not request.suspend or state.profile.suspend_counts
        state.leases.add(lease)
        handle = self._leasing.change(lease, length, request.receipt_handle)
        state.events.append(
            Resurrected(
                state.at,
                request.group,
                request.client_id,
                message,
                handle,
                request.receipt_handle,
                length / 1000,
            )
        )
        return handle

    # Forward

    def forward(self, request: ForwardRequest) -> None:
        """Copy a message to the dead-letter topic and settle it (6.4)."""
        state = self._state
        profile = state.profile
        state.check_topic(request.topic)
        state.check_group(request.group)
        self._check_client(request.client_id)
        if request.group not in state.groups and not profile.auto_create_groups:
            raise Refusal(
                Code.CONSUMER_GROUP_NOT_FOUND, f"The consumer group {request.group} does not exist."
            )
        lease = self._held(
            request.group, request.topic, request.client_id, request.receipt_handle, request.message_id
        )
        if lease is None and profile.forward_checks_handle:
            self._place(request.group, request.topic, request.receipt_handle)
            raise Refusal(
                Code.INVALID_RECEIPT_HANDLE,
                f"The receipt handle {_short(request.receipt_handle)} does not hold the message any more.",
            )
        text = lease.handle if lease is not None else request.receipt_handle
        handle = self._decode(text)
        if handle.position is None:
            raise Refusal(
                Code.INVALID_RECEIPT_HANDLE, f"The receipt handle {_short(text)} is cut; a part is missing."
            )
        message = lease.message if lease else self._message(request.group, request.topic, handle)
        if not handle.changed and handle.position != message.position:
            raise Refusal(profile.unknown_position_code, f"No message lies where {_short(text)} points to.")
        if lease is None and handle.is_ordered:
            consumption = state.consumptions.get((request.group, request.topic))
            lease = self._ordered_lease(_Place(handle, message, consumption))
        receiver_group(state, request.group)
        self._copy(request.group, message, lease, handle)
        if lease is not None:
            report_end(self._state, lease, LeaseEnd.FORWARDED)
            self._leasing.settle(lease)

    def _copy(self, group: str, message: StoredMessage, lease: Lease | None, handle: Handle) -> None:
        state = self._state
        first = state.first_message
        if handle.changed and state.profile.forward_changed_handle_takes_first and first is not None:
            state.events.append(WrongMessageDeadLettered(state.at, group, message, first))
            self._dead_letters.copy(group, first)
            return
        attempt = lease.attempt if lease is not None else message.attempts_before + 1
        self._dead_letters.forward(group, message, attempt)

    # Handles

    def _check_client(self, client_id: str) -> None:
        if self._state.profile.settling_needs_client and client_id not in self._state.clients:
            raise Refusal(
                Code.INTERNAL_SERVER_ERROR,
                f"The client {client_id} is not registered; send settings first.",
            )

    def _held(self, group: str, topic: str, client_id: str, handle: str, message_id: str) -> Lease | None:
        """Find the live lease of a handle, if it is one of the group's on the topic (R6.3)."""
        lease = self._state.leases.find(handle, client_id, message_id)
        if lease is None:
            return None
        consumption = lease.consumption
        if consumption.group.config.name != group or consumption.topic.config.name != topic:
            return None
        return lease

    def _place(self, group: str, topic: str, text: str) -> _Place:
        """Return what a handle without lease refers to; refused if unreadable, expired or out of range (6.2)."""
        handle = self._decode(text)
        if handle.expires <= self._state.now:
            raise Refusal(Code.INVALID_RECEIPT_HANDLE, f"The receipt handle {_short(text)} has expired.")
        message = self._message(group, topic, handle)
        return _Place(handle, message, self._state.consumptions.get((group, topic)))

    def _decode(self, text: str) -> Handle:
        handle = decode(text)
        if handle is None:
            raise Refusal(
                self._state.profile.malformed_handle_code, f"The receipt handle {_short(text)} is not one."
            )
        return handle

    def _message(self, group: str, topic_name: str, handle: Handle) -> StoredMessage:
        topic = self._state.topics.get(retry_topic(group, topic_name) if handle.is_retry else topic_name)
        if topic is not None and 0 <= handle.queue_id < len(topic.queues):
            message = topic.queues[handle.queue_id].get(handle.offset)
            if message is not None:
                return message
        raise Refusal(
            self._state.profile.unknown_position_code,
            f"No message lies at offset {handle.offset} of queue {handle.queue_id} of topic {topic_name}.",
        )


def _short(text: str) -> str:
    return repr(text if len(text) <= 120 else text[:117] + "...")
