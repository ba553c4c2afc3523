"""The clients in this process that go by the broker's clock, and the wait until all of them have done their work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Mapping
from typing import Protocol

__all__ = ["ClockUser", "ClockUsers"]

logger = logging.getLogger(__name__)

TURNS = 20
"""Turns of the event loop after which a wait looks less often."""
PAUSE = 0.001
"""Real seconds between two looks from then on."""


class ClockUser(Protocol):
    """A client, as the clock sees it."""

    @property
    def client_id(self) -> str:
        """Its name at the broker."""

    @property
    def polls(self) -> int:
        """Receives that are under way: sent, and the answer not yet taken over."""

    def work(self) -> Mapping[Hashable, str]:
        """Everything it is doing now, each with a few words for people; what only waits for a time is not among it."""


class ClockUsers:
    """Knows who goes by the clock, and what was still going on when the patience with it had ended."""

    def __init__(self) -> None:
        self._users: set[ClockUser] = set()
        self._given_up: set[Hashable] = set()
        """Work that was waited for in vain: it is not waited for again before it has ended."""

    def join(self, user: ClockUser) -> None:
        """Wait for its work from now on."""
        self._users.add(user)

    def leave(self, user: ClockUser) -> None:
        """Wait for it no more; without effect where it had not joined."""
        self._users.discard(user)

    @property
    def client_ids(self) -> frozenset[str]:
        """The names of all."""
        return frozenset(user.client_id for user in self._users)

    async def wait_idle(
        self, patience: float, parked: Callable[[str], int], is_settling: Callable[[], bool]
    ) -> None:
        """Wait until all users are idle, and each poll of theirs is `parked` at a broker.

        `is_settling` is whether the broker itself has something to do at this very moment. After `patience` real
        seconds a warning names what still goes on, and no later call waits for just that."""
        loop = asyncio.get_running_loop()
        end = loop.time() + patience
        turns = 0
        while self._users:
            work = self._work(parked)
            self._given_up &= work.keys()
            rest = [words for key, words in work.items() if key not in self._given_up]
            if not is_settling() and not rest:
                return
            if loop.time() >= end:
                self._given_up |= work.keys()
                if rest:
                    logger.warning(
                        "still busy after %g s, the clock goes on without waiting for: %s",
                        patience,
                        "; ".join(rest),
                    )
                return
            turns += 1
            await asyncio.sleep(0 if turns < TURNS else PAUSE)

    def _work(self, parked: Callable[[str], int]) -> dict[Hashable, str]:
        """Everything that goes on, by whom and what."""
        work: dict[Hashable, str] = {}
        for user in self._users:
            client_id = user.client_id
            work.update({(user, key): f"{client_id}: {words}" for key, words in user.work().items()})
            if (waiting := parked(client_id)) < user.polls:
                work[user, "polls"] = f"{client_id}: {user.polls} polls, of which the broker holds {waiting}"
        return work
