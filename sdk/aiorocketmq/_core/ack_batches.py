"""Batches of acks: one call per destination at a time; the next call sends all acks that arrived meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

DestinationT = TypeVar("DestinationT", bound=Hashable)
EntryT = TypeVar("EntryT")


class AckBatches(Generic[DestinationT, EntryT]):
    """Batches acks without a timer: a single ack is sent at once, under load many share a call.

    A destination is an endpoint and a topic, since one AckMessage has one group and topic and must go to the server
    that leased the messages (client-behaviour.md 10.9, 8.4)."""

    __slots__ = ("_max_entries", "_waiting")

    def __init__(self, *, max_entries: int) -> None:
        self._max_entries = max_entries
        self._waiting: dict[DestinationT, deque[EntryT]] = {}

    def add(self, destination: DestinationT, entry: EntryT) -> bool:
        """Queue an ack; True if no sender runs for `destination`, so that the caller must start one."""
        waiting = self._waiting.get(destination)
        if waiting is None:
            self._waiting[destination] = deque((entry,))
            return True
        waiting.append(entry)
        return False

    def next_batch(self, destination: DestinationT) -> list[EntryT]:
        """Return the entries of the next call, oldest first; empty if there are none, and the sender ends."""
        waiting = self._waiting[destination]
        if not waiting:
            del self._waiting[destination]
            return []
        return [waiting.popleft() for _ in range(min(len(waiting), self._max_entries))]

    def put_back(self, destination: DestinationT, batch: Sequence[EntryT]) -> None:
        """Put `batch`, the last one taken, back to the front: its call has failed."""
        self._waiting[destination].extendleft(reversed(batch))
