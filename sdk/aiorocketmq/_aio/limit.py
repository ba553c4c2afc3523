"""A limit of time for clean-up."""

from __future__ import annotations

import asyncio
import math
from types import TracebackType
from typing import Self


class Limit:
    """Ends the block of `async with limit:`, silently, after some seconds.

    In place of anyio's `move_on_after` around calls: that takes its own cancellation for one from outside, and raises
    it, if a timeout within the block ends at the same moment, as all do after a process was suspended."""

    def __init__(self, seconds: float) -> None:
        """Count from now; the block may begin later. `math.inf` is no limit."""
        self._until = asyncio.get_running_loop().time() + seconds
        self._timeout: asyncio.Timeout | None = None
        self.is_exceeded = False
        """Whether it has ended the block."""

    def shorten(self, seconds: float = 0.0) -> None:
        """End the block in `seconds` from now, if it would end later."""
        self._until = min(self._until, asyncio.get_running_loop().time() + seconds)
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(self._until)

    async def __aenter__(self) -> Self:
        self._timeout = asyncio.timeout_at(None if self._until == math.inf else self._until)
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        timeout, self._timeout = self._timeout, None
        assert timeout is not None, "a block is left after it was entered"
        try:
            await timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            self.is_exceeded = True
        return self.is_exceeded
