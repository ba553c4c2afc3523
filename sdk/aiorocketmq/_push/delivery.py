"""A delivery: one received message of the push consumer until its settling has completed."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from aiorocketmq._core.lease import Lease
from aiorocketmq._core.outcomes import Outcome
from aiorocketmq.message import MessageQueue, ReceivedMessage


@dataclass(slots=True, eq=False)
class Delivery:
    """Compared and hashed by identity: the same stored message delivered twice is two deliveries."""

    message: ReceivedMessage
    lease: Lease
    source: MessageQueue
    """The assigned queue that it was received from, in whose share of the cache it counts."""
    order_key: Hashable | None
    """Messages with equal keys are handled in order; None in a normal group."""
    attempt: int
    """The server's number, incremented with each local retry in an ordered group."""
    is_settling: bool = False
    """Whether its ack, release or forward has begun."""
    outcome: Outcome | None = None
    """The outcome that its settling applies; None if its handler has settled it, or it cannot be settled."""
    failures: int = 0
    """LeaseSettler calls that failed."""

    @property
    def size(self) -> int:
        """Bytes of the body, as counted by the cache."""
        return len(self.message.body)


def order_key_of(message: ReceivedMessage, *, ordered: bool) -> Hashable | None:
    """Return the order key of `message`: its message group, or its queue if it has none."""
    if not ordered:
        return None
    if message.lite_topic is not None:
        return (message.topic, message.lite_topic)
    if message.message_group is None:
        return message.queue
    return (message.topic, message.message_group)
