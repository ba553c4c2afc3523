"""The background tasks of one client: they live as long as it does, none outlives it, and no loop ends unnoticed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Hashable, Mapping
from random import Random
from typing import Any, TypeVar, TypeVarTuple

from aiorocketmq._core.pauses import failure_pause

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

MOST_CRASHES = 8
"""Unexpected exceptions in a row after which a loop is not started again: by then it has been tried for some 8 s."""

_CANCEL_AGAIN = 0.5
"""Seconds after which tasks that have not ended are cancelled once more."""

_ONE_TIME = 0.1
"""Seconds within which crashes of tasks that share a watch count once."""


class Watch:
    """Progress of one background loop: the loop reports to it, `health()` reads it.

    A failure is an error that the loop expects and goes on after; a crash is an exception that ended it."""

    __slots__ = ("_crashed_at", "_failing", "_kind", "_watches", "crashes", "failures", "name", "reason")

    def __init__(self, name: str, watches: set[Watch]) -> None:
        self.name = name
        self.failures = 0
        """Failures and crashes since it last worked."""
        self.crashes = 0
        self._crashed_at = float("-inf")
        self._failing: set[Hashable] | None = None  # an idle client has a dozen watches
        self.reason: str | None = None
        """Why it is degraded; None if it works."""
        self._kind: type[BaseException] | None = None
        self._watches = watches
        watches.add(self)

    def failed(self, error: BaseException, item: Hashable = None) -> int:
        """Count a failure and return how many there were in a row; the first one of its kind is logged as a warning.

        With an `item` that is tried again, the loop is degraded until `ended` was called for each of these."""
        self.failures += 1
        if item is not None:
            self._failing = self._failing or set()
            self._failing.add(item)
        log = logger.debug if type(error) is self._kind else logger.warning
        self._kind = type(error)
        log("%s failed, trying again: %s", self.name, error)
        self.reason = str(error) or type(error).__name__
        return self.failures

    def ended(self, item: Hashable) -> None:
        """Note that `item` is not tried again, whatever became of it."""
        if self._failing:
            self._failing.discard(item)
            if not self._failing:
                self.worked()

    def crashed(self, error: BaseException) -> int:
        """Count a crash, log it with its traceback, and return how many there were in a row.

        Tasks that share a watch and crash at about one time crash for one reason, which counts once."""
        now = asyncio.get_running_loop().time()
        if now - self._crashed_at >= _ONE_TIME:
            self._crashed_at = now
            self.failures += 1
            self.crashes += 1
        logger.error("%s failed unexpectedly (%d in a row)", self.name, self.crashes, exc_info=error)
        self.reason = repr(error)
        return self.crashes

    def worked(self) -> None:
        """Note that the loop has done its work once."""
        if self.reason is not None:
            logger.info("%s works again after %d failures", self.name, self.failures)
            self.failures = self.crashes = 0
            self.reason = self._kind = None

    def end(self) -> None:
        """Report nothing any more."""
        self._watches.discard(self)


class Tasks:
    """Owns tasks until `end`.

    A task group of the standard kind is not used, because it binds a client to the task that entered it and cancels
    that task when one of its own fails: clients are entered in one task and left in another by test fixtures and exit
    stacks, and a fault in a background job must not cancel the application."""

    def __init__(self, name: str, *, random: Random, gave_up: Callable[[str, BaseException], None]) -> None:
        """`gave_up` is called with the name of a loop that is not started again, and its last exception."""
        self._name = name
        self._random = random
        self._gave_up = gave_up
        self._tasks: set[asyncio.Task[Any]] = set()  # results of any kind; nobody here looks at them
        self._watches: set[Watch] = set()
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

    def supervise(
        self,
        function: Callable[[Watch, *Arguments], Coroutine[Any, Any, None]],
        *arguments: *Arguments,
        name: str,
        watch: Watch | None = None,
    ) -> asyncio.Task[None]:
        """Run `function` with a `Watch` and `arguments` until it returns or `end` cancels it.

        An exception is logged with its traceback, and the function is started again with back-off; after MOST_CRASHES
        in a row, without `Watch.worked` between them, `gave_up` is called instead. Short-lived tasks of one kind share
        a `watch`, which their owner ends: one of their own would forget the crashes of those before."""
        return self.spawn(
            self._supervised, watch or self.watch(name), watch is None, function, arguments, name=name
        )

    def watch(self, name: str) -> Watch:
        """A watch for what does not run in a task of its own."""
        return Watch(name, self._watches)

    @property
    def degraded(self) -> Mapping[str, str]:
        """The loops that do not work at the moment, by name, with the reason."""
        return {watch.name: watch.reason for watch in self._watches if watch.reason is not None}

    async def end(self, *, spare: asyncio.Task[Any] | None = None) -> None:
        """Cancel every task and wait until each is gone; the caller's own task and `spare` are left alone."""
        self._ended = True
        own = asyncio.current_task()
        tasks = {task for task in self._tasks if task is not own and task is not spare}
        while tasks:
            for task in tasks:
                task.cancel()
            # Again, as a call that fails in the moment of its cancellation may swallow that.
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
