"""An unexpected exception in any background loop is survived, or ends the client with an error that is raised.

The exceptions are thrown into the loops at the points where they wait, by a task factory: nothing of the client is
replaced.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Generator
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from aiorocketmq import (
    BackgroundTaskError,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    RocketMQError,
    SimpleConsumer,
)
from aiorocketmq._aio.tasks import MOST_CRASHES, Tasks, Watch
from aiorocketmq_fake import FakeBroker
from hypothesis import assume, given, settings, strategies as st

from sdk.tests import waiting
from sdk.tests.clients import push_consumer

if TYPE_CHECKING:
    from sdk.tests.conftest import LostLeases
else:
    LostLeases = Any

PATIENCE = 30.0
until = partial(waiting.until, within=PATIENCE)


class Injected(Exception):
    """What no code expects."""


class Stepped(Coroutine[Any, Any, Any]):
    """A coroutine into which `faults` may throw an exception at one of its steps."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], faults: Faults) -> None:
        self._coroutine = coroutine
        self._faults = faults
        self._started = False

    def send(self, value: Any) -> Any:
        # What has not started cannot have failed.
        if self._started and self._faults.strike():
            return self._coroutine.throw(Injected("a fault of the test"))
        self._started = True
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        raise AssertionError("tasks do not await what they run")


class Faults:
    """Throws at step `at` of all tasks of loops whose names contain `loop`, or from there on at every step."""

    def __init__(self, loop: str, at: int, *, for_ever: bool = False) -> None:
        self._loop = loop
        self._at = at
        self._for_ever = for_ever
        self._steps = 0
        self.are_armed = not for_ever
        self.hits = 0

    def strike(self) -> bool:
        task = asyncio.current_task()
        if not self.are_armed or task is None or self._loop not in task.get_name():
            return False
        self._steps += 1
        if self._steps == self._at or (self._for_ever and self._steps >= self._at):
            self.hits += 1
            return True
        return False

    @asynccontextmanager
    async def injected(self) -> AsyncIterator[None]:
        def factory(
            event_loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any
        ) -> asyncio.Task[Any]:
            # Wrapped whatever it is called: older Pythons name a task when it is made.
            return asyncio.Task(Stepped(coroutine, self), loop=event_loop, **options)

        event_loop = asyncio.get_running_loop()
        event_loop.set_task_factory(factory)
        try:
            yield
        finally:
            event_loop.set_task_factory(None)


@asynccontextmanager
async def brokers() -> AsyncIterator[FakeBroker]:
    async with FakeBroker() as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_group("billing", backoff=[0.2])
        await broker.create_group("audit")
        yield broker


async def send(broker: FakeBroker, *bodies: bytes) -> None:
    async with Producer(broker.endpoint) as producer:
        for body in bodies:
            await producer.send(Message("orders", body))


def hurry_jobs(client: Any) -> None:
    """Let the regular jobs run now."""
    member = client._session._membership
    client._session.network._asked_at.clear()
    for job in tuple(member.jobs):
        job.plan(0.0)


PUSH_LOOPS = (
    "receiving from",
    "acknowledging messages",
    "releasing messages",
    "handling messages",
    "the settings stream",
    "heartbeat",
    "routes",
    "settings",
    "the query for assignments",
)


async def push_survives(loop: str, at: int, lost_leases: LostLeases) -> bool:
    """Play it; whether the fault has struck."""
    handled: set[bytes] = set()
    failed: set[bytes] = set()

    async def handle(message: ReceivedMessage) -> None:
        await asyncio.sleep(0)
        if message.body not in failed:
            failed.add(message.body)
            if message.body.endswith(b"fails once"):
                raise LookupError("no such order")
        handled.add(message.body)

    faults = Faults(loop, at)
    async with brokers() as broker, faults.injected():
        await send(broker, b"0", b"1, fails once", b"2")
        async with push_consumer(broker.endpoint, handler=handle, invisible=10) as consumer:
            running = asyncio.create_task(consumer.run())
            for number in range(6):
                hurry_jobs(consumer)
                await send(broker, b"%d more" % number)
            async with lost_leases(broker):
                await until(lambda: len(handled) == 9 or running.done())
            await until(lambda: (consumer.is_ready and not consumer.health().degraded) or running.done())
            if running.done():
                await running  # an error that is raised is an answer, too
                raise AssertionError("run() returned by itself")
            running.cancel()
    return faults.hits == 1


@pytest.mark.parametrize("loop", PUSH_LOOPS)
@settings(max_examples=4, deadline=None)
@given(at=st.integers(1, 24))
def test_an_exception_in_a_loop_of_a_push_consumer_is_survived(
    lost_leases: LostLeases, loop: str, at: int
) -> None:
    assume(asyncio.run(push_survives(loop, at, lost_leases)))


