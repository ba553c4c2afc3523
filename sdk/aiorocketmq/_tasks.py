"""The background tasks of one client: they live as long as it does, and none outlives it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class Tasks:
    """Owns tasks until `end`.

    A task group of the standard kind is not used, because it binds a client to the task that entered it and cancels
    that task when one of its own fails: clients are entered in one task and left in another by test fixtures and exit
    stacks, and a fault in a background job must not cancel the application."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: set[asyncio.Task[Any]] = set()  # results of any kind; nobody here looks at them
        self._ended = False

    def spawn(
        self,
        function: Callable[[*Arguments], Coroutine[Any, Any, Result]],  # what it awaits is its own business
        *arguments: *Arguments,
        name: str,
    ) -> asyncio.Task[Result]:
        """Run `function` until it ends or `end` cancels it; what it raises is logged, and given to who awaits it."""
        if self._ended:
            raise RuntimeError(f"{self._name} has ended its tasks")
        task = asyncio.get_running_loop().create_task(function(*arguments), name=f"{self._name}: {name}")
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def end(self, *, spare: asyncio.Task[Any] | None = None) -> None:
        """Cancel every task and wait until each is gone; the caller's own task and `spare` are left alone."""
        self._ended = True
        own = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not own and task is not spare]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("background task %r failed", task.get_name(), exc_info=error)
