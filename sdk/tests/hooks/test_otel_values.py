"""The numbers of all metrics, from events whose times are known."""

from __future__ import annotations

from typing import Any

import pytest
from aiorocketmq import otel
from aiorocketmq.errors import ServerError
from aiorocketmq.hooks import (
    AckEvent,
    ChangeEvent,
    ChangeReason,
    ClientEvent,
    ClientIdentity,
    DeliverEvent,
    ForwardEvent,
    HandleEvent,
    Phase,
    ReceiveEvent,
    Role,
    SendEvent,
)
from aiorocketmq.message import Message, MessageQueue, ReceivedMessage, SendReceipt
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from sdk.tests.hooks.test_otel import Telescope

PRODUCER = ClientIdentity("p@1", Role.PRODUCER)
CONSUMER = ClientIdentity("c@1", Role.PUSH, "billing")
OTHER = ClientIdentity("d@1", Role.PUSH, "billing")
QUEUE = MessageQueue("orders", "b", 0)
OF_CONSUMER = {"topic": "orders", "client_id": "c@1", "consumer_group": "billing"}


class Times:
    """The event loop's clock and the wall clock, moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(otel, "_now", lambda: self.now)
        monkeypatch.setattr("aiorocketmq.otel.time.time", lambda: 1_000_000.0 + self.now)


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Times:
    return Times(monkeypatch)


@pytest.fixture
def telescope() -> Telescope:
    return Telescope()


def received(body: bytes) -> ReceivedMessage:
    return ReceivedMessage(topic="orders", body=body, message_id="M", queue=QUEUE, offset=7)


def sums(telescope: Telescope, name: str) -> list[tuple[dict[str, Any], int, Any]]:
    """The labels, the count and the sum of each point."""
    points: list[Any] = telescope.points(name)
    return [(dict(point.attributes), point.count, pytest.approx(point.sum)) for point in points]


def gauges(telescope: Telescope) -> list[list[int]]:
    """Messages and bytes in caches, by client."""
    names = ("rocketmq_consumer_cached_messages", "rocketmq_consumer_cached_bytes")
    points: list[list[Any]] = [telescope.points(name) for name in names]
    return [[point.value for point in each] for each in points]


def facts(telescope: Telescope, span: str, name: str) -> list[tuple[Any, Any]]:
    """The client and one attribute of each span of this name, in the order of their ends."""
    attributes = [each.attributes or {} for each in telescope.spans(span)]
    return [(each["messaging.client.id"], each.get(name)) for each in attributes]


def exported(telescope: Telescope, client: ClientIdentity) -> list[tuple[str, int]]:
    """The client id and the count of each point of sends in what the server of a client gets."""
    request = ExportMetricsServiceRequest.FromString(telescope.hook.metrics(client.client_id) or b"")
    return [
        ({each.key: each.value.string_value for each in point.attributes}["client_id"], point.count)
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == "rocketmq_send_cost_time"
        for point in metric.histogram.data_points
    ]


def deliver(client: ClientIdentity, message: ReceivedMessage, **values: Any) -> DeliverEvent:
    return DeliverEvent(
        client=client, message=message, handle="h", **{"position": 0, "server_deliver_us": None, **values}
    )


def test_the_cost_of_a_send_is_milliseconds_of_each_attempt(telescope: Telescope, times: Times) -> None:
    sent: dict[str, Any] = {"client": PRODUCER, "message": Message("orders", b"1"), "message_id": "M"}
    telescope.hook.observe(SendEvent(phase=Phase.INVOKE, operation="1", **sent))
    times.now += 0.25
    telescope.hook.observe(SendEvent(phase=Phase.INVOKE, operation="2", **sent))
    times.now += 0.5
    telescope.hook.observe(SendEvent(phase=Phase.OK, operation="1", **sent))
    times.now += 1.0
    telescope.hook.observe(SendEvent(phase=Phase.FAIL, operation="2", error=ServerError("no"), **sent))
    labels = {"topic": "orders", "client_id": "p@1"}
    assert sums(telescope, "rocketmq_send_cost_time") == [
        ({**labels, "invocation_status": "success"}, 1, 750.0),
        ({**labels, "invocation_status": "failure"}, 1, 1500.0),
    ]


def test_operations_of_several_clients_are_not_mixed_up(telescope: Telescope, times: Times) -> None:
    """Each client counts its operations from 1."""
    sent: dict[str, Any] = {"message": Message("orders", b"1"), "message_id": "M", "operation": "1"}
    second = ClientIdentity("q@1", Role.PRODUCER)
    for client in (PRODUCER, second):
        telescope.hook.observe(SendEvent(client=client, phase=Phase.INVOKE, **sent))
        times.now += 1.0
    for client in (PRODUCER, second):
        telescope.hook.observe(SendEvent(client=client, phase=Phase.OK, **sent))
    costs = sums(telescope, "rocketmq_send_cost_time")
    assert [(labels["client_id"], total) for labels, _, total in costs] == [("p@1", 2000.0), ("q@1", 1000.0)]

    polls: dict[str, Any] = {"queue": QUEUE, "max_messages": 32, "operation": "1"}
    for client in (CONSUMER, OTHER):
        telescope.hook.observe(ReceiveEvent(client=client, phase=Phase.INVOKE, **polls))
    for client in (CONSUMER, OTHER, OTHER):
        telescope.hook.observe(deliver(client, received(b"1"), operation="1"))
    for client, count in ((CONSUMER, 1), (OTHER, 2)):
        telescope.hook.observe(ReceiveEvent(client=client, phase=Phase.OK, count=count, **polls))
    assert facts(telescope, "receive orders", "messaging.batch.message_count") == [("c@1", 1), ("d@1", 2)]

    acked: dict[str, Any] = {"delivery": "h", "handle": "h", "operation": "1"}
    for client, phase in (
        (CONSUMER, Phase.INVOKE),
        (OTHER, Phase.INVOKE),
        (OTHER, Phase.OK),
        (CONSUMER, Phase.INFO),
    ):
        telescope.hook.observe(AckEvent(client=client, phase=phase, message=received(b"1"), **acked))
    assert facts(telescope, "ack orders", "error.type") == [("d@1", None), ("c@1", "unknown")]


def test_a_poll_that_fails_is_a_span_and_one_that_brings_nothing_is_none(telescope: Telescope) -> None:
    poll: dict[str, Any] = {"client": CONSUMER, "queue": QUEUE, "max_messages": 32}
    for operation, end in (
        ("1", {"phase": Phase.OK}),
        ("2", {"phase": Phase.FAIL, "error": ServerError("no")}),
    ):
        telescope.hook.observe(ReceiveEvent(phase=Phase.INVOKE, operation=operation, **poll))
        telescope.hook.observe(ReceiveEvent(operation=operation, **poll, **end))
    assert facts(telescope, "receive orders", "error.type") == [("c@1", "ServerError")]


def test_the_context_in_the_properties_comes_before_that_of_the_system(telescope: Telescope) -> None:
    """Hooks write the properties; the field of the system may have an older one."""
    message = received(b"1")
    message.trace_context = f"00-{1:032x}-{1:016x}-01"
    with telescope.hook.processing(message):
        pass
    message.properties = {"traceparent": f"00-{2:032x}-{2:016x}-01"}
    with telescope.hook.processing(message):
        pass
    assert [span.context.trace_id for span in telescope.spans("process orders")] == [1, 2]


@pytest.mark.parametrize(
    ("endpoint", "address", "port"),
    [
        ("10.0.0.1:8081", "10.0.0.1", 8081),
        ("10.0.0.1:8081;10.0.0.2:8082", "10.0.0.1", 8081),
        ("[::1]:8083;[::2]:8084", "::1", 8083),
        ("", None, None),
    ],
)
async def test_a_send_names_the_first_address_of_its_server(
    telescope: Telescope, endpoint: str, address: str | None, port: int | None
) -> None:
    async def store(message: Message) -> SendReceipt:
        return SendReceipt("M", "orders", QUEUE, 7, endpoint=endpoint)

    await telescope.hook.send(Message("orders", b"1"), store)
    attributes = telescope.span("send orders").attributes or {}
    assert (attributes.get("server.address"), attributes.get("server.port")) == (address, port)


def test_a_server_gets_the_metrics_of_its_own_client_alone(telescope: Telescope, times: Times) -> None:
    second = ClientIdentity("q@1", Role.PRODUCER)
    for client in (PRODUCER, second):
        telescope.hook.metrics(client.client_id)
    for number, client in enumerate((PRODUCER, second, second)):
        sent: dict[str, Any] = {"client": client, "message": Message("orders", b"1"), "message_id": "M"}
        for phase in (Phase.INVOKE, Phase.OK):
            telescope.hook.observe(SendEvent(phase=phase, operation=f"{number}", **sent))
    assert [exported(telescope, client) for client in (PRODUCER, second)] == [[("p@1", 1)], [("q@1", 2)]]


def test_waiting_and_handling_are_milliseconds(telescope: Telescope, times: Times) -> None:
    first, second = received(b"1"), received(b"2")
    for position, message in enumerate((first, second)):
        telescope.hook.observe(deliver(CONSUMER, message, position=position))
    handled: dict[str, Any] = {"client": CONSUMER, "message": first}
    times.now += 0.4
    telescope.hook.observe(HandleEvent(phase=Phase.INVOKE, operation="1", **handled))
    times.now += 1.6
    telescope.hook.observe(HandleEvent(phase=Phase.OK, operation="1", **handled))
    handled["message"] = second
    telescope.hook.observe(HandleEvent(phase=Phase.INVOKE, operation="2", **handled))
    times.now += 0.003
    telescope.hook.observe(HandleEvent(phase=Phase.FAIL, operation="2", raised=ValueError(), **handled))
    assert sums(telescope, "rocketmq_await_time") == [(OF_CONSUMER, 2, 400.0 + 2000.0)]
    assert sums(telescope, "rocketmq_process_time") == [
        ({**OF_CONSUMER, "invocation_status": "success"}, 1, 1600.0),
        ({**OF_CONSUMER, "invocation_status": "failure"}, 1, 3.0),
    ]


def test_latency_is_that_of_the_first_message_of_an_answer_unless_clocks_disagree(
    telescope: Telescope, times: Times
) -> None:
    answered = int((1_000_000.0 + times.now) * 1_000_000)
    times.now += 0.12
    for position, before in ((0, 0), (1, 0), (0, 30_000), (0, -120_001), (0, -120_000)):
        message = received(b"1")
        event = deliver(CONSUMER, message, position=position, server_deliver_us=answered - before)
        telescope.hook.observe(event)
    telescope.hook.observe(deliver(CONSUMER, received(b"1")))
    assert sums(telescope, "rocketmq_delivery_latency") == [(OF_CONSUMER, 3, 120.0 + 150.0 + 0.0)]


def test_caches_count_messages_and_bytes_until_the_work_on_them_ends(
    telescope: Telescope, times: Times
) -> None:
    messages = [received(b"x" * size) for size in (1, 20, 300, 4000)]
    for message in messages:
        telescope.hook.observe(deliver(CONSUMER, message))
    other = received(b"y" * 7)
    telescope.hook.observe(deliver(OTHER, other))
    simple = received(b"z")
    telescope.hook.observe(deliver(ClientIdentity("s@1", Role.SIMPLE, "billing"), simple))
    assert gauges(telescope) == [[4, 1], [4321, 7]]
    settled: dict[str, Any] = {"client": CONSUMER, "delivery": "h", "handle": "h", "operation": "1"}
    change: dict[str, Any] = {**settled, "invisible": 1.0}
    for event, expected in (
        (AckEvent(phase=Phase.INVOKE, message=messages[0], **settled), [4, 4321]),
        (AckEvent(phase=Phase.FAIL, message=messages[0], **settled), [4, 4321]),
        (AckEvent(phase=Phase.INFO, message=messages[0], **settled), [4, 4321]),
        (AckEvent(phase=Phase.OK, message=messages[0], **settled), [3, 4320]),
        (AckEvent(phase=Phase.OK, message=messages[0], **settled), [3, 4320]),
        (ChangeEvent(phase=Phase.OK, message=messages[1], reason=ChangeReason.EXTEND, **change), [3, 4320]),
        (ChangeEvent(phase=Phase.OK, message=messages[1], reason=ChangeReason.RETRY, **change), [2, 4300]),
        (ForwardEvent(phase=Phase.OK, message=messages[2], **settled), [1, 4000]),
    ):
        telescope.hook.observe(event)
        (count, _), (size, _) = gauges(telescope)
        assert [count, size] == expected
    telescope.hook.observe(ClientEvent(client=CONSUMER, running=True))
    assert gauges(telescope) == [[1, 1], [4000, 7]]
    telescope.hook.observe(ClientEvent(client=CONSUMER, running=False))
    assert gauges(telescope) == [[1], [7]]
