"""An asyncio event loop in virtual time: it jumps to the next timer when nothing is ready, without sockets or threads.

Tasks belong to simulated processes, which can hang (nothing of them runs) and be killed (all of their tasks end).
"""

from __future__ import annotations

import asyncio
import itertools
from asyncio.base_events import BaseEventLoop
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, NoReturn

START = 1_767_225_600.0
"""Unix time of the beginning of every simulation: 2026-01-01."""
MOST_TURNS = 100_000
"""Turns of the loop at one moment, after which it is considered to spin."""
LONGEST = 100_000.0
"""Seconds of virtual time after which a simulation is considered to run forever."""


class DeadlockError(Exception):
    """The simulation would wait, or spin, forever."""


class Process:
    """A simulated process: all tasks that were started by `start`, and those that they started."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tasks: set[asyncio.Task[Any]] = set()
        self.is_dead = False
        self.skew = 0.0
        """Seconds by which its wall clock is ahead."""
        self.deferred: list[tuple[Callable[..., object], tuple[Any, ...], Context]] | None = None
        """What would run if it did not hang; None if it does not."""

    def start(self, main: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine in this process."""
        context = copy_context()
        context.run(_PROCESS.set, self)
        return asyncio.get_running_loop().create_task(main, context=context, name=self.name)

    def hang(self) -> None:
        """Let nothing of it run, as SIGSTOP does."""
        if self.deferred is None:
            self.deferred = []

    def resume(self) -> None:
        """Let it run again, later than it expects."""
        deferred, self.deferred = self.deferred or [], None
        for callback, arguments, context in deferred:
            asyncio.get_running_loop().call_soon(callback, *arguments, context=context)

    def kill(self) -> None:
        """End all of its tasks; what they do on their way out must not be heard by anybody."""
        self.is_dead = True
        self.resume()
        for task in sorted(self.tasks, key=hash):
            task.cancel()


_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class _Task(asyncio.Task[Any]):
    """A task whose place in sets does not depend on its address, but on the number of tasks before it."""

    def __init__(self, *arguments: Any, number: int, **keywords: Any) -> None:
        self._number = number
        super().__init__(*arguments, **keywords)

    def __hash__(self) -> int:
        return self._number


class _Future(asyncio.Future[Any]):
    """The same for futures."""

    def __init__(self, *, loop: VirtualLoop, number: int) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(BaseEventLoop):
    """The event loop of one simulation."""

    def __init__(self) -> None:
        super().__init__()
        self.elapsed = 0.0
        """Seconds since the beginning."""
        self.failures: list[str] = []
        """Exceptions that nobody caught."""
        self._numbers = itertools.count()
        self._turns = 0
        self._clock_resolution = 1e-9
        self._selector = self
        self.set_task_factory(_new_task)
        self.set_exception_handler(_note_failure)

    def time(self) -> float:
        """Return the seconds since the beginning."""
        return self.elapsed

    def wall(self) -> float:
        """Return the Unix time, as the current process sees it."""
        process = _PROCESS.get()
        return START + self.elapsed + (0.0 if process is None else process.skew)

    def next_number(self) -> int:
        """Return a number that no task or future has."""
        return next(self._numbers)

    def create_future(self) -> asyncio.Future[Any]:
        """Make a future."""
        return _Future(loop=self, number=next(self._numbers))

    def call_soon(  # type: ignore[override]  # the same, without the types of the arguments
        self, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Call back in the next turn, or when the process that hangs is resumed."""
        process = _PROCESS.get() if context is None else context.get(_PROCESS)
        if process is not None and process.deferred is not None:
            process.deferred.append((callback, arguments, context or copy_context()))
            return asyncio.Handle(callback, arguments, self, context)
        return super().call_soon(callback, *arguments, context=context)

    def run_in_executor(  # type: ignore[override]  # it never returns
        self, executor: Any, function: Any, *arguments: Any
    ) -> NoReturn:
        """Refuse: there are no threads in a simulation."""
        raise RuntimeError(f"a thread was asked for: {function!r}")

    # What the base class asks of a selector, and of its subclasses

    def select(self, timeout: float | None) -> list[Any]:
        """Let time pass instead of waiting."""
        if timeout is None:
            raise DeadlockError("nothing is ready, and no timer is pending")
        self._turns = 0 if timeout else self._turns + 1
        if self._turns > MOST_TURNS:
            raise DeadlockError("something runs again and again while no time passes")
        self.elapsed += timeout
        if self.elapsed > LONGEST:
            raise DeadlockError(f"it has not ended after {LONGEST:g} s")
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        return

    def _write_to_self(self) -> NoReturn:
        raise RuntimeError("another thread used the loop of a simulation")


def _new_task(
    loop: asyncio.AbstractEventLoop, coroutine: Any, *, context: Context | None = None
) -> asyncio.Task[Any]:
    assert isinstance(loop, VirtualLoop)
    task = _Task(coroutine, loop=loop, context=context, number=loop.next_number())
    process = _PROCESS.get() if context is None else context.get(_PROCESS)
    if process is not None:
        process.tasks.add(task)
        task.add_done_callback(process.tasks.discard)
    return task


def _note_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, VirtualLoop)
    loop.failures.append(f"{context.get('message')}: {context.get('exception')!r}")
