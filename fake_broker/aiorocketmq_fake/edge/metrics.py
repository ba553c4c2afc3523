"""Prometheus metrics of a broker, under the names of Apache's servers."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values import events
from aiorocketmq_fake.core.values.codes import ClientType, Resolution
from aiorocketmq_fake.core.values.limits import RETRY_PREFIX
from aiorocketmq_fake.core.values.model import OutgoingMessage

__all__ = ["Metrics"]

# The label of the broker, as in Apache's servers.
NODE = "node_id"
# The bounds of Apache's own histogram of message sizes, in bytes.
SIZES = (1024, 4096, 512 * 1024, 1024 * 1024, 2 * 1024 * 1024, 4 * 1024 * 1024)


class Metrics:
    """The metrics of brokers, labelled by `node_id`: counters follow events, gauges read the state at each scrape."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._cores: list[Broker] = []
        self._registry.register(_Gauges(self._cores))
        self._counts = _Counts(self._registry)

    def observer(self, core: Broker) -> Callable[[Iterable[events.Event]], None]:
        """Add a broker; return a listener for `broker.events.listen`."""
        self._cores.append(core)
        return _Observer(self._counts, core.name).observe

    def page(self, accepted: str = "") -> tuple[str, bytes]:
        """Return content type and text for an `Accept` header."""
        try:
            encode, content_type = choose_encoder(accepted)
        except TypeError:
            # The library fails on versions that are no numbers; such a client can read the oldest format, too.
            encode, content_type = choose_encoder("")
        return content_type, encode(self._registry)


