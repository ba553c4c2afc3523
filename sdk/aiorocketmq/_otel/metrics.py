"""The official client metrics: names, buckets and labels of Apache's clients (client-behaviour.md, 14.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource

from aiorocketmq._otel.in_flight import InFlight

if TYPE_CHECKING:
    from aiorocketmq._otel.in_flight import Place

SCOPE = "org.apache.rocketmq.message"

# Milliseconds. None of them has a unit, because exporters would add it to the official name.
SEND_COST_BUCKETS = (1.0, 5.0, 10.0, 20.0, 50.0, 200.0, 500.0)
LATENCY_BUCKETS = SEND_COST_BUCKETS
AWAIT_BUCKETS = (1.0, 5.0, 20.0, 100.0, 1000.0, 5000.0, 10000.0)
PROCESS_BUCKETS = (1.0, 5.0, 10.0, 100.0, 1000.0, 10000.0, 60000.0)


class Instruments:
    """The instruments on one meter provider; `client_id` narrows the gauges to one client."""

    def __init__(self, provider: MeterProvider, in_flight: InFlight, *, client_id: str | None = None) -> None:
        meter = provider.get_meter(SCOPE)
        self._in_flight = in_flight
        self._client_id = client_id
        self.send_cost = meter.create_histogram(
            "rocketmq_send_cost_time",
            description="Milliseconds of one try to send",
            explicit_bucket_boundaries_advisory=SEND_COST_BUCKETS,
        )
        self.delivery_latency = meter.create_histogram(
            "rocketmq_delivery_latency",
            description="Milliseconds from the server's answer to its arrival",
            explicit_bucket_boundaries_advisory=LATENCY_BUCKETS,
        )
        self.await_time = meter.create_histogram(
            "rocketmq_await_time",
            description="Milliseconds from arrival to the start of the handler",
            explicit_bucket_boundaries_advisory=AWAIT_BUCKETS,
        )
        self.process_time = meter.create_histogram(
            "rocketmq_process_time",
            description="Milliseconds of one handler call",
            explicit_bucket_boundaries_advisory=PROCESS_BUCKETS,
        )
        meter.create_observable_gauge(
            "rocketmq_consumer_cached_messages",
            callbacks=[self._cached_messages],
            description="Messages in a push consumer's cache",
        )
        meter.create_observable_gauge(
            "rocketmq_consumer_cached_bytes",
            callbacks=[self._cached_bytes],
            description="Bytes of the bodies in a push consumer's cache",
        )

    def _cached_messages(self, options: CallbackOptions) -> Iterable[Observation]:
        for place, messages, _ in self._in_flight.cached(self._client_id):
            yield Observation(messages, labels(place))

    def _cached_bytes(self, options: CallbackOptions) -> Iterable[Observation]:
        for place, _, size in self._in_flight.cached(self._client_id):
            yield Observation(size, labels(place))


class ServerMetrics:
    """The metrics of one client, collected for its server."""

    def __init__(self, client_id: str, in_flight: InFlight) -> None:
        self._reader = InMemoryMetricReader()
        # Servers expect no resource attributes, and nothing has to be done at the end of the process.
        self._provider = SdkMeterProvider(
            metric_readers=(self._reader,), resource=Resource.get_empty(), shutdown_on_exit=False
        )
        self.instruments = Instruments(self._provider, in_flight, client_id=client_id)

    def encoded(self) -> bytes | None:
        """Return all metrics, cumulative, as an OTLP request; None if there are none."""
        data = self._reader.get_metrics_data()
        return None if data is None else encode_metrics(data).SerializeToString()

    def end(self) -> None:
        """Gather no more."""
        self._provider.shutdown()


def labels(place: Place) -> dict[str, str]:
    """The labels that all metrics of consumers share."""
    client_id, topic, group = place
    return {"topic": topic, "client_id": client_id, "consumer_group": group}
