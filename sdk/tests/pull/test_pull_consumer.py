"""The pull consumer against a fake broker on a real port."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._transport.grpcio import GrpcioTransport
from aiorocketmq._transport.interface import Failure, Metadata, Take, TransportError
from aiorocketmq.config import Compression, Timeouts
from aiorocketmq.errors import (
    ClosedError,
    NotSupportedError,
    PermissionDeniedError,
    ServerError,
    UsageError,
)
from aiorocketmq.hooks import AssignEvent, CommitEvent, DeliverEvent, Event, Hook, SeekEvent
from aiorocketmq.message import Message, MessageQueue
from aiorocketmq.producer import Producer
from aiorocketmq.pull_consumer import Broadcast, Offset, PullBatch, PullConsumer
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import PollParked
from google.protobuf.message import Message as ProtobufMessage

from sdk.tests.waiting import until

PATIENCE = 10.0
OK = pb.Status(code=pb.Code.OK)


async def send(producer: Producer, count: int, topic: str = "orders", tag: str | None = None) -> None:
    for number in range(count):
        await producer.send(Message(topic, b"%03d" % number, tag=tag))


async def read(consumer: PullConsumer, count: int) -> list[PullBatch]:
    """Take batches until they hold `count` messages."""
    batches: list[PullBatch] = []
    async with asyncio.timeout(PATIENCE):
        async for batch in consumer:
            batches.append(batch)
            if sum(map(len, batches)) >= count:
                break
    return batches


def bodies(batches: list[PullBatch]) -> list[bytes]:
    return sorted(message.body for batch in batches for message in batch)


@asynccontextmanager
async def reading_one(broker: FakeBroker) -> AsyncIterator[tuple[PullConsumer, MessageQueue]]:
    """A consumer of the first of the topic's two queues."""
    async with PullConsumer(broker.endpoint, group="audit") as consumer:
        [queue, _] = await consumer.queues("orders")
        consumer.assign([queue])
        yield consumer, queue


async def test_assigned_queues_are_read_from_the_begin_each_in_order(
    broker: FakeBroker, producer: Producer
) -> None:
    await send(producer, 20)
    async with PullConsumer(broker.endpoint, group="audit", max_messages=3) as consumer:
        consumer.assign(await consumer.queues("orders"))
        batches = await read(consumer, 20)

    assert bodies(batches) == [b"%03d" % number for number in range(20)]
    for queue in {batch.queue for batch in batches}:
        offsets = [message.offset for batch in batches if batch.queue == queue for message in batch]
        assert offsets == list(range(len(offsets)))
    assert all(len(batch) <= 3 for batch in batches)


async def test_new_messages_end_the_wait(broker: FakeBroker, producer: Producer) -> None:
    async with PullConsumer(broker.endpoint, group="audit") as consumer:
        async with broker.events.subscribe() as events:
            consumer.assign(await consumer.queues("orders"))
            async for event in events:
                if isinstance(event, PollParked):
                    break
        await send(producer, 1)
        assert bodies(await read(consumer, 1)) == [b"000"]