class _Counts:
    """The counters that all brokers share; the last label of each is the broker."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def make(name: str, help_: str, *labels: str) -> Counter:
            return Counter(name, help_, (*labels, NODE), registry=registry)

        of_topic, of_group = ("topic", "message_type"), ("topic", "consumer_group")
        self.sent = make("rocketmq_messages_in", "Messages that producers sent", *of_topic)
        self.bytes_sent = make("rocketmq_throughput_in", "Bytes of bodies that producers sent", *of_topic)
        self.out = make("rocketmq_messages_out", "Deliveries to consumers", *of_group, "is_retry")
        self.bytes_out = make("rocketmq_throughput_out", "Bytes of bodies delivered", *of_group, "is_retry")
        self.dead = make("rocketmq_send_to_dlq_messages", "Messages given up", *of_group)
        self.committed = make("rocketmq_commit_messages", "Transactions committed", "topic")
        self.rolled_back = make("rocketmq_rollback_messages", "Transactions rolled back", "topic")
        self.acked = make("aiorocketmq_fake_acks", "Acks answered OK", *of_group, "effective")
        self.ended = make("aiorocketmq_fake_lease_ends", "Leases ended without an ack", *of_group, "reason")
        self.refused = make("aiorocketmq_fake_refusals", "Commands refused", "command", "code")
        self.events = make("aiorocketmq_fake_events", "Everything that happened", "event")
        self.sizes = Histogram(
            "rocketmq_message_size",
            "Bytes of a body that a producer sent",
            (*of_topic, NODE),
            buckets=SIZES,
            registry=registry,
        )


class _Observer:
    """Counts the events of one broker."""

    def __init__(self, counts: _Counts, node: str) -> None:
        self._counts = counts
        self._node = node
        # Any: each takes the event of its own kind.
        self._by_kind: Mapping[type, Callable[[Any], None]] = {
            events.Stored: self._on_stored,
            events.Prepared: lambda event: self._on_sent(event.message, event.message.message_type.name),
            events.Delivered: self._on_delivered,
            events.DeadLettered: self._on_dead_lettered,
            events.TransactionEnded: self._on_transaction_ended,
            events.Acked: self._on_acked,
            events.LeaseEnded: self._on_lease_ended,
            events.Refused: lambda event: self._add(counts.refused, event.command, event.code.name),
        }

    def observe(self, events: Iterable[events.Event]) -> None:
        """Count events."""
        for event in events:
            kind = type(event)
            self._add(self._counts.events, kind.__name__)
            if (count := self._by_kind.get(kind)) is not None:
                count(event)

    def _add(self, counter: Counter, *labels: str, amount: int = 1) -> None:
        counter.labels(*labels, self._node).inc(amount)

    def _on_sent(self, message: OutgoingMessage, kind: str) -> None:
        size = len(message.body)
        self._add(self._counts.sent, message.topic, kind)
        self._add(self._counts.bytes_sent, message.topic, kind, amount=size)
        self._counts.sizes.labels(message.topic, kind, self._node).observe(size)

    def _on_stored(self, event: events.Stored) -> None:
        if event.reason is events.StoredAs.SENT:
            self._on_sent(event.message.content, event.message.message_type.name)

    def _on_delivered(self, event: events.Delivered) -> None:
        message = event.delivery.message
        retried = str(event.delivery.attempt > 1 or message.topic.startswith(RETRY_PREFIX)).lower()
        labels = (message.content.topic, event.group, retried)
        self._add(self._counts.out, *labels)
        self._add(self._counts.bytes_out, *labels, amount=len(message.content.body))

    def _on_dead_lettered(self, event: events.DeadLettered) -> None:
        self._add(self._counts.dead, event.message.content.topic, event.group)

    def _on_transaction_ended(self, event: events.TransactionEnded) -> None:
        counts = self._counts
        if event.resolution is Resolution.COMMIT:
            self._add(counts.committed, event.topic)
        elif event.resolution is Resolution.ROLLBACK:
            self._add(counts.rolled_back, event.topic)

    def _on_acked(self, event: events.Acked) -> None:
        self._add(self._counts.acked, event.topic, event.group, str(event.effective).lower())

    def _on_lease_ended(self, event: events.LeaseEnded) -> None:
        self._add(self._counts.ended, event.message.content.topic, event.group, event.reason.name.lower())


class _Gauges(Collector):
    """The gauges: one family of each name, with the samples of all brokers."""

    def __init__(self, cores: Iterable[Broker]) -> None:
        self._cores = cores

    def collect(self) -> Iterable[Metric]:
        families: dict[str, GaugeMetricFamily] = {}
        for core in self._cores:
            for name, help_, labels, samples in _gauges(core):
                if name not in families:
                    families[name] = GaugeMetricFamily(name, help_, labels=(*labels, NODE))
                for values, number in samples:
                    families[name].add_metric((*values, core.name), number)
        yield from families.values()


Samples = Iterable[tuple[tuple[str, ...], float]]
Gauge = tuple[str, str, tuple[str, ...], Samples]


def _gauges(core: Broker) -> Iterable[Gauge]:
    """Return the gauges of one broker: name, help, labels and samples."""

    def plain(name: str, help_: str, number: int) -> Gauge:
        return name, help_, (), [((), number)]

    totals = core.totals()
    topics = sum(not topic.system for topic in core.topics())
    yield plain("rocketmq_topic_number", "Topics", topics)
    yield plain("rocketmq_consumer_group_number", "Consumer groups", len(core.groups()))
    yield plain("rocketmq_half_messages", "Undecided transactions", totals.half)
    yield plain("aiorocketmq_fake_parked_polls", "Polls that wait", totals.polls)
    yield plain("aiorocketmq_fake_timers", "Delayed messages that wait", totals.delayed)
    producers = 0
    consumers = Tally[tuple[str, str]]()
    for client in core.clients():
        subscription = client.settings.subscription
        if subscription is None:
            producers += client.settings.client_type is ClientType.PRODUCER
        else:
            consumers[subscription.group, client.settings.client_type.name] += 1
    yield plain("rocketmq_producer_connections", "Producers", producers)
    labels = ("consumer_group", "client_type")
    yield "rocketmq_consumer_connections", "Consumers", labels, sorted(consumers.items())
    yield from _progress(core)


def _progress(core: Broker) -> Iterable[Gauge]:
    """Return the gauges of progress."""
    ordered = {group.config.name for group in core.groups() if group.config.ordered}
    passed = Tally[tuple[str, str]]()
    for offset in core.offsets():
        passed[offset.topic, offset.group] += offset.lag
    held = Tally((lease.topic, lease.group) for lease in core.leases())
    # R10.4: in ordered groups what is in flight is not passed yet.
    ready = {
        key: max(passed[key] - held[key], 0) if key[1] in ordered else passed[key]
        for key in sorted({*passed, *held})
    }
    labels = ("topic", "consumer_group")
    yield "rocketmq_consumer_ready_messages", "Stored, not handed out", labels, ready.items()
    inflight = [(key, held[key]) for key in ready]
    yield "rocketmq_consumer_inflight_messages", "Leased to consumers", labels, inflight
    lag = [(key, waiting + held[key]) for key, waiting in ready.items()]
    yield "rocketmq_consumer_lag_messages", "Stored, not settled", labels, lag
