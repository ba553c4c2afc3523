"""ReceiveMessage and PullMessage over a real port: frames, waiting, callers that go away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import LeaseEnded, PollParked, ReceiveEnded

Happened = Callable[[type], Awaitable[Any]]


async def test_a_parked_receive_is_woken_by_a_send(client: Any, consumer: Any, happened: Happened) -> None:
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(consumer.receive("g", "t", wait=5))
        await happened(PollParked)
        await client.send("t", b"1")
    assert waiting.result().bodies == [b"1"]


async def test_an_empty_receive_ends_with_the_polling_time(
    broker: FakeBroker, consumer: Any, happened: Happened
) -> None:
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(consumer.receive("g", "t", wait=5))
        await happened(PollParked)
        await broker.clock.advance(seconds=4.9)
        assert not waiting.done()
        await broker.clock.advance(seconds=0.1)
    frames = waiting.result()
    assert frames.kinds == ["status", "delivery_timestamp"]
    assert frames.code == broker.profile.empty_receive_code
    assert frames.timestamp.seconds == int(broker.clock.now())


async def test_a_manual_clock_answers_before_the_callers_deadline(broker: FakeBroker, consumer: Any) -> None:
    """The caller's deadline runs in real time, whatever the broker's clock does."""
    frames = await consumer.receive("g", "t", wait=0.4, deadline=0.5)
    assert frames.kinds == ["status", "delivery_timestamp"]
    assert frames.code == broker.profile.empty_receive_code
    assert broker.clock.parked == 0


async def test_a_refused_receive_carries_its_status_and_the_time(consumer: Any) -> None:
    """R5.5, R1.7."""
    frames = await consumer.receive("g", "nowhere")
    assert frames.kinds == ["status", "delivery_timestamp"]
    assert frames.code == pb.Code.TOPIC_NOT_FOUND


async def test_a_receive_wants_a_client_id(broker: FakeBroker, connect: Callable[..., Any]) -> None:
    frames = await connect(broker, "").receive("g", "t")
    assert frames.code == pb.Code.CLIENT_ID_REQUIRED


async def test_a_receive_before_the_settings_is_refused(client: Any) -> None:
    """5.1 row 1."""
    assert (await client.receive("g", "t")).code == pb.Code.UNRECOGNIZED_CLIENT_TYPE


async def test_a_cancelled_receive_takes_no_message_with_it(
    broker: FakeBroker, client: Any, consumer: Any, happened: Happened, requests: Any
) -> None:
    stream = consumer.stream("ReceiveMessage", requests.receive("g", "t", wait=5))
    await happened(PollParked)
    stream.cancel()
    ended = await happened(ReceiveEnded)
    assert ended.cancelled
    await client.send("t", b"1")
    assert broker.leases("g") == ()
    assert (await consumer.receive("g", "t")).bodies == [b"1"]


async def test_unwritten_messages_are_released(
    broker: FakeBroker, client: Any, consumer: Any, happened: Happened, requests: Any
) -> None:
    """R5.7: a caller that goes away in the middle of large messages loses none of them."""
    for number in range(8):
        await client.send("t", bytes([number]) * 1_000_000, message_id=str(number))
    stream = consumer.stream("ReceiveMessage", requests.receive("g", "t", wait=5))
    assert (await stream.read()).WhichOneof("content") == "status"
    stream.cancel()
    await happened(LeaseEnded)
    again = await consumer.receive("g", "t", wait=5)
    assert again.messages


async def test_with_a_real_clock_polling_times_end_by_themselves(
    running: Callable[..., Awaitable[FakeBroker]], connect: Callable[..., Any]
) -> None:
    broker = await running()
    consumer = connect(broker)
    await consumer.subscribe("g", "t")
    request = pb.ReceiveMessageRequest(
        group=pb.Resource(name="g"),
        message_queue=pb.MessageQueue(topic=pb.Resource(name="t"), id=-1),
        batch_size=1,
    )
    request.invisible_duration.seconds = 30
    request.long_polling_timeout.nanos = 50_000_000
    stream = consumer.stream("ReceiveMessage", request)
    kinds = [frame.WhichOneof("content") async for frame in stream]
    assert kinds == ["status", "delivery_timestamp"]


async def test_a_receive_without_a_required_deadline_is_refused(
    running: Callable[..., Awaitable[FakeBroker]], connect: Callable[..., Any]
) -> None:
    """5.1 row 2."""
    broker = await running(profile="apache-5.5", clock="manual")
    consumer = connect(broker)
    await consumer.subscribe("g", "t")
    assert (await consumer.receive("g", "t", deadline=None)).code == pb.Code.INTERNAL_SERVER_ERROR
    assert (await consumer.receive("g", "t", deadline=3)).code == pb.Code.ILLEGAL_POLLING_TIME


def pull(offset: int, wait: int = 0) -> pb.PullMessageRequest:
    request = pb.PullMessageRequest(
        group=pb.Resource(name="g"),
        message_queue=pb.MessageQueue(topic=pb.Resource(name="t"), id=0),
        offset=offset,
        batch_size=32,
        filter_expression=pb.FilterExpression(type=pb.FilterType.TAG, expression="*"),
    )
    request.long_polling_timeout.seconds = wait
    return request


async def test_a_pull_reads_a_queue_from_an_offset(client: Any, requests: Any) -> None:
    """10.1."""
    for number in range(3):
        await client.send("t", b"%d" % number, message_id=str(number))
    frames = await requests.collect(client.stream("PullMessage", pull(1)))
    assert frames.kinds == ["status", "message", "message", "next_offset"]
    assert frames.bodies == [b"1", b"2"]
    assert frames.next_offset == 3
    assert not frames.messages[0].system_properties.HasField("receipt_handle")


async def test_a_pull_at_the_end_waits_for_a_send(client: Any, happened: Happened, requests: Any) -> None:
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(requests.collect(client.stream("PullMessage", pull(0, wait=5))))
        await happened(PollParked)
        await client.send("t", b"1")
    assert waiting.result().bodies == [b"1"]


async def test_a_pull_beyond_the_end_returns_the_next_offset(client: Any, requests: Any) -> None:
    """10.1."""
    frames = await requests.collect(client.stream("PullMessage", pull(7)))
    assert frames.code == pb.Code.ILLEGAL_OFFSET
    assert frames.next_offset == 0


async def test_pulling_is_unimplemented_by_profile(
    running: Callable[..., Awaitable[FakeBroker]], connect: Callable[..., Any], requests: Any
) -> None:
    """R10.1."""
    broker = await running(profile="apache-5.5")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await requests.collect(connect(broker).stream("PullMessage", pull(0)))
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_a_manual_clock_answers_a_pull_before_the_callers_deadline(
    broker: FakeBroker, client: Any, requests: Any
) -> None:
    frames = await requests.collect(client.stream("PullMessage", pull(0, wait=5), timeout=0.5))
    assert frames.kinds == ["status", "next_offset"]
    assert (frames.next_offset, broker.clock.parked) == (0, 0)
