"""Does the regular jobs of all clients of one connection: one timer for all, and a task only while a job runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeAlias

from aiorocketmq._core.timetable import Timetable

logger = logging.getLogger(__name__)

Work: TypeAlias = Callable[[], Awaitable[float | None]]
"""One run of a job; returns the seconds until the next one where they are not the usual ones."""
Spawn: TypeAlias = Callable[..., asyncio.Task[None]]


_STANDSTILL = 5.0
"""Seconds by which a timer is late from which on the loop was blocked rather than busy."""


class Rounds:
    """The regular jobs of one connection; belongs to the event loop on which the first client joins."""

    def __init__(self, random: Random) -> None:
        self._timetable = Timetable[Job](random)
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = 0.0

    def join(self, spawn: Spawn) -> Member:
        """Take in a client, whose jobs run in tasks of its own."""
        self._timetable.clients += 1
        return Member(self, spawn)

    def leave(self, member: Member) -> None:
        """Plan nothing of a client any more."""
        self._timetable.clients -= 1
        for job in member.jobs:
            self.forget(job)

    def plan(self, job: Job, pause: float) -> None:
        """Run `job` about `pause` seconds from now."""
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
                "the event loop stood still for %.1f s: leases and heartbeats could not be renewed meanwhile; "
                "find what blocks it, and run it in a thread",
                late,
            )
        # A loop may fire a hair early; the core must never see a time before the one it asked for.
        for job in self._timetable.due(max(deadline, asyncio.get_running_loop().time())):
            job.start()
        self._arm()


class Member:
    """One client's place in the rounds."""

    __slots__ = ("_has_left", "_rounds", "jobs", "spawn")

    def __init__(self, rounds: Rounds, spawn: Spawn) -> None:
        self._rounds = rounds
        self._has_left = False
        self.spawn = spawn
        self.jobs: list[Job] = []

    def every(self, period: float, work: Work, *, name: str) -> Job:
        """Do `work` every `period` seconds, the first time after one; what it raises is logged."""
        job = Job(self, self._rounds, period, work, name)
        self.jobs.append(job)
        job.plan(period)
        return job

    @property
    def has_left(self) -> bool:
        """Whether `leave` was called."""
        return self._has_left

    def leave(self) -> None:
        """Do nothing of this client any more, and cancel what is being done; calling it twice is harmless."""
        if not self._has_left:
            self._has_left = True
            self._rounds.leave(self)
            for job in self.jobs:
                job.cancel()
            self.jobs.clear()


class Job:
    """One regular job of one client."""

    __slots__ = ("_is_over", "_period", "_rounds", "_task", "_work", "member", "name")

    def __init__(self, member: Member, rounds: Rounds, period: float, work: Work, name: str) -> None:
        self.member = member
        self.name = name
        self._rounds = rounds
        self._period = period
        self._work = work
        self._is_over = False
        self._task: asyncio.Task[None] | None = None

    def plan(self, pause: float) -> None:
        """Run next in about `pause` seconds, unless that is over."""
        if not self._is_over and not self.member.has_left:
            self._rounds.plan(self, pause)

    def end(self) -> None:
        """Do it no more; a run under way goes on."""
        self._is_over = True
        self._rounds.forget(self)
        if self in self.member.jobs:
            self.member.jobs.remove(self)

    def start(self) -> None:
        """Do it once, in a task of its client."""
        self._task = self.member.spawn(self._run, name=self.name)

    def cancel(self) -> None:
        """Break off a run under way, unless it is the caller."""
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    async def _run(self) -> None:
        pause: float | None = None
        try:
            pause = await self._work()
        except Exception:  # the outer border of a job that must go on, whatever a credentials provider does
            logger.exception("the regular job %r of a client failed", self.name)
        finally:
            self._task = None
            self.plan(self._period if pause is None else pause)
