"""Consumers that go by the fake broker's manual clock: `advance` walks whole ladders of retries."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack

import anyio
import pytest
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.push_consumer import PushConsumer, RetryLater
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import LeaseChanged
from hypothesis import HealthCheck, given, settings, strategies as st

from sdk.tests.clients import push_consumer, simple_consumer


class Failing:
    """A handler that always fails, and keeps which attempts it saw of each message, and when."""

    def __init__(self, broker: FakeBroker, error: Exception | None = None) -> None:
        self._broker = broker
        self._error = error or RuntimeError("not today")
        self.attempts: defaultdict[bytes, list[int]] = defaultdict(list)
        self.times: list[float] = []

    async def __call__(self, message: ReceivedMessage) -> None:
        self.attempts[message.body].append(message.attempt)
        self.times.append(self._broker.clock.now())
        raise self._error


async def broker_with(
    stack: AsyncExitStack,
    *,
    ordered: bool,
    backoff: Sequence[float],
    profile: str = "documented",
    max_attempts: int,
) -> FakeBroker:
    broker = await stack.enter_async_context(FakeBroker(profile=profile, clock="manual"))
    await broker.create_topic("orders", type="FIFO" if ordered else "NORMAL", queues=2)
    await broker.create_group("billing", ordered=ordered, max_attempts=max_attempts, backoff=backoff)
    return broker


def consuming(broker: FakeBroker, handler: Failing) -> PushConsumer:
    return push_consumer(
        broker.endpoint,
        handler=handler,
        clock=broker.clock,
    )


@pytest.mark.parametrize("profile", ["documented", "apache-5.5"])
async def test_an_ordered_group_walks_its_ladder_in_one_advance(profile: str) -> None:
    """One delivery whose lease is kept; the handler runs as often as the group allows, then the dead letter."""
    async with AsyncExitStack() as stack:
        broker = await broker_with(
            stack, ordered=True, backoff=[10, 60, 600], profile=profile, max_attempts=4
        )
        handler = Failing(broker)
        producer = await stack.enter_async_context(Producer(broker.endpoint))
        await producer.send(Message("orders", b"1", message_group="a"))
        await stack.enter_async_context(consuming(broker, handler))
        begun = broker.clock.now()
        await broker.clock.advance(seconds=669)
        assert handler.attempts == {b"1": [1, 2, 3]}
        assert broker.dead_letters("billing") == ()
        await broker.clock.advance(seconds=2)
        assert handler.attempts == {b"1": [1, 2, 3, 4]}
        assert [round(at - begun) for at in handler.times] == [0, 10, 70, 670]
        assert [delivery.attempt for delivery in broker.deliveries("orders", group="billing")] == [1]
        assert [letter.body for letter in broker.dead_letters("billing")] == [b"1"]


async def test_a_normal_group_walks_its_ladder_in_one_advance() -> None:
    async with AsyncExitStack() as stack:
        broker = await broker_with(stack, ordered=False, backoff=[10, 60, 600], max_attempts=4)
        handler = Failing(broker)
        producer = await stack.enter_async_context(Producer(broker.endpoint))
        await producer.send(Message("orders", b"1"))
        await stack.enter_async_context(consuming(broker, handler))
        await broker.clock.advance(hours=1)
        assert handler.attempts == {b"1": [1, 2, 3, 4]}
        assert [delivery.attempt for delivery in broker.deliveries("orders")] == [1, 2, 3, 4]
        assert [letter.body for letter in broker.dead_letters("billing")] == [b"1"]


async def test_retry_later_in_an_ordered_group_goes_by_the_clock() -> None:
    async with AsyncExitStack() as stack:
        broker = await broker_with(stack, ordered=True, backoff=[1], max_attempts=3)
        handler = Failing(broker, RetryLater(500))
        producer = await stack.enter_async_context(Producer(broker.endpoint))
        await producer.send(Message("orders", b"1", message_group="a"))
        await stack.enter_async_context(consuming(broker, handler))
        begun = broker.clock.now()
        await broker.clock.advance(seconds=1001)
    assert [round(at - begun) for at in handler.times] == [0, 500, 1000]


async def test_a_handler_that_waits_for_the_test_is_named_and_its_lease_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The clock continues after its patience, waits for that handler no more, and renews on."""
    async with AsyncExitStack() as stack:
        broker = await broker_with(stack, ordered=False, backoff=[1], max_attempts=3)
        gate = asyncio.Event()
        attempts: list[int] = []

        async def wait(message: ReceivedMessage) -> None:
            attempts.append(message.attempt)
            await gate.wait()

        producer = await stack.enter_async_context(Producer(broker.endpoint))
        await producer.send(Message("orders", b"1"))
        consumer = push_consumer(broker.endpoint, handler=wait, clock=broker.clock)
        await stack.enter_async_context(consumer)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        with caplog.at_level(logging.WARNING, "aiorocketmq_fake"):
            await broker.clock.advance(minutes=10, patience=0.3)
        assert 0.3 <= loop.time() - begun < 3
        # On a busy machine a renewal may take that long, too.
        (warning,) = [text for text in caplog.messages if "handler of <ReceivedMessage" in text]
        assert "still busy" in warning
        assert consumer.client_id in warning
        gate.set()
        await broker.clock.advance(minutes=1)
        assert attempts == [1]
        assert consumer.statistics.acknowledged == 1
        assert broker.leases("billing") == ()


