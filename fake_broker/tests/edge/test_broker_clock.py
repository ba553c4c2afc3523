"""The manual clock: everything due happens in order, answers are written, clients may keep up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from datetime import UTC, datetime
from typing import Any

import pytest
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import LeaseEnded, PollParked

Happened = Callable[[type], Awaitable[Any]]
Until = Callable[[Callable[[], object]], Awaitable[None]]


async def test_an_unsettled_message_is_redelivered_until_it_is_given_up(
    broker: FakeBroker, client: Any, consumer: Any
) -> None:
    """A consumer that never settles anything sees every attempt at its time."""
    await broker.create_group("short", max_attempts=4)
    await client.send("t", b"1")
    begun = broker.clock.now()
    for attempt in range(1, 5):
        (message,) = (await consumer.receive("short", "t", invisible=100)).messages
        assert message.system_properties.delivery_attempt == attempt
        await broker.clock.advance(seconds=100)
    deliveries = broker.deliveries("t", group="short")
    assert [round(delivery.at - begun) for delivery in deliveries] == [0, 100, 200, 300]
    assert [letter.body for letter in broker.dead_letters("short")] == [b"1"]


async def test_patience_has_an_end(
    broker: FakeBroker, client: Any, consumer: Any, happened: Happened
) -> None:
    """A consumer that settles nothing holds the clock up only so long."""
    await client.send("t", b"1")
    await consumer.receive("g", "t", invisible=30)
    begun = broker.clock.now()
    async with asyncio.TaskGroup() as tasks:
        receiving = tasks.create_task(consumer.receive("g", "t", wait=100, deadline=None))
        await happened(PollParked)
        await broker.clock.advance(seconds=31, patience=0.05)
    assert receiving.result().messages[0].system_properties.delivery_attempt == 2
    assert broker.clock.now() == begun + 31


async def test_with_patience_the_clock_waits_for_consumers_that_settle(
    broker: FakeBroker, client: Any, consumer: Any, until: Until
) -> None:
    """Sixteen failures, each answered by the consumer within the step that handed the message out."""
    await client.send("t", b"1")
    begun = broker.clock.now()

    async def fail_always() -> None:
        while frames := await consumer.receive("g", "t", wait=3600, deadline=None):
            assert frames.code == pb.Code.OK
            for message in frames.messages:
                request = pb.ChangeInvisibleDurationRequest(
                    group=pb.Resource(name="g"),
                    topic=pb.Resource(name="t"),
                    receipt_handle=message.system_properties.receipt_handle,
                )
                request.invisible_duration.seconds = 600
                await consumer.call("ChangeInvisibleDuration", request)

    async with asyncio.TaskGroup() as tasks:
        failing = tasks.create_task(fail_always())
        await until(lambda: broker.clock.parked)
        await broker.clock.advance(hours=3, patience=5)
        failing.cancel()
    assert [round(delivery.at - begun) for delivery in broker.deliveries("t")] == [600 * n for n in range(17)]
    assert [letter.body for letter in broker.dead_letters("g")] == [b"1"]


async def test_with_patience_consumers_poll_again_after_an_empty_answer(
    broker: FakeBroker, client: Any, consumer: Any, until: Until
) -> None:
    """A message that becomes visible between two polls is delivered at its time, not when the clock stops."""
    await broker.create_topic("later", type="DELAY", queues=1)
    due = int(broker.clock.now()) + 1003
    await client.send("later", b"1", delivery_timestamp=pb.Timestamp(seconds=due))

    async def poll() -> None:
        while not (frames := await consumer.receive("g", "later", wait=20, deadline=None)).messages:
            assert frames.code == pb.Code.OK

    async with asyncio.TaskGroup() as tasks:
        polling = tasks.create_task(poll())
        await until(lambda: broker.clock.parked)
        await broker.clock.advance(hours=1, patience=0.5)
        await polling
    assert [delivery.at for delivery in broker.deliveries("later")] == [due]


async def test_with_patience_a_push_consumer_that_has_only_begun_misses_nothing(
    broker: FakeBroker, client: Any, connect: Callable[..., Any]
) -> None:
    await client.send("t", b"1")
    begun = broker.clock.now()
    pushed = connect(broker, "push-1")
    subscription = pb.Subscription(group=pb.Resource(name="g"))
    await pushed.settings(pb.Settings(client_type=pb.ClientType.PUSH_CONSUMER, subscription=subscription))
    async with asyncio.TaskGroup() as tasks:
        receiving = tasks.create_task(pushed.receive("g", "t"))
        await broker.clock.advance(hours=1, patience=0.5)
    assert receiving.result().bodies == [b"1"]
    assert broker.deliveries("t")[0].at == pytest.approx(begun, abs=0.001)


async def test_a_parked_receive_is_answered_before_advance_returns(
    broker: FakeBroker, client: Any, consumer: Any, happened: Happened
) -> None:
    await broker.create_topic("later", type="DELAY", queues=1)
    due = pb.Timestamp(seconds=int(broker.clock.now()) + 60)
    await client.send("later", b"1", delivery_timestamp=due)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(consumer.receive("g", "later", wait=100, deadline=None))
        await happened(PollParked)
        await broker.clock.advance(seconds=61)
        assert len(broker.deliveries("later")) == 1
    assert waiting.result().bodies == [b"1"]


async def test_clients_with_a_stream_outlive_a_jump_of_the_clock(broker: FakeBroker, consumer: Any) -> None:
    """Their heartbeats run in real time and cannot keep up."""
    await broker.clock.advance(hours=2)
    assert [client.client_id for client in broker.clients()] == ["consumer-1"]
    assert (
        await consumer.call("Heartbeat", pb.HeartbeatRequest(group=pb.Resource(name="g")))
    ).status.code == 20000


async def test_clients_expire_with_forget_clients(broker: FakeBroker, consumer: Any) -> None:
    """R2.15."""
    await broker.clock.advance(minutes=3, forget_clients=True)
    assert broker.clients() == ()
    response = await consumer.call("Heartbeat", pb.HeartbeatRequest(group=pb.Resource(name="g")))
    assert response.status.code == pb.Code.UNRECOGNIZED_CLIENT_TYPE


async def test_a_manual_clock_starts_at_its_start(running: Callable[..., Awaitable[FakeBroker]]) -> None:
    start = datetime(2030, 1, 1, tzinfo=UTC)
    broker = await running(clock="manual", start=start)
    assert broker.clock.utc() == start
    await broker.clock.advance(hours=1, minutes=1, seconds=1)
    assert broker.clock.now() == start.timestamp() + 3661
    await broker.clock.advance_to(start.timestamp())
    assert broker.clock.now() == start.timestamp() + 3661


async def test_two_calls_move_the_clock_one_after_the_other(broker: FakeBroker) -> None:
    begun = broker.clock.now()
    await asyncio.gather(broker.clock.advance(hours=1), broker.clock.advance(hours=1))
    assert broker.clock.now() == begun + 7200


async def test_a_clock_cannot_go_back(broker: FakeBroker) -> None:
    with pytest.raises(ValueError, match="the step must be 0 s or more"):
        await broker.clock.advance(seconds=-1)


async def test_a_real_clock_cannot_be_moved(running: Callable[..., Awaitable[FakeBroker]]) -> None:
    broker = await running(clock="real")
    with pytest.raises(RuntimeError, match="only a manual clock"):
        await broker.clock.advance(seconds=1)


async def test_the_next_deadline_is_that_of_the_core(broker: FakeBroker, client: Any, consumer: Any) -> None:
    await client.send("t", b"1")
    await consumer.receive("g", "t", invisible=30)
    deadline = broker.clock.next_deadline()
    assert deadline is not None
    assert deadline - broker.clock.now() == pytest.approx(30, abs=0.01)


class User:
    """A client that goes by the broker's clock, as the clock sees it."""

    def __init__(self, client_id: str = "user-1") -> None:
        self.client_id = client_id
        self.polls = 0
        self.doing: dict[Hashable, str] = {}

    def work(self) -> dict[Hashable, str]:
        return self.doing


