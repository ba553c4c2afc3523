"""Lite topics over a real port (4.11)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker


@pytest.fixture
async def floor(running: Callable[..., Awaitable[FakeBroker]]) -> FakeBroker:
    """A broker with a parent topic `p` and an exclusive group `lg` bound to it."""
    broker = await running(clock="manual")
    await broker.create_topic("p", type="LITE", queues=1, lite_expiration=900)
    await broker.create_group("lg", lite_topic="p", lite_quota=5, lite_exclusive=True)
    return broker


async def join(client: Any) -> tuple[Any, Any]:
    settings = pb.Settings(
        client_type=pb.ClientType.LITE_PUSH_CONSUMER,
        subscription=pb.Subscription(
            group=pb.Resource(name="lg"), subscriptions=[pb.SubscriptionEntry(topic=pb.Resource(name="p"))]
        ),
    )
    stream, reply = await client.settings(settings)
    return stream, reply.settings


async def subscribe(client: Any, *names: str, **fields: Any) -> int:
    request = pb.SyncLiteSubscriptionRequest(
        topic=pb.Resource(name="p"), group=pb.Resource(name="lg"), lite_topic_set=names, **fields
    )
    response = await client.call("SyncLiteSubscription", request)
    return int(response.status.code)


async def test_a_subscriber_gets_its_lite_topics_and_their_names(
    floor: FakeBroker, connect: Callable[..., Any]
) -> None:
    client = connect(floor, "a")
    _, settings = await join(client)
    assert (settings.subscription.lite_subscription_quota, settings.subscription.max_lite_topic_size) == (
        5,
        64,
    )
    for name in ("x", "y"):
        await client.send("p", name.encode(), lite_topic=name)
    assert floor.lite_topics("p") == {"x": 1, "y": 1}
    assert await subscribe(client, "x") == pb.Code.OK
    frames = await client.receive("lg", "p")
    assert frames.bodies == [b"x"]
    (message,) = frames.messages
    assert message.system_properties.lite_topic == "x"
    assert message.system_properties.message_type == pb.MessageType.LITE
    await client.ack("lg", "p", message)


@pytest.mark.parametrize(
    ("option", "bodies"),
    [
        (pb.OffsetOption(policy=pb.OffsetOption.MIN), [b"0", b"1", b"2"]),
        (pb.OffsetOption(policy=pb.OffsetOption.MAX), []),
        (pb.OffsetOption(offset=2), [b"2"]),
        (pb.OffsetOption(tail_n=2), [b"1", b"2"]),
        (pb.OffsetOption(timestamp=1), [b"0", b"1", b"2"]),
    ],
)
async def test_a_subscriber_may_begin_where_it_likes(
    floor: FakeBroker, connect: Callable[..., Any], option: Any, bodies: list[bytes]
) -> None:
    client = connect(floor, "a")
    await join(client)
    for number in range(3):
        await client.send("p", b"%d" % number, lite_topic="x")
    assert await subscribe(client, "x", offset_option=option) == pb.Code.OK
    messages = await client.receive("lg", "p", wait=0)
    assert [message.body for message in messages.messages] == bodies


async def test_losing_a_lite_topic_is_notified_on_the_stream(
    floor: FakeBroker, connect: Callable[..., Any]
) -> None:
    """R4.34."""
    first, second = connect(floor, "a"), connect(floor, "b")
    stream, _ = await join(first)
    await join(second)
    assert await subscribe(first, "x") == pb.Code.OK
    assert await subscribe(second, "x") == pb.Code.OK
    async with asyncio.timeout(10):
        command = await stream.read()
    assert command.notify_unsubscribe_lite_command.lite_topic == "x"


async def test_an_unknown_action_is_refused(floor: FakeBroker, connect: Callable[..., Any]) -> None:
    client = connect(floor, "a")
    await join(client)
    assert await subscribe(client, "x", action=9) == pb.Code.BAD_REQUEST