async def test_a_paused_consumer_does_not_hold_the_clock_up(caplog: pytest.LogCaptureFixture) -> None:
    async with AsyncExitStack() as stack:
        broker = await broker_with(stack, ordered=False, backoff=[1], max_attempts=3)
        consumer = await stack.enter_async_context(consuming(broker, Failing(broker)))
        consumer.pause()
        await broker.clock.advance(hours=1)
    assert "still busy" not in caplog.text


async def test_a_simple_consumers_keep_alive_goes_by_the_clock() -> None:
    async with AsyncExitStack() as stack:
        broker = await broker_with(stack, ordered=False, backoff=[1], max_attempts=3)
        producer = await stack.enter_async_context(Producer(broker.endpoint))
        await producer.send(Message("orders", b"1"))
        consumer = await stack.enter_async_context(simple_consumer(broker.endpoint, clock=broker.clock))
        loop = consumer.messages(keep_alive=True, invisible=30)
        message = await anext(loop)
        with anyio.move_on_after(0):  # a second loop that ends
            await anext(consumer.messages())
        renewed: list[LeaseChanged] = []
        with broker.events.listen(
            lambda events: renewed.extend(event for event in events if isinstance(event, LeaseChanged))
        ):
            await broker.clock.advance(minutes=10)
        assert len(renewed) == 40
        await message.ack()
        await loop.aclose()  # type: ignore[attr-defined]
        await broker.clock.advance(minutes=10)
        assert [delivery.attempt for delivery in broker.deliveries("orders")] == [1]


async def test_a_renewal_without_an_answer_costs_no_other_lease_of_a_loop() -> None:
    """In a simple consumer's loop, the other message is renewed all the time, and so delivered once."""
    async with AsyncExitStack() as stack:
        broker = await broker_with(stack, ordered=False, backoff=[1], max_attempts=3)
        producer = await stack.enter_async_context(Producer(broker.endpoint))
        await producer.send_many([Message("orders", b"1"), Message("orders", b"2")])
        consumer = await stack.enter_async_context(simple_consumer(broker.endpoint, clock=broker.clock))
        loop = consumer.messages(keep_alive=True, invisible=30)
        messages = [await anext(loop)]
        while len(messages) < 2:
            messages.append(await anext(loop))
        with broker.faults.lose("ChangeInvisibleDuration", times=1) as lost:
            await broker.clock.advance(seconds=80, patience=0.2)
        assert lost.hits == 1
        attempts = Counter(delivery.body for delivery in broker.deliveries("orders"))
        assert attempts == {b"1": 1, b"2": 1}
        kept = [lease for lease in broker.leases("billing") if lease.ends_at > broker.clock.now()]
        assert len(kept) == 1
        await loop.aclose()  # type: ignore[attr-defined]


async def test_a_handler_that_runs_on_during_the_stop_keeps_its_lease() -> None:
    """However long it takes, nobody else gets its message meanwhile."""
    async with AsyncExitStack() as stack:
        broker = await broker_with(stack, ordered=False, backoff=[1], max_attempts=3)
        producer = await stack.enter_async_context(Producer(broker.endpoint))
        await producer.send(Message("orders", b"1"))
        started, gate = asyncio.Event(), asyncio.Event()

        async def handle(message: ReceivedMessage) -> None:
            started.set()
            await gate.wait()

        async with push_consumer(
            broker.endpoint, handler=handle, clock=broker.clock, shutdown_timeout=3600.0
        ) as consumer:
            await started.wait()
            consumer.stop()
            await broker.clock.advance(minutes=10, patience=0.1)
            kept = broker.leases("billing")
            gate.set()
        await broker.clock.advance(minutes=10)
        assert len(kept) == 1
        assert [delivery.attempt for delivery in broker.deliveries("orders")] == [1]
        assert broker.leases("billing") == ()


