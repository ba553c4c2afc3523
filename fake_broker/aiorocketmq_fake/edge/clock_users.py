"""The clients in this process that use the broker's clock, and the wait until all of them are idle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Mapping
from typing import Protocol

__all__ = ["ClockUser", "ClockUsers"]

logger = logging.getLogger("aiorocketmq_fake.clock")

TURNS = 20
"""Turns of the event loop after which a wait polls less often."""
PAUSE = 0.001
"""Real seconds between two polls from then on."""


class ClockUser(Protocol):
    """A client that uses the clock."""

    @property
    def client_id(self) -> str:
        """Its client id."""

    @property
    def polls(self) -> int:
        """Receives in progress: sent, and the answer not yet processed."""

    def work(self) -> Mapping[Hashable, str]:
        """Its work in progress, each with a short description; waiting for a time does not count."""


class ClockUsers:
    """Tracks the users of the clock, and work that exceeded the patience."""

    def __init__(self) -> None:
        self._users: set[ClockUser] = set()
        self._given_up: set[Hashable] = set()
        """Work that exceeded the patience: it is ignored until it ends."""

    def join(self, user: ClockUser) -> None:
        """Add a client."""
        self._users.add(user)

    def leave(self, user: ClockUser) -> None:
        """Remove a client; unknown ones are ignored."""
        self._users.discard(user)

    @property
    def client_ids(self) -> frozenset[str]:
        """The client ids of all."""
        return frozenset(user.client_id for user in self._users)

    async def wait_idle(
        self,
        patience: float,
        parked: Callable[[str], int],
        is_missing: Callable[[str], bool],
        is_settling: Callable[[], bool],
    ) -> None:
        """Wait until all users are idle, each poll of theirs is `parked` at a broker, and none is missing since a
        restart.

        `is_settling` is whether the broker itself has work at this moment. After `patience` real seconds a warning
        names the work in progress, and later calls ignore it.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + patience
        turns = 0
        while self._users:
            work = self._work(parked, is_missing)
            self._given_up &= work.keys()
            rest = [words for key, words in work.items() if key not in self._given_up]
            if not is_settling() and not rest:
                return
            if loop.time() >= end:
                self._given_up |= work.keys()
                if rest:
                    logger.warning(
                        "still busy after %g s, the clock continues without: %s",
                        patience,
                        "; ".join(rest),
                    )
                return
            turns += 1
            await asyncio.sleep(0 if turns < TURNS else PAUSE)

    def _work(self, parked: Callable[[str], int], is_missing: Callable[[str], bool]) -> dict[Hashable, str]:
        """All work in progress, by client and description."""
        work: dict[Hashable, str] = {}
        for user in self._users:
            client_id = user.client_id
            work.update({(user, key): f"{client_id}: {words}" for key, words in user.work().items()})
            if (waiting := parked(client_id)) < user.polls:
                work[user, "polls"] = f"{client_id}: {user.polls} polls, of which the broker holds {waiting}"
            if is_missing(client_id):
                work[user, "missing"] = f"{client_id}: has not polled since the broker was started again"
        return work
