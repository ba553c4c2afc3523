"""What a push consumer does when servers refuse, go silent, or change their minds."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiorocketmq._core import pauses
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._push.settler import Delivery
from aiorocketmq._transport.grpcio import GrpcioTransport
from aiorocketmq._transport.interface import Metadata
from aiorocketmq.config import CacheLimits, Timeouts
from aiorocketmq.errors import PermissionDeniedError
from aiorocketmq.hooks import Event, Hook, Phase, ReceiveEvent
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.push_consumer import DeadLetter, PushConsumer
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import Acked, DeadLettered, Delivered, LeaseChanged

from sdk.tests.clients import push_consumer, simple_consumer
from sdk.tests.waiting import until


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses a hundredth as long, since nothing here depends on their length."""
    monkeypatch.setattr("aiorocketmq._core.pauses.FIRST_PAUSE", 0.002)
    monkeypatch.setattr("aiorocketmq._core.pauses.FIRST_SCAN", 0.01)
    monkeypatch.setattr("aiorocketmq._core.pauses.LONGEST_SCAN", 0.01)


async def send(producer: Producer, *bodies: bytes) -> None:
    for body in bodies:
        await producer.send(Message("orders", body))


@pytest.mark.usefixtures("hasty")
async def test_a_refused_give_back_is_sent_again(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    seen.failures[b"1"] = [ValueError("no")]
    await send(producer, b"1")
    with broker.faults.refuse("ChangeInvisibleDuration", "INTERNAL_SERVER_ERROR", times=2) as refused:
        async with push_consumer(broker.endpoint, handler=seen):
            await history.shows(LeaseChanged)

    assert refused.hits == 2
    assert len(history.of(LeaseChanged)) == 1


async def test_a_give_back_whose_answer_is_lost_is_not_repeated(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    """A second change with a handle that may be spent makes a second copy of the message (R6.12)."""
    seen.failures[b"1"] = [ValueError("no")]
    await send(producer, b"1")
    with broker.faults.drop_reply("ChangeInvisibleDuration") as dropped:
        async with push_consumer(broker.endpoint, handler=seen):
            await history.shows(LeaseChanged)

    assert dropped.hits == 1


@pytest.mark.usefixtures("hasty")
async def test_a_refused_forward_is_sent_again_and_its_message_group_waits(
    ordered_broker: FakeBroker, ordered_producer: Producer, seen: Any, ordered_history: Any
) -> None:
    seen.failures[b"a1"] = [ValueError("no")] * 3
    for body in (b"a1", b"a2"):
        await ordered_producer.send(Message("orders", body, message_group="a"))
    rpc = "ForwardMessageToDeadLetterQueue"
    with ordered_broker.faults.refuse(rpc, "INTERNAL_SERVER_ERROR", times=3) as refused:
        async with push_consumer(ordered_broker.endpoint, handler=seen):
            await seen.ends(1)

    assert refused.hits == 3
    assert len(ordered_history.of(DeadLettered)) == 1
    assert seen.bodies == [b"a1"] * 3 + [b"a2"]


@pytest.mark.usefixtures("hasty")
async def test_a_refused_receive_is_tried_again(
    broker: FakeBroker, producer: Producer, seen: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await send(producer, b"1")
    with broker.faults.refuse("ReceiveMessage", "TOO_MANY_REQUESTS", times=3):
        async with push_consumer(broker.endpoint, handler=seen):
            await seen.ends(1)

    warnings = [each for each in caplog.records if each.levelname == "WARNING"]
    assert len(warnings) == 1, "a failure that goes on is told once"
    assert "works again" in caplog.text


async def iterate(endpoint: str) -> None:
    async with simple_consumer(endpoint) as consumer:
        async for _ in consumer.messages():
            pass


async def run(endpoint: str) -> None:
    async def handle(message: ReceivedMessage) -> None:
        pass

    async with push_consumer(endpoint, handler=handle) as consumer:
        await consumer.run()


@pytest.mark.parametrize("use", [iterate, run])
async def test_a_server_that_does_not_wait_for_messages_is_polled_with_pauses(
    broker: FakeBroker, use: Callable[[str], Coroutine[Any, Any, None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pauses, "FREE_ANSWERS", 0)
    loop = asyncio.get_running_loop()
    begin = loop.time()
    with broker.faults.refuse("ReceiveMessage", "MESSAGE_NOT_FOUND") as empty:
        consuming = asyncio.create_task(use(broker.endpoint))
        try:
            await until(lambda: empty.hits > 8)
            assert loop.time() - begin > 0.3
        finally:
            consuming.cancel()
            await asyncio.wait((consuming,))


async def test_a_queue_is_polled_as_the_same_attempt_until_something_arrives(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    """So a server that has lost an answer on its way gives the same messages again."""
    attempts: list[str | None] = []

    class Watch(Hook):
        def observe(self, event: Event) -> None:
            if isinstance(event, ReceiveEvent) and event.phase is Phase.INVOKE:
                attempts.append(event.attempt_id)

    async def polls(count: int) -> None:
        async with asyncio.timeout(20):
            while len(attempts) < count:
                await broker.clock.advance(seconds=5)

    await broker.update_topic("orders", queues=1)
    async with push_consumer(broker.endpoint, handler=seen, hooks=[Watch()]):
        await polls(3)
        await send(producer, b"1")
        await history.shows(Acked)
        await polls(len(attempts) + 2)
    assert len(set(attempts)) == 2


@pytest.mark.usefixtures("hasty")
async def test_queues_stay_assigned_while_the_server_cannot_be_asked(
    broker: FakeBroker, producer: Producer, seen: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with push_consumer(broker.endpoint, handler=seen) as consumer:
        with broker.faults.refuse("QueryAssignment", "INTERNAL_SERVER_ERROR") as refused:
            async with asyncio.timeout(10):
                while refused.hits < 3:  # noqa: ASYNC110  # the broker emits no event
                    await asyncio.sleep(0.001)
            await send(producer, b"1")
            await seen.ends(1)
            assert consumer.assigned_queues

    assert "the query for assignments of topic 'orders' failed" in caplog.text


@pytest.mark.usefixtures("hasty")
async def test_queues_come_and_go_with_the_assignment(
    ordered_broker: FakeBroker, ordered_producer: Producer, seen: Any
) -> None:
    async def assigned(count: int) -> None:
        async with asyncio.timeout(10):
            while len(consumer.assigned_queues) != count:  # noqa: ASYNC110  # only a log line tells
                await asyncio.sleep(0.001)

    limits = CacheLimits(messages=29)
    async with push_consumer(ordered_broker.endpoint, handler=seen, cache=limits) as consumer:
        assert len(consumer.assigned_queues) == 1
        await ordered_broker.update_topic("orders", type="FIFO", queues=3)
        await assigned(3)
        for name in "abcdefgh":
            await ordered_producer.send(Message("orders", name.encode(), message_group=name))
        await seen.ends(8)
        cache = consumer._running.receiving._cache
        assert cache._count_share == 29 // 3
        await ordered_broker.update_topic("orders", type="FIFO", queues=1)
        await assigned(1)
        # Its share is that of all queues again.
        assert cache._count_share == 29


async def test_a_dead_letter_of_an_ordered_group_whose_lease_was_changed_is_not_acked_as_well(
    ordered_broker: FakeBroker, ordered_producer: Producer, ordered_history: Any
) -> None:
    async def handle(message: ReceivedMessage) -> None:
        await message.extend(60)
        raise DeadLetter("no use")

    await ordered_producer.send(Message("orders", b"a1", message_group="a"))
    with ordered_broker.faults.delay("AckMessage", 0.0) as acks:
        async with push_consumer(ordered_broker.endpoint, handler=handle):
            await ordered_history.shows(DeadLettered)
    assert acks.hits == 0


class Slow(GrpcioTransport):
    """A network on which some calls, or those about one topic, travel only when let go."""

    def __init__(self, rpc: str = "QueryAssignment", topic: str = "refunds") -> None:
        super().__init__(None)
        self._rpc, self._topic = rpc, topic.encode()
        self.go_on = asyncio.Event()
        self.waiting = 0

    async def unary(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> bytes:
        if path.endswith(self._rpc) and self._topic in payload:
            self.waiting += 1
            await self.go_on.wait()
            self.waiting -= 1
        return await super().unary(endpoint, path, payload, metadata, timeout)


async def test_a_start_that_fails_gives_back_what_it_has_received_already(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    await broker.create_topic("refunds")
    seen.hold(b"1")
    await send(producer, b"1")
    network = Slow()
    consumer = PushConsumer(
        broker.endpoint,
        group="billing",
        subscriptions=["orders", "refunds"],
        handler=seen,
        transport=network,
    )
    with broker.faults.refuse("QueryAssignment", "FORBIDDEN", topic="refunds"):
        start = asyncio.create_task(consumer.__aenter__())
        await seen.starts(1)
        network.go_on.set()
        with pytest.raises(PermissionDeniedError, match="refunds"):
            await start

    assert [change.invisible for change in history.of(LeaseChanged)] == [0.0]
    assert [each for each in asyncio.all_tasks() if each.get_name().startswith("push")] == []


async def test_a_late_answer_about_a_topic_that_was_unsubscribed_assigns_nothing(
    broker: FakeBroker, seen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pauses, "FIRST_SCAN", 0.01)
    await broker.create_topic("refunds")
    network = Slow()
    network.go_on.set()
    async with push_consumer(
        broker.endpoint, subscriptions=["orders", "refunds"], handler=seen, transport=network
    ) as consumer:
        network.go_on.clear()
        await until(lambda: network.waiting == 1)
        await consumer.unsubscribe("refunds")
        network.go_on.set()
        await until(lambda: network.waiting == 0)
        # The answer is processed before that of a later query.
        await consumer.subscribe("orders")
        assert {queue.topic for queue in consumer.assigned_queues} == {"orders"}


async def test_a_late_answer_after_a_stop_assigns_nothing(broker: FakeBroker, seen: Any) -> None:
    await broker.create_topic("refunds")
    network = Slow()
    network.go_on.set()
    async with push_consumer(broker.endpoint, handler=seen, transport=network) as consumer:
        network.go_on.clear()
        subscribing = asyncio.create_task(consumer.subscribe("refunds"))
        await until(lambda: network.waiting == 1)
        consumer.stop()
        network.go_on.set()
        await subscribing
        assert consumer.assigned_queues == ()


async def test_a_stop_ends_as_the_last_ack_is_answered(
    broker: FakeBroker, producer: Producer, seen: Any
) -> None:
    await send(producer, b"1")
    network, loop, longest = Slow("AckMessage", "orders"), asyncio.get_running_loop(), 10.0
    async with push_consumer(
        broker.endpoint, handler=seen, transport=network, timeouts=Timeouts(stop=longest)
    ):
        await until(lambda: network.waiting == 1)
        began = loop.time()
        loop.call_soon(network.go_on.set)
    assert loop.time() < began + longest


async def test_what_cannot_be_settled_does_not_hold_up_the_stop(
    broker: FakeBroker, producer: Producer, seen: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await send(producer, b"1")
    with broker.faults.refuse("AckMessage", "INTERNAL_SERVER_ERROR"):
        async with push_consumer(
            broker.endpoint,
            handler=seen,
            timeouts=Timeouts(stop=0.05),
        ):
            await seen.ends(1)

    assert "could not be settled, it is redelivered when its lease expires" in caplog.text


async def test_a_handler_that_clings_on_after_its_grace_settles_nothing_twice(
    broker: FakeBroker, producer: Producer, history: Any, caplog: pytest.LogCaptureFixture
) -> None:
    started = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return  # as if all were well

    await send(producer, b"1")
    async with push_consumer(broker.endpoint, handler=handle, shutdown_timeout=0.01):
        await started.wait()

    assert len(history.of(LeaseChanged)) == 1
    assert history.of(Acked) == []
    assert "will be redelivered" not in caplog.text, "no ack was tried"


async def test_a_message_that_fails_during_the_stop_of_an_ordered_group_is_given_back(
    ordered_broker: FakeBroker, ordered_producer: Producer, seen: Any, ordered_history: Any
) -> None:
    await ordered_broker.update_group("billing", ordered=True, backoff=[17])
    gate = seen.hold(b"a1")
    seen.failures[b"a1"] = [ValueError("no")]
    await ordered_producer.send(Message("orders", b"a1", message_group="a"))
    async with push_consumer(ordered_broker.endpoint, handler=seen) as consumer:
        await seen.starts(1)
        consumer.stop()
        consumer.stop()
        gate.set()

    assert [change.invisible for change in ordered_history.of(LeaseChanged)] == [17.0]


async def test_a_message_that_waits_for_its_next_local_run_is_given_back_by_a_stop(
    ordered_broker: FakeBroker, ordered_producer: Producer, seen: Any, ordered_history: Any
) -> None:
    await ordered_broker.update_group("billing", ordered=True, backoff=[3600])
    seen.failures[b"a1"] = [ValueError("no")]
    for body in (b"a1", b"a2"):
        await ordered_producer.send(Message("orders", body, message_group="a"))
    async with push_consumer(ordered_broker.endpoint, handler=seen):
        await seen.starts(1)
        await ordered_history.shows(Delivered, 2)

    assert [change.invisible for change in ordered_history.of(LeaseChanged)] == [0.0, 0.0]
    assert seen.bodies == [b"a1"]


async def test_a_message_whose_lease_ended_while_it_waited_is_not_handled(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """For instance after the machine has slept: others may have it by now."""
    gate = seen.hold(b"0", b"1")
    await broker.update_topic("orders", queues=1)
    await send(producer, b"0", b"1")
    async with push_consumer(broker.endpoint, handler=seen, concurrency=1) as consumer:
        await seen.starts(1)
        await history.shows(Delivered, 2)
        assert consumer._running is not None
        for held in consumer._running.in_flight:
            assert isinstance(held, Delivery)
            held.lease.ends_at = 0.0
        gate.set()
        await seen.ends(1)
        async with asyncio.timeout(10):
            while consumer.messages_in_flight:  # noqa: ASYNC110  # only a log line tells
                await asyncio.sleep(0)

    assert seen.bodies == [b"0"]
    assert "waited until its lease expired" in caplog.text


async def test_a_changed_handler_takes_over(broker: FakeBroker, producer: Producer, seen: Any) -> None:
    await broker.create_topic("refunds")
    other: list[bytes] = []
    done = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        other.append(message.body)
        done.set()

    async with push_consumer(broker.endpoint, handlers={"orders": seen}) as consumer:
        with pytest.raises(ValueError, match="has no handler"):
            await consumer.subscribe("refunds")
        await consumer.subscribe("refunds", handler=handle)
        await producer.send(Message("refunds", b"r"))
        await asyncio.wait_for(done.wait(), 10)

    assert other == [b"r"]


class Refusing(GrpcioTransport):
    """The ordinary transport, which has the first answer to several acks refuse them with `codes`."""

    def __init__(self, *codes: int) -> None:
        super().__init__()
        self._codes = codes
        self.has_refused = False

    async def unary(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> bytes:
        if not path.endswith("/AckMessage") or self.has_refused:
            return await super().unary(endpoint, path, payload, metadata, timeout)
        entries = pb.AckMessageRequest.FromString(payload).entries
        assert len(entries) == len(self._codes)
        self.has_refused = True
        answer = pb.AckMessageResponse(status=pb.Status(code=pb.Code.MULTIPLE_RESULTS))
        for entry, code in zip(entries, self._codes, strict=True):
            result = answer.entries.add(message_id=entry.message_id, receipt_handle=entry.receipt_handle)
            result.status.code = code  # type: ignore[assignment]  # a number of the contract
        return answer.SerializeToString()


@pytest.mark.parametrize(
    ("codes", "throttled"),
    [
        ((pb.Code.TOO_MANY_REQUESTS, pb.Code.OK, pb.Code.OK), True),
        ((pb.Code.INTERNAL_ERROR, pb.Code.TOO_MANY_REQUESTS, pb.Code.OK), True),
        ((pb.Code.OK, pb.Code.INTERNAL_ERROR, pb.Code.OK), False),
    ],
)
async def test_acks_wait_as_for_a_throttling_server_if_one_is_throttled(
    broker: FakeBroker,
    producer: Producer,
    seen: Any,
    history: Any,
    monkeypatch: pytest.MonkeyPatch,
    codes: tuple[int, ...],
    throttled: bool,
) -> None:
    """Whichever entry of the answer says so, and whatever the last one says."""
    pauses: list[bool] = []

    def pause(failures: int, *, throttled: bool, rng: object) -> float:
        pauses.append(throttled)
        return 0.0

    monkeypatch.setattr("aiorocketmq._push.settler.failure_pause", pause)
    gate = seen.hold(b"1", b"2", b"3")
    transport = Refusing(*codes)
    await broker.update_topic("orders", queues=1)
    async with push_consumer(broker.endpoint, handler=seen, transport=transport) as consumer:
        await send(producer, b"1", b"2", b"3")
        await seen.starts(3)
        gate.set()
        await history.shows(Acked, sum(code != pb.Code.OK for code in codes))
        await until(lambda: not consumer.messages_in_flight)
        statistics = consumer.statistics
        assert not consumer.health().is_degraded
    assert (statistics.acknowledged, statistics.lost, statistics.body_bytes) == (3, 0, 0)
    assert pauses == [throttled]


async def test_what_a_handler_gives_back_itself_keeps_those_behind_it_waiting(
    ordered_broker: FakeBroker, ordered_producer: Producer, seen: Any
) -> None:
    """Else the next message of its group would overtake it."""
    released = False

    async def handle(message: ReceivedMessage) -> None:
        nonlocal released
        await seen(message)
        if message.body == b"1" and not released:
            released = True
            await message.release()

    for body in (b"1", b"2", b"3"):
        await ordered_producer.send(Message("orders", body, message_group="a"))
    async with push_consumer(ordered_broker.endpoint, handler=handle) as consumer, asyncio.timeout(20):
        while len(seen.bodies) < 4 or consumer.messages_in_flight:
            await ordered_broker.clock.advance(seconds=1, patience=5)
    assert seen.bodies[:4] == [b"1", b"1", b"2", b"3"]


async def test_acks_whose_call_fails_unexpectedly_are_sent_again(
    broker: FakeBroker,
    producer: Producer,
    seen: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with push_consumer(broker.endpoint, handler=seen) as consumer:
        settler = consumer._running._settler._settler
        ack, failures = settler.ack, [LookupError("a bug"), LookupError("another one")]

        async def failing(messages: Any) -> Any:
            if failures:
                raise failures.pop()
            return await ack(messages)

        monkeypatch.setattr(settler, "ack", failing)
        await send(producer, b"1", b"2", b"3")
        await seen.ends(3)
        async with asyncio.timeout(20):
            while consumer.messages_in_flight:  # noqa: ASYNC110  # nothing reports it
                await asyncio.sleep(0.001)
        assert (consumer.statistics.acknowledged, failures) == (3, [])
    assert broker.leases("billing") == ()
    caplog.clear()  # elsewhere such a record is a fault


async def test_queries_for_assignments_become_rarer_while_nothing_changes(
    ordered_broker: FakeBroker, seen: Any
) -> None:
    async with push_consumer(ordered_broker.endpoint, handler=seen) as consumer:
        (query,) = consumer._running.receiving._scans.values()
        assert [await query._work() for _ in range(4)] == [10.0, 20.0, 30.0, 30.0]
        await ordered_broker.update_topic("orders", type="FIFO", queues=3)
        assert [await query._work() for _ in range(2)] == [5.0, 10.0]
        assert len(consumer.assigned_queues) == 3
        await consumer.subscribe("orders", "another filter")
        assert [*consumer._running.receiving._scans.values()] == [query]
