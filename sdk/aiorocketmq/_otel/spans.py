"""Spans by OpenTelemetry's messaging conventions, their context carried in the properties of messages."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from weakref import WeakKeyDictionary

from opentelemetry import propagate, trace
from opentelemetry.context import Context, get_current
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
)
from opentelemetry.util.types import AttributeValue

from aiorocketmq._core.outcomes import RetryLater
from aiorocketmq._otel.in_flight import InFlight
from aiorocketmq.errors import RocketMQError
from aiorocketmq.hooks import (
    AckEvent,
    ChangeEvent,
    ChangeReason,
    DeliverEvent,
    Phase,
    ReceiveEvent,
    Role,
    SendCall,
    SendEvent,
    SettleEvent,
)
from aiorocketmq.message import Message, ReceivedMessage, SendReceipt

Attributes = dict[str, AttributeValue]


class Spans:
    """Creates the spans of any number of clients."""

    def __init__(self, tracer: Tracer, in_flight: InFlight, *, links_only: bool) -> None:
        self._tracer = tracer
        self._in_flight = in_flight
        self._links_only = links_only
        self._sending: dict[int, Span] = {}
        self._settling: dict[tuple[str, str], Span] = {}
        self._polls: dict[tuple[str, str], tuple[int, list[ReceivedMessage]]] = {}
        self._processed: WeakKeyDictionary[ReceivedMessage, SpanContext] = WeakKeyDictionary()

    # Sending

    async def send(self, message: Message, call: SendCall) -> SendReceipt:
        """Send `message` with the context of a span of its own in its properties."""
        span = self._tracer.start_span(
            f"send {message.topic}", kind=SpanKind.PRODUCER, attributes=_of_message_to_send(message)
        )
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            carrier: dict[str, str] = {}
            propagate.inject(carrier)
            # Always a copy: the same message may be sent several times at once.
            message = replace(message, properties={**message.properties, **carrier})
            self._sending[id(message)] = span
            try:
                receipt = await call(message)
            except BaseException as error:
                _failed(span, error)
                raise
            finally:
                del self._sending[id(message)]
            if span.is_recording():
                span.set_attributes(_of_receipt(receipt))
            return receipt

    def tried(self, event: SendEvent) -> None:
        """Record on its span which client sends a message, and each attempt after the first."""
        span = self._sending.get(id(event.message))
        if span is None or not span.is_recording():
            return
        if event.attempt == 1 and event.phase is Phase.INVOKE:
            span.set_attributes(
                {"messaging.client.id": event.client.client_id, "messaging.message.id": event.message_id}
            )
        elif event.error is not None:
            span.add_event("attempt failed", {"attempt": event.attempt, "error": event.error.text})

    # Receiving

    def polled(self, event: ReceiveEvent | DeliverEvent) -> None:
        """Create a span of each poll that returned messages, linked to the sends."""
        key = (event.client.client_id, event.operation or "")
        if isinstance(event, DeliverEvent):
            if key in self._polls:
                self._polls[key][1].append(event.message)
            return
        if event.phase is Phase.INVOKE:
            self._polls[key] = (time.time_ns(), [])
            return
        began, messages = self._polls.pop(key, (0, []))
        if not messages and event.error is None:
            return
        topic = event.queue.topic
        span = self._tracer.start_span(
            f"receive {topic}",
            # The polls of a push consumer belong to no trace, also if the task that started it has one.
            context=Context() if event.client.role is Role.PUSH else None,
            kind=SpanKind.CLIENT,
            start_time=began or None,
            links=[Link(each) for each in map(_sent_in, messages) if each is not None],
            attributes=_common("receive", topic)
            | _of_group(event.client.group)
            | {"messaging.client.id": event.client.client_id, "messaging.batch.message_count": event.count},
        )
        if event.error is not None:
            _failed(span, event.error)
        span.end()

    # Processing and settling

    @contextmanager
    def processing(self, message: ReceivedMessage, context: Context | None = None) -> Iterator[Span]:
        """Return a span around the work on one message; `context` replaces the current one if the message has none."""
        context = get_current() if context is None else context
        sent_in = _sent_in(message)
        attributes = _of_received(message)
        arrival = self._in_flight.of(message)
        if arrival is not None:
            attributes["messaging.client.id"] = arrival.client.client_id
        with self._tracer.start_as_current_span(
            f"process {message.topic}",
            context=context if self._links_only else _extracted(message, context),
            kind=SpanKind.CONSUMER,
            links=[] if sent_in is None else [Link(sent_in)],
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            self._processed[message] = span.get_span_context()
            try:
                yield span
            except BaseException as error:
                _failed(span, error)
                raise

    def settled(self, event: SettleEvent) -> None:
        """Create a span of each ack, change and forward, below that of the work on the message."""
        key = (event.client.client_id, event.operation or "")
        if event.phase is not Phase.INVOKE:
            span = self._settling.pop(key, None)
            if span is not None:
                if event.phase is not Phase.OK:
                    _failed(span, event.error)
                span.end()
            return
        message = event.message
        above = self._processed.get(message)
        context = (
            trace.set_span_in_context(NonRecordingSpan(above), Context())
            if above
            else _extracted(message, Context())
        )
        name = _settling_name(event)
        self._settling[key] = self._tracer.start_span(
            f"{name} {message.topic}",
            context=context,
            kind=SpanKind.CLIENT,
            attributes=_of_received(message)
            | _common(name, message.topic, kind="settle")
            | {"messaging.client.id": event.client.client_id},
        )


def _settling_name(event: SettleEvent) -> str:
    if isinstance(event, AckEvent):
        return "ack"
    if isinstance(event, ChangeEvent):
        return "extend" if event.reason is ChangeReason.EXTEND else "release"
    return "dead_letter"


def _extracted(message: ReceivedMessage, context: Context | None = None) -> Context:
    """The context in the message's properties or in its trace context."""
    carrier: dict[str, str] = dict(message.properties)
    if message.trace_context and "traceparent" not in carrier:
        carrier["traceparent"] = message.trace_context
    return propagate.extract(carrier, context)


