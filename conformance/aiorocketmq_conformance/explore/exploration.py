"""Explores a target: generates, executes and judges histories until time or number is up, or one is not allowed."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import count

from anyio import CapacityLimiter, to_process

from aiorocketmq_conformance.case import DEFAULT_TIMEOUT, PREPARED, Case, Level
from aiorocketmq_conformance.explore.execution import Execution, HistoryFailed
from aiorocketmq_conformance.explore.generation import Abilities, generate
from aiorocketmq_conformance.explore.plan import CLASSIC, Plan
from aiorocketmq_conformance.explore.shrinking import shrink
from aiorocketmq_conformance.explore.timeline import timeline
from aiorocketmq_conformance.model.calls import Violation
from aiorocketmq_conformance.model.judgement import judge
from aiorocketmq_conformance.model.semantics import semantics_of
from aiorocketmq_conformance.probe.clock import DrivenClock, SettlingLoop
from aiorocketmq_conformance.target import Target
from aiorocketmq_conformance.targets.choice import choose
from aiorocketmq_conformance.targets.interface import BrokerUnderTest

logger = logging.getLogger("aiorocketmq_conformance.explore")

STUCK = 60.0
"""Real seconds after which a history on a fake hangs."""
REAL = 600.0
"""The same on a real server."""
SHRINKING = 300.0
"""Seconds after which a failure is shown as it is by then."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One executed history."""

    plan: Plan
    violations: tuple[Violation, ...]
    lines: tuple[str, ...]
    """Its time line if it is not allowed."""
    operations: int

    @property
    def rules(self) -> frozenset[str]:
        """The rules that are violated."""
        return frozenset(each.rule for each in self.violations)


@dataclass(slots=True)
class Exploration:
    """The outcome of a run."""

    target: str
    seed: int
    histories: int = 0
    operations: int = 0
    seconds: float = 0.0
    failure: Outcome | None = None
    """The first history that is not allowed, shrunk."""
    tried: int = 0
    """Histories executed to shrink it."""


async def execute(plan: Plan, broker: BrokerUnderTest) -> Outcome:
    """Execute one plan on a target of its own, and judge it."""
    name = f"explore.history-{plan.seed}-{plan.number}"
    case = Case(name, (), Level.MUST, (*PREPARED, *plan.needs), "", DEFAULT_TIMEOUT, _nothing)
    try:
        async with broker.open(case) as target:
            return await _execute(plan, target)
    except Exception as error:
        error.add_note(f"in history {plan.number} of seed {plan.seed}")
        raise


def _execute_alone(spec: str, seed: int, number: int) -> Outcome:
    """Execute one history of a fake in this process, which does nothing else."""
    # Ctrl-C reaches all processes of a terminal; the first one lets this one finish.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    broker = choose(spec, driven=True)
    with asyncio.Runner(loop_factory=SettlingLoop) as runner:
        return runner.run(execute(generate(seed, number, abilities_of(broker)), broker))


async def _nothing(target: Target) -> None:
    """Stand for the body of a case: targets look at what it needs only."""


async def _execute(plan: Plan, target: Target) -> Outcome:
    semantics = semantics_of(target.numbers)
    execution = Execution(plan, target, semantics)
    failed: list[Violation] = []
    try:
        async with asyncio.timeout(STUCK if isinstance(target.clock, DrivenClock) else REAL):
            await execution.run()
    except HistoryFailed as error:
        failed.append(Violation("call", f"a call failed: {error}", error.at))
    except TimeoutError:
        failed.append(Violation("hang", "the history did not end in time", execution.scribe.instant()))
    semantics = semantics.slower(target.clock.traffic.slowest_answer())
    violations = (*judge(execution.scribe.history, semantics), *failed)
    lines = tuple(timeline(execution.scribe.history, violations)) if violations else ()
    return Outcome(plan, violations, lines, len(execution.scribe.history))


