"""Running cases side by side against one broker, and turning how each ended into a verdict."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from aiorocketmq_conformance.brokers.interface import BrokerUnderTest
from aiorocketmq_conformance.deviations import Deviation
from aiorocketmq_conformance.registry import Case, Level
from aiorocketmq_conformance.results import CaseResult, RunResult
from aiorocketmq_conformance.target import Target
from aiorocketmq_conformance.verdicts import Inconclusive, NotApplicable, Verdict

logger = logging.getLogger(__name__)

RESTART = "@restart"
"""The ability of cases that stop and start the broker."""
ENDING = 10.0
"""Real seconds that each clean-up of a case has."""


class Run:
    """One pass over `cases` on an entered broker; `stop()` ends it early with what is known by then."""

    def __init__(
        self,
        cases: Sequence[Case],
        broker: BrokerUnderTest,
        *,
        deviations: Mapping[str, Deviation] | None = None,
        jobs: int | None = None,
        on_result: Callable[[CaseResult], None] = lambda result: None,
    ) -> None:
        self._cases = cases
        self._broker = broker
        self._deviations = deviations or {}
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
        # A restart would disturb the others, so those who want one have the broker for themselves, together.
        restarting = [case for case in self._cases if RESTART in case.needs]
        await self._side_by_side([case for case in self._cases if RESTART not in case.needs], self._jobs)
        await self._side_by_side(restarting, max(self._jobs, len(restarting)))
        if alarm is not None:
            alarm.cancel()
        not_run = "the run ended before its turn"
        return RunResult(
            target=self._broker.spec,
            declaration=self._broker.declaration,
            started=started,
            seconds=time.monotonic() - clock,
            suite_version=version("aiorocketmq"),
            results=tuple(
                self._results.get(case.id) or CaseResult(case, Verdict.NOT_RUN, not_run)
                for case in self._cases
            ),
        )

    async def _side_by_side(self, cases: Sequence[Case], jobs: int) -> None:
        if not cases or self._stopped:
            return
        # Those that may wait longest begin first, so that no long wait is left over at the end.
        waiting = iter(sorted(cases, key=lambda case: -case.timeout))
        async with asyncio.TaskGroup() as group:
            self._workers = [group.create_task(self._work(waiting)) for _ in range(jobs)]
            await asyncio.wait(self._workers)

    async def _work(self, waiting: Iterable[Case]) -> None:
        for case in waiting:
            result = await self._judge(case)
            self._results[case.id] = result
            self._on_result(result)

    async def _judge(self, case: Case) -> CaseResult:
        missing = self._broker.declaration.missing(case.needs)
        if missing:
            detail = f"the target does not claim {', '.join(missing)}"
            return CaseResult(case, Verdict.NOT_APPLICABLE, detail)
        started = time.monotonic()
        target: Target | None = None
        target_started = target_ended = 0.0
        try:
            async with self._broker.open(case) as target:
                target_started = target.clock.now()
                try:
                    seen = await _attempt(case, target, self._broker.real_seconds(case))
                    target_ended = target.clock.now()
                finally:
                    left = await _end(target)
        except Exception as error:
            # The border of a case: whatever broke around it must not end the other cases.
            logger.debug("case %s broke", case.id, exc_info=True)
            seen, left = _Seen(Verdict.ERROR, _one_line(error), _trace(error)), []
        if left and seen.verdict is Verdict.PASS:
            seen = _Seen(Verdict.ERROR, f"the case left behind: {'; '.join(left)}")
        verdict, detail = self._against_deviations(case, seen)
        return CaseResult(
            case,
            verdict,
            detail,
            seconds=time.monotonic() - started,
            target_seconds=max(0.0, target_ended - target_started),
            notes=dict(target.notes) if target else {},
            evidence=seen.evidence,
        )

    def _against_deviations(self, case: Case, seen: _Seen) -> tuple[Verdict, str]:
        return judge(case, seen.verdict, seen.detail, self._deviations.get(case.id))


class _Seen:
    """How a case ended before deviations are looked up."""

    def __init__(self, verdict: Verdict, detail: str = "", evidence: str = "") -> None:
        self.verdict = verdict
        self.detail = detail
        self.evidence = evidence


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


async def _attempt(case: Case, target: Target, real_seconds: float) -> _Seen:
    try:
        async with asyncio.timeout(real_seconds) as deadline:
            await case.run(target)
    except AssertionError as error:
        return _Seen(Verdict.FAIL, _one_line(error), _trace(error))
    except Inconclusive as reason:
        return _Seen(Verdict.INCONCLUSIVE, str(reason))
    except NotApplicable as reason:
        return _Seen(Verdict.NOT_APPLICABLE, str(reason))
    except TimeoutError as error:
        overrun = f"the case did not end within {real_seconds:g} s"
        return _Seen(Verdict.ERROR, overrun if deadline.expired() else _one_line(error), _trace(error))
    except Exception as error:
        if isinstance(error, ExceptionGroup) and not error.split(AssertionError)[1]:
            return _Seen(Verdict.FAIL, _one_line(error), _trace(error))
        # The border of a case: anything it does not name is the suite's own fault, and is shown as such.
        return _Seen(Verdict.ERROR, _one_line(error), _trace(error))
    return _Seen(Verdict.PASS)


async def _end(target: Target) -> list[str]:
    """Await the case's endings, last one first, and name what was left behind."""
    left: list[str] = []
    for ending in reversed(target.endings):
        try:
            async with asyncio.timeout(ENDING):
                found = await ending()
        except TimeoutError:
            found = f"a clean-up that did not end within {ENDING:g} s"
        except Exception as error:
            # The border of a clean-up: the others still have to run.
            found = f"a clean-up that broke: {_one_line(error)}"
        if found:
            left.append(found)
    traffic = target.clock.traffic
    under_way = traffic.unary_under_way + traffic.receives_under_way
    if under_way:
        left.append(f"{under_way} calls under way")
    return left


def _one_line(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_one_line(each) for each in error.exceptions)
    text = str(error).strip().partition("\n")[0]
    if isinstance(error, AssertionError):
        return text or "an assertion without words"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))
