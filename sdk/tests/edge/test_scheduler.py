"""Regular jobs of many clients share one timer, and take no task while they wait."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiorocketmq._aio.event import Signal
from aiorocketmq._aio.scheduler import Scheduler
from aiorocketmq._aio.tasks import Tasks
from aiorocketmq._core.timetable import CROWD
from aiorocketmq._transport import network
from aiorocketmq.connection import Connection
from aiorocketmq.errors import ServerError
from aiorocketmq_fake import FakeBroker

from sdk.tests.clients import push_consumer, simple_consumer
from sdk.tests.waiting import until


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    tasks = Tasks("test", random=random.Random(1), gave_up=lambda name, error: None)
    yield tasks
    await tasks.end()


class Runs:
    """A job that counts its runs."""

    def __init__(self, *, fails: bool = False, pause: float | None = None) -> None:
        self.count = 0
        self._fails = fails
        self._pause = pause
        self._news = asyncio.Event()

    async def __call__(self) -> float | None:
        self.count += 1
        self._news.set()
        if self._fails:
            raise LookupError("the vault is locked")
        return self._pause

    async def reach(self, count: int) -> None:
        async with asyncio.timeout(10):
            while self.count < count:
                self._news.clear()
                await self._news.wait()


async def test_a_job_continues_whatever_it_raises(tasks: Tasks, caplog: pytest.LogCaptureFixture) -> None:
    job = Runs(fails=True)
    member = Scheduler(random.Random(1)).join(tasks)
    member.every(0.01, job, name="credentials")
    await job.reach(3)
    member.leave()
    assert "credentials failed unexpectedly (3 in a row)" in caplog.text


async def test_a_job_may_choose_when_it_runs_next(tasks: Tasks) -> None:
    often, rarely = Runs(pause=0.01), Runs(pause=3600.0)
    member = Scheduler(random.Random(1)).join(tasks)
    member.every(0.01, often, name="often")
    member.every(0.01, rarely, name="rarely")
    await often.reach(5)
    assert rarely.count == 1
    member.leave()


async def test_who_leaves_has_its_runs_broken_off_and_no_timer_left(tasks: Tasks) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def long() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    scheduler = Scheduler(random.Random(1))
    member = scheduler.join(tasks)
    member.every(0.01, long, name="long")
    async with asyncio.timeout(10):
        await begun.wait()
        member.leave()
        await ended.wait()
    assert scheduler._timer is None
    member.leave()


async def test_clients_that_have_left_make_no_period_longer(
    tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadlines: list[float] = []
    loop = asyncio.get_running_loop()
    call_at = loop.call_at

    def recorded(when: float, *call: Any) -> asyncio.TimerHandle:
        deadlines.append(when)
        return call_at(when, *call)

    monkeypatch.setattr(loop, "call_at", recorded)
    scheduler = Scheduler(random.Random(1))
    for _ in range(10 * CROWD):
        scheduler.join(tasks).leave()
    member = scheduler.join(tasks)
    member.every(100.0, Runs(), name="heartbeat")
    assert deadlines[-1] - loop.time() < 200.0
    member.leave()


async def test_a_job_that_ended_runs_no_more_while_others_continue(tasks: Tasks) -> None:
    first, second = Runs(), Runs()
    member = Scheduler(random.Random(1)).join(tasks)
    job = member.every(0.01, first, name="first")
    member.every(0.01, second, name="second")
    await first.reach(1)
    job.end()
    count = first.count
    await second.reach(second.count + 3)
    assert first.count == count
    member.leave()


async def test_a_job_that_ended_while_it_crashes_runs_no_more(tasks: Tasks) -> None:
    runs = Runs(fails=True)
    member = Scheduler(random.Random(1)).join(tasks)
    job = member.every(0.01, runs, name="first")
    await runs.reach(1)
    job.end()
    restarted = job._task
    assert restarted is not None
    await asyncio.wait_for(restarted, 10)
    assert runs.count == 1
    member.leave()


async def test_a_job_may_run_again_at_once(tasks: Tasks) -> None:
    member, runs = Scheduler(random.Random(1)).join(tasks), Runs(pause=0.0)
    member.every(3600.0, runs, name="often").plan(0.0)
    await runs.reach(3)
    member.leave()


async def test_a_job_that_has_failed_is_reported_until_it_ends(tasks: Tasks) -> None:
    async def fail() -> None:
        raise ServerError("the vault is locked")

    member = Scheduler(random.Random(1)).join(tasks)
    job = member.every(0.001, fail, name="credentials")
    await until(lambda: tasks.degraded == {"credentials": "the vault is locked"})
    job.end()
    assert tasks.degraded == {}
    member.leave()


async def test_a_job_that_has_failed_runs_again_after_its_period_at_the_latest(tasks: Tasks) -> None:
    """The pause after a failure grows to two seconds."""
    runs = 0

    async def fail() -> None:
        nonlocal runs
        runs += 1
        raise ServerError("the vault is locked")

    member = Scheduler(random.Random(1)).join(tasks)
    member.every(0.001, fail, name="credentials")
    async with asyncio.timeout(2):
        await until(lambda: runs >= 30)
    member.leave()


async def test_idle_consumers_of_one_connection_share_timer_routes_and_socket(broker: FakeBroker) -> None:
    async def handle(message: object) -> None:
        raise AssertionError("nothing was sent")

    async with Connection(broker.endpoint) as rocketmq:
        consumers = [push_consumer(rocketmq, handler=handle) for _ in range(20)]
        await asyncio.gather(*(each.__aenter__() for each in consumers))
        own = [task for task in asyncio.all_tasks() if task.get_name().startswith("push: ")]
        assert len(own) == 2 * len(consumers)
        assert len({id(each._session.routes.cached["orders"]) for each in consumers}) == 1
        assert rocketmq._network.scheduler._timer is not None
        await asyncio.gather(*(each.__aexit__(None, None, None) for each in consumers))
        assert rocketmq._network.scheduler._timer is None


async def test_an_unchanged_route_is_looked_up_by_one_client_for_all(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        Connection(broker.endpoint) as rocketmq,
        simple_consumer(rocketmq) as first,
        simple_consumer(rocketmq) as second,
    ):
        later = asyncio.get_running_loop().time() + 100.0
        monkeypatch.setattr(network, "loop_time", lambda: later)
        await first._session.routes.refresh(age=20.0)
        with broker.faults.refuse("QueryRoute", "INTERNAL_SERVER_ERROR") as refused:
            await second._session.routes.refresh(age=20.0)
        assert refused.hits == 0


async def test_one_dead_connection_is_made_again_once_for_all_who_ask(broker: FakeBroker) -> None:
    async with (
        Connection(broker.endpoint) as rocketmq,
        simple_consumer(rocketmq) as first,
        simple_consumer(rocketmq) as second,
    ):
        (endpoint,) = first._session.streams
        before = rocketmq._network.open_transport()._channels[endpoint]  # type: ignore[attr-defined]  # grpcio's
        await first._session.reconnect(endpoint)
        await first.receive(wait=0)
        after = rocketmq._network.open_transport()._channels[endpoint]  # type: ignore[attr-defined]  # grpcio's
        await second._session.reconnect(endpoint)
        assert before is not after
        assert rocketmq._network.open_transport()._channels.get(endpoint) is after  # type: ignore[attr-defined]  # grpcio's


async def test_a_signal_wakes_all_who_wait_and_lets_later_ones_pass() -> None:
    signal = Signal()
    waiting = [asyncio.create_task(signal.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    signal.set()
    await asyncio.gather(*waiting)
    await signal.wait()
    signal.clear()
    late = asyncio.create_task(signal.wait())
    await asyncio.sleep(0)
    assert not late.done()
    late.cancel()
    await asyncio.gather(late, return_exceptions=True)


async def test_one_who_stops_waiting_for_a_signal_keeps_no_other_from_it() -> None:
    signal = Signal()
    first, second = asyncio.create_task(signal.wait()), asyncio.create_task(signal.wait())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    assert len(signal._futures) == 1
    signal.set()
    await second
    assert first.cancelled()
