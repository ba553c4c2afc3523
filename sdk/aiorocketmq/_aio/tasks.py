"""Background tasks of one client: cancelled with it, supervised, and restarted after unexpected exceptions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Hashable, Mapping
from random import Random
from typing import Any, TypeVar, TypeVarTuple

from aiorocketmq._core.pauses import failure_pause

logger = logging.getLogger("aiorocketmq.tasks")

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

MOST_CRASHES = 8
"""Consecutive unexpected exceptions after which a loop is not restarted: by then it has been retried for some 8 s."""

_CANCEL_AGAIN = 0.5
"""Seconds after which tasks that have not ended are cancelled again."""

_ONE_TIME = 0.1
"""Seconds within which crashes of tasks that share a watch count once."""


class Watch:
    """Progress of one background loop: the loop reports to it, `health()` reads it.

    A failure is an error that the loop expects and survives; a crash is an exception that ended it."""

    __slots__ = ("_crashed_at", "_failing", "_kind", "_watches", "crashes", "failures", "name", "reason")

    def __init__(self, name: str, watches: set[Watch]) -> None:
        self.name = name
        self.failures = 0
        """Failures and crashes since its last success."""
        self.crashes = 0
        self._crashed_at = float("-inf")
        self._failing: set[Hashable] | None = None  # an idle client has a dozen watches
        self.reason: str | None = None
        """Why it is degraded; None if it works."""
        self._kind: type[BaseException] | None = None
        self._watches = watches
        watches.add(self)

    def failed(self, error: BaseException, item: Hashable = None) -> int:
        """Count a failure and return the number of consecutive ones; the first of its kind is logged as a warning.

        With an `item` that is retried, the loop is degraded until `ended` was called for each such item."""
        self.failures += 1
        if item is not None:
            self._failing = self._failing or set()
            self._failing.add(item)
        level = logging.DEBUG if type(error) is self._kind else logging.WARNING
        self._kind = type(error)
        logger.log(level, "%s failed, retrying: %s", self.name, error)
        self.reason = str(error) or type(error).__name__
        return self.failures

    def ended(self, item: Hashable) -> None:
        """Report that `item` is no longer retried, whatever its outcome."""
        if self._failing:
            self._failing.discard(item)
            if not self._failing:
                self.worked()

    def crashed(self, error: BaseException) -> int:
        """Count a crash, log it with its traceback, and return the number of consecutive ones.

        Tasks that share a watch and crash at about the same time crash for one reason, which counts once."""
        now = asyncio.get_running_loop().time()
        if now - self._crashed_at >= _ONE_TIME:
            self._crashed_at = now
            self.failures += 1
            self.crashes += 1
        logger.error("%s failed unexpectedly (%d in a row)", self.name, self.crashes, exc_info=error)
        self.reason = repr(error)
        return self.crashes

    def worked(self) -> None:
        """Report one success of the loop."""
        if self.reason is not None:
            logger.info("%s works again after %d failures", self.name, self.failures)
            self.failures = self.crashes = 0
            self.reason = self._kind = None

    def end(self) -> None:
        """Report nothing any more."""
        self._watches.discard(self)


class Tasks:
    """Owns tasks until `end`.

    A standard task group is not used, because it binds a client to the task that entered it and cancels that task when
    one of its own fails: test fixtures and exit stacks enter clients in one task and leave them in another, and a
    failed background job must not cancel the application."""

    def __init__(self, name: str, *, random: Random, gave_up: Callable[[str, BaseException], None]) -> None:
        """`gave_up` is called with the name of a loop that is not restarted, and its last exception."""
        self._name = name
        self._random = random
        self._gave_up = gave_up
        self._tasks: set[asyncio.Task[Any]] = set()  # results of any kind, which are not used here
        self._watches: set[Watch] = set()
        self._ended = False

    def spawn(
        self,
        function: Callable[[*Arguments], Coroutine[Any, Any, Result]],  # what it awaits does not matter here
        *arguments: *Arguments,
        name: str,
    ) -> asyncio.Task[Result]:
        """Run `function` until it returns or `end` cancels it; its exception is logged, and raised where it is
        awaited."""
        if self._ended:
            raise RuntimeError(f"{self._name} has cancelled its tasks")
        task = asyncio.get_running_loop().create_task(function(*arguments), name=f"{self._name}: {name}")
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def supervise(
        self,
        function: Callable[[Watch, *Arguments], Coroutine[Any, Any, None]],
        *arguments: *Arguments,
        name: str,
        watch: Watch | None = None,
    ) -> asyncio.Task[None]:
        """Run `function` with a `Watch` and `arguments` until it returns or `end` cancels it.

        An exception is logged with its traceback, and the function is restarted with back-off; after MOST_CRASHES in a
        row, without `Watch.worked` in between, `gave_up` is called instead. Short-lived tasks of one kind share a
        `watch`, which their owner ends: one of their own would forget earlier crashes."""
        return self.spawn(
            self._supervised, watch or self.watch(name), watch is None, function, arguments, name=name
        )

    def watch(self, name: str) -> Watch:
        """Return a watch for work that does not run in a task of its own."""
        return Watch(name, self._watches)

    @property
    def degraded(self) -> Mapping[str, str]:
        """The loops that currently fail, by name, with the reason."""
        return {watch.name: watch.reason for watch in self._watches if watch.reason is not None}

    async def end(self, *, spare: asyncio.Task[Any] | None = None) -> None:
        """Cancel every task and wait until each has ended, except for the caller's own task and `spare`."""
        self._ended = True
        own = asyncio.current_task()
        tasks = {task for task in self._tasks if task is not own and task is not spare}
        while tasks:
            for task in tasks:
                task.cancel()
            # Cancelled again, as a call that fails at the moment of its cancellation may swallow that.
            _, tasks = await asyncio.wait(tasks, timeout=_CANCEL_AGAIN)

    async def _supervised(
        self,
        watch: Watch,
        ends_watch: bool,
        function: Callable[[Watch, *Arguments], Coroutine[Any, Any, None]],
        arguments: tuple[*Arguments],
    ) -> None:
        task = asyncio.current_task()
        assert task is not None  # a coroutine runs in a task
        try:
            while True:
                try:
                    if watch.crashes:
                        await asyncio.sleep(failure_pause(watch.crashes, throttled=False, rng=self._random))
                    await function(watch, *arguments)
                    return
                except (Exception, asyncio.CancelledError) as error:
                    # Once cancelled it must end, whatever its clean-up raises. A cancellation without a request comes
                    # from something that the loop awaited.
                    if task.cancelling() or self._ended:
                        raise
                    if watch.crashed(error) >= MOST_CRASHES:
                        self._gave_up(watch.name, error)
                        return
        finally:
            if ends_watch:
                watch.end()

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("background task %r failed", task.get_name(), exc_info=error)
