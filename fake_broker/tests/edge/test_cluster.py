"""Several brokers behind one route: each is found, stopped, crashed, cut off and asked by its name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from aiorocketmq import Message, Producer, PushConsumer, ReceivedMessage, SimpleConsumer
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker, FakeBrokerClient
from grpc import aio

NAMES = ("broker-a", "broker-b", "broker-c")


@pytest.fixture
async def cluster() -> AsyncIterator[FakeBroker]:
    async with FakeBroker(brokers=3, clock="manual", control="127.0.0.1:0") as broker:
        await broker.create_topic("t", queues=2)
        await broker.create_group("g")
        yield broker


async def route(client: Any) -> dict[str, set[int]]:
    """Names and ports of a topic's brokers."""
    answer = await client.call("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="t")))
    queues: dict[str, set[int]] = {}
    for queue in answer.message_queues:
        queues.setdefault(queue.broker.name, set()).add(queue.broker.endpoints.addresses[0].port)
    return queues


def port_of(node: Any) -> int:
    return int(node.endpoint.rsplit(":", 1)[1])


async def test_every_broker_routes_to_all(cluster: FakeBroker, connect: Callable[..., Any]) -> None:
    expected = {node.name: {port_of(node)} for node in cluster.brokers}
    assert tuple(expected) == NAMES
    for node in cluster.brokers:
        assert await route(connect(node)) == expected
    answer = await connect(cluster).call("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="t")))
    assert len(answer.message_queues) == 6


async def test_the_members_of_a_group_are_those_at_any_broker(
    cluster: FakeBroker, connect: Callable[..., Any]
) -> None:
    for node, client_id in zip(cluster.brokers, ("b", "c", "a"), strict=True):
        await connect(node, client_id=client_id).subscribe("g", "t")
    assert {group.name: group.client_ids for group in cluster.groups()}["g"] == ("a", "b", "c")


async def test_consumers_are_assigned_to_all_brokers(
    cluster: FakeBroker, connect: Callable[..., Any]
) -> None:
    request = pb.QueryAssignmentRequest(topic=pb.Resource(name="t"), group=pb.Resource(name="g"))
    answer = await connect(cluster).call("QueryAssignment", request)
    assert [one.message_queue.broker.name for one in answer.assignments] == list(NAMES)


async def test_messages_spread_and_all_of_them_are_consumed(cluster: FakeBroker) -> None:
    bodies: list[bytes] = []
    done = asyncio.Event()

    async def take(message: ReceivedMessage) -> None:
        bodies.append(message.body)
        if len(bodies) == 30:
            done.set()

    async with (
        PushConsumer(cluster.endpoint, group="g", subscriptions=["t"], handler=take),
        Producer(cluster.endpoint) as producer,
    ):
        for number in range(30):
            await producer.send(Message("t", b"%d" % number))
        async with asyncio.timeout(10):
            await done.wait()
    assert sorted(map(int, bodies)) == list(range(30))
    held = [node.totals().messages for node in cluster.brokers]
    assert all(held), "every broker got some"
    assert sum(held) == cluster.totals().messages == len(cluster.messages("t")) == 30


async def test_a_stopped_broker_leaves_the_route_and_returns(
    cluster: FakeBroker, connect: Callable[..., Any]
) -> None:
    second = cluster.broker("broker-b")
    assert (await connect(second).send("t", b"kept")).status.code == 20000
    await second.stop()
    assert set(await route(connect(cluster))) == {"broker-a", "broker-c"}
    with pytest.raises(grpc.RpcError):
        await connect(second, "other").send(
            "t",
            b"never",
        )
    await second.start()
    assert set(await route(connect(cluster))) == set(NAMES)
    assert [message.body for message in second.messages("t")] == [b"kept"]


async def test_a_crashed_broker_stays_in_the_route_until_it_is_missed(
    cluster: FakeBroker, connect: Callable[..., Any]
) -> None:
    await cluster.brokers[2].crash()
    client = connect(cluster)
    assert set(await route(client)) == set(NAMES)
    await cluster.clock.advance(minutes=3)
    assert set(await route(client)) == {"broker-a", "broker-b"}


async def test_nothing_gets_through_a_partition_until_it_heals(
    cluster: FakeBroker, connect: Callable[..., Any]
) -> None:
    second = cluster.broker("broker-b")
    near, far = connect(cluster), connect(second)
    await far.subscribe("g", "t")
    with second.partition():
        assert second.is_partitioned
        with pytest.raises(aio.AioRpcError) as caught:
            await far.call("SendMessage", pb.SendMessageRequest(), timeout=0.2)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert (await near.send("t", b"near")).status.code == 20000
        waiting = asyncio.create_task(far.send("t", b"far"))
        await cluster.clock.advance(seconds=1)
        assert second.messages("t") == ()
    assert (await waiting).status.code == 20000
    assert [message.body for message in second.messages("t")] == [b"far"]


async def test_a_reply_of_a_partitioned_broker_waits_too(
    cluster: FakeBroker, connect: Callable[..., Any], until: Callable[..., Any]
) -> None:
    consumer = connect(cluster, "consumer")
    await consumer.subscribe("g", "t")
    poll = asyncio.create_task(consumer.receive("g", "t", wait=5))
    await until(lambda: cluster.clock.parked)
    cluster.partition()
    await cluster.clock.advance(seconds=30)
    assert not poll.done()
    cluster.heal()
    answer = await poll
    assert (answer.kinds, answer.messages) == (["status", "delivery_timestamp"], [])


async def test_the_sdk_survives_the_crash_of_one_broker(cluster: FakeBroker) -> None:
    async with (
        SimpleConsumer(cluster.endpoint, group="g", subscriptions=["t"]) as consumer,
        Producer(cluster.endpoint) as producer,
    ):
        for number in range(6):
            await producer.send(Message("t", b"%d" % number))
        await cluster.brokers[1].crash()
        for number in range(6, 12):
            await producer.send(Message("t", b"%d" % number))
        await cluster.brokers[1].start()
        got: set[bytes] = set()
        async with asyncio.timeout(20):
            while len(got) < 12:
                for message in await consumer.receive(max_messages=16, invisible=30, wait=1):
                    got.add(message.body)
                    await message.ack()
    assert got >= {b"%d" % number for number in range(12)}


async def test_one_broker_is_meant_by_its_name_over_the_control_service(cluster: FakeBroker) -> None:
    control = cluster.control_endpoint
    assert control is not None
    async with FakeBrokerClient(control) as whole, FakeBrokerClient(control, broker="broker-b") as second:
        assert [one.name for one in await whole.brokers()] == list(NAMES)
        await second.stop()
        assert [one.is_running for one in await whole.brokers()] == [True, False, True]
        await second.start()
        await second.partition()
        assert [one.is_partitioned for one in await whole.brokers()] == [False, True, False]
        await whole.heal()
        await second.faults.refuse("SendMessage", "TOO_MANY_REQUESTS")
        assert [len(list(node.faults)) for node in cluster.brokers] == [0, 1, 0]
        await whole.create_topic("u")
        assert all("u" in {topic.name for topic in node.topics()} for node in cluster.brokers)
        await second.delete_topic("u")
        assert ["u" in {topic.name for topic in node.topics()} for node in cluster.brokers] == [
            True,
            False,
            True,
        ]
    async with FakeBrokerClient(control, broker="broker-b") as second:
        await second.crash()
        await second.restart()
    with pytest.raises(ValueError, match=r"broker must be one of broker-a, broker-b.*, got 'broker-x'"):
        async with FakeBrokerClient(control, broker="broker-x"):
            pass


async def test_a_cluster_keeps_its_data(tmp_path: Path, connect: Callable[..., Any]) -> None:
    for expected in ([b"1"], [b"1", b"1"]):
        async with FakeBroker(brokers=2, data=tmp_path) as broker:
            if len(expected) == 1:
                await broker.create_topic("t", queues=1)
            for node in broker.brokers:
                await connect(node).send("t", b"1")
                assert [message.body for message in node.messages("t")] == expected


def test_a_cluster_has_a_sensible_size() -> None:
    with pytest.raises(ValueError, match="brokers must be 1 to 26, got 0"):
        FakeBroker(brokers=0)