async def test_timers_of_clients_and_brokers_fire_in_order_of_time(
    broker: FakeBroker, client: Any, consumer: Any
) -> None:
    await client.send("t", b"1")
    await consumer.receive("g", "t", invisible=30)
    begun = broker.clock.now()
    order: list[tuple[str, float]] = []

    def note(name: str) -> Callable[[], None]:
        return lambda: order.append((name, round(broker.clock.time() - begun, 3)))

    with broker.events.listen(
        lambda events: [note("lease")() for event in events if isinstance(event, LeaseEnded)]
    ):
        broker.clock.call_at(begun + 40, note("late"))
        broker.clock.call_at(begun + 10, note("early"))
        broker.clock.call_at(begun + 20, note("never")).cancel()
        assert broker.clock.next_deadline() == begun + 10
        await broker.clock.advance(minutes=1)
    assert [name for name, _ in order] == ["early", "lease", "late"]
    assert [at for _, at in order] == pytest.approx([10, 30, 40], abs=0.01)


async def test_a_timer_that_is_due_already_fires_without_an_advance(broker: FakeBroker, until: Until) -> None:
    fired: list[int] = []
    broker.clock.call_at(broker.clock.time(), lambda: fired.append(1))
    assert fired == []
    await until(lambda: fired)


async def test_a_timer_set_by_a_timer_fires_within_the_advance(broker: FakeBroker) -> None:
    begun = broker.clock.now()
    fired: list[float] = []

    def again() -> None:
        fired.append(round(broker.clock.time() - begun))
        broker.clock.call_at(broker.clock.time() + 15, again)

    broker.clock.call_at(begun + 15, again)
    await broker.clock.advance(minutes=1)
    assert fired == [15, 30, 45, 60]


