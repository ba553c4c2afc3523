"""Due times of periodic jobs of many clients, with longer periods if there are very many clients."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop, heappush
from itertools import count
from math import ceil
from random import Random
from typing import Generic, TypeVar

from aiorocketmq._core.retries import jittered

JobT = TypeVar("JobT", bound=Hashable)

GRAIN = 1.0
"""Jobs with long periods are due at full seconds: many calls at one moment cost a fraction of many moments."""
CROWDS_GRAIN = 5.0
"""The same for a crowd of clients."""
_COARSE = 5.0
"""Periods from here on are long."""
CROWD = 220
"""Clients that share a connection without longer periods."""
MOST_STRETCHED = 4.5
"""A heartbeat every 10 s becomes one every 45 s, 59 s at most: two of them fit into the 120 s after which servers
forget a client (live-lessons.md, 9)."""


class Timetable(Generic[JobT]):
    """The next run of each job. A job that `due` has returned is not scheduled until it is added again."""

    __slots__ = ("_entries", "_heap", "_numbers", "_random", "clients")

    def __init__(self, random: Random) -> None:
        self.clients = 0
        """How many clients have jobs here."""
        self._random = random
        self._heap: list[tuple[float, int, JobT]] = []
        self._entries: dict[JobT, int] = {}
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._entries)

    def plan(self, job: JobT, pause: float, *, now: float) -> None:
        """Schedule `job` in about `pause` seconds from `now`, with jitter so that clients do not run in step."""
        stretch = min(MOST_STRETCHED, max(1.0, self.clients / CROWD))
        due = now + jittered(pause * stretch, self._random)
        if pause * stretch >= _COARSE:
            grain = GRAIN if stretch == 1.0 else CROWDS_GRAIN
            due = ceil(due / grain) * grain
        number = self._entries[job] = next(self._numbers)
        heappush(self._heap, (due, number, job))

    def forget(self, job: JobT) -> None:
        """Remove `job`."""
        self._entries.pop(job, None)
        if len(self._heap) > 2 * len(self._entries) + 8:
            self._heap = [entry for entry in self._heap if self._is_planned(entry)]
            self._heap.sort()

    def due(self, now: float) -> list[JobT]:
        """Remove and return every job that is due at `now`."""
        jobs: list[JobT] = []
        while self._heap and self._heap[0][0] <= now:
            entry = heappop(self._heap)
            if self._is_planned(entry):
                del self._entries[entry[2]]
                jobs.append(entry[2])
        return jobs

    def next_deadline(self) -> float | None:
        """When `due` will next return something; None if nothing is scheduled."""
        while self._heap and not self._is_planned(self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _is_planned(self, entry: tuple[float, int, JobT]) -> bool:
        return self._entries.get(entry[2]) == entry[1]
