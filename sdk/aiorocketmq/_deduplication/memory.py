"""A store in the memory of this process."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from aiorocketmq._deduplication.interface import Claim


class MemoryStore:
    """Store in the memory of this process, of at most `max_entries` keys; the oldest is dropped first.

    Nothing survives a restart and other processes do not share it: for tests, and if a single process consumes and a
    repetition after a restart is harmless. `clock` returns seconds and replaces the machine's."""

    def __init__(self, *, max_entries: int = 100_000, clock: Callable[[], float] = time.monotonic) -> None:
        if max_entries < 1:
            raise ValueError(f"max_entries must be at least 1, not {max_entries}")
        self._max_entries = max_entries
        self._clock = clock
        self._entries: OrderedDict[str, tuple[str | None, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    async def claim(self, key: str, owner: str, seconds: float) -> Claim:
        """Grant `key` to `owner` as `DeduplicationStore.claim` does, in this process; never waits."""
        now = self._clock()
        holder, until = self._entries.get(key, (owner, now))
        if until > now and holder != owner:
            return Claim.DONE if holder is None else Claim.HELD
        self._put(key, owner, now + seconds)
        return Claim.GRANTED

    async def renew(self, key: str, owner: str, seconds: float) -> None:
        """Extend the claim of `owner` to `seconds` from now; no effect without the claim."""
        if self._is_held(key, owner):
            self._put(key, owner, self._clock() + seconds)

    async def done(self, key: str, owner: str, seconds: float) -> None:
        """Mark `key` as done for `seconds`; no effect without the claim of `owner`."""
        if self._is_held(key, owner):
            self._put(key, None, self._clock() + seconds)

    async def release(self, key: str, owner: str) -> None:
        """Release the claim of `owner`; no effect without it."""
        if self._is_held(key, owner):
            del self._entries[key]

    def _is_held(self, key: str, owner: str) -> bool:
        return self._entries.get(key, (None, 0.0))[0] == owner

    def _put(self, key: str, owner: str | None, until: float) -> None:
        self._entries[key] = (owner, until)
        self._entries.move_to_end(key)
        if len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)
