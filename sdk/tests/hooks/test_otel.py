"""Spans by the messaging conventions, metrics by the official names, and their way to a server that asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc.aio
import pytest
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._session.metrics_export import PATH
from aiorocketmq._transport.grpcio import GrpcioTransport
from aiorocketmq._transport.interface import DuplexStream, Metadata
from aiorocketmq.config import Credentials, Retry
from aiorocketmq.errors import UnreachableError
from aiorocketmq.hooks import AckEvent, Event, Hook, Phase
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.otel import OpenTelemetryHook
from aiorocketmq.producer import Producer
from aiorocketmq.push_consumer import RetryLater
from aiorocketmq.transaction import Resolution
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker
from opentelemetry import trace
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from sdk.tests.clients import push_consumer, simple_consumer
from sdk.tests.waiting import until


class Telescope:
    """The hook under test, and what it has made visible."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self._reader = InMemoryMetricReader()
        self.tracer = tracers.get_tracer("test")
        self.tracers = tracers
        self.meters = MeterProvider(metric_readers=[self._reader], shutdown_on_exit=False)
        self.hook = OpenTelemetryHook(tracer_provider=tracers, meter_provider=self.meters)

    def spans(self, name: str) -> list[ReadableSpan]:
        return [each for each in self._spans.get_finished_spans() if each.name == name]

    def span(self, name: str) -> ReadableSpan:
        (one,) = self.spans(name)
        return one

    def points(self, name: str) -> list[object]:
        data = self._reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@pytest.fixture
def telescope() -> Telescope:
    return Telescope()


class Handling:
    """A handler that keeps what it was given, and the span it ran in."""

    def __init__(self, *failures: Exception) -> None:
        self.contexts: list[trace.SpanContext] = []
        self._failures = list(failures)
        self.done = asyncio.Event()

    async def __call__(self, message: ReceivedMessage) -> None:
        self.contexts.append(trace.get_current_span().get_span_context())
        if self._failures:
            raise self._failures.pop(0)
        self.done.set()


async def push_one(broker: FakeBroker, telescope: Telescope, handler: Handling) -> None:
    async with Producer(broker.endpoint, hooks=[telescope.hook]) as producer:
        await producer.send(Message("orders", b"12345", tag="paid", keys=["42"]))
    async with push_consumer(broker.endpoint, handler=handler, hooks=[telescope.hook]):
        async with asyncio.timeout(20):
            await handler.done.wait()


async def test_a_send_its_poll_its_handler_and_its_ack_are_one_story(
    broker: FakeBroker, telescope: Telescope
) -> None:
    handler = Handling()
    await push_one(broker, telescope, handler)
    sent, processed, acked = map(telescope.span, ("send orders", "process orders", "ack orders"))
    assert [each.kind for each in (sent, processed, acked)] == [
        SpanKind.PRODUCER,
        SpanKind.CONSUMER,
        SpanKind.CLIENT,
    ]
    assert processed.parent is not None
    assert acked.parent is not None
    assert sent.context.trace_id == processed.context.trace_id == acked.context.trace_id
    assert processed.parent.span_id == sent.context.span_id
    assert acked.parent.span_id == processed.context.span_id
    assert [context.span_id for context in handler.contexts] == [processed.context.span_id]
    (received,) = telescope.spans("receive orders")
    assert [stream.context.span_id for stream in received.links] == [sent.context.span_id]


async def test_spans_say_what_the_messaging_conventions_ask_for(
    broker: FakeBroker, telescope: Telescope
) -> None:
    await push_one(broker, telescope, Handling())
    sent, processed = telescope.span("send orders").attributes, telescope.span("process orders").attributes
    assert sent is not None
    assert processed is not None
    assert dict(sent) == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.client.id": sent["messaging.client.id"],
        "messaging.message.id": processed["messaging.message.id"],
        "messaging.message.body.size": 5,
        "messaging.rocketmq.message.type": "normal",
        "messaging.rocketmq.message.tag": "paid",
        "messaging.rocketmq.message.keys": ("42",),
        "server.address": "127.0.0.1",
        "server.port": int(broker.endpoint.rpartition(":")[2]),
    }
    assert processed["messaging.operation.type"] == "process"
    assert processed["messaging.consumer.group.name"] == "billing"
    settled = telescope.span("ack orders").attributes
    assert settled is not None
    assert settled["messaging.operation.type"] == "settle"


async def test_the_context_travels_in_the_properties_and_leaves_the_others_alone(
    broker: FakeBroker, telescope: Telescope
) -> None:
    async with Producer(broker.endpoint, hooks=[telescope.hook]) as producer:
        with telescope.tracer.start_as_current_span("request"):
            await producer.send(Message("orders", b"x", properties={"source": "web"}))
    (stored,) = broker.messages("orders")
    sent, request = telescope.span("send orders"), telescope.span("request")
    assert sent.parent is not None
    assert sent.parent.span_id == request.context.span_id
    expected = trace.format_trace_id(sent.context.trace_id) + "-" + trace.format_span_id(sent.context.span_id)
    assert stored.properties["traceparent"].startswith(f"00-{expected}-")
    assert stored.properties["source"] == "web"


