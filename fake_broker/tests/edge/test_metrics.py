"""Metrics: what is counted, under which names, and the port where Prometheus asks."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.model import OutgoingMessage

parser = pytest.importorskip("prometheus_client.parser")

Running = Callable[..., Awaitable[FakeBroker]]


class Samples:
    """The samples of one scrape of one broker, by name and the values of their other labels in any order."""

    def __init__(self, page: str, node: str = "broker-a") -> None:
        self.values = {
            (
                sample.name,
                frozenset(value for name, value in sample.labels.items() if name != "node_id"),
            ): sample.value
            for family in parser.text_string_to_metric_families(page)
            for sample in family.samples
            if sample.labels["node_id"] == node
        }

    def __getitem__(self, key: tuple[str, tuple[str, ...]]) -> float:
        name, labels = key
        value: float = self.values[name, frozenset(labels)]
        return value


@pytest.fixture
async def broker(running: Running) -> FakeBroker:
    return await running(clock="manual", metrics="127.0.0.1:0")


async def ask(broker: FakeBroker, request: bytes) -> tuple[str, str]:
    """Send bytes to the metrics port; return head and body of the answer."""
    assert broker.metrics_endpoint is not None
    host, _, port = broker.metrics_endpoint.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    # A port that has heard enough hangs up.
    with suppress(OSError):
        writer.write(request)
        await writer.drain()
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    head, _, body = answer.decode().partition("\r\n\r\n")
    return head, body


async def scrape(broker: FakeBroker) -> Samples:
    head, body = await ask(broker, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 OK")
    return Samples(body)


async def test_messages_are_counted_from_the_send_to_the_ack(
    broker: FakeBroker, client: Any, consumer: Any
) -> None:
    await client.publish("t")
    for number in range(3):
        await client.send("t", b"12345", message_id=str(number))
    frames = await consumer.receive("g", "t", batch=2)
    await consumer.ack("g", "t", frames.messages[0])
    metrics = await scrape(broker)
    assert metrics["rocketmq_messages_in_total", ("t", "NORMAL")] == 3
    assert metrics["rocketmq_throughput_in_total", ("t", "NORMAL")] == 15
    assert metrics["rocketmq_message_size_bucket", ("t", "NORMAL", "1024.0")] == 3
    assert metrics["rocketmq_messages_out_total", ("t", "g", "false")] == 2
    assert metrics["rocketmq_throughput_out_total", ("t", "g", "false")] == 10
    assert metrics["aiorocketmq_fake_acks_total", ("t", "g", "true")] == 1
    assert metrics["rocketmq_consumer_ready_messages", ("t", "g")] == 1
    assert metrics["rocketmq_consumer_inflight_messages", ("t", "g")] == 1
    assert metrics["rocketmq_consumer_lag_messages", ("t", "g")] == 2
    assert metrics["rocketmq_producer_connections", ()] == 1
    assert metrics["rocketmq_consumer_connections", ("g", "SIMPLE_CONSUMER")] == 1
    assert metrics["rocketmq_topic_number", ()] == 1
    assert metrics["rocketmq_consumer_group_number", ()] == 1
    assert metrics["aiorocketmq_fake_events_total", ("Stored",)] == 3


async def test_retries_and_dead_letters_are_counted(broker: FakeBroker, client: Any, consumer: Any) -> None:
    await broker.update_group("g", max_attempts=2)
    await client.send("t", b"1")
    await consumer.receive("g", "t", invisible=10)
    await broker.clock.advance(seconds=11)
    await consumer.receive("g", "t", invisible=10)
    await broker.clock.advance(seconds=11)
    metrics = await scrape(broker)
    assert metrics["rocketmq_messages_out_total", ("t", "g", "true")] == 1
    assert metrics["aiorocketmq_fake_lease_ends_total", ("t", "g", "expired")] == 2
    assert metrics["rocketmq_send_to_dlq_messages_total", ("t", "g")] == 1


async def test_in_an_ordered_group_a_leased_message_waits_in_no_other_number(
    broker: FakeBroker, client: Any, connect: Callable[..., Any]
) -> None:
    await broker.create_topic("f", type="FIFO", queues=1)
    await broker.create_group("o", ordered=True)
    for number in range(3):
        await client.send("f", b"1", message_group="a", message_id=str(number))
    reader = connect(broker, "reader")
    await reader.subscribe("o", "f")
    await reader.receive("o", "f", batch=1)
    metrics = await scrape(broker)
    assert metrics["rocketmq_consumer_ready_messages", ("f", "o")] == 2
    assert metrics["rocketmq_consumer_lag_messages", ("f", "o")] == 3


async def test_transactions_are_counted_by_their_end(broker: FakeBroker, client: Any) -> None:
    await broker.create_topic("x", type="TRANSACTION")
    for resolution in (pb.TransactionResolution.COMMIT, pb.TransactionResolution.ROLLBACK, None):
        sent = await client.send("x", b"1", message_type=pb.MessageType.TRANSACTION)
        if resolution is not None:
            request = pb.EndTransactionRequest(
                topic=pb.Resource(name="x"),
                transaction_id=sent.entries[0].transaction_id,
                message_id=sent.entries[0].message_id,
                resolution=resolution,
            )
            assert (await client.call("EndTransaction", request)).status.code == pb.Code.OK
    metrics = await scrape(broker)
    assert metrics["rocketmq_commit_messages_total", ("x",)] == 1
    assert metrics["rocketmq_rollback_messages_total", ("x",)] == 1
    assert metrics["rocketmq_half_messages", ()] == 1
    assert metrics["rocketmq_messages_in_total", ("x", "TRANSACTION")] == 3


async def test_refusals_are_counted_by_command_and_code(broker: FakeBroker, client: Any) -> None:
    await client.send("nowhere", b"1")
    metrics = await scrape(broker)
    assert metrics["aiorocketmq_fake_refusals_total", ("SendMessage", "TOPIC_NOT_FOUND")] == 1


LABELS = {
    "rocketmq_messages_in": {"topic", "message_type"},
    "rocketmq_throughput_in": {"topic", "message_type"},
    "rocketmq_messages_out": {"topic", "consumer_group", "is_retry"},
    "rocketmq_throughput_out": {"topic", "consumer_group", "is_retry"},
    "rocketmq_send_to_dlq_messages": {"topic", "consumer_group"},
    "rocketmq_commit_messages": {"topic"},
    "rocketmq_rollback_messages": {"topic"},
    "rocketmq_message_size": {"topic", "message_type", "le"},
    "rocketmq_topic_number": set(),
    "rocketmq_consumer_group_number": set(),
    "rocketmq_half_messages": set(),
    "rocketmq_producer_connections": set(),
    "rocketmq_consumer_connections": {"consumer_group", "client_type"},
    "rocketmq_consumer_ready_messages": {"topic", "consumer_group"},
    "rocketmq_consumer_inflight_messages": {"topic", "consumer_group"},
    "rocketmq_consumer_lag_messages": {"topic", "consumer_group"},
    "aiorocketmq_fake_acks": {"topic", "consumer_group", "effective"},
    "aiorocketmq_fake_lease_ends": {"topic", "consumer_group", "reason"},
    "aiorocketmq_fake_refusals": {"command", "code"},
    "aiorocketmq_fake_events": {"event"},
    "aiorocketmq_fake_parked_polls": set(),
    "aiorocketmq_fake_timers": set(),
}
"""The labels of each metric beside the broker's; RocketMQ's own names where it has the metric."""


async def test_every_metric_has_its_labels(broker: FakeBroker, client: Any, consumer: Any) -> None:
    await broker.update_group("g", max_attempts=1)
    await broker.create_topic("x", type="TRANSACTION")
    for resolution in (pb.TransactionResolution.COMMIT, pb.TransactionResolution.ROLLBACK):
        sent = await client.send("x", b"1", message_type=pb.MessageType.TRANSACTION)
        names = {"transaction_id": sent.entries[0].transaction_id, "message_id": sent.entries[0].message_id}
        request = pb.EndTransactionRequest(topic=pb.Resource(name="x"), resolution=resolution, **names)
        await client.call("EndTransaction", request)
    await client.send("nowhere", b"1")
    await client.send("t", b"1")
    await client.send("t", b"2")
    frames = await consumer.receive("g", "t", batch=2)
    await consumer.ack("g", "t", frames.messages[0])
    await broker.clock.advance(seconds=31)
    _, page = await ask(broker, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    labels = {
        family.name: {name for sample in family.samples for name in sample.labels}
        for family in parser.text_string_to_metric_families(page)
        if family.samples and not family.name.endswith("_created")
    }
    assert labels == {name: {*others, "node_id"} for name, others in LABELS.items()}


async def test_openmetrics_are_served_on_request(broker: FakeBroker) -> None:
    head, body = await ask(broker, b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n\r\n")
    assert "application/openmetrics-text" in head
    assert body.endswith("# EOF\n")


@pytest.mark.parametrize("version", ["x", "1.0.x", "0.0.1", "99", ""])
@pytest.mark.parametrize("media", ["application/openmetrics-text", "text/plain"])
async def test_unknown_format_versions_are_answered(broker: FakeBroker, media: str, version: str) -> None:
    request = f"GET /metrics HTTP/1.1\r\nAccept: {media};version={version}\r\n\r\n"
    head, body = await ask(broker, request.encode())
    assert head.startswith("HTTP/1.1 200")
    assert "rocketmq_topic_number" in body


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /other HTTP/1.1\r\n\r\n", "HTTP/1.1 404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405"),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200"),
        (b"\r\n\r\n", "HTTP/1.1 404"),
        (b"x" * 100_000 + b"\r\n\r\n", ""),
    ],
    ids=["path", "method", "head", "nothing", "too long"],
)
async def test_other_requests_do_no_harm(broker: FakeBroker, request_: bytes, status: str) -> None:
    head, body = await ask(broker, request_)
    assert head.startswith(status)
    assert "rocketmq_topic_number" not in body
    assert (await scrape(broker)).values


async def test_the_port_ends_with_the_broker(running: Running) -> None:
    async with FakeBroker(metrics="127.0.0.1:0") as broker:
        endpoint = broker.metrics_endpoint
        await broker.restart()
        assert (await scrape(broker)).values
    assert endpoint is not None
    with pytest.raises(OSError, match=r".+"):
        await asyncio.open_connection(*endpoint.split(":"))


async def test_a_taken_port_is_named(broker: FakeBroker) -> None:
    with pytest.raises(OSError, match="for metrics"):
        async with FakeBroker(metrics=broker.metrics_endpoint):
            pass


async def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiorocketmq_fake.edge.metrics", None)
    with pytest.raises(ModuleNotFoundError, match="aiorocketmq\\[metrics\\]"):
        async with FakeBroker(metrics="127.0.0.1:0"):
            pass


async def test_every_broker_of_a_cluster_is_counted_by_its_name(running: Running) -> None:
    cluster = await running(clock="manual", metrics="127.0.0.1:0", brokers=2)
    before = Samples((await ask(cluster, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"))[1])
    message = OutgoingMessage("t", b"four", "m")
    cluster.brokers[1]._driver.run(cluster.brokers[1]._core.send, (message,))
    head, page = await ask(cluster, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 OK")
    assert Samples(page, "broker-b")["rocketmq_messages_in_total", ("t", "NORMAL")] == 1
    assert ("rocketmq_messages_in_total", frozenset(("t", "NORMAL"))) not in Samples(page).values
    assert {Samples(page, f"broker-{letter}")["rocketmq_topic_number", ()] for letter in "ab"} == {
        before["rocketmq_topic_number", ()]
    }
    assert page.count("# TYPE rocketmq_topic_number gauge") == 1
