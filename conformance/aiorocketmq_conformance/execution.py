"""Executes one case: runs it on its own target, and returns the outcome."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from aiorocketmq_conformance.blocks import Blocks, Step
from aiorocketmq_conformance.case import Case
from aiorocketmq_conformance.target import Target
from aiorocketmq_conformance.targets.interface import BrokerUnderTest
from aiorocketmq_conformance.verdicts import Blocked, Inconclusive, NotApplicable, Verdict

logger = logging.getLogger("aiorocketmq_conformance.cases")

_STEPS = {"SendMessage": Step.SEND, "ReceiveMessage": Step.RECEIVE, "AckMessage": Step.ACKNOWLEDGE}
"""The step that a call is part of."""
_UNDECIDED = {Verdict.FAIL, Verdict.ERROR, Verdict.INCONCLUSIVE}
_NEEDED_STEPS = {
    "@topic": (Step.PREPARE,),
    "@group": (Step.PREPARE,),
    # Cases of the client library run all of it, and not over the suite's own clients.
    "sdk": (Step.PREPARE, Step.SEND, Step.RECEIVE, Step.ACKNOWLEDGE),
}
"""Steps that follow from what a case needs; others are known when the case reaches them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a case, before known deviations are applied."""

    verdict: Verdict
    detail: str = ""
    evidence: str = ""
    target_seconds: float = 0.0
    notes: Mapping[str, object] = field(default_factory=dict)


async def execute(case: Case, broker: BrokerUnderTest, blocks: Blocks | None = None) -> Outcome:
    """Run `case` on its own target; every exception becomes a verdict, only cancellation propagates.

    With `blocks` a case that needs a blocked step ends there, and blocks what it shows not to work.
    """
    if complaint := broker.declaration.complaint(case.needs):
        return Outcome(Verdict.NOT_APPLICABLE, complaint)
    if blocks is not None and (reason := blocks.reason(*_steps(case))):
        return Outcome(Verdict.BLOCKED, reason)
    try:
        async with broker.open(case) as target:
            target.blocks = blocks or target.blocks
            started = target.clock.now()
            outcome = await _run(case, target, broker.real_seconds(case))
            outcome = replace(outcome, target_seconds=target.clock.now() - started, notes=dict(target.notes))
            traffic = target.clock.traffic
            unfinished = traffic.unary_under_way + traffic.receives_under_way
    except Exception as error:
        # Boundary of a case: an exception must not end the other cases.
        logger.debug("case %s broke", case.id, exc_info=True)
        return Outcome(Verdict.ERROR, one_line(error), _trace(error))
    if outcome.verdict in _UNDECIDED and (reason := _block(target)):
        return replace(outcome, verdict=Verdict.BLOCKED, detail=reason, evidence="")
    if unfinished and outcome.verdict is Verdict.PASS:
        return replace(outcome, verdict=Verdict.ERROR, detail=f"the case left {unfinished} calls unfinished")
    return outcome


def _steps(case: Case) -> list[Step]:
    # Cases that need the library alone never reach a broker.
    needs = case.needs if "@group" in case.needs else tuple(set(case.needs) - {"sdk"})
    return [step for need in needs for step in _NEEDED_STEPS.get(need, ())]


def _block(target: Target) -> str:
    """Return why an outcome other than a pass proves nothing; empty if it does.

    The case needed a blocked step, possibly in a task whose error reached it in another form, or made the step's call
    itself.
    """
    called = [_STEPS[call.method] for call in target.clock.traffic.calls if call.method in _STEPS]
    return target.blocks.reason(*target.required, *called)


async def _run(case: Case, target: Target, real_seconds: float) -> Outcome:
    try:
        async with asyncio.timeout(real_seconds) as deadline:
            await case.run(target)
    except AssertionError as error:
        return Outcome(Verdict.FAIL, one_line(error), _trace(error))
    except Inconclusive as reason:
        return Outcome(Verdict.INCONCLUSIVE, str(reason))
    except NotApplicable as reason:
        return Outcome(Verdict.NOT_APPLICABLE, str(reason))
    except Blocked as reason:
        return Outcome(Verdict.BLOCKED, str(reason))
    except TimeoutError as error:
        overrun = f"the case did not end within {real_seconds:g} s"
        return Outcome(Verdict.ERROR, overrun if deadline.expired() else one_line(error), _trace(error))
    except Exception as error:
        if isinstance(error, ExceptionGroup) and not error.split(AssertionError)[1]:
            return Outcome(Verdict.FAIL, one_line(error), _trace(error))
        # Boundary of a case: any other exception is a defect of the suite, and is reported as an error.
        return Outcome(Verdict.ERROR, one_line(error), _trace(error))
    return Outcome(Verdict.PASS)


def one_line(error: BaseException) -> str:
    """Return an exception as one line: the text of an assertion, the class and text of any other."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(one_line(each) for each in error.exceptions)
    text = str(error).strip().partition("\n")[0]
    if isinstance(error, AssertionError):
        return text or _what_it_says(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _what_it_says(error: AssertionError) -> str:
    """Return the code of an assertion without a message."""
    frames = traceback.extract_tb(error.__traceback__)
    line = (frames[-1].line or "") if frames else ""
    if not line.startswith("assert "):
        return "assertion without a message"
    return f"assertion failed: {line.removeprefix('assert ')}"


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))