async def pull_survives(loop: str, at: int) -> bool:
    """Play it; whether the fault has struck."""
    faults = Faults(loop, at)
    async with brokers() as broker, faults.injected():
        await send(broker, b"0", b"1")
        async with PullConsumer(broker.endpoint, group="audit", auto_commit=0.02, wait=1.0) as consumer:
            consumer.assign(await consumer.queues("orders"))
            (queue,) = consumer.assigned
            bodies: set[bytes] = set()
            for number in range(4):
                hurry_jobs(consumer)
                await send(broker, b"%d more" % number)
            async with asyncio.timeout(PATIENCE):
                while len(bodies) < 6:
                    bodies |= {message.body for message in await anext(consumer)}
                while await consumer.committed(queue) != 6:
                    await consumer.poll(0.05)
            await until(lambda: consumer.is_ready and not consumer.health().degraded)
    return faults.hits == 1


@pytest.mark.parametrize("loop", ["pulling from", "committing offsets", "the settings stream", "heartbeat"])
@settings(max_examples=4, deadline=None)
@given(at=st.integers(1, 24))
def test_an_exception_in_a_loop_of_a_pull_consumer_is_survived(loop: str, at: int) -> None:
    assume(asyncio.run(pull_survives(loop, at)))


async def simple_survives(loop: str, at: int, lost_leases: LostLeases) -> bool:
    """Play it; whether the fault has struck."""
    faults = Faults(loop, at)
    async with brokers() as broker, faults.injected():
        await broker.create_topic("refunds", queues=1)
        await send(broker, b"0", b"1", b"2")
        async with SimpleConsumer(
            broker.endpoint, group="billing", subscriptions=["orders", "refunds"]
        ) as consumer:
            bodies: set[bytes] = set()
            while len(bodies) < 3:
                hurry_jobs(consumer)
                # A poll of several is awaited by the application, which gets what it raises.
                with suppress(Injected):
                    async with asyncio.timeout(PATIENCE), lost_leases(broker):
                        async for message in consumer.messages(wait=1, keep_alive=True, invisible=10):
                            await message.ack()
                            bodies.add(message.body)
                            if len(bodies) == 3:
                                break
            await until(lambda: consumer.is_ready and not consumer.health().degraded)
    return faults.hits == 1


@pytest.mark.parametrize("loop", ["poll ", "the settings stream", "heartbeat", "routes"])
@settings(max_examples=2, deadline=None)
@given(at=st.integers(1, 12))
def test_an_exception_in_a_loop_of_a_simple_consumer_is_survived(
    lost_leases: LostLeases, loop: str, at: int
) -> None:
    assume(asyncio.run(simple_survives(loop, at, lost_leases)))


async def producer_survives(loop: str, at: int) -> bool:
    """Play it; whether the fault has struck."""
    faults = Faults(loop, at)
    async with brokers() as broker, faults.injected():
        async with Producer(broker.endpoint, topics=["orders"], linger=0.001) as producer:
            sent = 0
            for number in range(12):
                hurry_jobs(producer)
                # A batch is awaited by those who send it.
                with suppress(Injected):
                    await producer.send(Message("orders", b"%d" % number))
                    sent += 1
            await until(lambda: producer.is_ready and not producer.health().degraded)
        assert sent >= 11
        assert len(broker.messages("orders")) >= sent
    return faults.hits == 1


@pytest.mark.parametrize("loop", ["send a batch", "the settings stream", "heartbeat", "routes", "settings"])
@settings(max_examples=4, deadline=None)
@given(at=st.integers(1, 24))
def test_an_exception_in_a_loop_of_a_producer_is_survived(loop: str, at: int) -> None:
    assume(asyncio.run(producer_survives(loop, at)))


