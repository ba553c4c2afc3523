"""Running cases side by side against one broker, and holding how each ended against what is known."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from aiorocketmq_conformance.attempt import attempt
from aiorocketmq_conformance.blocks import Blocks
from aiorocketmq_conformance.case import Case, Level
from aiorocketmq_conformance.deviations import Deviation
from aiorocketmq_conformance.results import CaseResult, RunResult
from aiorocketmq_conformance.targets.interface import BrokerUnderTest
from aiorocketmq_conformance.verdicts import Verdict

RESTART = "@restart"
"""The ability of cases that stop and start the broker."""
ALONE = "@process"
"""The ability of cases that stop, kill or pause the broker at moments of their own: one at a time."""


class Run:
    """One pass over `cases` on an entered broker; `stop()` ends it early with what is known by then."""

    def __init__(
        self,
        cases: Sequence[Case],
        broker: BrokerUnderTest,
        *,
        deviations: Mapping[str, Deviation] | None = None,
        blocks: Blocks | None = None,
        jobs: int | None = None,
        on_result: Callable[[CaseResult], None] = lambda result: None,
    ) -> None:
        """Prepare; with `blocks` cases that need what does not work are not judged, else each is judged alone."""
        self._cases = cases
        self._broker = broker
        self._deviations = deviations or {}
        self._blocks = blocks
        self._jobs = jobs or broker.jobs
        self._on_result = on_result
        self._results: dict[str, CaseResult] = {}
        self._workers: list[asyncio.Task[None]] = []
        self._stopped = False

    def stop(self) -> None:
        """Cancel what runs and start nothing more; the rest is reported as not run."""
        self._stopped = True
        for worker in self._workers:
            worker.cancel()

    async def finish(self, *, budget: float | None = None) -> RunResult:
        """Run everything, or what fits into `budget` real seconds, and return the results in the cases' order."""
        started, clock = datetime.now(UTC), time.monotonic()
        loop = asyncio.get_running_loop()
        alarm = loop.call_later(budget, self.stop) if budget is not None else None
        places: dict[str, list[Case]] = {}
        for case in self._cases:
            places.setdefault(self._broker.place(case), []).append(case)
        await asyncio.gather(*(self._at_one_place(cases) for cases in places.values()))
        if alarm is not None:
            alarm.cancel()
        not_run = "the run ended before its turn"
        return RunResult(
            target=self._broker.spec,
            declaration=self._broker.declaration,
            started=started,
            seconds=time.monotonic() - clock,
            suite_version=version("aiorocketmq"),
            blocked=self._blocks.reasons if self._blocks else (),
            results=tuple(
                self._results.get(case.id) or CaseResult(case, Verdict.NOT_RUN, not_run)
                for case in self._cases
            ),
        )

    async def _at_one_place(self, cases: Sequence[Case]) -> None:
        # A restart would disturb the others, so those who want one have the place for themselves, together; those who
        # stop, kill or pause the broker at moments of their own come last, one at a time.
        restarting = [case for case in cases if RESTART in case.needs]
        alone = [case for case in cases if ALONE in case.needs and case not in restarting]
        others = [case for case in cases if case not in restarting and case not in alone]
        await self._side_by_side(others, self._jobs)
        await self._side_by_side(restarting, max(self._jobs, len(restarting)))
        await self._side_by_side(alone, 1)

    async def _side_by_side(self, cases: Sequence[Case], jobs: int) -> None:
        if not cases or self._stopped:
            return
        # Those that may wait longest begin first, so that no long wait is left over at the end.
        waiting = iter(sorted(cases, key=lambda case: -case.timeout))
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(self._work(waiting)) for _ in range(jobs)]
            self._workers += workers
            await asyncio.wait(workers)

    async def _work(self, waiting: Iterable[Case]) -> None:
        for case in waiting:
            result = await self._judge(case)
            self._results[case.id] = result
            self._on_result(result)

    async def _judge(self, case: Case) -> CaseResult:
        started = time.monotonic()
        seen = await attempt(case, self._broker, self._blocks)
        verdict, detail = judge(case, seen.verdict, seen.detail, self._deviations.get(case.id))
        return CaseResult(
            case,
            verdict,
            detail,
            seconds=time.monotonic() - started,
            target_seconds=seen.target_seconds,
            notes=seen.notes,
            evidence=seen.evidence,
        )


def judge(case: Case, seen: Verdict, detail: str, deviation: Deviation | None) -> tuple[Verdict, str]:
    """The verdict and its reason, given how a case ended and what is known of it."""
    if seen is Verdict.FAIL and case.level is Level.INFORMATIONAL:
        return Verdict.INCONCLUSIVE, f"for information: {detail}"
    if deviation is None:
        return seen, detail
    if seen is Verdict.FAIL:
        return Verdict.XFAIL, f"known: {deviation.reason} ({deviation.source}); seen: {detail}"
    if seen is Verdict.PASS:
        return Verdict.XPASS, f"known to fail, yet it held: take it off the list ({deviation.reason})"
    return seen, detail
