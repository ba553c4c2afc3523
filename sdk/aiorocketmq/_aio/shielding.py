"""Clean-up that completes although its caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import anyio


async def uninterrupted(
    work: Coroutine[Any, Any, None],  # what it awaits does not matter here
    *,
    hurry: Callable[[], None] | None = None,
) -> None:
    """Await `work` to its end; a cancellation of the caller calls `hurry`, and is raised when the work has completed.

    A shielded scope of anyio is not enough: it blocks the cancellations of anyio, not those of asyncio."""
    task = asyncio.get_running_loop().create_task(work, name="clean up")
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError as error:
                cancelled = error
                if hurry is not None:
                    hurry()
    if cancelled is not None:
        if not task.cancelled() and (failure := task.exception()) is not None:
            raise cancelled from failure
        raise cancelled
    task.result()
