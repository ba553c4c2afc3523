"""Calls that go on while other steps are done: polls that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Background:
    """The calls in progress of one client, in the order of their begins, so that a replay ends them in the same."""

    def __init__(self) -> None:
        self._calls: dict[asyncio.Task[None], None] = {}
        self._failure: BaseException | None = None

    def __len__(self) -> int:
        return len(self._calls)

    def start(self, call: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a call."""
        task = asyncio.create_task(call)
        self._calls[task] = None
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[None]) -> None:
        del self._calls[task]
        if not task.cancelled():
            self._failure = self._failure or task.exception()

    def check(self) -> None:
        """Raise the exception of the first call that failed, if there was one."""
        if self._failure is not None:
            raise self._failure

    async def cancel(self, place: int | None = None) -> None:
        """Cancel one of the calls, or all, and wait for their ends."""
        calls = list(self._calls) if place is None else [list(self._calls)[place]]
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