def _sent_in(message: ReceivedMessage) -> SpanContext | None:
    # An empty context; otherwise the receiver's own would be taken for that of the sender.
    context = trace.get_current_span(_extracted(message, Context())).get_span_context()
    return context if context.is_valid else None


def _failed(span: Span, error: BaseException | None) -> None:
    """Record an error on a span; a handler's RetryLater is none."""
    if not span.is_recording() or isinstance(error, RetryLater):
        return
    kind = "unknown" if error is None else type(error).__qualname__
    if isinstance(error, RocketMQError) and error.code_name is not None:
        kind = error.code_name
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, None if error is None else str(error)))
    if error is not None and not isinstance(error, RocketMQError):
        span.record_exception(error)


def _common(operation: str, topic: str, *, kind: str | None = None) -> Attributes:
    return {
        "messaging.system": "rocketmq",
        "messaging.operation.name": operation,
        "messaging.operation.type": kind or operation,
        "messaging.destination.name": topic,
    }


def _of_group(group: str | None) -> Attributes:
    return {} if group is None else {"messaging.consumer.group.name": group}


def _of_content(tag: str | None, keys: Iterable[str], message_group: str | None, size: int) -> Attributes:
    attributes: Attributes = {"messaging.message.body.size": size}
    if tag is not None:
        attributes["messaging.rocketmq.message.tag"] = tag
    if keys:
        attributes["messaging.rocketmq.message.keys"] = tuple(keys)
    if message_group is not None:
        attributes["messaging.rocketmq.message.group"] = message_group
    return attributes


def _of_message_to_send(message: Message) -> Attributes:
    attributes = _common("send", message.topic) | _of_content(
        message.tag, message.keys, message.message_group, len(message.body)
    )
    attributes["messaging.rocketmq.message.type"] = message.message_type.value.lower()
    if message.deliver_at is not None:
        attributes["messaging.rocketmq.message.delivery_timestamp"] = round(
            message.deliver_at.timestamp() * 1000
        )
    return attributes


def _of_receipt(receipt: SendReceipt) -> Attributes:
    attributes: Attributes = {"messaging.message.id": receipt.message_id}
    host, _, port = receipt.endpoint.partition(";")[0].rpartition(":")
    if host:
        attributes |= {"server.address": host.strip("[]"), "server.port": int(port)}
    return attributes


def _of_received(message: ReceivedMessage) -> Attributes:
    attributes = (
        _common("process", message.topic)
        | _of_group(message.group)
        | _of_content(message.tag, message.keys, message.message_group, len(message.body))
    )
    attributes["messaging.message.id"] = message.message_id
    attributes["messaging.destination.partition.id"] = str(message.queue.id)
    if message.message_type is not None:
        attributes["messaging.rocketmq.message.type"] = message.message_type.value.lower()
    return attributes
