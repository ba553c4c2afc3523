"""Hook for tracing and metrics with OpenTelemetry (extra `otel`).

    hook = OpenTelemetryHook()
    async with Producer(rocketmq, hooks=[hook]) as producer, PushConsumer(rocketmq, ..., hooks=[hook]): ...

Spans follow OpenTelemetry's semantic conventions for messaging. The context of a send travels in the properties of its
message (W3C `traceparent`, or the format of the configured propagators), so that the handler's span continues the
sender's trace, also if the sender is Java's instrumentation. Metrics have the names, buckets and labels of Apache's
clients; if a server's settings enable them, the client also sends them to that server as OTLP.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from aiorocketmq.errors import UsageError
from aiorocketmq.hooks import (
    AckEvent,
    ChangeEvent,
    ChangeReason,
    ClientEvent,
    DeliverEvent,
    Event,
    ForwardEvent,
    HandleCall,
    HandleEvent,
    Hook,
    Phase,
    ReceiveEvent,
    Role,
    SendCall,
    SendEvent,
    SettleEvent,
)
from aiorocketmq.message import Message, ReceivedMessage, SendReceipt

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from aiorocketmq._otel.metrics import Instruments, ServerMetrics

__all__ = ["OpenTelemetryHook"]


class OpenTelemetryHook(Hook):
    """Traces and measures every send, poll, handler call and settlement.

    `tracer_provider` and `meter_provider` are the global ones by default. With `links_only`, a handler's span begins a
    trace of its own (or continues the current one) and is linked to the send instead of being its child. One hook
    serves any number of clients of one event loop; put it first, so that its spans contain the other hooks.

    Raises UsageError if OpenTelemetry is not installed."""

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        links_only: bool = False,
    ) -> None:
        try:
            from opentelemetry import metrics, trace
            from opentelemetry.context import Context

            from aiorocketmq._otel.in_flight import InFlight
            from aiorocketmq._otel.metrics import Instruments
            from aiorocketmq._otel.spans import Spans
        except ModuleNotFoundError as missing:
            raise UsageError(
                f"OpenTelemetryHook needs {missing.name}: run pip install 'aiorocketmq[otel]'."
            ) from missing
        self._no_context = Context()
        self._in_flight = InFlight()
        self._instruments = Instruments(meter_provider or metrics.get_meter_provider(), self._in_flight)
        self._for_servers: dict[str, ServerMetrics] = {}
        self._began: dict[tuple[str, str], float] = {}
        tracer = (tracer_provider or trace.get_tracer_provider()).get_tracer("aiorocketmq")
        self._spans = Spans(tracer, self._in_flight, links_only=links_only)

    async def send(self, message: Message, call: SendCall) -> SendReceipt:
        """Send inside a span and put the context of that span into the message's properties.

        An exception is recorded on the span and propagates."""
        return await self._spans.send(message, call)

    async def handle(self, message: ReceivedMessage, call: HandleCall) -> None:
        """Call the handler inside a span that continues the trace of the send.

        An exception is recorded on the span and propagates."""
        # Workers inherit the context of the task that entered the consumer, which is unrelated.
        with self._spans.processing(message, self._no_context):
            await call(message)

    def processing(self, message: ReceivedMessage) -> AbstractContextManager[Span]:
        """Return a context manager with the span of work on a message of a SimpleConsumer or PullConsumer.

        The acknowledgement of the message becomes a child of the span, and an exception of the block is recorded on it.
        Use it as `with hook.processing(message): ...`; push consumers do so by themselves."""
        return self._spans.processing(message)

    def observe(self, event: Event) -> None:
        """Update the metrics by one event, and record the spans of polls and settlements."""
        if isinstance(event, SendEvent):
            self._spans.tried(event)
            self._measure_send(event)
        elif isinstance(event, DeliverEvent) and event.client.role is not Role.PULL:
            self._spans.polled(event)
            self._measure_arrival(event)
        elif isinstance(event, ReceiveEvent):
            self._spans.polled(event)
        elif isinstance(event, HandleEvent):
            self._measure_handling(event)
        elif isinstance(event, SettleEvent):
            self._spans.settled(event)
            if event.phase is Phase.OK and _ends_the_work(event):
                self._in_flight.settled(event.message)
        elif isinstance(event, ClientEvent) and not event.running:
            self._in_flight.forget(event.client.client_id)
            for_server = self._for_servers.pop(event.client.client_id, None)
            if for_server is not None:
                for_server.end()

    def metrics(self, client_id: str) -> bytes | None:
        """Return the metrics of one client since the first call for it, as an OTLP request; None if there are none."""
        for_server = self._for_servers.get(client_id)
        if for_server is None:
            from aiorocketmq._otel.metrics import ServerMetrics

            for_server = self._for_servers[client_id] = ServerMetrics(client_id, self._in_flight)
        return for_server.encoded()

    def _meters(self, client_id: str) -> tuple[Instruments, ...]:
        for_server = self._for_servers.get(client_id)
        return (self._instruments,) if for_server is None else (self._instruments, for_server.instruments)

    def _measure_send(self, event: SendEvent) -> None:
        duration = self._duration(event)
        if duration is None:
            return
        labels = {
            "topic": event.message.topic,
            "client_id": event.client.client_id,
            "invocation_status": _status(event),
        }
        for each in self._meters(event.client.client_id):
            each.send_cost.record(duration, labels)

    def _measure_arrival(self, event: DeliverEvent) -> None:
        self._in_flight.arrived(event.message, event.client, _now())
        if event.position != 0 or event.server_deliver_us is None:
            return
        latency = time.time() * 1000 - event.server_deliver_us / 1000
        # Only the first message of an answer counts; a negative latency shows that clocks disagree
        # (client-behaviour.md, 14.2).
        if latency >= 0:
            for each in self._meters(event.client.client_id):
                each.delivery_latency.record(latency, _consumer_labels(event))

    def _measure_handling(self, event: HandleEvent) -> None:
        duration = self._duration(event)
        labels = _consumer_labels(event)
        if duration is not None:
            labels["invocation_status"] = _status(event)
            for each in self._meters(event.client.client_id):
                each.process_time.record(duration, labels)
            return
        arrival = self._in_flight.of(event.message)
        if arrival is not None:
            for each in self._meters(event.client.client_id):
                each.await_time.record((_now() - arrival.at) * 1000, labels)

    def _duration(self, event: Event) -> float | None:
        """Milliseconds since the operation of `event` began; None if `event` is its begin."""
        key = (event.client.client_id, event.operation or "")
        now = _now()
        if event.phase is Phase.INVOKE:
            self._began[key] = now
            return None
        return (now - self._began.pop(key, now)) * 1000


def _consumer_labels(event: DeliverEvent | HandleEvent) -> dict[str, str]:
    return {
        "topic": event.message.topic,
        "client_id": event.client.client_id,
        "consumer_group": event.client.group or "",
    }


def _ends_the_work(event: SettleEvent) -> bool:
    if isinstance(event, ChangeEvent):
        return event.reason is not ChangeReason.EXTEND
    return isinstance(event, AckEvent | ForwardEvent)


def _status(event: Event) -> str:
    return "success" if event.phase is Phase.OK else "failure"


def _now() -> float:
    return asyncio.get_running_loop().time()
