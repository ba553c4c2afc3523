"""The receives and pulls that wait: their answers to come, whose they are, and how many each client usually has."""

from __future__ import annotations

import asyncio
from collections import Counter

from aiorocketmq_fake.core.values.model import Pulled, PullRequest, Received, ReceiveRequest

__all__ = ["Parking"]

Answer = asyncio.Future[Received | Pulled]
Place = tuple[str, int]
"""What a poll waits for: a topic, whose queues are all the same to a receive, or for a pull one queue of it."""


class Parking:
    """All parked polls of one broker, by their number."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Answer, str, Place]] = {}
        self._now: dict[str, Counter[Place]] = {}
        self._most: Counter[str] = Counter()
        """The most places at which each client ever waited at once."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __getitem__(self, poll_id: int) -> Answer:
        """Return the answer to come of a poll."""
        return self._waiting[poll_id][0]

    def numbers(self) -> tuple[int, ...]:
        """Return the numbers of all that wait."""
        return tuple(self._waiting)

    def add(self, poll_id: int, request: ReceiveRequest | PullRequest) -> None:
        """Let a client's poll wait from now on."""
        client_id = request.client_id
        place = request.topic, request.queue_id if isinstance(request, PullRequest) else -1
        self._waiting[poll_id] = (asyncio.get_running_loop().create_future(), client_id, place)
        now = self._now.setdefault(client_id, Counter())
        now[place] += 1
        self._most[client_id] = max(self._most[client_id], len(now))

    def pop(self, poll_id: int) -> Answer | None:
        """Let a poll wait no more; returns its answer to come, None where it does not wait."""
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
        """Return how many polls of a client wait."""
        return sum(self._now.get(client_id, {}).values())

    def is_back(self, client_id: str, at_least: int = 0) -> bool:
        """Tell whether a client waits at as many places as it ever did at once, and at least at so many.

        How many polls it has at each does not count: clients have more of them while there is much."""
        return len(self._now.get(client_id, ())) >= max(self._most[client_id], at_least)

    def forget(self) -> None:
        """Forget what clients usually do: they start anew."""
        self._most.clear()
