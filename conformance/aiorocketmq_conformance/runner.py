"""Runs cases concurrently against one broker, and compares results with known deviations."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from aiorocketmq_conformance.blocks import Blocks
from aiorocketmq_conformance.case import Case, Level
from aiorocketmq_conformance.declaration import Declaration
from aiorocketmq_conformance.deviations import Deviation
from aiorocketmq_conformance.execution import execute
from aiorocketmq_conformance.results import CaseResult, RunResult
from aiorocketmq_conformance.targets.interface import BrokerUnderTest
from aiorocketmq_conformance.verdicts import Verdict

RESTART = "@restart"
"""The ability of cases that stop and start the broker."""
ALONE = "@process"
"""The ability of cases that stop, kill or pause the broker: they run one at a time."""


class Run:
    """One run of `cases` on a broker; `stop()` ends it early with partial results."""

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
        """Prepare; with `blocks` cases that need a failing step are blocked, else each is judged alone."""
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
        """Cancel running cases and start no more; the rest is reported as not run."""
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
        # A restart would disturb other cases, so those with restarts run separately, together; those that stop, kill
        # or pause the broker run last, one at a time.
        restarting = [case for case in cases if RESTART in case.needs]
        alone = [case for case in cases if ALONE in case.needs and case not in restarting]
        others = [case for case in cases if case not in restarting and case not in alone]
        await self._side_by_side(others, self._jobs)
        await self._side_by_side(restarting, max(self._jobs, len(restarting)))
        await self._side_by_side(alone, 1)

    async def _side_by_side(self, cases: Sequence[Case], jobs: int) -> None:
        if not cases or self._stopped:
            return
        # Cases with the longest timeouts start first, so that no long wait remains at the end.
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
        outcome = await execute(case, self._broker, self._blocks)
        verdict, detail = judge(
            case, outcome.verdict, outcome.detail, self._deviations.get(case.id), self._broker.declaration
        )
        return CaseResult(
            case,
            verdict,
            detail,
            seconds=time.monotonic() - started,
            target_seconds=outcome.target_seconds,
            notes=outcome.notes,
            evidence=outcome.evidence,
        )


def judge(
    case: Case, outcome: Verdict, detail: str, deviation: Deviation | None, declaration: Declaration
) -> tuple[Verdict, str]:
    """Return the verdict and its reason, from the outcome of a case and its known deviation."""
    informs = case.level is Level.INFORMATIONAL and not declaration.is_documented
    if outcome is Verdict.FAIL and informs:
        return Verdict.INCONCLUSIVE, f"for information: {detail}"
    if deviation is None:
        return outcome, detail
    if outcome is Verdict.FAIL:
        return Verdict.XFAIL, f"known: {deviation.reason} ({deviation.source}); seen: {detail}"
    if outcome is Verdict.PASS:
        return Verdict.XPASS, f"known to fail, but passed: remove it from the list ({deviation.reason})"
    return outcome, detail
