"""Records of client events: tuples of plain values, which are cheap to create, keep and send to another process
(docs/reference/recording.md).

A record begins with its kind and its time: the wall clock, the monotonic one, and the machine's if the clock is
replaced, in nanoseconds. Frequent events have kinds of their own, without event objects; all others are `EVENT`. Kinds
from `RAW` on still have the client's objects, so that the event loop leaves their processing to a thread."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from aiorocketmq._recording.rows import (
    NUMBERS,
    SHAPES,
    filter_text,
    has_stopped,
    kind_of,
    milliseconds,
    placed,
    sent,
)
from aiorocketmq._session.conversion import Read, Travelled, properties_of
from aiorocketmq._session.events import Answer, Sent
from aiorocketmq.hooks import (
    AckEvent,
    ChangeEvent,
    ClientEvent,
    DeliverEvent,
    Event,
    ForwardEvent,
    HandleEvent,
    ReceiveEvent,
    SendEvent,
    TransactionEndEvent,
)
from aiorocketmq.message import ReceivedMessage
from aiorocketmq.recording_format import digest_of, fingerprint

Record: TypeAlias = tuple[Any, ...]
"""The kind, three times, and the fields of that kind; no tuple type can express that, hence Any."""

Note: TypeAlias = tuple[Any, ...]
"""What an event means for `Drains`: the name of a method, and arguments. Any, as for records."""

Shared: TypeAlias = tuple[str, bool, float, "int | None", "str | None", "str | None", "int | None", bool]
"""What all messages of an answer share: the broker, whether they are leased and for how many seconds, the server's
clock; then in the form of rows, attempt id, filter, lease and whether the server renews it."""

BEGIN, END, LEFT_OUT, FAULT, CLIENT, MESSAGE, EVENT = range(7)
DELIVERED, HANDLING, HANDLED, ACKING, ACKED, SENDING, SENT = range(7, 14)
RAW = 64
RAW_EVENT, RAW_DELIVERED, RAW_SENDING, RAW_MESSAGE = range(RAW, RAW + 4)

STOPPED = "stopped"
"""The note of a client that has stopped; for the row builder, not for drains."""

SERVERS_LEASE = 60.0
"""The lease of a poll that specifies none, in seconds."""


def plain(records: Iterable[Record]) -> list[Record]:
    """Return the same records without objects of the client."""
    return [record if record[0] < RAW else _PLAIN[record[0]](*record[1:]) for record in records]


def packed(records: Sequence[Record]) -> bytes:
    """Facts for another process."""
    listed: Any = list(records)  # Any, as for records
    try:
        return marshal.dumps(listed)
    except ValueError:
        return marshal.dumps(exact(listed))


def exact(value: Any) -> Any:
    """Return the same value with built-in types instead of subclasses such as members of a StrEnum."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, dict):
        return {exact(key): exact(each) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)([exact(each) for each in value])
    return value


def note_of(event: Event, wall_us: int) -> Note | None:
    """Return the meaning of an event for drains, None if it has none."""
    make = _NOTES.get(type(event))
    return None if make is None else make(event, wall_us)


