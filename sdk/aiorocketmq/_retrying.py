"""Performs the retries that the core has decided on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from aiorocketmq._core.retries import start_delay
from aiorocketmq.errors import RocketMQError

Result = TypeVar("Result")


async def retried(
    attempt: Callable[[], Awaitable[Result]], delay_after: Callable[[RocketMQError], float | None]
) -> Result:
    """What `attempt` gives, tried again after each error for which `delay_after` names a wait in seconds.

    None makes an error final: it is raised as it came. Errors that are not ours are always final."""
    # Imported late: most programs never fail, and the import takes longer than connecting.
    from tenacity import AsyncRetrying, RetryCallState

    wait: float | None = None

    def decide(state: RetryCallState) -> bool:
        nonlocal wait
        error = state.outcome.exception() if state.outcome is not None else None
        wait = delay_after(error) if isinstance(error, RocketMQError) else None
        return wait is not None

    retrying = AsyncRetrying(sleep=asyncio.sleep, retry=decide, wait=lambda _: wait or 0.0, reraise=True)
    return await retrying(attempt)


async def tried_until(until: float, attempt: Callable[[], Awaitable[Result]], *, random: Random) -> Result:
    """What `attempt` gives, tried again until `until` of the loop's time after errors that may pass."""
    failures = 0

    def delay_after(error: RocketMQError) -> float | None:
        nonlocal failures
        failures += 1
        delay = start_delay(failures, random)
        return delay if error.may_retry and asyncio.get_running_loop().time() + delay < until else None

    return await retried(attempt, delay_after)
