"""What is true when a caller goes away, or the core fails, at any moment."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import DOCUMENTED, FakeBroker
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import ClientType
from aiorocketmq_fake.core.values.model import (
    ClientSettings,
    FilterExpression,
    GroupConfig,
    OutgoingMessage,
    Parked,
    Received,
    ReceiveRequest,
    Subscription,
    TopicConfig,
)
from aiorocketmq_fake.edge.clock import ManualClock, RealClock
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.events import Events

Running = Callable[..., Awaitable[FakeBroker]]
MESSAGE = OutgoingMessage(topic="t", body=b"1", message_id="m")


@pytest.fixture
def driver() -> Driver:
    import random

    core = Broker(DOCUMENTED, now=1000.0, rng=random.Random(0))
    driver = Driver(core, ManualClock(1000.0), Events())
    driver.run(core.create_topic, TopicConfig("t", read_queues=1, write_queues=1))
    driver.run(core.create_group, GroupConfig("g"))
    settings = ClientSettings(
        client_type=ClientType.SIMPLE_CONSUMER, subscription=Subscription("g", (("t", FilterExpression()),))
    )
    driver.run(core.settings, "c", settings)
    return driver


def park(driver: Driver) -> int:
    request = ReceiveRequest(client_id="c", group="g", topic="t", invisible=30.0, polling=10.0)
    parked = driver.run(driver.core.receive, request)
    assert isinstance(parked, Parked)
    driver.in_progress.enter()
    return parked.poll_id


async def wait(driver: Driver, poll_id: int, real_timeout: float | None = None) -> Any:
    """Wait for a poll as a call does, which steps out of its work when it ends."""
    try:
        return await driver.poll(poll_id, real_timeout)
    finally:
        driver.in_progress.leave()


async def test_an_answered_poll_hands_its_messages_over(driver: Driver) -> None:
    waiting = asyncio.create_task(wait(driver, park(driver)))
    await asyncio.sleep(0)
    assert driver.in_progress.count == 0
    driver.run(driver.core.send, (MESSAGE,))
    assert driver.in_progress.count == 1
    answer = await waiting
    assert isinstance(answer, Received)
    assert [delivery.attempt for delivery in answer.deliveries] == [1]
    assert driver.in_progress.count == 0


async def test_a_poll_cancelled_before_its_answer_takes_nothing(driver: Driver) -> None:
    waiting = asyncio.create_task(wait(driver, park(driver)))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait((waiting,))
    driver.run(driver.core.send, (MESSAGE,))
    assert driver.core.leases() == ()
    assert (len(driver.parked), driver.in_progress.count) == (0, 0)


async def test_a_poll_cancelled_after_its_answer_releases_its_messages(driver: Driver) -> None:
    waiting = asyncio.create_task(wait(driver, park(driver)))
    await asyncio.sleep(0)
    driver.run(driver.core.send, (MESSAGE,))
    waiting.cancel()
    await asyncio.wait((waiting,))
    assert waiting.cancelled()
    assert driver.core.leases() == ()
    assert (len(driver.parked), driver.in_progress.count) == (0, 0)


async def test_a_poll_answered_after_cancellation_releases_its_messages(driver: Driver) -> None:
    waiting = asyncio.create_task(wait(driver, park(driver)))
    await asyncio.sleep(0)
    waiting.cancel()
    driver.run(driver.core.send, (MESSAGE,))
    await asyncio.wait((waiting,))
    assert driver.core.leases() == ()
    assert (len(driver.parked), driver.in_progress.count) == (0, 0)


async def test_a_poll_is_answered_empty_after_its_real_timeout(driver: Driver) -> None:
    answer = await wait(driver, park(driver), 0.01)
    assert (answer.code, answer.deliveries) == (DOCUMENTED.empty_receive_code, ())
    assert (len(driver.parked), driver.in_progress.count) == (0, 0)


async def test_sleepers_are_woken_in_order_when_their_time_comes(driver: Driver) -> None:
    woken: list[int] = []

    async def sleep(seconds: int) -> None:
        driver.in_progress.enter()
        await driver.sleep(seconds)
        woken.append(seconds)
        driver.in_progress.leave()

    async with asyncio.TaskGroup() as tasks:
        for seconds in (3, 1, 2):
            tasks.create_task(sleep(seconds))
        await asyncio.sleep(0)
        assert driver.next_deadline() == 1001.0
        driver.reach(1002.0)
        assert await driver.in_progress.wait(1)
        assert woken == [1, 2]
        driver.reach(1003.0)
    assert woken == [1, 2, 3]


async def test_the_wait_for_idle_has_a_timeout(driver: Driver) -> None:
    driver.in_progress.enter()
    assert not await driver.in_progress.wait(0.01)
    driver.in_progress.leave()
    assert await driver.in_progress.wait(0.01)


def test_a_real_clock_never_runs_backwards() -> None:
    times = iter([100.0, 101.0, 99.0, 102.0])
    clock = RealClock(lambda: next(times))
    assert [clock.now(), clock.now(), clock.now()] == [101.0, 101.0, 102.0]


class Failing(Broker):
    """A core with faults of its own."""

    def query_route(self, *arguments: Any, **keywords: Any) -> Any:
        raise ZeroDivisionError("route")

    def receive(self, *arguments: Any, **keywords: Any) -> Any:
        raise ZeroDivisionError("receive")

    def settings(self, *arguments: Any, **keywords: Any) -> Any:
        raise ZeroDivisionError("settings")


async def test_a_fault_of_our_own_is_logged_and_is_an_error_of_one_call(
    running: Running, connect: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """R1.6: it must never look like a decision of a broker."""
    client = connect(await running(core=Failing))
    calls = [
        client.call("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="t"))),
        client.receive("g", "t"),
        client.publish("t"),
    ]
    with caplog.at_level(logging.ERROR):
        for call in calls:
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await call
            assert failed.value.code() == grpc.StatusCode.INTERNAL
            assert "its log says why" in str(failed.value.details())
    assert [record.exc_info[1].args for record in caplog.records if record.exc_info] == [
        ("route",),
        ("receive",),
        ("settings",),
    ]
    assert (await client.send("t", b"1")).status.code == pb.Code.OK