def _of_event(wall_ns: int, mono_ns: int, real_ns: int | None, event: Event) -> Record:
    shape = SHAPES.get(type(event))
    kind = None if shape is None else shape.kind or kind_of(event)
    cells = () if shape is None or kind is None else shape.cells(event)
    return (
        *(EVENT, wall_ns, mono_ns, real_ns, event.client.client_id),
        0 if shape is None else NUMBERS[shape],
        kind,
        event.phase.value,
        event.operation,
        None if event.error is None else event.error.code,
        cells,
        note_of(event, wall_ns // 1000),
    )


def _of_delivered(
    wall_ns: int,
    mono_ns: int,
    real_ns: int | None,
    client_id: str,
    answer: Answer,
    first: int,
    messages: Sequence[ReceivedMessage],
    wires: Sequence[Travelled | None],
) -> Record:
    entries = [
        (
            message.topic,
            digest_of(message.body),
            _read(message) if wire is None else properties_of(wire),
        )
        for message, wire in zip(messages, wires, strict=True)
    ]
    shared: Shared = (
        *(answer.broker, answer.is_leased, lease_of(answer.invisible), answer.server_us),
        *(answer.attempt_id, filter_text(answer.filter), milliseconds(answer.invisible), answer.auto_renew),
    )
    return DELIVERED, wall_ns, mono_ns, real_ns, client_id, answer.operation, shared, first, entries


def _read(message: ReceivedMessage) -> Read:
    """Return the result of `properties_from` for a message that was not received over gRPC."""
    named = (
        *(message.lite_topic, message.queue.id, message.offset, message.message_id),
        *(message.message_group, message.tag, message.priority),
    )
    times = (message._deliver_us, message._born_us, message._stored_us)
    return named, (message.attempt, "", *times, message.transaction_id), dict(message.properties)


def _of_sending(wall_ns: int, mono_ns: int, real_ns: int | None, client_id: str, told: Sent) -> Record:
    cells = sent(told.message, told.message_id, told.due_us, told.attempt)
    delay = _delay(told.due_us, wall_ns // 1000)
    return SENDING, wall_ns, mono_ns, real_ns, client_id, told.operation, cells, delay


def _of_message(
    wall_ns: int, mono_ns: int, real_ns: int | None, serial: int, message: ReceivedMessage
) -> Record:
    lease = message._lease
    delivery = None if lease is None else fingerprint(lease.first_handle)
    return MESSAGE, wall_ns, mono_ns, real_ns, serial, (*placed(message), delivery)


_PLAIN: dict[int, Callable[..., Record]] = {
    RAW_EVENT: _of_event,
    RAW_DELIVERED: _of_delivered,
    RAW_SENDING: _of_sending,
    RAW_MESSAGE: _of_message,
}


def _sent(event: SendEvent, wall_us: int) -> Note:
    return "sent", event.message.topic, _delay(event.due_us, wall_us)


def _resolved(event: TransactionEndEvent, wall_us: int) -> Note:
    del wall_us
    return "resolved", event.topic


def _delivered(event: DeliverEvent, wall_us: int) -> Note:
    del wall_us
    is_fit = not event.auto_renew and event.message.lite_topic is None
    return "delivered", event.message.topic, lease_of(event.invisible), is_fit


def _moved(event: HandleEvent | AckEvent | ForwardEvent, wall_us: int) -> Note:
    del wall_us
    return "moved", event.message.topic


def _kept_back(event: ChangeEvent, wall_us: int) -> Note:
    del wall_us
    return "kept_back", event.message.topic, event.invisible


def _polled(event: ReceiveEvent, wall_us: int) -> Note:
    del wall_us
    queue = event.queue
    return (
        *("polled", queue.topic, event.operation, event.phase.value, queue.broker, queue.id, event.count),
        *(lease_of(event.invisible), filter_text(event.filter)),
        tuple([(each.broker, each.id) for each in event.readable]),
    )


def _lived(event: ClientEvent, wall_us: int) -> Note | None:
    del wall_us
    return (STOPPED,) if has_stopped(event) else None


_NOTES: dict[type[Event], Callable[[Any, int], Note | None]] = {
    SendEvent: _sent,
    TransactionEndEvent: _resolved,
    DeliverEvent: _delivered,
    HandleEvent: _moved,
    AckEvent: _moved,
    ForwardEvent: _moved,
    ChangeEvent: _kept_back,
    ReceiveEvent: _polled,
    ClientEvent: _lived,
}


def _delay(due_us: int | None, wall_us: int) -> float:
    """How long a message that is sent now is delayed, in seconds."""
    return 0.0 if due_us is None else (due_us - wall_us) / 1e6


def lease_of(invisible: float | None) -> float:
    """The lease of a poll's messages in seconds."""
    return SERVERS_LEASE if invisible is None else invisible
