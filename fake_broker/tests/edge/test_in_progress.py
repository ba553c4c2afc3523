"""The wait until nothing is in progress."""

import asyncio

import pytest
from aiorocketmq_fake.edge.in_progress import InProgress

LONG = 60.0


async def waiting(in_progress: InProgress, timeout: float = LONG) -> asyncio.Task[bool]:
    """A task that waits for work in progress."""
    task = asyncio.create_task(in_progress.wait(timeout))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    return task


@pytest.fixture
def in_progress() -> InProgress:
    busy = InProgress()
    busy.enter()
    return busy


async def test_a_wait_ends_with_the_work(in_progress: InProgress) -> None:
    task = await waiting(in_progress)
    in_progress.leave()
    assert await task


async def test_a_wait_ends_after_its_time(in_progress: InProgress) -> None:
    assert not await in_progress.wait(0.0)
    assert not await in_progress.wait(0.001)


async def test_a_wait_cancelled_as_the_work_ends_is_cancelled(in_progress: InProgress) -> None:
    """Otherwise the clock of a cancelled wait would advance for ever."""
    task = await waiting(in_progress)
    in_progress.leave()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancelled_wait_leaves_the_others(in_progress: InProgress) -> None:
    given_up, other = await waiting(in_progress), await waiting(in_progress)
    given_up.cancel()
    in_progress.leave()
    assert await other
    assert given_up.cancelled()