def abilities_of(broker: BrokerUnderTest) -> Abilities:
    """Return what histories on a target may contain."""
    has = broker.declaration.capabilities
    types = ["NORMAL", "NORMAL"]
    types += [
        name
        for name, need in (
            ("FIFO", "type.fifo"),
            ("DELAY", "type.delay"),
            ("TRANSACTION", "type.tx"),
            ("PRIORITY", "type.priority"),
            ("LITE", "type.lite" if broker.is_virtual else ""),
        )
        if need in has
    ]
    kinds = set(Abilities().kinds)
    needed = {
        "recall": "recall",
        "lag": "@lag",
        "reset": "@reset",
        "restart": "@restart",
        "kill": "@process",
        "pause": "@process",
        "forward": "dlq",
        "trim": "@keep",
        "anew": "@delete",
        "pull": "pull",
        **dict.fromkeys(CLASSIC, "remoting"),
    }
    kinds -= {kind for kind, need in needed.items() if need not in has}
    selects = "filter.sql" in has
    if broker.is_virtual:
        return Abilities(types=types, kinds=frozenset(kinds), selects=selects)
    # Histories on a server share it, and take real time.
    return Abilities(
        types=types,
        kinds=frozenset(kinds - {"restart", "kill", "pause", "trim"}),
        selects=selects,
        is_virtual=False,
        leases=(10.0, 10.0, 15.0),
        waits=(0.2, 0.5, 1.0, 2.0, 5.0, 10.5),
        sizes=(15, 40),
    )


def with_steps(plan: Plan, numbers: Collection[int]) -> Plan:
    """Return a plan with some of its steps only."""
    return replace(plan, steps=tuple(step for step in plan.steps if step.number in numbers))


class Explorer:
    """One run on one target."""

    def __init__(
        self,
        broker: BrokerUnderTest,
        seed: int,
        *,
        on_history: Callable[[Exploration], None] = lambda exploration: None,
    ) -> None:
        self._broker = broker
        self._on_history = on_history
        self._abilities = abilities_of(broker)
        self._is_stopped = False
        self.result = Exploration(broker.spec, seed)

    @property
    def is_virtual(self) -> bool:
        """Whether the target's time is virtual."""
        return self._abilities.is_virtual

    def stop(self) -> None:
        """End after the histories that are being executed."""
        self._is_stopped = True

    async def explore(self, *, seconds: float, histories: int | None, jobs: int = 1) -> Exploration:
        """Execute histories until one is not allowed; `jobs` at a time, of a fake each in a process.

        Such a process starts a fake by the target's name. BrokenWorkerProcess if it is killed.
        """
        result, started = self.result, time.monotonic()
        numbers = iter(count() if histories is None else range(histories))
        processes = CapacityLimiter(jobs) if jobs > 1 and self.is_virtual else None

        async def work() -> None:
            while result.failure is None and not self._is_stopped and time.monotonic() - started < seconds:
                if (number := next(numbers, None)) is None:
                    break
                if processes is None:
                    outcome = await execute(self.plan(number), self._broker)
                else:
                    place = (self._broker.spec, result.seed, number)
                    outcome = await to_process.run_sync(_execute_alone, *place, limiter=processes)
                result.histories += 1
                result.operations += outcome.operations
                # Which of several is shown must not depend on their speed.
                if outcome.violations and (result.failure is None or number < result.failure.plan.number):
                    result.failure = outcome
                result.seconds = time.monotonic() - started
                self._on_history(result)

        await asyncio.gather(*(work() for _ in range(jobs)))
        return result

    async def shrink(self) -> None:
        """Leave steps of the failure out as long as one of its rules is still violated."""
        failure = self.result.failure
        if failure is None:
            return
        rules, started = failure.rules, time.monotonic()

        async def fails(numbers: Sequence[int]) -> bool:
            if self._is_stopped or time.monotonic() - started > SHRINKING:
                return False
            try:
                outcome = await execute(with_steps(failure.plan, frozenset(numbers)), self._broker)
            except Exception:
                # A server that is gone must not hide the failure that was found.
                logger.warning("stopped leaving out steps", exc_info=True)
                self._is_stopped = True
                return False
            self.result.tried += 1
            if not outcome.rules & rules:
                return False
            self.result.failure = outcome
            return True

        await shrink([step.number for step in failure.plan.steps], fails)

    def plan(self, number: int) -> Plan:
        """Return the plan of one history of this run."""
        return generate(self.result.seed, number, self._abilities)

    async def replay(self, number: int, steps: Collection[int] | None = None) -> Exploration:
        """Execute one history again, with some of its steps only if they are given."""
        plan = self.plan(number)
        outcome = await execute(plan if steps is None else with_steps(plan, steps), self._broker)
        self.result.histories, self.result.operations = 1, outcome.operations
        self.result.failure = outcome if outcome.violations else None
        return self.result
