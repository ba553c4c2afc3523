"""Performs retries of calls; the core and the caller decide which errors are retried, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from aiorocketmq._core.retries import start_delay
from aiorocketmq.errors import RocketMQError

Result = TypeVar("Result")


async def retried(
    attempt: Callable[[], Awaitable[Result]],
    delay_after: Callable[[RocketMQError], float | None],
    *,
    failed: RocketMQError | None = None,
) -> Result:
    """Return the result of `attempt`, repeated after each error for which `delay_after` returns a delay in seconds.

    None makes an error final: it is raised unchanged. Errors that are not RocketMQError are always final. `failed` is
    the error of a first attempt that the caller has made already. Without an error, it costs no more than calling
    `attempt`."""
    if failed is None:
        try:
            return await attempt()
        except RocketMQError as error:
            failed = error
    wait = delay_after(failed)
    try:
        if wait is None:
            raise failed
    finally:
        failed = None  # or error and frame would keep each other alive until the garbage collector finds them
    await asyncio.sleep(wait)
    # Imported late: most programs never fail, and the import takes longer than connecting.
    from tenacity import AsyncRetrying, RetryCallState

    def decide(state: RetryCallState) -> bool:
        nonlocal wait
        error = state.outcome.exception() if state.outcome is not None else None
        wait = delay_after(error) if isinstance(error, RocketMQError) else None
        return wait is not None

    retrying = AsyncRetrying(sleep=asyncio.sleep, retry=decide, wait=lambda _: wait or 0.0, reraise=True)
    return await retrying(attempt)


async def tried_until(until: float, attempt: Callable[[], Awaitable[Result]], *, random: Random) -> Result:
    """Return the result of `attempt`, retried after transient errors until `until` of the loop's time."""
    failures = 0

    def delay_after(error: RocketMQError) -> float | None:
        nonlocal failures
        failures += 1
        delay = start_delay(failures, random)
        return delay if error.may_retry and asyncio.get_running_loop().time() + delay < until else None

    return await retried(attempt, delay_after)
