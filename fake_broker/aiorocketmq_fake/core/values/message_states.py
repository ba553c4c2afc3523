"""The states of one message in one group, and which facts move it: drawn in the docs, followed in the tests.

The core keeps no such state in one place: a message is where the log, the leases and the order records say. This
table is what all of them together promise, told in the events that the core emits (7.1, 8).
"""

from __future__ import annotations

from enum import Enum

from aiorocketmq_fake.core.values import events


class MessageState(Enum):
    """Where a message is for one group."""

    READY = "Ready"
    """It can be received."""
    INFLIGHT = "Inflight"
    """A consumer holds it under a lease."""
    WAITING = "WaitingRetry"
    """Its lease has ended without an ack; it is not visible yet."""
    COMMITTED = "Commit"
    """It was acknowledged."""
    DEAD = "DLQ"
    """It is among the group's dead letters."""
    DELETED = "Deleted"
    """Retention took it before the group was done with it."""


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
    # A forward tells the dead letter first, then the end of the lease.
    (MessageState.DEAD, events.LeaseEnded): MessageState.DEAD,
}
"""(state, kind of event) to the next state; any other event of a message in that state would break a promise."""

QUEUE_GRAIN: dict[tuple[MessageState, type[object]], MessageState] = {
    (MessageState.COMMITTED, events.Delivered): MessageState.INFLIGHT,
    (MessageState.DEAD, events.Delivered): MessageState.INFLIGHT,
    (MessageState.COMMITTED, events.DeadLettered): MessageState.DEAD,
    (MessageState.DEAD, events.DeadLettered): MessageState.DEAD,
}
"""More of them where an ordered group blocks whole queues: what lies behind a gap comes again though settled (R8.8)."""
