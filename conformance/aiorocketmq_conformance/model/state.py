"""What the model knows of messages, of their leases and of groups."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiorocketmq_conformance.model.calls import (
    EVERYTHING,
    START,
    Delivered,
    Filter,
    Instant,
    Outgoing,
    Receive,
)

FOREVER = float("inf")
NEVER = Instant(FOREVER, 1 << 60)
DEAD_LETTERS = "%DLQ%"


@dataclass(frozen=True, slots=True)
class Interval:
    """The earliest and the latest moment of something that happened once."""

    low: float
    high: float

    def plus(self, window: tuple[float, float]) -> Interval:
        """Return the interval of what follows within a window."""
        return Interval(self.low + window[0], self.high + window[1])


@dataclass(slots=True)
class Number:
    """A number that administrators change."""

    changes: list[tuple[int, Instant]]
    """Its values, and the ends of the calls that set them."""

    def since(self, moment: Instant) -> set[int]:
        """Return the values that may have been in force at a moment, or later."""
        ends = [*(ended for _, ended in self.changes[1:]), NEVER]
        return {value for (value, _), end in zip(self.changes, ends, strict=True) if end > moment}


@dataclass(slots=True)
class Sent:
    """A message that a client sent."""

    outgoing: Outgoing
    begun: Instant
    ended: Instant = NEVER
    place: int = 0
    """Its index in the batch."""
    is_refused: bool = False
    is_stored: bool = False
    """The server acknowledged it."""
    offset: int = -1
    committed: Instant | None = None
    """Begin of the first commit that was not refused."""
    visible: Instant | None = None
    """Since when it surely is visible, apart from a delivery time."""
    is_rolled_back: bool = False
    deciding: int = 0
    """Calls in progress that end its transaction."""
    times_checked: int = 0
    is_forgotten: bool = False
    """A call without a decision used up what the proxy remembers until the next check."""
    recalled: Instant | None = None
    is_uncertain: bool = False
    """A send, commit or recall has an unknown outcome."""
    trimmed: Instant | None = None
    """Deleted, as it was surely too old."""
    may_be_trimmed: bool = False
    """Deleted, or a little too young."""
    is_repeated: bool = False
    """It was sent more than once, with the same id, and may be stored more than once."""
    positions: set[tuple[int, int]] = field(default_factory=set)
    """Queues and offsets of first deliveries."""

    @property
    def id(self) -> str:
        """The message id."""
        return self.outgoing.content.id

    @property
    def is_half(self) -> bool:
        """Whether it needs a commit."""
        return self.outgoing.type == "TRANSACTION"

    def is_before(self, other: Sent) -> bool:
        """Return whether it was surely stored before another one: an earlier send, or place of the same batch."""
        if self.begun == other.begun:
            return self.place < other.place
        return self.ended.step < other.begun.step


@dataclass(slots=True)
class Lease:
    """One delivery of a message to a group."""

    delivery: Delivered
    receive: Receive
    end: Interval
    handles: dict[str, bool]
    """Handles of this lease, and whether each is good while it lives: a change replaces all of them."""
    is_renewed: bool
    was_changed: bool = False
    counts: bool | None = True
    """Whether the next delivery has a higher attempt; None if unknown."""
    settled: Instant | None = None
    """Begin of the acknowledgement or forward that was answered with OK."""
    is_dropped: bool = False
    """A reset ended it."""

    @property
    def is_of_first(self) -> bool:
        """Whether its message surely was the first that the receive read in its queue."""
        mine = self.delivery
        # Redeliveries are read from another queue, behind some that were given up, and filters skip messages.
        return (
            mine.attempt == 1
            and self.receive.filter == EVERYTHING
            and all(
                mine.offset <= other.offset
                for other in self.receive.deliveries
                if (other.queue, other.attempt) == (mine.queue, 1)
            )
        )


@dataclass(slots=True)
class Copy:
    """A message as one group consumes it from one topic."""

    message: Sent
    lease: Lease | None = None
    """The last one."""
    visible_again: Instant | None = None
    """A reset to the beginning."""
    times: int = 0
    """Deliveries."""
    settling: list[Instant] = field(default_factory=list)
    """Begins of acknowledgements and forwards without a response so far."""
    settled: Instant | None = None
    """Begin of the first one answered with OK."""
    settled_by: Instant = NEVER
    """Its end."""
    is_forwarded: bool = False
    passed: Instant | None = None
    """A reset to the end."""
    is_free: bool = False
    """Its state is unknown: any delivery is allowed."""
    has_lost_count: bool = False
    """The number of its dead letters is unknown."""

    def is_settled_at(self, step: int) -> bool:
        """Return whether it may be settled at a step."""
        started = [self.settled, *self.settling]
        return any(each is not None and each.step < step for each in started)


@dataclass(slots=True)
class Group:
    """A consumer group."""

    created: Instant
    ordered: bool = False
    limit: Number = field(default_factory=lambda: Number([(17, START)]))
    """Attempts of a message at most."""
    steps: tuple[float, ...] = ()


@dataclass(slots=True)
class Reading:
    """A group that consumes a topic."""

    filters: set[Filter] = field(default_factory=set)
    """All filters of its receives: each receive skips for good what its filter rejects."""
    reads_whole: bool = False
    """It was reset to the beginning."""
    was_reset: bool = False
    was_cut: bool = False
    """A receive ended without a response, or another group's handle was used, and may have taken messages."""
    has_died: bool = False
    """A server died during a receive, and may have taken messages."""


@dataclass(slots=True)
class Topic:
    """A topic."""

    type: str
    queues: Number


def hash_of(tag: str) -> int:
    """Return the hash by which servers in Java compare tags first."""
    value = 0
    for unit in tag:
        value = (31 * value + ord(unit)) & 0xFFFFFFFF
    return value
