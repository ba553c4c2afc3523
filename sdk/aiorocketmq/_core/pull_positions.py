"""Positions of a pull consumer in its queues, the offsets it may commit, and the pulls it may start."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

QueueT = TypeVar("QueueT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class PullTicket(Generic[QueueT]):
    """A pull that may start: its offset, and the epoch that must still be current when the answer arrives."""

    queue: QueueT
    offset: int
    epoch: int


@dataclass(slots=True)
class _Place:
    """One queue's state. Offsets are those of the next message: position P means that P is not read yet."""

    epoch: int
    position: int | None = None
    """Offset of the next message for the user; None until it is known."""
    fetched: int | None = None
    """Offset of the next pull: ahead of `position` by the batch that waits to be taken."""
    done: int | None = None
    """Offset after the batches that the user has completed: what auto-commit may store."""
    committed: int | None = None
    pulling: bool = False
    waiting: bool = False
    """Whether a fetched batch has not been taken yet; the next pull starts after that."""
    paused: bool = False
    unfinished: bool = False
    """Whether the user has not completed the last batch."""
    skipped_to: int | None = None
    """Offset after the empty answers behind that batch, to be committed with it."""


class PullPositions(Generic[QueueT]):
    """State of the queues of one pull consumer.

    A seek, a new assignment and a pause may happen at any time, also while a pull is in flight: each seek increments
    the queue's epoch, and an answer with an old epoch is dropped. At most one batch per queue waits for the user."""

    __slots__ = ("_epochs", "_places")

    def __init__(self) -> None:
        self._places: dict[QueueT, _Place] = {}
        self._epochs = 0

    def assign(self, queues: Iterable[QueueT]) -> tuple[list[QueueT], list[QueueT]]:
        """Assign exactly `queues`; those assigned before keep their position. Returns (added, dropped)."""
        new = dict.fromkeys(queues)
        added = [queue for queue in new if queue not in self._places]
        dropped = [queue for queue in self._places if queue not in new]
        for queue in dropped:
            del self._places[queue]
        for queue in added:
            self._places[queue] = _Place(epoch=self._next_epoch())
        return added, dropped

    @property
    def queues(self) -> Collection[QueueT]:
        """The assigned queues, in the order of the assignment."""
        return self._places.keys()

    def seek(self, queue: QueueT, offset: int) -> None:
        """Read `queue` from `offset`; a pull in flight and a waiting batch are dropped. KeyError if not assigned."""
        place = self._places[queue]
        place.epoch = self._next_epoch()
        place.position = place.fetched = place.done = offset
        place.pulling = place.waiting = place.unfinished = False

    def start_at(self, queue: QueueT, offset: int, *, committed: int | None) -> bool:
        """Set the first position of a new queue; False if it was dropped or sought meanwhile."""
        place = self._places.get(queue)
        if place is None or place.position is not None:
            return False
        place.position = place.fetched = place.done = offset
        place.committed = committed
        return True

    def position(self, queue: QueueT) -> int | None:
        """Offset of the next message for the user, None until known. Raises KeyError if not assigned."""
        return self._places[queue].position

    def pause(self, queue: QueueT) -> None:
        """Deliver nothing more of `queue` and start no pull; what is in flight is kept. KeyError if not assigned."""
        self._places[queue].paused = True

    def resume(self, queue: QueueT) -> None:
        """Undo pause(). Raises KeyError if not assigned."""
        self._places[queue].paused = False

    def committed(self, queue: QueueT) -> int | None:
        """The committed offset as far as this client knows. Raises KeyError if not assigned."""
        return self._places[queue].committed

    def is_paused(self, queue: QueueT) -> bool:
        """Whether the queue is paused. Raises KeyError if not assigned."""
        return self._places[queue].paused

    def ticket(self, queue: QueueT) -> PullTicket[QueueT] | None:
        """Return the next pull; None while one is in flight, a batch waits, or the queue is paused or dropped."""
        place = self._places.get(queue)
        if place is None or place.fetched is None or place.pulling or place.waiting or place.paused:
            return None
        place.pulling = True
        return PullTicket(queue, place.fetched, place.epoch)

    def pulled(self, ticket: PullTicket[QueueT], *, next_offset: int, has_messages: bool) -> bool:
        """Record a pull's answer; False if a seek or a new assignment has outdated it.

        Without messages the position moves to `next_offset` at once: all up to there was filtered out, was deleted by
        retention, or never existed."""
        place = self._current(ticket)
        if place is None:
            return False
        place.pulling = False
        place.fetched = next_offset
        if has_messages:
            place.waiting = True
            return True
        place.position = next_offset
        if place.unfinished:
            place.skipped_to = next_offset
        else:
            place.done = next_offset
        return True

    def failed(self, ticket: PullTicket[QueueT]) -> bool:
        """Let the same pull be repeated; False if it is outdated."""
        place = self._current(ticket)
        if place is None:
            return False
        place.pulling = False
        return True

    def take(self, ticket: PullTicket[QueueT]) -> bool:
        """Deliver the fetched batch to the user, who completes it by finish(). False if outdated."""
        place = self._current(ticket)
        if place is None or not place.waiting or place.paused:
            return False
        place.waiting = False
        place.position = place.fetched
        place.unfinished, place.skipped_to = True, None
        return True

    def finish(self, ticket: PullTicket[QueueT], next_offset: int) -> None:
        """Mark a delivered batch as completed up to `next_offset`; a batch from before a seek is ignored."""
        place = self._current(ticket)
        if place is not None:
            place.done = next_offset if place.skipped_to is None else place.skipped_to
            place.unfinished, place.skipped_to = False, None

    def is_current(self, ticket: PullTicket[QueueT]) -> bool:
        """Whether the messages that `ticket` fetched are not outdated."""
        return self._current(ticket) is not None

    def due_commits(self) -> dict[QueueT, int]:
        """Offsets that auto-commit would store now: completed, and not committed yet."""
        return {
            queue: place.done
            for queue, place in self._places.items()
            if place.done is not None and place.done != place.committed and place.position is not None
        }

    def note_committed(self, queue: QueueT, offset: int) -> None:
        """Record a committed offset, which also completes the messages before it."""
        place = self._places.get(queue)
        if place is not None:
            place.committed = offset
            if place.done is not None:
                place.done = max(place.done, offset)

    def _current(self, ticket: PullTicket[QueueT]) -> _Place | None:
        place = self._places.get(ticket.queue)
        return place if place is not None and place.epoch == ticket.epoch else None

    def _next_epoch(self) -> int:
        self._epochs += 1
        return self._epochs


def lag(*, position: int | None, committed: int | None, minimum: int, maximum: int) -> int:
    """Number of messages still to come: from the committed offset if there is one, else from the position.

    Retention may have passed the committed offset, so it never counts below `minimum` (live-lessons.md 21)."""
    reached = committed if committed is not None else position if position is not None else minimum
    return max(0, maximum - max(reached, minimum))
