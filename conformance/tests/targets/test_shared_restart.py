"""One restart for all cases that want one."""

from __future__ import annotations

import asyncio

import pytest
from aiorocketmq_conformance.targets.shared_restart import SharedRestart


class Server:
    def __init__(self, error: Exception | None = None) -> None:
        self.restarts = 0
        self.error = error

    async def restart(self) -> None:
        await asyncio.sleep(0)
        self.restarts += 1
        if self.error is not None:
            raise self.error


@pytest.fixture
def server() -> Server:
    return Server()


async def case(shared: SharedRestart, *, turns: int, restarts: int = 1) -> None:
    async with shared.party():
        for _ in range(turns):
            await asyncio.sleep(0)
        for _ in range(restarts):
            await shared.restart()


async def test_the_broker_is_restarted_once_when_all_wait(server: Server) -> None:
    shared = SharedRestart(server.restart)
    await asyncio.gather(*(case(shared, turns=turns) for turns in (1, 50, 3)))
    assert server.restarts == 1


async def test_a_case_that_ended_without_a_restart_is_not_waited_for(server: Server) -> None:
    shared = SharedRestart(server.restart)
    await asyncio.gather(case(shared, turns=1), case(shared, turns=50, restarts=0))
    assert server.restarts == 1


async def test_a_single_case_is_served_at_once_every_time(server: Server) -> None:
    await case(SharedRestart(server.restart), turns=0, restarts=3)
    assert server.restarts == 3


async def test_a_case_that_was_cancelled_is_not_waited_for(server: Server) -> None:
    shared = SharedRestart(server.restart)
    other = asyncio.ensure_future(case(shared, turns=50))
    cancelled = asyncio.ensure_future(case(shared, turns=0))
    for _ in range(5):
        await asyncio.sleep(0)
    cancelled.cancel()
    await other
    assert cancelled.cancelled()
    assert server.restarts == 1


async def test_all_waiters_get_the_error_of_a_failed_restart() -> None:
    shared = SharedRestart(Server(OSError("gone")).restart)
    ends = await asyncio.gather(case(shared, turns=1), case(shared, turns=5), return_exceptions=True)
    assert [str(end) for end in ends] == ["gone", "gone"]