async def test_a_failed_send_says_why_and_how_often_it_was_tried(
    broker: FakeBroker, telescope: Telescope
) -> None:
    async with Producer(broker.endpoint, hooks=[telescope.hook], retry=Retry(attempts=3)) as producer:
        with broker.faults.fail("SendMessage"), pytest.raises(UnreachableError):
            await producer.send(Message("orders", b"x"))
    sent = telescope.span("send orders")
    assert sent.status.status_code is StatusCode.ERROR
    assert sent.attributes is not None
    assert sent.attributes["error.type"] == "UnreachableError"
    assert [event.name for event in sent.events] == ["attempt failed"] * 3


async def test_a_failed_handler_is_an_error_and_a_wanted_retry_is_none(
    broker: FakeBroker, telescope: Telescope
) -> None:
    await push_one(broker, telescope, Handling(ValueError("no such account"), RetryLater(0)))
    failed, later, well = telescope.spans("process orders")
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes is not None
    assert failed.attributes["error.type"] == "ValueError"
    assert [later.status.status_code, well.status.status_code] == [StatusCode.UNSET] * 2
    assert len(telescope.spans("release orders")) == 2


async def test_handlers_may_begin_traces_of_their_own_that_are_only_linked(
    broker: FakeBroker, telescope: Telescope
) -> None:
    telescope.hook = OpenTelemetryHook(
        tracer_provider=telescope.tracers, meter_provider=telescope.meters, links_only=True
    )
    with telescope.tracer.start_as_current_span("start of the program"):
        await push_one(broker, telescope, Handling())
    processed = telescope.span("process orders")
    assert processed.parent is None
    assert [stream.context.span_id for stream in processed.links] == [
        telescope.span("send orders").context.span_id
    ]


async def test_a_message_of_a_simple_consumer_is_processed_in_a_span_by_hand(
    broker: FakeBroker, telescope: Telescope
) -> None:
    hook = telescope.hook
    async with Producer(broker.endpoint, hooks=[hook]) as producer:
        await producer.send(Message("orders", b"x"))
    async with simple_consumer(broker.endpoint, hooks=[hook]) as consumer:
        (message,) = await consumer.receive(wait=5)
        with hook.processing(message):
            await message.ack()
    processed, acked = telescope.span("process orders"), telescope.span("ack orders")
    assert acked.parent is not None
    assert acked.parent.span_id == processed.context.span_id


async def test_one_message_may_be_sent_several_times_at_once(
    broker: FakeBroker, telescope: Telescope
) -> None:
    message = Message("orders", b"x")
    for hook in (OpenTelemetryHook(), telescope.hook):
        async with Producer(broker.endpoint, hooks=[hook]) as producer:
            assert len(await producer.send_many([message] * 3)) == 3
    assert len(telescope.spans("send orders")) == 3


async def test_work_by_hand_on_a_message_without_a_trace_is_part_of_the_current_one(
    broker: FakeBroker, telescope: Telescope
) -> None:
    async with Producer(broker.endpoint) as producer:
        await producer.send(Message("orders", b"x"))
    async with simple_consumer(broker.endpoint, hooks=[telescope.hook]) as consumer:
        (message,) = await consumer.receive(wait=5)
        with telescope.tracer.start_as_current_span("nightly run") as own, telescope.hook.processing(message):
            await message.ack()
    processed = telescope.span("process orders")
    assert processed.parent is not None
    assert processed.parent.span_id == own.get_span_context().span_id


async def test_without_a_tracer_provider_nothing_is_added_to_a_message(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint, hooks=[OpenTelemetryHook()]) as producer:
        await producer.send(Message("orders", b"x"))
    (stored,) = broker.messages("orders")
    assert "traceparent" not in stored.properties


BUCKETS = {
    "rocketmq_send_cost_time": (1, 5, 10, 20, 50, 200, 500),
    "rocketmq_delivery_latency": (1, 5, 10, 20, 50, 200, 500),
    "rocketmq_await_time": (1, 5, 20, 100, 1000, 5000, 10000),
    "rocketmq_process_time": (1, 5, 10, 100, 1000, 10000, 60000),
}