async def test_an_error_in_a_timer_stops_no_other(broker: FakeBroker) -> None:
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    fired: list[int] = []
    broker.clock.call_at(broker.clock.time() + 1, lambda: 1 // 0)
    broker.clock.call_at(broker.clock.time() + 2, lambda: fired.append(1))
    await broker.clock.advance(seconds=3)
    assert fired == [1]
    assert isinstance(errors[0]["exception"], ZeroDivisionError)


async def test_timers_on_a_real_clock_follow_its_jumps(
    running: Callable[..., Awaitable[FakeBroker]], until: Until
) -> None:
    broker = await running(clock="real")
    fired: list[str] = []
    broker.clock.call_at(broker.clock.time() + 0.01, lambda: fired.append("soon"))
    broker.clock.call_at(broker.clock.time() + 600, lambda: fired.append("later"))
    await until(lambda: fired)
    assert fired == ["soon"]
    broker.clock.jump(700)
    await until(lambda: len(fired) == 2)


async def test_advance_waits_until_its_users_have_done_their_work(broker: FakeBroker) -> None:
    """Work that a timer starts is completed before the next instant."""
    user = User()
    broker.clock.join(user)
    begun = broker.clock.now()
    ended: list[float] = []

    async def work() -> None:
        await asyncio.sleep(0.05)
        user.doing = {}
        ended.append(round(broker.clock.now() - begun))

    tasks: list[asyncio.Task[None]] = []

    def begin() -> None:
        user.doing = {1: "something"}
        tasks.append(asyncio.create_task(work()))

    broker.clock.call_at(begun + 10, begin)
    broker.clock.call_at(begun + 20, begin)
    await broker.clock.advance(minutes=1)
    assert ended == [10, 20]


async def test_advance_waits_until_the_polls_of_its_users_are_parked(
    broker: FakeBroker, consumer: Any
) -> None:
    user = User("consumer-1")
    user.polls = 1
    broker.clock.join(user)
    begun = broker.clock.now()

    async def poll() -> float:
        await asyncio.sleep(0.05)
        await consumer.receive("g", "t", wait=20, deadline=None)
        user.polls = 0
        return broker.clock.now() - begun

    async with asyncio.TaskGroup() as tasks:
        polling = tasks.create_task(poll())
        await broker.clock.advance(minutes=1)
    assert polling.result() == pytest.approx(20, abs=0.01)


async def test_work_that_does_not_end_is_named_once_and_waited_for_once(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    user = User()
    user.doing = {1: "handler of order 17"}
    broker.clock.join(user)
    await broker.clock.advance(minutes=10, patience=0.2)
    async with asyncio.timeout(20):
        await broker.clock.advance(minutes=10, patience=100)
    [record] = caplog.records
    assert "user-1: handler of order 17" in record.getMessage()
    caplog.clear()
    user.doing = {2: "another"}
    await broker.clock.advance(minutes=10, patience=0.2)
    assert "user-1: another" in caplog.text


async def test_without_patience_the_clock_waits_for_no_user(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    user = User()
    user.doing = {1: "something"}
    broker.clock.join(user)
    await broker.clock.advance(minutes=10, patience=0)
    broker.clock.leave(user)
    await broker.clock.advance(minutes=10)
    assert caplog.text == ""