async def test_a_real_clock_can_be_given_too() -> None:
    async with FakeBroker() as broker:
        await broker.create_topic("orders", type="FIFO")
        await broker.create_group("billing", ordered=True, max_attempts=3, backoff=[0.05])
        handler = Failing(broker)
        async with (
            Producer(broker.endpoint) as producer,
            broker.events.subscribe() as events,
            consuming(broker, handler),
        ):
            await producer.send(Message("orders", b"1", message_group="a"))
            async with asyncio.timeout(10):
                async for _ in events:
                    if broker.dead_letters("billing"):
                        break
    assert handler.attempts == {b"1": [1, 2, 3]}


STEPS = st.one_of(
    st.just(0.0), st.sampled_from([0.3, 1.7, 7.0, 29.9, 30.0, 31.3, 45.0, 97.0]), st.floats(0.001, 90)
)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    ladder=st.lists(STEPS, min_size=1, max_size=5),
    ordered=st.booleans(),
    groups=st.integers(1, 3),
    profile=st.sampled_from(["documented", "apache-5.5"]),
    extra=st.integers(0, 1),
)
def test_handlers_see_the_attempts_that_the_broker_delivers(
    ladder: list[float], ordered: bool, groups: int, profile: str, extra: int
) -> None:
    """In a normal group, each attempt is a delivery. In an ordered one a delivery is one lease, kept over all attempts:
    the broker delivers attempt 1, and handlers run attempts 1 to the last without a gap. Nothing is a dead letter
    before its last attempt has run."""
    max_attempts = len(ladder) + 1 + extra

    async def walk() -> None:
        async with AsyncExitStack() as stack:
            broker = await broker_with(
                stack, ordered=ordered, backoff=ladder, profile=profile, max_attempts=max_attempts
            )
            handler = Failing(broker)
            producer = await stack.enter_async_context(Producer(broker.endpoint))
            bodies = [f"{group} {number}".encode() for group in range(groups) for number in range(2)]
            for body in bodies:
                group = body.split()[0].decode() if ordered else None
                await producer.send(Message("orders", body, message_group=group))
            for _ in range(2):
                await stack.enter_async_context(consuming(broker, handler))
            await broker.clock.advance(seconds=ladder[0] / 2)
            await stack.enter_async_context(consuming(broker, handler))
            await broker.clock.advance(seconds=2 * (sum(ladder) + ladder[-1] + 10 * max_attempts))
            every = list(range(1, max_attempts + 1))
            assert handler.attempts == dict.fromkeys(bodies, every)
            delivered = defaultdict[bytes, list[int]](list)
            for delivery in broker.deliveries("orders", group="billing"):
                delivered[delivery.body].append(delivery.attempt)
            assert delivered == dict.fromkeys(bodies, [1] if ordered else every)
            letters = Counter(letter.body for letter in broker.dead_letters("billing"))
            assert letters == dict.fromkeys(bodies, 1)
            assert broker.leases("billing") == ()

    asyncio.run(asyncio.wait_for(walk(), 20))


@pytest.mark.parametrize("has_polled", [True, False])
@pytest.mark.parametrize("end", ["crash", "stop"])
async def test_the_clock_waits_for_consumers_that_are_not_back_after_a_restart(
    end: str, has_polled: bool
) -> None:
    """They back off in real time: without the wait, all leases and retries would pass before their first poll."""
    async with AsyncExitStack() as stack:
        broker = await broker_with(stack, ordered=False, backoff=[10, 60], max_attempts=3)
        handler = Failing(broker)
        producer = await stack.enter_async_context(Producer(broker.endpoint))
        await stack.enter_async_context(consuming(broker, handler))
        if has_polled:
            await broker.clock.advance(seconds=0)
        await getattr(broker, end)()
        begun = broker.clock.now()
        await broker.clock.advance(seconds=5)  # nobody can come back now, so it does not wait
        await broker.start()
        await producer.send(Message("orders", b"1"))
        await broker.clock.advance(seconds=71)
        assert [round(at - begun) for at in handler.times] == [5, 15, 75]
