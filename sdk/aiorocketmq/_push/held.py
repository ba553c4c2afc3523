"""A message in hand: what the push consumer knows of it from its arrival until its settling has ended."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from aiorocketmq._core.lease import Lease
from aiorocketmq._core.outcomes import Outcome
from aiorocketmq.message import MessageQueue, ReceivedMessage


@dataclass(slots=True, eq=False)
class Held:
    """Compared and hashed by identity: the same stored message delivered twice is held twice."""

    message: ReceivedMessage
    lease: Lease
    source: MessageQueue
    """The assigned queue it came from, whose share of the cache it takes up."""
    lane: Hashable | None
    """What it keeps its order with in an ordered group; None in a normal one."""
    attempt: int
    """The server's number, counted on with each local run in an ordered group."""
    is_settling: bool = False
    """Its ack, release or forward has begun."""
    outcome: Outcome | None = None
    """What its settling is to bring about; None where its handler has settled it, or nobody could."""
    failures: int = 0
    """Settling calls that failed."""

    @property
    def size(self) -> int:
        """Bytes of the body, as the cache counts them."""
        return len(self.message.body)


def lane_of(message: ReceivedMessage, *, ordered: bool) -> Hashable | None:
    """What `message` must keep its order with: its message group, or its queue where it has none."""
    if not ordered:
        return None
    if message.lite_topic is not None:
        return (message.topic, message.lite_topic)
    if message.message_group is None:
        return message.queue
    return (message.topic, message.message_group)