async def test_metrics_have_the_official_names_buckets_and_labels(
    broker: FakeBroker, telescope: Telescope
) -> None:
    await push_one(broker, telescope, Handling(ValueError("once")))
    for name, buckets in BUCKETS.items():
        for point in telescope.points(name):
            assert point.explicit_bounds == buckets  # type: ignore[attr-defined]
            assert {"topic", "client_id"} <= set(point.attributes)  # type: ignore[attr-defined]
    counts = {
        name: sorted(
            (point.attributes.get("invocation_status"), point.count)  # type: ignore[attr-defined]
            for point in telescope.points(name)
        )
        for name in BUCKETS
    }
    assert counts["rocketmq_send_cost_time"] == [("success", 1)]
    assert counts["rocketmq_process_time"] == [("failure", 1), ("success", 1)]
    assert counts["rocketmq_await_time"] == [(None, 2)]


class Acknowledged(Hook):
    """Reports when a message is acknowledged; called after the hook under test, which has seen it by then."""

    def __init__(self) -> None:
        self.seen = asyncio.Event()

    def observe(self, event: Event) -> None:
        if isinstance(event, AckEvent) and event.phase is Phase.OK:
            self.seen.set()


async def test_the_gauges_count_what_a_push_consumer_holds_and_nothing_afterwards(
    broker: FakeBroker, telescope: Telescope
) -> None:
    go_on, started = asyncio.Event(), asyncio.Event()
    acked = Acknowledged()

    async def wait(message: ReceivedMessage) -> None:
        started.set()
        await go_on.wait()

    async with Producer(broker.endpoint) as producer:
        await producer.send(Message("orders", b"12345"))
    async with push_consumer(
        broker.endpoint,
        handler=wait,
        hooks=[telescope.hook, acked],
    ) as consumer:
        async with asyncio.timeout(20):
            await started.wait()
        (messages,) = telescope.points("rocketmq_consumer_cached_messages")
        (size,) = telescope.points("rocketmq_consumer_cached_bytes")
        assert (messages.value, size.value) == (1, 5)  # type: ignore[attr-defined]
        assert messages.attributes == {  # type: ignore[attr-defined]
            "topic": "orders",
            "client_id": consumer.client_id,
            "consumer_group": "billing",
        }
        go_on.set()
        async with asyncio.timeout(20):
            await acked.seen.wait()
        (messages,) = telescope.points("rocketmq_consumer_cached_messages")
        assert messages.value == 0  # type: ignore[attr-defined]
    assert telescope.points("rocketmq_consumer_cached_messages") == []


