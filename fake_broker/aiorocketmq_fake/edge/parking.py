"""Parked receives and pulls: their pending answers, and the usual number of each client."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

from aiorocketmq_fake.core.values.model import Pulled, PullRequest, Received, ReceiveRequest

__all__ = ["Parking"]

Answer = asyncio.Future[Received | Pulled]
Place = tuple[str, int]
"""The place of a poll: a topic for a receive, one of its queues for a pull."""


class Parking:
    """All parked polls of one broker, by id."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Answer, str, Place]] = {}
        self._now: dict[str, Counter[Place]] = {}
        self._most: Counter[str] = Counter()
        """The maximal number of places at which each client was parked at once."""
        self._before: set[str] = set()
        self.missing: set[str] = set()
        """Clients that polled, or would have, before the broker was stopped and started again, and have not polled
        since."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __getitem__(self, poll_id: int) -> Answer:
        """Return the pending answer of a poll."""
        return self._waiting[poll_id][0]

    def numbers(self) -> tuple[int, ...]:
        """Return the ids of all parked polls."""
        return tuple(self._waiting)

    def add(self, poll_id: int, request: ReceiveRequest | PullRequest) -> None:
        """Add a client's poll."""
        client_id = request.client_id
        self.missing.discard(client_id)
        place = request.topic, request.queue_id if isinstance(request, PullRequest) else -1
        self._waiting[poll_id] = (asyncio.get_running_loop().create_future(), client_id, place)
        now = self._now.setdefault(client_id, Counter())
        now[place] += 1
        self._most[client_id] = max(self._most[client_id], len(now))

    def pop(self, poll_id: int) -> Answer | None:
        """Remove a poll; return its pending answer, None if it is not parked."""
        waiting = self._waiting.pop(poll_id, None)
        if waiting is None:
            return None
        answer, client_id, place = waiting
        now = self._now[client_id]
        now[place] -= 1
        if not now[place]:
            del now[place]
        if not now:
            del self._now[client_id]
        return answer

    def count(self, client_id: str) -> int:
        """Return the number of a client's parked polls."""
        return sum(self._now.get(client_id, {}).values())

    def is_back(self, client_id: str, at_least: int = 0) -> bool:
        """Return whether a client is parked at as many places as ever at once, and at least at so many.

        The number of polls at each does not count: it varies with load.
        """
        return len(self._now.get(client_id, ())) >= max(self._most[client_id], at_least)

    def begin(self) -> None:
        """Expect the clients of before a stop."""
        self.missing, self._before = self._before, set()

    def forget(self, polling: Iterable[str]) -> None:
        """Drop the usual numbers of clients: they start again. Nobody is missing while the broker is stopped.

        `polling` are clients that poll all the time, also those that have only begun."""
        self._before |= self.missing | self._most.keys() | set(polling)
        self.missing = set()
        self._most.clear()
