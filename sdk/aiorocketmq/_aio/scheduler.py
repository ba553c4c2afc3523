"""Scheduler of the periodic jobs of all clients of one connection: one timer for all, a task only while a job runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeAlias

from aiorocketmq._aio.tasks import Tasks, Watch
from aiorocketmq._core.pauses import failure_pause
from aiorocketmq._core.timetable import Timetable
from aiorocketmq.errors import BusyError, RocketMQError

logger = logging.getLogger("aiorocketmq.tasks")

Work: TypeAlias = Callable[[], Awaitable[float | None]]
"""One run of a job; returns the seconds until the next one if that is not the usual period. A RocketMQError means
failure, which is reported in the client's health."""


_STANDSTILL = 5.0
"""Seconds: if a timer is later than this, the loop was blocked and not just busy."""


class Scheduler:
    """The periodic jobs of one connection; belongs to the event loop on which the first client joins."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._timetable = Timetable[Job](random)
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = 0.0

    def join(self, tasks: Tasks) -> Member:
        """Register a client and return its membership; the jobs run in tasks of that client."""
        self._timetable.clients += 1
        return Member(self, tasks)

    def leave(self, member: Member) -> None:
        """Remove all jobs of a client."""
        self._timetable.clients -= 1
        for job in member.jobs:
            self.forget(job)

    def plan(self, job: Job, pause: float) -> None:
        """Schedule `job` in about `pause` seconds."""
        self._timetable.plan(job, pause, now=asyncio.get_running_loop().time())
        self._arm()

    def forget(self, job: Job) -> None:
        """Plan `job` no more."""
        self._timetable.forget(job)
        if not len(self._timetable):
            self._arm()

    def _arm(self) -> None:
        deadline = self._timetable.next_deadline()
        if self._timer is not None:
            if deadline == self._armed_for:
                return
            self._timer.cancel()
            self._timer = None
        if deadline is not None:
            self._armed_for = deadline
            self._timer = asyncio.get_running_loop().call_at(deadline, self._on_timer, deadline)

    def _on_timer(self, deadline: float) -> None:
        self._timer = None
        late = asyncio.get_running_loop().time() - deadline
        if late > _STANDSTILL:
            logger.warning(
                "the event loop was blocked for %.1f s: leases and heartbeats could not be renewed meanwhile; "
                "find the blocking call, and run it in a thread",
                late,
            )
        # A loop may fire slightly early; the core must never see a time before the one it asked for.
        jobs = self._timetable.due(max(deadline, asyncio.get_running_loop().time()))
        self._arm()
        for job in jobs:
            job.start()


class Member:
    """One client's membership in the scheduler."""

    __slots__ = ("_has_left", "_scheduler", "jobs", "tasks")

    def __init__(self, scheduler: Scheduler, tasks: Tasks) -> None:
        self._scheduler = scheduler
        self._has_left = False
        self.tasks = tasks
        self.jobs: list[Job] = []

    def every(self, period: float, work: Work, *, name: str) -> Job:
        """Run `work` every `period` seconds, the first time after one period; after a failure sooner, with back-off."""
        job = Job(self, self._scheduler, period, work, name)
        self.jobs.append(job)
        job.plan(period)
        return job

    @property
    def has_left(self) -> bool:
        """Whether `leave` was called."""
        return self._has_left

    def leave(self) -> None:
        """Remove all jobs of this client and cancel running ones; calling it twice is harmless."""
        if not self._has_left:
            self._has_left = True
            self._scheduler.leave(self)
            for job in self.jobs:
                job.cancel()
            self.jobs.clear()


class Job:
    """One periodic job of one client."""

    __slots__ = ("_is_over", "_period", "_scheduler", "_task", "_watch", "_work", "member")

    def __init__(self, member: Member, scheduler: Scheduler, period: float, work: Work, name: str) -> None:
        self.member = member
        self._scheduler = scheduler
        self._period = period
        self._work = work
        self._watch = member.tasks.watch(name)
        self._is_over = False
        self._task: asyncio.Task[None] | None = None

    def plan(self, pause: float) -> None:
        """Schedule the next run in about `pause` seconds, unless the job has ended."""
        if not self._is_over and not self.member.has_left:
            self._scheduler.plan(self, pause)

    def end(self) -> None:
        """Remove the job; a current run completes."""
        self._is_over = True
        self._watch.end()
        self._scheduler.forget(self)
        if self in self.member.jobs:
            self.member.jobs.remove(self)

    def start(self) -> None:
        """Run it once, in a task of its client."""
        self._task = self.member.tasks.supervise(self._run, name=self._watch.name, watch=self._watch)

    def cancel(self) -> None:
        """Cancel a current run, unless it is the caller."""
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    async def _run(self, watch: Watch) -> None:
        if self._is_over:  # it ended during a run that crashed
            return
        pause: float | None = None
        try:
            pause = await self._work()
        except RocketMQError as error:
            failures = watch.failed(error)
            if error.may_retry:
                retry = failure_pause(
                    failures, throttled=isinstance(error, BusyError), rng=self._scheduler.random
                )
                pause = min(retry, self._period)
        else:
            watch.worked()
        self._task = None
        self.plan(self._period if pause is None else pause)
