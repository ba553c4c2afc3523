"""`FakeBroker` as a whole: beginning, ending, restarts, and what a test sees."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import grpc
import pyarrow.parquet
import pytest
from aiorocketmq import admin as sdk
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import PROFILES, FakeBroker, FakeBrokerClient, Refusal
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import TopicType
from aiorocketmq_fake.core.values.events import PollParked, Stored

Happened = Callable[[type], Awaitable[Any]]


async def test_stored_data_survives_a_restart_on_the_same_port(
    broker: FakeBroker, client: Any, connect: Callable[..., Any]
) -> None:
    """R12.7."""
    await client.send("t", b"1")
    before = broker.endpoint
    await broker.restart()
    assert broker.endpoint == before
    again = connect(broker, "consumer-2")
    await again.subscribe("g", "t")
    assert (await again.receive("g", "t")).bodies == [b"1"]


async def test_another_proxy_serves_the_same_broker_until_the_block_is_left(
    broker: FakeBroker, client: Any, connect: Callable[..., Any]
) -> None:
    async with broker.another_proxy() as endpoint:
        assert endpoint != broker.endpoint
        there = connect(endpoint, "consumer-2")
        await there.subscribe("g", "t")
        await client.send("t", b"1")
        assert (await there.receive("g", "t")).bodies == [b"1"]
    with pytest.raises(grpc.aio.AioRpcError, match="UNAVAILABLE"):
        await there.send("t", b"2")
    await client.send("t", b"3")


async def test_a_restart_forgets_who_the_clients_are(broker: FakeBroker, consumer: Any) -> None:
    """R12.7: they see it by their next heartbeat."""
    await broker.restart()
    assert broker.clients() == ()
    request = pb.HeartbeatRequest(group=pb.Resource(name="g"))
    response = await consumer.call("Heartbeat", request)
    assert response.status.code == pb.Code.UNRECOGNIZED_CLIENT_TYPE


async def test_leases_live_through_a_restart(broker: FakeBroker, client: Any, consumer: Any) -> None:
    """R12.7."""
    await client.send("t", b"1")
    frames = await consumer.receive("g", "t", invisible=60)
    await broker.restart()
    assert len(broker.leases("g")) == 1
    response = await consumer.ack("g", "t", *frames.messages)
    assert response.status.code == pb.Code.OK


async def test_a_crash_breaks_calls_in_progress(
    broker: FakeBroker, consumer: Any, happened: Happened
) -> None:
    stream, _ = await consumer.publish("t")

    async def crash() -> None:
        await happened(PollParked)
        await broker.crash()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(crash())
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await consumer.receive("g", "t", wait=5)
    assert failed.value.code() == grpc.StatusCode.UNAVAILABLE
    assert not broker.is_running
    assert await stream.code() == grpc.StatusCode.UNAVAILABLE
    with pytest.raises(grpc.aio.AioRpcError):
        await consumer.call("Heartbeat", pb.HeartbeatRequest())


async def test_a_stop_answers_those_who_wait(
    broker: FakeBroker, consumer: Any, connect: Callable[..., Any], happened: Happened
) -> None:
    stream, _ = await connect(broker).publish("t")
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(consumer.receive("g", "t", wait=5))
        await happened(PollParked)
        await broker.stop()
    assert waiting.result().kinds == ["status", "delivery_timestamp"]
    assert await stream.code() == grpc.StatusCode.UNAVAILABLE
    assert "stopped" in await stream.details()


async def test_a_stopped_broker_can_be_started_and_stopped_again(broker: FakeBroker, client: Any) -> None:
    await broker.stop()
    await broker.stop()
    await broker.create_topic("while-stopped")
    await broker.start()
    await broker.start()
    response = await client.call("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="while-stopped")))
    assert response.status.code == pb.Code.OK


async def test_time_passes_while_the_broker_is_stopped(
    broker: FakeBroker, client: Any, consumer: Any
) -> None:
    await client.send("t", b"1")
    await consumer.receive("g", "t", invisible=30)
    await broker.stop()
    await broker.clock.advance(minutes=1)
    await broker.start()
    await consumer.subscribe("g", "t")
    (message,) = (await consumer.receive("g", "t")).messages
    assert message.system_properties.delivery_attempt == 2


async def test_two_brokers_in_one_process_know_nothing_of_each_other(
    broker: FakeBroker, running: Callable[..., Awaitable[FakeBroker]], connect: Callable[..., Any]
) -> None:
    other = await running(clock="real")
    await connect(broker).send("t", b"1")
    assert broker.endpoint != other.endpoint
    assert len(broker.messages("t")) == 1
    assert other.messages("t") == ()


async def test_nothing_is_left_of_a_broker_that_has_ended() -> None:
    async def one_life() -> int:
        async with FakeBroker(control="127.0.0.1:0") as broker:
            await broker.create_topic("t")
            return int(broker.endpoint.rpartition(":")[2])

    await one_life()
    tasks, threads = asyncio.all_tasks(), threading.active_count()
    port = await one_life()
    assert asyncio.all_tasks() == tasks
    assert threading.active_count() <= threads
    with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
        probe.connect(("127.0.0.1", port))


async def test_a_broker_whose_control_port_is_taken_does_not_half_start(broker: FakeBroker) -> None:
    other = FakeBroker(control=broker.endpoint)
    with pytest.raises(OSError, match="cannot listen"):
        async with other:
            pass
    assert not other.is_running


async def test_a_test_sees_what_happened(broker: FakeBroker, client: Any, consumer: Any) -> None:
    await client.send("t", b"1", tag="a", keys=["k"], message_id="m")
    await consumer.receive("g", "t", invisible=30)
    (delivery,) = broker.deliveries("t", group="g")
    assert (delivery.body, delivery.attempt, delivery.client_id) == (b"1", 1, "consumer-1")
    assert (delivery.message.tag, delivery.message.keys, delivery.message.type) == ("a", ("k",), "NORMAL")
    assert broker.deliveries("t", group="other") == ()
    assert [(topic.name, topic.max_offsets) for topic in broker.topics() if not topic.is_internal] == [
        ("t", (1,))
    ]
    assert [(group.name, group.client_ids) for group in broker.groups()] == [("g", ("consumer-1",))]
    assert [(each.client_id, each.type, each.group) for each in broker.clients()] == [
        ("consumer-1", "SIMPLE_CONSUMER", "g")
    ]
    assert [(lease.message_id, lease.attempt) for lease in broker.leases()] == [("m", 1)]
    assert [(progress.offset, progress.lag) for progress in broker.progress("g")] == [(1, 0)]
    assert broker.totals().leases == 1
    assert broker.order_records() == ()


async def test_topics_and_groups_can_be_changed_and_deleted(broker: FakeBroker) -> None:
    await broker.update_topic("t", type="FIFO", read_queues=2, write_queues=3, permission="READ")
    (topic,) = broker.topics()
    assert (topic.type, topic.read_queues, topic.write_queues, topic.permission) == ("FIFO", 2, 3, "READ")
    await broker.update_group("g", ordered=True, max_attempts=3, backoff=(1, 2))
    (group,) = broker.groups()
    assert (group.ordered, group.max_attempts, group.backoff) == (True, 3, (1, 2))
    await broker.delete_topic("t")
    await broker.delete_group("g")
    assert (broker.topics(), broker.groups()) == ((), ())


async def test_a_topic_that_exists_is_refused(broker: FakeBroker) -> None:
    with pytest.raises(Refusal, match="BAD_REQUEST"):
        await broker.create_topic("t")


async def test_offsets_are_reset_to_a_place_or_a_time(broker: FakeBroker, client: Any, consumer: Any) -> None:
    await client.send("t", b"1")
    await broker.clock.advance(seconds=10)
    middle = datetime.fromtimestamp(broker.clock.now() - 5, UTC)
    await client.send("t", b"2", message_id="2")
    assert await broker.reset_offset("g", "t", to="end") == (2,)
    assert await broker.reset_offset("g", "t", to="beginning") == (0,)
    assert await broker.reset_offset("g", "t", to=middle) == (1,)
    assert (await consumer.receive("g", "t")).bodies == [b"2"]


async def test_events_can_be_followed(broker: FakeBroker, client: Any) -> None:
    async with broker.events.subscribe() as stream:
        await client.send("t", b"1")
        await client.send("t", b"2", message_id="2")
        assert [event.message.content.body for event in stream.take() if isinstance(event, Stored)] == [
            b"1",
            b"2",
        ]


async def test_event_streams_end_with_the_broker() -> None:
    async with FakeBroker() as broker:
        stream = broker.events.subscribe()
        await broker.create_topic("t")
    assert [type(event).__name__ async for event in stream] == ["TopicChanged"]


async def test_the_core_can_be_another_one(running: Callable[..., Awaitable[FakeBroker]]) -> None:
    """So a promise can be broken on purpose."""
    cores: list[Broker] = []

    def make(*arguments: Any, **keywords: Any) -> Broker:
        cores.append(Broker(*arguments, **keywords))
        return cores[-1]

    await running(core=make, profile=PROFILES["apache-5.5"])
    assert [core.profile.name for core in cores] == ["apache-5.5"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"profile": "apache-1"}, "got 'apache-1'"),
        ({"clock": "sun"}, "clock must be 'real' or 'manual', got 'sun'"),
        ({"start": datetime(2030, 1, 1, tzinfo=UTC)}, "start must be an aware datetime"),
        ({"clock": "manual", "start": datetime(2030, 1, 1)}, "start must be an aware datetime"),
    ],
)
def test_options_that_cannot_be_are_refused_where_they_are_given(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        FakeBroker(**options)


@pytest.mark.parametrize("options", [{"type": "ODD"}, {"permission": "rw"}])
async def test_unknown_topic_options_are_refused(broker: FakeBroker, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be one of"):
        await broker.create_topic("u", **options)


async def test_a_message_on_trial_must_be_stored(broker: FakeBroker) -> None:
    with pytest.raises(ValueError, match="is not in topic"):
        await broker.verify_message("raw-1", "t", "nothing")


def test_every_public_name_can_be_imported() -> None:
    package = import_module("aiorocketmq_fake")
    assert package.FakeBrokerClient is FakeBrokerClient
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError):
        _ = package.nothing


async def test_what_happens_can_be_recorded(
    running: Callable[..., Awaitable[FakeBroker]], connect: Callable[..., Any], tmp_path: Path
) -> None:
    async with FakeBroker(record=tmp_path, clock="manual") as broker:
        await broker.create_topic("t")
        await connect(broker).send("t", b"1")
        await broker.restart()
    table = pyarrow.parquet.read_table(tmp_path)
    kinds = table.column("kind").to_pylist()
    assert (kinds[0], kinds[-1]) == ("recorder.start", "recorder.end")
    assert "send" in kinds
    assert len(set(table.column("boot").to_pylist())) == 2


async def test_a_broker_that_cannot_record_does_not_half_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    broker = FakeBroker(record=tmp_path / "file")
    with pytest.raises(OSError, match="file"):
        async with broker:
            pass
    assert not broker.is_running


@pytest.mark.parametrize("kind", ["FIFO", TopicType.FIFO, sdk.TopicType.FIFO])
async def test_topic_types_are_names_or_members(broker: FakeBroker, kind: Any) -> None:
    await broker.create_topic("typed", type=kind)
    assert {topic.name: topic.type for topic in broker.topics()}["typed"] == "FIFO"


@pytest.mark.parametrize("kind", ["fifo", None, 3])
async def test_an_unknown_topic_type_is_named(broker: FakeBroker, kind: Any) -> None:
    with pytest.raises(ValueError, match=f"type must be one of UNSPECIFIED, NORMAL, .*, got {kind!r}"):
        await broker.create_topic("typed", type=kind)