async def test_failures_are_counted_from_the_last_success(
    broker: FakeBroker, producer: Producer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pauses grow with consecutive failures, so a consumer has forgotten those before a success."""
    monkeypatch.setattr("aiorocketmq._core.pauses.FIRST_PAUSE", 0.002)
    caplog.set_level("INFO")

    def recoveries() -> list[str]:
        messages = [each.getMessage() for each in caplog.records if "works again" in each.getMessage()]
        return [message.rpartition("works again after ")[2] for message in messages]

    async with PullConsumer(broker.endpoint, group="audit") as consumer:
        (queue, *_) = await consumer.queues("orders")
        consumer.assign([queue])
        for number, failures in enumerate((3, 1, 2), 1):
            broker.faults.refuse("PullMessage", "INTERNAL_SERVER_ERROR", times=failures)
            async with asyncio.timeout(PATIENCE):
                while len(recoveries()) < number:
                    await send(producer, 2)  # they end a pull that waits
                    await consumer.poll(timeout=0.01)

    assert recoveries() == ["3 failures", "1 failures", "2 failures"]


async def test_a_committed_offset_is_where_the_next_member_starts(
    broker: FakeBroker, producer: Producer
) -> None:
    await send(producer, 10)
    async with PullConsumer(broker.endpoint, group="audit", max_messages=2) as consumer:
        [queue, _] = await consumer.queues("orders")
        consumer.assign([queue])
        [batch] = await read(consumer, 1)
        await consumer.commit(batch)
        assert await consumer.committed(queue) == batch.next_offset == 2
    async with PullConsumer(broker.endpoint, group="audit", max_messages=2) as consumer:
        consumer.assign([queue])
        [batch] = await read(consumer, 1)

    assert batch[0].offset == 2


async def test_hooks_see_assignments_and_commits(broker: FakeBroker, producer: Producer) -> None:
    class Watch(Hook):
        def __init__(self) -> None:
            self.events: list[Event] = []

        def observe(self, event: Event) -> None:
            self.events.append(event)

    watch = Watch()
    async with PullConsumer(broker.endpoint, group="audit", hooks=[watch]) as consumer:
        queues = await consumer.queues("orders")
        consumer.assign(queues)
        consumer.assign(queues)
        await consumer.commit({queues[0]: 7})

    assert [(each.queues, each.generation) for each in watch.events if isinstance(each, AssignEvent)] == [
        (queues, 1)
    ]
    assert [(each.queue, each.offset) for each in watch.events if isinstance(each, CommitEvent)] == [
        (queues[0], 7)
    ]


async def test_hooks_see_what_is_returned_and_where_reading_continues(
    broker: FakeBroker, producer: Producer
) -> None:
    class Watch(Hook):
        def __init__(self) -> None:
            self.seen: list[tuple[str, int]] = []

        def observe(self, event: Event) -> None:
            if isinstance(event, DeliverEvent):
                self.seen.append(("deliver", event.message.offset))
            elif isinstance(event, SeekEvent):
                self.seen.append(("seek", event.offset))

    await send(producer, 4)
    watch = Watch()
    async with PullConsumer(broker.endpoint, group="audit", hooks=[watch]) as consumer:
        [queue, _] = await consumer.queues("orders")
        consumer.assign([queue])
        await read(consumer, 2)
        await consumer.seek(queue, 1)
        await read(consumer, 1)

    assert watch.seen == [("deliver", 0), ("deliver", 1), ("seek", 1), ("deliver", 1)]


async def test_a_commit_without_argument_stores_every_position(
    broker: FakeBroker, producer: Producer
) -> None:
    await send(producer, 10)
    async with PullConsumer(broker.endpoint, group="audit") as consumer:
        first, second = await consumer.queues("orders")
        consumer.assign([first, second])
        await read(consumer, 10)
        await consumer.commit()
        assert [await consumer.committed(queue) for queue in (first, second)] == [5, 5]
        await consumer.seek(first, 0)
        await consumer.commit()
        assert [await consumer.committed(queue) for queue in (first, second)] == [0, 5]


async def test_nothing_committed_is_none(broker: FakeBroker) -> None:
    async with PullConsumer(broker.endpoint, group="audit") as consumer:
        [queue, _] = await consumer.queues("orders")
        assert await consumer.committed(queue) is None


async def test_seeking_reads_again_or_skips(broker: FakeBroker, producer: Producer) -> None:
    await send(producer, 10)
    async with reading_one(broker) as (consumer, queue):
        await read(consumer, 5)

        await consumer.seek(queue, 3)
        assert (await read(consumer, 1))[0][0].offset == 3
        await consumer.seek(queue, Offset.BEGIN)
        assert (await read(consumer, 1))[0][0].offset == 0
        await consumer.seek(queue, Offset.END)
        assert await consumer.position(queue) == 5
        await consumer.seek(queue, datetime.now(UTC) - timedelta(hours=1))
        assert (await read(consumer, 1))[0][0].offset == 0
        await consumer.seek(queue, datetime.now(UTC) + timedelta(hours=1))
        assert await consumer.position(queue) == 5


async def test_a_seek_that_is_cancelled_leaves_position_and_fetched_messages(
    broker: FakeBroker, producer: Producer
) -> None:
    await send(producer, 10)
    async with reading_one(broker) as (consumer, queue):
        assert await consumer.position(queue) == 0
        with broker.faults.drop_reply("QueryOffset", hang=True) as hanging:
            seeking = asyncio.create_task(consumer.seek(queue, Offset.END))
            await until(lambda: hanging.hits)
            seeking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await seeking
        assert await consumer.position(queue) == 0
        [batch] = await read(consumer, 5)
    assert [message.offset for message in batch] == list(range(5))


async def test_a_poll_that_is_cancelled_takes_no_batch(broker: FakeBroker, producer: Producer) -> None:
    async with reading_one(broker) as (consumer, queue):
        await consumer.position(queue)
        for _ in range(3):
            polling = asyncio.create_task(consumer.poll(PATIENCE))
            await asyncio.sleep(0)
            polling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await polling
        await send(producer, 10)
        batches = await read(consumer, 5)
    assert [message.offset for batch in batches for message in batch] == list(range(5))


class Answering(GrpcioTransport):
    """The ordinary transport, but for calls whose answers are given."""

    def __init__(self, answers: dict[str, ProtobufMessage]) -> None:
        super().__init__()
        self.answers = answers
        self.requests: list[bytes] = []

    async def unary(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> bytes:
        answer = self.answers.get(path.rpartition("/")[2])
        if answer is None:
            return await super().unary(endpoint, path, payload, metadata, timeout)
        self.requests.append(payload)
        return answer.SerializeToString()


@pytest.mark.parametrize(
    ("moment", "seconds", "nanos"),
    [
        (datetime(1969, 12, 31, 23, 59, 58, 500_000, tzinfo=UTC), -2, 500_000_000),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), -1, 999_999_000),
        (datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC), 1_767_225_600, 1_000),
    ],
)
async def test_a_time_before_1970_has_no_negative_nanoseconds(
    broker: FakeBroker, moment: datetime, seconds: int, nanos: int
) -> None:
    transport = Answering({"QueryOffset": pb.QueryOffsetResponse(status=OK)})
    async with PullConsumer(broker.endpoint, group="audit", transport=transport) as consumer:
        [queue, _] = await consumer.queues("orders")
        consumer.assign([queue])
        await consumer.seek(queue, moment)
    timestamp = pb.QueryOffsetRequest.FromString(transport.requests[-1]).timestamp
    assert (timestamp.seconds, timestamp.nanos) == (seconds, nanos)


async def test_negative_offsets_of_a_server_are_refused_or_mean_none(broker: FakeBroker) -> None:
    transport = Answering({"QueryOffset": pb.QueryOffsetResponse(status=OK, offset=-5)})
    async with PullConsumer(broker.endpoint, group="audit", transport=transport) as consumer:
        [queue, _] = await consumer.queues("orders")
        consumer.assign([queue])
        with pytest.raises(ServerError, match="is -5, which must be 0 or more"):
            await consumer.seek(queue, Offset.END)
        for offset, committed in ((-1, None), (0, 0)):
            transport.answers["GetOffset"] = pb.GetOffsetResponse(status=OK, offset=offset)
            assert await consumer.committed(queue) == committed


def pulling() -> list[str]:
    return [name for task in asyncio.all_tasks() if "pulling from" in (name := task.get_name())]


async def test_of_the_pulls_before_a_seek_none_is_left_nor_ends_the_consumer(
    broker: FakeBroker, producer: Producer
) -> None:
    async with PullConsumer(broker.endpoint, group="audit") as consumer:
        [queue, other] = await consumer.queues("orders")
        consumer.assign([queue])
        for _ in range(3):
            await consumer.position(queue)
            await consumer.seek(queue, 0)
        consumer.assign([other])
        await until(lambda: pulling() == [f"pull: pulling from orders/{other.broker}/{other.id}"], within=5)
        await send(producer, 10)
        assert {batch.queue for batch in await read(consumer, 5)} == {other}
        assert consumer.health().is_ready


async def test_a_seek_beyond_the_end_continues_at_the_end(
    broker: FakeBroker, producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    async with PullConsumer(broker.endpoint, group="audit") as consumer:
        [queue, other] = await consumer.queues("orders")
        consumer.assign([queue])
        await consumer.seek(queue, 1000)
        consumer.assign([queue, other])
        await send(producer, 10)
        batches = await read(consumer, 10)

    assert {batch.queue for batch in batches} == {queue, other}
    assert "has no offset 1000" in caplog.text


async def test_the_position_is_that_of_the_next_message(broker: FakeBroker, producer: Producer) -> None:
    await send(producer, 10)
    async with PullConsumer(broker.endpoint, group="audit", max_messages=2) as consumer:
        [queue, _] = await consumer.queues("orders")
        consumer.assign([queue])
        assert await consumer.position(queue) == 0
        [batch] = await read(consumer, 1)
        assert await consumer.position(queue) == batch.next_offset == 2


async def test_a_wait_for_the_first_position_ends_with_a_seek_or_the_assignment(broker: FakeBroker) -> None:
    async with asyncio.timeout(PATIENCE), PullConsumer(broker.endpoint, group="audit") as consumer:
        [queue, _] = await consumer.queues("orders")
        broker.faults.delay("GetOffset", 60.0)
        consumer.assign([queue])
        waiting = asyncio.create_task(consumer.position(queue))
        await asyncio.sleep(0)
        consumer.assign([])
        with pytest.raises(UsageError, match="not assigned any more"):
            await waiting
        consumer.assign([queue])
        waiting = asyncio.create_task(consumer.position(queue))
        await asyncio.sleep(0)
        await consumer.seek(queue, 3)
        assert await waiting == 3


@pytest.mark.parametrize(("committed", "position"), [(None, 5), (0, 0)])
async def test_a_queue_may_start_at_the_end_unless_it_was_committed(
    broker: FakeBroker, producer: Producer, committed: int | None, position: int
) -> None:
    await send(producer, 10)
    async with PullConsumer(broker.endpoint, group="audit", start=Offset.END) as consumer:
        [queue, _] = await consumer.queues("orders")
        if committed is not None:
            await consumer.commit({queue: committed})
        consumer.assign([queue])
        assert await consumer.position(queue) == position


async def test_lag_counts_what_is_beyond_the_commit(broker: FakeBroker, producer: Producer) -> None:
    await send(producer, 10)
    async with PullConsumer(broker.endpoint, group="audit") as consumer:
        first, second = await consumer.queues("orders")
        consumer.assign([first, second])
        await consumer.commit({first: 2})
        await consumer.position(second)
        lag = await consumer.lag()

    assert lag == {first: 3, second: 5}


async def test_a_paused_queue_waits_while_others_continue(broker: FakeBroker, producer: Producer) -> None:
    await send(producer, 10)
    async with PullConsumer(broker.endpoint, group="audit") as consumer:
        first, second = await consumer.queues("orders")
        consumer.assign([first, second])
        consumer.pause(first)
        [batch] = await read(consumer, 5)
        assert batch.queue == second
        assert await consumer.poll(0) is None
        assert consumer.paused == {first}
        consumer.resume(first)
        [batch] = await read(consumer, 5)
        assert not consumer.paused

    assert batch.queue == first


async def test_a_batch_that_was_fetched_before_a_pause_waits_for_its_end(
    broker: FakeBroker, producer: Producer
) -> None:
    await send(producer, 10)
    async with reading_one(broker) as (consumer, queue):
        fetching = consumer._open()
        await until(lambda: fetching._ready)
        consumer.pause(queue)
        assert await consumer.poll(0) is None
        reading = asyncio.create_task(read(consumer, 5))
        await asyncio.sleep(0)
        consumer.resume(queue)
        [batch] = await reading

    assert [message.offset for message in batch] == list(range(5))


async def test_without_queues_pause_and_resume_mean_all_that_are_assigned(
    broker: FakeBroker, producer: Producer
) -> None:
    await send(producer, 10)
    async with PullConsumer(broker.endpoint, group="audit") as consumer:
        first, second = await consumer.queues("orders")
        consumer.assign([first, second])
        consumer.pause()
        assert consumer.paused == {first, second}
        assert await consumer.poll(0.05) is None
        consumer.resume()
        batches = await read(consumer, 10)

    assert {batch.queue for batch in batches} == {first, second}


async def test_pausing_a_queue_that_is_not_assigned_pauses_none(broker: FakeBroker) -> None:
    async with PullConsumer(broker.endpoint, group="audit") as consumer:
        first, second = await consumer.queues("orders")
        consumer.assign([first])
        with pytest.raises(UsageError, match="not assigned"):
            consumer.pause(first, second)
        assert not consumer.paused
    with pytest.raises(ClosedError):
        consumer.pause()


async def test_poll_returns_none_when_nothing_comes_in_time(broker: FakeBroker) -> None:
    async with PullConsumer(broker.endpoint, group="audit") as consumer:
        consumer.assign(await consumer.queues("orders"))
        assert await consumer.poll(0.001) is None


async def test_auto_commit_stores_on_leaving_what_the_loop_has_finished_with(
    broker: FakeBroker, producer: Producer
) -> None:
    await send(producer, 10)
    async with PullConsumer(broker.endpoint, group="audit", max_messages=2, auto_commit=3600) as consumer:
        [queue, _] = await consumer.queues("orders")
        consumer.assign([queue])
        await read(consumer, 4)  # the second batch is returned, not finished

    async with PullConsumer(broker.endpoint, group="audit") as consumer:
        assert await consumer.committed(queue) == 2


async def test_auto_commit_stores_in_between(broker: FakeBroker, producer: Producer) -> None:
    await send(producer, 10)
    async with PullConsumer(broker.endpoint, group="audit", max_messages=5, auto_commit=0.01) as consumer:
        [queue, _] = await consumer.queues("orders")
        consumer.assign([queue])
        await read(consumer, 5)
        assert await consumer.poll(0) is None  # asking for more finishes the batch
        async with asyncio.timeout(PATIENCE):
            while await consumer.committed(queue) != 5:
                pass


async def test_a_filter_leaves_other_messages_out(broker: FakeBroker, producer: Producer) -> None:
    await producer.send(Message("orders", b"open", tag="open"))
    await producer.send(Message("orders", b"open", tag="open"))
    await producer.send(Message("orders", b"paid", tag="paid"))
    async with PullConsumer(broker.endpoint, group="audit", filters={"orders": "paid"}) as consumer:
        consumer.assign(await consumer.queues("orders"))
        assert bodies(await read(consumer, 1)) == [b"paid"]


async def test_each_topic_has_a_filter_of_its_own(broker: FakeBroker, producer: Producer) -> None:
    topics = ["orders", "refunds", "returns"]
    for topic in topics[1:]:
        await broker.create_topic(topic, queues=1)
    for topic in topics:
        for tag in ("open", "paid"):
            await producer.send(Message(topic, f"{topic} {tag}".encode(), tag=tag))
    filters = {"orders": "paid", "refunds": "open"}
    async with PullConsumer(broker.endpoint, group="audit", filters=filters) as consumer:
        consumer.assign([queue for topic in topics for queue in await consumer.queues(topic)])
        batches = await read(consumer, 4)
    assert bodies(batches) == [b"orders paid", b"refunds open", b"returns open", b"returns paid"]


async def test_a_queue_whose_position_is_not_known_yet_is_not_committed(broker: FakeBroker) -> None:
    async with PullConsumer(broker.endpoint, group="audit") as consumer:
        queues = await consumer.queues("orders")
        consumer.assign(queues)
        await consumer.commit()
        assert [await consumer.committed(queue) for queue in queues] == [None, None]


async def test_a_pulled_message_has_no_lease_to_settle(broker: FakeBroker, producer: Producer) -> None:
    await send(producer, 1)
    async with PullConsumer(broker.endpoint, group="audit") as consumer:
        consumer.assign(await consumer.queues("orders"))
        [batch] = await read(consumer, 1)
        with pytest.raises(UsageError, match="no lease to settle"):
            await batch[0].ack()


async def test_the_loop_ends_when_the_consumer_is_closed_and_no_task_is_left(
    broker: FakeBroker, producer: Producer
) -> None:
    before = asyncio.all_tasks()
    batches: list[PullBatch] = []
    first = asyncio.Event()
    await send(producer, 1)
    async with PullConsumer(broker.endpoint, group="audit") as consumer:
        consumer.assign(await consumer.queues("orders"))

        async def loop() -> None:
            async for batch in consumer:
                batches.append(batch)
                first.set()

        task = asyncio.create_task(loop())
        await asyncio.wait_for(first.wait(), PATIENCE)
    await asyncio.wait_for(task, PATIENCE)

    assert bodies(batches) == [b"000"]
    assert [each for each in asyncio.all_tasks() - before if each.get_name().startswith("pull")] == []


async def test_a_server_without_pull_calls_is_one_clear_error() -> None:
    async with FakeBroker(profile="apache-5.5") as broker:
        await broker.create_group("audit")
        consumer = PullConsumer(broker.endpoint, group="audit")
        with pytest.raises(NotSupportedError) as raised:
            async with consumer:
                pass

        assert broker.endpoint in str(raised.value)
        assert "use a SimpleConsumer" in str(raised.value)


async def test_an_unknown_queue_ends_the_loop_with_an_error(broker: FakeBroker) -> None:
    async with PullConsumer(broker.endpoint, group="audit") as consumer:
        consumer.assign([MessageQueue("orders", "broker-a", 77)])
        with pytest.raises(UsageError, match="has no readable queue broker-a/77"):
            await consumer.poll(PATIENCE)


async def test_what_was_fetched_is_delivered_before_another_queue_fails(
    broker: FakeBroker, producer: Producer
) -> None:
    await send(producer, 10)
    async with PullConsumer(broker.endpoint, group="audit") as consumer:
        [queue, _] = await consumer.queues("orders")
        missing = queue._replace(id=77)
        consumer.assign([missing, queue])
        fetching = consumer._open()
        await until(lambda: fetching._ready and fetching._failures)
        [batch] = await read(consumer, 5)
        assert batch.queue == queue
        for _ in range(2):
            with pytest.raises(UsageError, match="has no readable queue"):
                await consumer.poll(PATIENCE)
        consumer.assign([queue])
        assert await consumer.poll(0) is None


async def test_a_queue_that_has_failed_is_read_again_after_a_seek(
    broker: FakeBroker, producer: Producer
) -> None:
    await send(producer, 10)
    broker.faults.refuse("PullMessage", "FORBIDDEN", times=1)
    async with reading_one(broker) as (consumer, queue):
        with pytest.raises(PermissionDeniedError):
            await consumer.poll(PATIENCE)
        assert consumer.health().is_degraded
        await consumer.seek(queue, 3)
        [batch] = await read(consumer, 2)
        assert not consumer.health().is_degraded

    assert [message.offset for message in batch] == [3, 4]


async def test_what_is_wrong_is_said_where_it_is_written() -> None:
    def consumer(where: str = "localhost:8081", **changed: Any) -> PullConsumer:
        return PullConsumer(where, **{"group": "audit", **changed})

    namesrv = "namesrv://localhost:9876"
    with pytest.raises(ValueError, match="names no server"):
        consumer("namesrv://")
    with pytest.raises(ValueError, match="namespace is not known to name servers"):
        consumer(namesrv, namespace="shop")
    with pytest.raises(ValueError, match="at least one topic"):
        consumer(namesrv, topics=[])
    with pytest.raises(ValueError, match="belong to topics="):
        consumer(namesrv, ordered=True)
    with pytest.raises(ValueError, match="broadcast consumers share no queues"):
        consumer(namesrv, topics=["orders"], broadcast=Broadcast(), ordered=True)
    with pytest.raises(ValueError, match="must be a name"):
        consumer(namesrv, topics=["orders"], broadcast=Broadcast(member="../other"))
    with pytest.raises(ValueError, match="must not be consumed"):
        consumer(namesrv, topics=["%RETRY%audit"])
    with pytest.raises(UsageError, match="leave topics= out and call"):
        consumer(topics=["orders"])
    with pytest.raises(ValueError, match="auto_commit must be seconds"):
        consumer(auto_commit=0)
    with pytest.raises(ValueError, match="max_messages must be an integer"):
        consumer(max_messages=0)
    with pytest.raises(ValueError, match="wait must be seconds"):
        consumer(wait=-1)
    with pytest.raises(ValueError, match="time zone"):
        consumer(start=datetime(2026, 1, 1))  # the point of the test
    with pytest.raises(ValueError, match="must not be consumed"):
        consumer(filters=["%RETRY%audit"])
    with pytest.raises(ClosedError, match="inside its `async with`"):
        await consumer().queues("orders")


async def test_calls_about_other_queues_and_bad_offsets_are_refused(broker: FakeBroker) -> None:
    async with PullConsumer(broker.endpoint, group="audit") as consumer:
        first, second = await consumer.queues("orders")
        consumer.assign([first])
        with pytest.raises(UsageError, match="not assigned"):
            await consumer.seek(second, 0)
        with pytest.raises(ValueError, match="counts from 0"):
            await consumer.seek(first, -1)
        with pytest.raises(TypeError, match=r"Offset\.BEGIN"):
            await consumer.seek(first, "begin")  # type: ignore[arg-type]  # the point of the test
        with pytest.raises(ValueError, match="counts from 0"):
            await consumer.commit({first: 1, second: -1})
        assert await consumer.committed(first) is None
        with pytest.raises(TypeError, match="MessageQueue values"):
            consumer.assign(["orders"])  # type: ignore[list-item]  # the point of the test


class Generous(GrpcioTransport):
    """A network to a server that takes no notice of how many messages a pull asks for.

    With `garbled`, the second message of the first answer is damaged."""

    def __init__(self, *, garbled: bool) -> None:
        super().__init__(None)
        self._garbled = garbled

    async def server_stream(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take
    ) -> None:
        request = pb.PullMessageRequest.FromString(payload)
        request.batch_size = 32
        answers: list[bytes] = []
        await super().server_stream(
            endpoint, path, request.SerializeToString(), metadata, timeout, answers.append
        )
        contents = [pb.PullMessageResponse.FromString(answer) for answer in answers]
        messages = [
            answer for answer, content in zip(answers, contents, strict=True) if content.HasField("message")
        ]
        others = [answer for answer in answers if answer not in messages]
        if self._garbled and len(messages) > 4:
            self._garbled, messages[1] = False, b"garbage"
        # The next offset first: it must not be believed where the messages are not all read.
        for answer in (*others, *messages):
            take(answer)


class Once(GrpcioTransport):
    """Gives the answer of the first pull, and none to others."""

    def __init__(self, *answer: pb.PullMessageResponse) -> None:
        super().__init__(None)
        self._answer = answer

    async def server_stream(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take
    ) -> None:
        answer, self._answer = self._answer, ()
        if not answer:
            await asyncio.Event().wait()
        for part in answer:
            take(part.SerializeToString())


def status(code: pb.Code.ValueType) -> pb.PullMessageResponse:
    return pb.PullMessageResponse(status=pb.Status(code=code))


@pytest.mark.parametrize("code", [pb.Code.OK, pb.Code.MESSAGE_NOT_FOUND, pb.Code.ILLEGAL_OFFSET])
async def test_a_pull_without_messages_moves_the_position_to_where_the_server_has_looked(
    broker: FakeBroker, code: pb.Code.ValueType
) -> None:
    transport = Once(status(code), pb.PullMessageResponse(next_offset=7))
    async with PullConsumer(broker.endpoint, group="audit", transport=transport) as consumer:
        [queue, _] = await consumer.queues("orders")
        consumer.assign([queue])
        await until(lambda: consumer._open().positions.position(queue) == 7)
        assert not consumer.health().is_degraded


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ([pb.PullMessageResponse(next_offset=-1)], "is -1, which must be 0 or more"),
        ([status(pb.Code.ILLEGAL_OFFSET)], "ILLEGAL_OFFSET"),
        ([pb.PullMessageResponse()], "one of its messages has no content"),
    ],
)
async def test_a_pull_that_names_no_place_to_go_on_is_repeated_and_reported(
    broker: FakeBroker, answer: list[pb.PullMessageResponse], problem: str
) -> None:
    async with PullConsumer(broker.endpoint, group="audit", transport=Once(*answer)) as consumer:
        [queue, _] = await consumer.queues("orders")
        consumer.assign([queue])
        await until(lambda: problem in "".join(consumer.health().degraded.values()))
        assert await consumer.position(queue) == 0


class Timed(GrpcioTransport):
    """Keeps how long each pull may wait for messages, and how long it may take; the first one fails."""

    def __init__(self) -> None:
        super().__init__(None)
        self.pulls: list[tuple[float, float]] = []

    async def server_stream(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take
    ) -> None:
        wait = pb.PullMessageRequest.FromString(payload).long_polling_timeout
        self.pulls.append((wait.seconds + wait.nanos / 1e9, timeout))
        if len(self.pulls) == 1:
            raise TransportError(Failure.UNREACHABLE, "the connection broke", was_sent=True)
        await super().server_stream(endpoint, path, payload, metadata, timeout, take)


@pytest.mark.parametrize(
    ("wait", "request_timeout", "pulls"),
    [
        (20.0, 1.0, [(20.0, 23.0), (5.0, 8.0)]),
        (7.5, 4.5, [(7.5, 12.0), (5.0, 9.5)]),
        (0.5, 3.0, [(0.5, 3.5), (0.5, 3.5)]),
    ],
)
async def test_a_pull_may_take_its_wait_and_a_request_more_and_is_short_after_a_failure(
    broker: FakeBroker, wait: float, request_timeout: float, pulls: list[tuple[float, float]]
) -> None:
    """The margin is 3 s at least: a server answers an empty poll a little after its wait."""
    transport, timeouts = Timed(), Timeouts(request=request_timeout)
    async with PullConsumer(
        broker.endpoint, group="audit", wait=wait, transport=transport, timeouts=timeouts
    ) as consumer:
        [queue, _] = await consumer.queues("orders")
        consumer.assign([queue])
        await until(lambda: len(transport.pulls) >= 2)
    assert transport.pulls[:2] == pulls


@pytest.mark.parametrize("garbled", [False, True])
async def test_a_pull_that_brings_too_much_is_cut_and_nothing_is_skipped(
    broker: FakeBroker, producer: Producer, caplog: pytest.LogCaptureFixture, garbled: bool
) -> None:
    await send(producer, 20)
    async with PullConsumer(
        broker.endpoint, group="audit", max_messages=3, transport=Generous(garbled=garbled)
    ) as consumer:
        consumer.assign(await consumer.queues("orders"))
        batches = await read(consumer, 20)

    assert bodies(batches) == [b"%03d" % number for number in range(20)]
    assert all(len(batch) <= 3 for batch in batches)
    assert [each.levelname for each in caplog.records if "that were requested" in each.getMessage()] == [
        "WARNING"
    ]


async def test_a_pull_decompresses_large_bodies_aside(broker: FakeBroker, executor: Any) -> None:
    large = b"the same again and " * 10_000
    executor.go_on.set()
    async with Producer(broker.endpoint, compression=Compression(threshold=1024)) as packing:
        for body in (b"1", large):
            await packing.send(Message("orders", body))
    async with PullConsumer(broker.endpoint, group="audit", executor=executor) as consumer:
        consumer.assign(await consumer.queues("orders"))
        batches = await read(consumer, 2)

    assert bodies(batches) == [b"1", large]
    assert executor.given == 1