class Collector:
    """A server that takes metrics, as that of OpenTelemetry does."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.taken: asyncio.Queue[tuple[ExportMetricsServiceRequest, dict[str, str]]] = asyncio.Queue()

    async def export(self, request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        headers = {str(key): str(value) for key, value in context.invocation_metadata() or ()}
        await self.taken.put((ExportMetricsServiceRequest.FromString(request), headers))
        return ExportMetricsServiceResponse().SerializeToString()


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    collector = Collector()
    _, service, method = PATH.split("/")
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                service, {method: grpc.unary_unary_rpc_method_handler(collector.export)}
            ),
        )
    )
    collector.endpoint = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    yield collector
    await server.stop(None)


class Asking(GrpcioTransport):
    """The ordinary transport, to a server whose settings ask for metrics."""

    def __init__(self, endpoint: str) -> None:
        super().__init__()
        host, _, port = endpoint.partition(":")
        self.metric = pb.Metric(
            on=True,
            endpoints=pb.Endpoints(
                scheme=pb.AddressScheme.IPv4, addresses=[pb.Address(host=host, port=int(port))]
            ),
        )

    async def ask_anew(self, producer: Producer) -> None:
        """Let the server want no metrics for a moment, and then want them again."""
        for wanted in (False, True):
            self.metric.on = wanted
            await producer._session.resync(producer._session.access)

    async def duplex(self, endpoint: Endpoint, path: str, metadata: Metadata) -> DuplexStream:
        return _AskingStream(await super().duplex(endpoint, path, metadata), self)


class _AskingStream:
    def __init__(self, stream: DuplexStream, asking: Asking) -> None:
        self._stream = stream
        self._asking = asking
        self.write = stream.write
        self.close = stream.close

    async def read(self) -> bytes | None:
        payload = await self._stream.read()
        if payload is None:
            return None
        command = pb.TelemetryCommand.FromString(payload)
        if command.HasField("settings"):
            command.settings.metric.CopyFrom(self._asking.metric)
        return command.SerializeToString()


async def test_a_server_that_asks_for_metrics_gets_them_signed_and_one_that_stops_gets_no_more(
    broker: FakeBroker, telescope: Telescope, collector: Collector
) -> None:
    transport = Asking(collector.endpoint)
    async with Producer(
        broker.endpoint,
        topics=["orders"],
        hooks=[telescope.hook],
        transport=transport,
        credentials=Credentials("key", "secret"),
    ) as producer:
        async with asyncio.timeout(20):
            await producer.send(Message("orders", b"x"))
            # The next regular export is a minute away; a server that enables it again gets one at once.
            await transport.ask_anew(producer)
            request, headers = await collector.taken.get()
    assert headers["authorization"].startswith("MQv2-HMAC-SHA1 Credential=key")
    (scope,) = request.resource_metrics[0].scope_metrics
    assert scope.scope.name == "org.apache.rocketmq.message"
    (metric,) = [each for each in scope.metrics if each.name == "rocketmq_send_cost_time"]
    (point,) = metric.histogram.data_points
    assert point.count == 1
    assert tuple(point.explicit_bounds) == BUCKETS["rocketmq_send_cost_time"]
    labels = {each.key: each.value.string_value for each in point.attributes}
    assert labels == {"topic": "orders", "client_id": producer.client_id, "invocation_status": "success"}


async def test_metrics_follow_a_server_that_names_another_collector(
    broker: FakeBroker, telescope: Telescope, collector: Collector
) -> None:
    transport = Asking("127.0.0.1:1")
    async with Producer(
        broker.endpoint, topics=["orders"], hooks=[telescope.hook], transport=transport
    ) as producer:
        exports = [task for task in asyncio.all_tasks() if "exporting metrics" in task.get_name()]
        transport.metric.CopyFrom(Asking(collector.endpoint).metric)
        async with asyncio.timeout(20):
            await producer.send(Message("orders", b"x"))
            await producer._session.resync(producer._session.access)
            await collector.taken.get()
            (_, pending) = await asyncio.wait(exports)
        assert (len(exports), pending) == (1, set())


async def test_the_metrics_of_a_broken_hook_keep_those_of_no_other(
    broker: FakeBroker, telescope: Telescope, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    class Broken(Hook):
        def metrics(self, client_id: str) -> bytes | None:
            raise LookupError("no numbers")

    class Counting(Hook):
        def metrics(self, client_id: str) -> bytes | None:
            asked.append(client_id)
            return None

    transport = Asking("127.0.0.1:1")
    async with Producer(
        broker.endpoint, topics=["orders"], hooks=[Broken(), Counting()], transport=transport
    ) as producer:
        await transport.ask_anew(producer)
        await until(lambda: asked)
        assert producer.health().degraded == {}
    assert "the metrics of a hook are left out" in caplog.text


async def test_a_collector_that_is_away_disturbs_no_client(
    broker: FakeBroker, telescope: Telescope, caplog: pytest.LogCaptureFixture
) -> None:
    transport = Asking("127.0.0.1:1")
    async with Producer(
        broker.endpoint, topics=["orders"], hooks=[telescope.hook], transport=transport
    ) as producer:
        async with asyncio.timeout(20):
            await producer.send(Message("orders", b"x"))
            await transport.ask_anew(producer)
            sends = 1
            while "exporting metrics failed" not in caplog.text:
                await producer.send(Message("orders", b"x"))
                sends += 1
    assert len(broker.messages("orders")) == sends


async def test_messages_that_travel_together_have_a_span_and_a_context_each(
    broker: FakeBroker, telescope: Telescope
) -> None:
    async with Producer(broker.endpoint, topics=["orders"], linger=0.01, hooks=[telescope.hook]) as producer:
        await asyncio.gather(*(producer.send(Message("orders", b"%d" % n)) for n in range(5)))
    sent = {trace.format_span_id(span.context.span_id) for span in telescope.spans("send orders")}
    carried = {message.properties["traceparent"].split("-")[2] for message in broker.messages("orders")}
    assert len(sent) == 5
    assert carried == sent
    ids = {
        span.attributes["messaging.message.id"] for span in telescope.spans("send orders") if span.attributes
    }
    assert ids == {message.message_id for message in broker.messages("orders")}


async def test_a_message_that_is_sent_on_carries_the_context_of_its_new_send(
    broker: FakeBroker, telescope: Telescope
) -> None:
    old = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
    async with Producer(broker.endpoint, hooks=[telescope.hook]) as producer:
        await producer.send(Message("orders", b"x", properties={"traceparent": old}))
    (stored,) = broker.messages("orders")
    span = telescope.span("send orders")
    assert stored.properties["traceparent"].split("-")[2] == trace.format_span_id(span.context.span_id)


async def test_a_transactional_message_carries_its_context_too(
    broker: FakeBroker, telescope: Telescope
) -> None:
    async def check(message: ReceivedMessage) -> Resolution:
        return Resolution.UNKNOWN

    await broker.create_topic("payments", type="TRANSACTION")
    producer = Producer(broker.endpoint, transaction_checker=check, hooks=[telescope.hook])
    async with producer, producer.transaction(Message("payments", b"x")):
        pass
    (stored,) = broker.messages("payments")
    span = telescope.span("send payments")
    assert stored.properties["traceparent"].split("-")[2] == trace.format_span_id(span.context.span_id)