# For ever


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back-off between crashes without its seconds: how long it is, its own test shows."""
    monkeypatch.setattr("aiorocketmq._aio.tasks.failure_pause", lambda crashes, **_: 0.001)
    monkeypatch.setattr("aiorocketmq._aio.tasks._ONE_TIME", 0.0)


@pytest.mark.parametrize("loop", ["receiving from", "the settings stream"])
async def test_a_loop_that_always_fails_ends_run_with_its_error(loop: str, impatient: None) -> None:
    faults = Faults(f"push: {loop}", 1, for_ever=True)
    async with brokers() as broker, faults.injected():
        consumer = push_consumer(
            broker.endpoint,
            handler=lambda message: None,
            shutdown_timeout=0,
        )

        async def run() -> None:
            async with asyncio.timeout(PATIENCE), consumer:
                faults.are_armed = True
                await asyncio.gather(consumer.run(), keep_busy(broker, consumer))

        with pytest.raises(BackgroundTaskError, match=f"failed {MOST_CRASHES} times in a row") as caught:
            await run()
        assert isinstance(caught.value.__cause__, Injected)
        assert caught.value.group == "billing"


async def keep_busy(broker: FakeBroker, consumer: PushConsumer) -> None:
    async with Producer(broker.endpoint) as producer:
        while consumer.health().failure is None:
            await consumer._session.write_settings()  # wakes the streams, as the message wakes polls
            await producer.send(Message("orders", b"x"))
            await asyncio.sleep(0.005)


async def test_a_producer_whose_loop_always_fails_raises_at_its_next_send(impatient: None) -> None:
    faults = Faults("the settings stream", 1, for_ever=True)
    async with brokers() as broker, faults.injected(), Producer(broker.endpoint) as producer:
        await producer.send(Message("orders", b"x"))
        faults.are_armed = True
        await producer._session.write_settings()
        await until(lambda: producer.health().failure is not None)
        for _ in range(2):
            with pytest.raises(BackgroundTaskError, match=r"the settings stream to .* failed"):
                await producer.send(Message("orders", b"y"))
        assert not producer.is_ready


async def test_a_pull_consumer_whose_loop_always_fails_ends_the_iteration(impatient: None) -> None:
    faults = Faults("pulling from", 2, for_ever=True)
    async with brokers() as broker, faults.injected():
        await send(broker, b"x")
        async with asyncio.timeout(PATIENCE), PullConsumer(broker.endpoint, group="audit") as consumer:
            faults.are_armed = True
            consumer.assign(await consumer.queues("orders"))
            with pytest.raises(BackgroundTaskError, match="pulling from orders/broker-a/0 failed"):
                [batch async for batch in consumer]


# Supervision itself


@asynccontextmanager
async def tasks_and_ends() -> AsyncIterator[tuple[Tasks, list[tuple[str, BaseException]]]]:
    ended: list[tuple[str, BaseException]] = []
    tasks = Tasks("test", random=Random(1), gave_up=lambda name, error: ended.append((name, error)))
    try:
        yield tasks, ended
    finally:
        await tasks.end()


async def test_a_loop_that_works_in_between_is_never_given_up(
    impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    runs = 0

    async def loop(watch: Watch) -> None:
        nonlocal runs
        runs += 1
        watch.worked()
        if runs < 3 * MOST_CRASHES:
            raise Injected(f"run {runs}")

    async with tasks_and_ends() as (tasks, ended):
        await tasks.supervise(loop, name="the loop")
        assert tasks.degraded == {}
    assert (runs, ended) == (3 * MOST_CRASHES, [])
    assert "the loop failed unexpectedly (1 in a row)" in caplog.text
    assert "Traceback" in caplog.text


async def test_a_loop_is_given_up_after_its_last_crash(impatient: None) -> None:
    async def loop(watch: Watch) -> None:
        raise Injected("always")

    async with tasks_and_ends() as (tasks, ended):
        await tasks.supervise(loop, name="the loop")
        ((name, error),) = ended
    assert name == "the loop"
    assert isinstance(error, Injected)


async def test_a_cancellation_from_inside_does_not_end_a_loop_unnoticed(impatient: None) -> None:
    """For instance a future cancelled elsewhere; a cancellation of the task itself ends it."""
    runs = 0

    async def loop(watch: Watch) -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            cancelled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            cancelled.cancel()
            await cancelled
        await asyncio.Event().wait()

    async with tasks_and_ends() as (tasks, _):
        task = tasks.supervise(loop, name="the loop")
        await until(lambda: runs == 2)
        assert tasks.degraded == {"the loop": "CancelledError()"}
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert tasks.degraded == {}


async def test_failures_of_one_kind_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async with tasks_and_ends() as (tasks, _):
        watch = tasks.watch("receiving")
        with caplog.at_level(logging.INFO):
            assert [watch.failed(RocketMQError("away")) for _ in range(3)] == [1, 2, 3]
            watch.failed(BackgroundTaskError("worse"))
            assert tasks.degraded == {"receiving": "worse"}
            watch.worked()
            watch.worked()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "receiving failed, retrying: away"),
        ("WARNING", "receiving failed, retrying: worse"),
        ("INFO", "receiving works again after 4 failures"),
    ]


async def test_a_loop_is_degraded_until_the_last_item_that_failed_is_retried_no_more() -> None:
    async with tasks_and_ends() as (tasks, _):
        watch = tasks.watch("renewing leases")
        assert [watch.failed(RocketMQError("away"), item) for item in ("a", "b", "a")] == [1, 2, 3]
        watch.ended("a")
        watch.ended("c")
        assert tasks.degraded == {"renewing leases": "away"}
        watch.ended("b")
        assert tasks.degraded == {}
        assert watch.failed(RocketMQError("away"), "a") == 1


async def test_a_failure_is_warned_of_again_once_the_loop_has_worked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with tasks_and_ends() as (tasks, _):
        watch = tasks.watch("receiving")
        for _ in range(2):
            watch.failed(RocketMQError("away"))
            watch.failed(RocketMQError("away"))
            watch.worked()
    assert [record.levelname for record in caplog.records if record.levelname == "WARNING"] == ["WARNING"] * 2


async def test_the_first_failure_of_a_client_is_the_one_that_is_raised(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint) as producer:
        first, second = BackgroundTaskError("first"), BackgroundTaskError("second")
        producer._session.fail(first)
        producer._session.fail(second)
        assert producer.health().failure is first
        with pytest.raises(BackgroundTaskError, match="first"):
            await producer.send(Message("orders", b"x"))
