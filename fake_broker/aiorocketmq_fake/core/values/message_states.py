"""State machine of one message in one group: drawn in the docs, checked in the tests.

The core stores no such state: log, leases and order records determine it together. This table specifies the allowed
events (7.1, 8).
"""

from __future__ import annotations

from enum import Enum

from aiorocketmq_fake.core.values import events


class MessageState(Enum):
    """State of a message in one group."""

    READY = "Ready"
    """Visible to receives."""
    INFLIGHT = "Inflight"
    """Leased by a consumer."""
    WAITING = "WaitingRetry"
    """Its lease expired without an ack; it is not visible yet."""
    COMMITTED = "Commit"
    """Acknowledged."""
    DEAD = "DLQ"
    """Moved to the dead-letter topic."""
    DELETED = "Deleted"
    """Deleted by retention before the group settled it."""


FIRST = MessageState.READY
"""A stored message is ready for every group."""

TRANSITIONS: dict[tuple[MessageState, type[object]], MessageState] = {
    (MessageState.READY, events.Delivered): MessageState.INFLIGHT,
    (MessageState.READY, events.DeadLettered): MessageState.DEAD,
    (MessageState.INFLIGHT, events.LeaseChanged): MessageState.INFLIGHT,
    (MessageState.INFLIGHT, events.Acked): MessageState.COMMITTED,
    (MessageState.INFLIGHT, events.LeaseEnded): MessageState.WAITING,
    (MessageState.INFLIGHT, events.DeadLettered): MessageState.DEAD,
    (MessageState.WAITING, events.Revived): MessageState.READY,
    (MessageState.WAITING, events.NotRevived): MessageState.DELETED,
    (MessageState.WAITING, events.DeadLettered): MessageState.DEAD,
    # A receive repeated with its attempt id ends the leases of the first one and delivers at once (R8.14).
    (MessageState.WAITING, events.Delivered): MessageState.INFLIGHT,
    # A forward emits the dead letter first, then the end of the lease.
    (MessageState.DEAD, events.LeaseEnded): MessageState.DEAD,
}
"""(state, kind of event) to the next state; any other event in that state is a violation."""

QUEUE_GRAIN: dict[tuple[MessageState, type[object]], MessageState] = {
    (MessageState.COMMITTED, events.Delivered): MessageState.INFLIGHT,
    (MessageState.DEAD, events.Delivered): MessageState.INFLIGHT,
    (MessageState.COMMITTED, events.DeadLettered): MessageState.DEAD,
    (MessageState.DEAD, events.DeadLettered): MessageState.DEAD,
}
"""Additional ones if an ordered group blocks whole queues: messages after a gap are redelivered though settled
(R8.8)."""
