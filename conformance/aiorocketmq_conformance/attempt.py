"""One attempt at one case: run it on a target of its own, clean up after it, and say how it ended."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from aiorocketmq_conformance.brokers.interface import BrokerUnderTest
from aiorocketmq_conformance.registry import Case
from aiorocketmq_conformance.target import Target
from aiorocketmq_conformance.verdicts import Inconclusive, NotApplicable, Verdict

logger = logging.getLogger(__name__)

ENDING = 10.0
"""Real seconds that each clean-up of a case has."""


@dataclass(frozen=True, slots=True)
class Seen:
    """How a case ended, before anybody looks whether that was to be expected."""

    verdict: Verdict
    detail: str = ""
    evidence: str = ""
    target_seconds: float = 0.0
    notes: Mapping[str, object] = field(default_factory=dict)


async def attempt(case: Case, broker: BrokerUnderTest) -> Seen:
    """Run `case` on a target of its own; whatever breaks becomes a verdict, only cancellation passes through."""
    if complaint := broker.declaration.complaint(case.needs):
        return Seen(Verdict.NOT_APPLICABLE, complaint)
    try:
        async with broker.open(case) as target:
            started = target.clock.now()
            try:
                seen = await _run(case, target, broker.real_seconds(case))
                seen = replace(seen, target_seconds=target.clock.now() - started, notes=dict(target.notes))
            finally:
                left = await _end(target)
    except Exception as error:
        # The border of a case: whatever broke around it must not end the other cases.
        logger.debug("case %s broke", case.id, exc_info=True)
        return Seen(Verdict.ERROR, _one_line(error), _trace(error))
    if left and seen.verdict is Verdict.PASS:
        return replace(seen, verdict=Verdict.ERROR, detail=f"the case left behind: {'; '.join(left)}")
    return seen


async def _run(case: Case, target: Target, real_seconds: float) -> Seen:
    try:
        async with asyncio.timeout(real_seconds) as deadline:
            await case.run(target)
    except AssertionError as error:
        return Seen(Verdict.FAIL, _one_line(error), _trace(error))
    except Inconclusive as reason:
        return Seen(Verdict.INCONCLUSIVE, str(reason))
    except NotApplicable as reason:
        return Seen(Verdict.NOT_APPLICABLE, str(reason))
    except TimeoutError as error:
        overrun = f"the case did not end within {real_seconds:g} s"
        return Seen(Verdict.ERROR, overrun if deadline.expired() else _one_line(error), _trace(error))
    except Exception as error:
        if isinstance(error, ExceptionGroup) and not error.split(AssertionError)[1]:
            return Seen(Verdict.FAIL, _one_line(error), _trace(error))
        # The border of a case: anything it does not name is the suite's own fault, and is shown as such.
        return Seen(Verdict.ERROR, _one_line(error), _trace(error))
    return Seen(Verdict.PASS)


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
        return text or _what_it_says(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _what_it_says(error: AssertionError) -> str:
    """The code of an assertion without a message."""
    frames = traceback.extract_tb(error.__traceback__)
    line = (frames[-1].line or "") if frames else ""
    if not line.startswith("assert "):
        return "an assertion without words"
    return f"it does not hold that {line.removeprefix('assert ')}"


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))
