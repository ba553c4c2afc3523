"""Clean-up: its limit can be shortened, and keeps its own cancellation to itself; others stay cancellations."""

import asyncio
import contextlib
import math
import time

import pytest
from aiorocketmq._aio.limit import Limit
from aiorocketmq._aio.shielding import uninterrupted


async def test_a_block_ends_silently_at_its_limit() -> None:
    limit = Limit(0.01)
    async with limit:
        await asyncio.Event().wait()
    assert limit.is_exceeded


async def test_errors_and_time_outs_of_the_block_pass() -> None:
    for error in (ValueError("bad"), TimeoutError("of a call")):
        limit = Limit(60.0)
        with pytest.raises(type(error), match=str(error)):
            async with limit:
                raise error
        assert not limit.is_exceeded


@pytest.mark.parametrize("seconds", [0.05, math.inf])
async def test_it_is_shortened_before_and_within_the_block(seconds: float) -> None:
    before = Limit(seconds)
    before.shorten()
    async with before:
        await asyncio.Event().wait()
    within = Limit(seconds)
    async with within:
        within.shorten(60.0)
        asyncio.get_running_loop().call_soon(within.shorten)
        await asyncio.Event().wait()
    assert before.is_exceeded
    assert within.is_exceeded
    within.shorten()  # too late, and harmless


async def call() -> None:
    """Take a cancellation for the end of a call, and raise it anew, as transports do."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    raise asyncio.CancelledError


@pytest.mark.parametrize("seconds", [0.01, 60.0])
async def test_calls_may_raise_its_cancellation_anew(seconds: float) -> None:
    """Also if their own time-outs end at the same moment, as all do after the process was suspended."""
    limit = Limit(0.01)
    async with limit, asyncio.timeout(seconds):
        asyncio.get_running_loop().call_soon(time.sleep, 0.02)
        await asyncio.gather(call())
    assert limit.is_exceeded
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_a_cancellation_from_outside_passes() -> None:
    async def limited() -> None:
        async with Limit(60.0):
            started.set()
            await asyncio.Event().wait()

    started = asyncio.Event()
    task = asyncio.create_task(limited())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_limit_is_never_extended() -> None:
    limit = Limit(0.01)
    limit.shorten(60.0)
    async with asyncio.timeout(20.0), limit:
        await asyncio.Event().wait()
    assert limit.is_exceeded


async def test_a_cancellation_during_clean_up_that_fails_stays_one() -> None:
    hurried = asyncio.Event()

    async def work() -> None:
        await hurried.wait()
        raise OSError("the socket is gone")

    task = asyncio.create_task(uninterrupted(work(), hurry=hurried.set))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert isinstance(caught.value.__cause__, OSError)
