"""Where a pull consumer reads each of its queues, what it may commit, and which pulls it may start."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

QueueT = TypeVar("QueueT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class PullTicket(Generic[QueueT]):
    """One pull that may start: where, and the epoch that its answer must still find."""

    queue: QueueT
    offset: int
    epoch: int


@dataclass(slots=True)
class _Place:
    """One queue's state. Offsets are those of the next message: position P means that P is not yet read."""

    epoch: int
    position: int | None = None
    """Next offset that the user gets; None until it is known."""
    fetched: int | None = None
    """Next offset to pull: runs ahead of `position` by the batch that waits to be taken."""
    done: int | None = None
    """Next offset after what the user has finished with: what auto-commit may store."""
    committed: int | None = None
    pulling: bool = False
    waiting: bool = False
    """A fetched batch has not been taken yet; the next pull starts after that."""
    paused: bool = False
    unfinished: bool = False
    """The user has not finished with the last batch."""
    skipped_to: int | None = None
    """Next offset after what came empty behind that batch, and is done with it."""


class PullPositions(Generic[QueueT]):
    """Follows the queues of one pull consumer.

    A seek, a new assignment and a pause may come at any time, also while a pull is out: each seek raises the
    queue's epoch, and an answer with an old epoch is dropped. At most one batch per queue waits for the user.
    """

    __slots__ = ("_epochs", "_places")

    def __init__(self) -> None:
        self._places: dict[QueueT, _Place] = {}
        self._epochs = 0

    def assign(self, queues: Iterable[QueueT]) -> tuple[list[QueueT], list[QueueT]]:
        """Hold exactly `queues`; those held before keep their place. Returns (added, dropped)."""
        wanted = dict.fromkeys(queues)
        added = [queue for queue in wanted if queue not in self._places]
        dropped = [queue for queue in self._places if queue not in wanted]
        for queue in dropped:
            del self._places[queue]
        for queue in added:
            self._places[queue] = _Place(epoch=self._next_epoch())
        return added, dropped

    @property
    def queues(self) -> Collection[QueueT]:
        """What is assigned, in the order given."""
        return self._places.keys()

    def seek(self, queue: QueueT, offset: int) -> None:
        """Read `queue` from `offset`; what is on its way or waits is dropped. KeyError if not assigned."""
        place = self._places[queue]
        place.epoch = self._next_epoch()
        place.position = place.fetched = place.done = offset
        place.pulling = place.waiting = place.unfinished = False
        place.skipped_to = None

    def start_at(self, queue: QueueT, offset: int, *, committed: int | None) -> bool:
        """Give a fresh queue its first position; False when it was dropped or a seek has overtaken this."""
        place = self._places.get(queue)
        if place is None or place.position is not None:
            return False
        place.position = place.fetched = place.done = offset
        place.committed = committed
        return True

    def position(self, queue: QueueT) -> int | None:
        """Next offset that the user gets, None until known. Raises KeyError if not assigned."""
        return self._places[queue].position

    def pause(self, queue: QueueT) -> None:
        """Hand out nothing more of `queue`, start no pull, keep what is on its way; KeyError if unheld."""
        self._places[queue].paused = True

    def resume(self, queue: QueueT) -> None:
        """Undo pause(). Raises KeyError if not assigned."""
        self._places[queue].paused = False

    def committed(self, queue: QueueT) -> int | None:
        """What the server has stored, as far as is known here. Raises KeyError if not assigned."""
        return self._places[queue].committed

    def is_paused(self, queue: QueueT) -> bool:
        """Whether pause() holds. Raises KeyError if not assigned."""
        return self._places[queue].paused

    def ticket(self, queue: QueueT) -> PullTicket[QueueT] | None:
        """Allow the next pull; None while one is out, a batch waits, or the queue is paused or dropped."""
        place = self._places.get(queue)
        if place is None or place.fetched is None or place.pulling or place.waiting or place.paused:
            return None
        place.pulling = True
        return PullTicket(queue, place.fetched, place.epoch)

    def pulled(self, ticket: PullTicket[QueueT], *, next_offset: int, has_messages: bool) -> bool:
        """Take a pull's answer in; False when a seek or a new assignment has made it worthless.

        Without messages the position moves to `next_offset` at once: all up to there was filtered out, is
        gone by retention, or never existed.
        """
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
        """Let the same pull be tried again; False when nobody wants it any more."""
        place = self._current(ticket)
        if place is None:
            return False
        place.pulling = False
        return True

    def take(self, ticket: PullTicket[QueueT]) -> bool:
        """Hand the fetched batch to the user; finish() says when its messages are done. False if outdated."""
        place = self._current(ticket)
        if place is None or not place.waiting or place.paused:
            return False
        place.waiting = False
        place.position = place.fetched
        place.unfinished, place.skipped_to = True, None
        return True

    def finish(self, ticket: PullTicket[QueueT], next_offset: int) -> None:
        """Count a taken batch as done, up to `next_offset`; a batch from before a seek counts no more."""
        place = self._current(ticket)
        if place is not None:
            place.done = next_offset if place.skipped_to is None else place.skipped_to
            place.unfinished, place.skipped_to = False, None

    def is_current(self, ticket: PullTicket[QueueT]) -> bool:
        """Whether what `ticket` fetched is still wanted."""
        return self._current(ticket) is not None

    def due_commits(self) -> dict[QueueT, int]:
        """Offsets that auto-commit would store now: done, and not yet committed."""
        return {
            queue: place.done
            for queue, place in self._places.items()
            if place.done is not None and place.done != place.committed and place.position is not None
        }

    def note_committed(self, queue: QueueT, offset: int) -> None:
        """Remember what the server has stored: whoever commits a batch has finished with it."""
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
    """Messages of a queue still to come: from the committed offset if there is one, else from the position.

    Retention may have passed the committed offset, so it never counts below `minimum` (live-lessons.md 21).
    """
    reached = committed if committed is not None else position if position is not None else minimum
    return max(0, maximum - max(reached, minimum))
