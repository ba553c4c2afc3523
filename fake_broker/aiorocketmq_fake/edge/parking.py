"""The receives and pulls that wait: their answers to come, whose they are, and how many each client usually has."""

from __future__ import annotations

import asyncio
from collections import Counter

from aiorocketmq_fake.core.model import Pulled, Received

__all__ = ["Parking"]

Answer = asyncio.Future[Received | Pulled]


class Parking:
    """All parked polls of one broker, by their number."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Answer, str]] = {}
        self._now: Counter[str] = Counter()
        self._most: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._waiting)

    def __getitem__(self, poll_id: int) -> Answer:
        """Return the answer to come of a poll."""
        return self._waiting[poll_id][0]

    def numbers(self) -> tuple[int, ...]:
        """Return the numbers of all that wait."""
        return tuple(self._waiting)

    def add(self, poll_id: int, client_id: str) -> None:
        """Let a client's poll wait from now on."""
        self._waiting[poll_id] = (asyncio.get_running_loop().create_future(), client_id)
        self._now[client_id] += 1
        self._most[client_id] = max(self._most[client_id], self._now[client_id])

    def pop(self, poll_id: int) -> Answer | None:
        """Let a poll wait no more; returns its answer to come, None where it does not wait."""
        answer, client_id = self._waiting.pop(poll_id, (None, ""))
        if answer is not None:
            self._now[client_id] -= 1
        return answer

    def is_back(self, client_id: str, at_least: int = 0) -> bool:
        """Tell whether as many polls of a client wait as ever did at once, and at least so many."""
        return self._now[client_id] >= max(self._most[client_id], at_least)

    def forget(self) -> None:
        """Forget what clients usually do: they start anew."""
        self._most.clear()
