"""Counts what happens in a broker, and shows it under the names that Apache's servers use, as Prometheus reads it."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from aiorocketmq_fake.core import events as facts
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.codes import ClientType, Resolution
from aiorocketmq_fake.core.limits import RETRY_PREFIX
from aiorocketmq_fake.core.model import OutgoingMessage

__all__ = ["Metrics"]

# The bounds of Apache's own histogram of message sizes, in bytes.
SIZES = (1024, 4096, 512 * 1024, 1024 * 1024, 2 * 1024 * 1024, 4 * 1024 * 1024)


class Metrics:
    """The metrics of one broker: counters follow its events, gauges look at its state when they are asked for."""

    def __init__(self, core: Broker) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Gauges(core))
        make = self._counter
        of_topic, of_group = ("topic", "message_type"), ("topic", "consumer_group")
        self._in = make("rocketmq_messages_in", "Messages that producers sent", *of_topic)
        self._bytes_in = make("rocketmq_throughput_in", "Bytes of bodies that producers sent", *of_topic)
        self._out = make("rocketmq_messages_out", "Deliveries to consumers", *of_group, "is_retry")
        self._bytes_out = make("rocketmq_throughput_out", "Bytes of bodies delivered", *of_group, "is_retry")
        self._dead = make("rocketmq_send_to_dlq_messages", "Messages given up", *of_group)
        self._committed = make("rocketmq_commit_messages", "Transactions committed", "topic")
        self._rolled_back = make("rocketmq_rollback_messages", "Transactions rolled back", "topic")
        self._acked = make("aiorocketmq_fake_acks", "Acks answered OK", *of_group, "effective")
        self._ended = make("aiorocketmq_fake_lease_ends", "Leases ended without an ack", *of_group, "reason")
        self._refused = make("aiorocketmq_fake_refusals", "Commands refused", "command", "code")
        self._events = make("aiorocketmq_fake_events", "Everything that happened", "event")
        self._sizes = Histogram(
            "rocketmq_message_size",
            "Bytes of a body that a producer sent",
            of_topic,
            buckets=SIZES,
            registry=self._registry,
        )
        # Any: each takes the event of its own kind.
        self._by_kind: Mapping[type, Callable[[Any], None]] = {
            facts.Stored: self._on_stored,
            facts.Prepared: lambda event: self._on_sent(event.message, event.message.message_type.name),
            facts.Delivered: self._on_delivered,
            facts.DeadLettered: self._on_dead_lettered,
            facts.TransactionEnded: self._on_transaction_ended,
            facts.Acked: self._on_acked,
            facts.LeaseEnded: self._on_lease_ended,
            facts.Refused: lambda event: self._refused.labels(event.command, event.code.name).inc(),
        }

    def observe(self, events: Iterable[facts.Event]) -> None:
        """Count events; fits `broker.events.listen`."""
        for event in events:
            kind = type(event)
            self._events.labels(kind.__name__).inc()
            if (count := self._by_kind.get(kind)) is not None:
                count(event)

    def page(self, accepted: str = "") -> tuple[str, bytes]:
        """Return content type and text for the `Accept` header of who asks."""
        encode, content_type = choose_encoder(accepted)
        return content_type, encode(self._registry)

    def _counter(self, name: str, help_: str, *labels: str) -> Counter:
        return Counter(name, help_, labels, registry=self._registry)

    def _on_sent(self, message: OutgoingMessage, kind: str) -> None:
        size = len(message.body)
        self._in.labels(message.topic, kind).inc()
        self._bytes_in.labels(message.topic, kind).inc(size)
        self._sizes.labels(message.topic, kind).observe(size)

    def _on_stored(self, event: facts.Stored) -> None:
        if event.reason is facts.StoredAs.SENT:
            self._on_sent(event.message.content, event.message.message_type.name)

    def _on_delivered(self, event: facts.Delivered) -> None:
        message = event.delivery.message
        retried = str(event.delivery.attempt > 1 or message.topic.startswith(RETRY_PREFIX)).lower()
        labels = (message.content.topic, event.group, retried)
        self._out.labels(*labels).inc()
        self._bytes_out.labels(*labels).inc(len(message.content.body))

    def _on_dead_lettered(self, event: facts.DeadLettered) -> None:
        self._dead.labels(event.message.content.topic, event.group).inc()

    def _on_transaction_ended(self, event: facts.TransactionEnded) -> None:
        counter = self._committed if event.resolution is Resolution.COMMIT else self._rolled_back
        counter.labels(event.topic).inc()

    def _on_acked(self, event: facts.Acked) -> None:
        self._acked.labels(event.topic, event.group, str(event.effective).lower()).inc()

    def _on_lease_ended(self, event: facts.LeaseEnded) -> None:
        self._ended.labels(event.message.content.topic, event.group, event.reason.name.lower()).inc()


class _Gauges(Collector):
    """What can be counted at any time."""

    def __init__(self, core: Broker) -> None:
        self._core = core

    def collect(self) -> Iterable[Metric]:
        core = self._core
        totals = core.totals()
        topics = sum(not topic.system for topic in core.topics())
        yield GaugeMetricFamily("rocketmq_topic_number", "Topics", value=topics)
        yield GaugeMetricFamily("rocketmq_consumer_group_number", "Consumer groups", value=len(core.groups()))
        yield GaugeMetricFamily("rocketmq_half_messages", "Undecided transactions", value=totals.half)
        yield GaugeMetricFamily("aiorocketmq_fake_parked_polls", "Polls that wait", value=totals.polls)
        yield GaugeMetricFamily("aiorocketmq_fake_timers", "Delayed messages that wait", value=totals.delayed)
        yield from self._connections()
        yield from self._progress()

    def _connections(self) -> Iterable[Metric]:
        producers = 0
        consumers = Tally[tuple[str, str]]()
        for client in self._core.clients():
            subscription = client.settings.subscription
            if subscription is None:
                producers += client.settings.client_type is ClientType.PRODUCER
            else:
                consumers[subscription.group, client.settings.client_type.name] += 1
        yield GaugeMetricFamily("rocketmq_producer_connections", "Producers", value=producers)
        family = GaugeMetricFamily(
            "rocketmq_consumer_connections", "Consumers", labels=("consumer_group", "client_type")
        )
        for labels, count in sorted(consumers.items()):
            family.add_metric(labels, count)
        yield family

    def _progress(self) -> Iterable[Metric]:
        ordered = {group.config.name for group in self._core.groups() if group.config.ordered}
        passed = Tally[tuple[str, str]]()
        for offset in self._core.offsets():
            passed[offset.topic, offset.group] += offset.lag
        inflight = Tally((lease.topic, lease.group) for lease in self._core.leases())
        labels = ("topic", "consumer_group")
        ready = GaugeMetricFamily("rocketmq_consumer_ready_messages", "Stored, not handed out", labels=labels)
        held = GaugeMetricFamily("rocketmq_consumer_inflight_messages", "Leased to consumers", labels=labels)
        lag = GaugeMetricFamily("rocketmq_consumer_lag_messages", "Stored, not settled", labels=labels)
        for key in sorted({*passed, *inflight}):
            # R10.4: in ordered groups what is in flight is not passed yet.
            waiting = max(passed[key] - inflight[key], 0) if key[1] in ordered else passed[key]
            ready.add_metric(key, waiting)
            held.add_metric(key, inflight[key])
            lag.add_metric(key, waiting + inflight[key])
        yield from (ready, held, lag)
