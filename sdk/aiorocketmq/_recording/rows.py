"""Cells of a recording's rows, made from client events (docs/reference/recording.md).

Rows are tuples, and all of one shape have the same columns: so they become columns in one step, at a third of the cost
of a mapping per row. Most rows contain location and names of a message: those of the frequent shapes refer to the
message instead, and its columns are filled in for all of them at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from aiorocketmq.errors import ServerError, TopicUnavailableError, UnreachableError
from aiorocketmq.hooks import (
    AckEvent,
    AssignEvent,
    ChangeEvent,
    ClientEvent,
    CommitEvent,
    DeliverEvent,
    Event,
    ForwardEvent,
    HandleEvent,
    LiteSyncEvent,
    LockEvent,
    Phase,
    RecallEvent,
    ReceiveEvent,
    SeekEvent,
    SendEvent,
    SettingsEvent,
    SettleEvent,
    TransactionCheckEvent,
    TransactionEndEvent,
)
from aiorocketmq.message import Message, MessageQueue, ReceivedMessage, SendReceipt
from aiorocketmq.recording_format import content_of, digest_of, fingerprint
from aiorocketmq.subscription import Sql, Tags

Cells: TypeAlias = tuple[object, ...]
"""Values of some columns of one row."""

HEAD = ("seq", "kind", "t_wall_us", "t_mono_ns", "t_real_us", "epoch", "invoked_us", "invoked_seq")
"""Columns of all rows."""
CLIENT = ("client_id", "role", "group", "code")
"""Columns of all rows of client events."""
OPERATION = ("phase", "op_id")
"""Columns of calls and their completions."""

# Names for members that are used for every message: the look-up on its enum takes several times as long.
_INVOKE, _OK, _SINGLE = Phase.INVOKE, Phase.OK, Phase.SINGLE


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """How events of one type become rows."""

    columns: tuple[str, ...]
    """All columns, those of every row included."""
    cells: Callable[[Any], Cells] = lambda event: ()
    """Returns the values of the columns that only this type has."""
    kind: str | None = None
    """The kind of row; None if that depends on the event."""
    is_operation: bool = False
    placed: tuple[str, ...] = ()
    """Columns of the message whose position in the sheet is the last cell."""


def shape_of(
    kind: str | None, cells: Callable[[Any], Cells], *columns: str, is_operation: bool = False
) -> Shape:
    """Return the shape of a type of event that has these columns of its own."""
    operation = OPERATION if is_operation else ()
    return Shape((*HEAD, *CLIENT, *operation, *columns), cells, kind, is_operation)


def _placed_shape(*columns: str, placed: tuple[str, ...]) -> Shape:
    """Return the shape of frequent records about one message."""
    return Shape((*HEAD, *CLIENT, *columns, "message"), placed=placed)


START = Shape((*HEAD, "cfg"), kind="recorder.start")
END = Shape(HEAD, kind="recorder.end")
DRAIN = Shape((*HEAD, "group", "topic"), kind="drain.ok")
FAULT = Shape((*HEAD, "fault"), kind="fault")
"""Rows without a client: of the recorder itself, or about a server."""


class Sheet:
    """Rows that become one row group, by shape, and the messages that some of them refer to."""

    __slots__ = ("_places", "messages", "rows")

    def __init__(self) -> None:
        self.rows: dict[Shape, list[Cells]] = defaultdict(list)
        self.messages: list[Cells] = []
        """Their values of the columns `PLACED`."""
        self._places: dict[int, int] = {}

    @property
    def count(self) -> int:
        """The number of rows."""
        return sum(map(len, self.rows.values()))

    def place_of(self, serial: int) -> int | None:
        """The position of a message; None if it has none yet."""
        return self._places.get(serial)

    def place(self, serial: int, cells: Cells) -> int:
        """Add a message and return its position."""
        place = self._places[serial] = len(self.messages)
        self.messages.append(cells)
        return place


def kind_of(event: Event) -> str | None:
    """The kind of row for an event whose shape has none; None for one that is not recorded."""
    phase = event.phase
    if type(event) is HandleEvent:
        return "handle.start" if phase is _INVOKE else "handle.end"
    if type(event) is LockEvent:
        return "unlock" if event.is_release else "lock"
    assert isinstance(event, ClientEvent)
    if event.running:
        return "client.start" if phase is _OK or phase is _SINGLE else None
    return "client.stop" if phase is not _INVOKE else None


def has_stopped(event: ClientEvent) -> bool:
    """Whether a client has stopped with this event."""
    if event.running:
        return event.phase is Phase.FAIL
    return event.phase is not _INVOKE


_CONTENT = ("body_sha", "props_sha", "producer", "pseq")


PLACED = (
    *("topic", "lite_topic", "broker", "queue", "offset"),
    *("message_id", "message_group", "tag", "priority", "delivery"),
)
"""Columns of a message; the last one only for deliveries and their settling."""

_IDENTIFIED = (*PLACED[:-1], "attempt")


def placed(message: ReceivedMessage) -> Cells:
    """All values of `PLACED` but the delivery."""
    queue = message.queue
    return (
        message.topic,
        message.lite_topic,
        queue.broker,
        queue.id,
        message.offset,
        message.message_id,
        message.message_group,
        message.tag,
        message.priority,
    )


def _identified(message: ReceivedMessage, attempt: int | None) -> Cells:
    return (*placed(message), message.attempt if attempt is None else attempt)


def sent(message: Message, message_id: str, due_us: int | None, attempt: int) -> Cells:
    """What begin and completion of a send have in common."""
    return (
        message.topic,
        message.lite_topic,
        message_id,
        message.message_group,
        message.tag,
        message.priority,
        due_us,
        attempt,
        *content_of(digest_of(message.body), message.properties),
    )


def stored(receipt: SendReceipt | None, *, is_half: bool) -> Cells:
    """What only the successful completion of a send has."""
    if receipt is None:
        return None, None
    # Servers choose the queue, and receipts do not contain it: no row may claim it. And they assign every message a
    # transaction id (R4.12).
    return receipt.offset, receipt.transaction_id if is_half else None


def _send(event: SendEvent) -> Cells:
    return sent(event.message, event.message_id, event.due_us, event.attempt) + stored(
        event.receipt, is_half=event.is_half
    )


def _recall(event: RecallEvent) -> Cells:
    return event.topic, event.message_id


def _transaction_end(event: TransactionEndEvent) -> Cells:
    source = "check" if event.from_check else "client"
    return event.topic, event.message_id, event.transaction_id, event.resolution.value, source


def _transaction_check(event: TransactionCheckEvent) -> Cells:
    return event.message.topic, event.message.message_id, event.transaction_id


def _receive(event: ReceiveEvent) -> Cells:
    queue = event.queue
    return (
        queue.topic,
        queue.broker,
        queue.id if queue.id >= 0 else None,
        milliseconds(event.invisible),
        event.auto_renew,
        event.attempt_id,
        filter_text(event.filter),
        "away" if isinstance(event.error, (UnreachableError, ServerError, TopicUnavailableError)) else None,
    )


def _deliver(event: DeliverEvent) -> Cells:
    # Pull consumers receive messages without a lease.
    message, name = event.message, fingerprint(event.handle) if event.handle else None
    return (
        *_identified(message, event.attempt),
        *content_of(digest_of(message.body), message.properties),
        name,
        name,
        None if event.operation is None else f"{event.client.client_id}/{event.operation}",
        event.position,
        event.attempt_id,
        filter_text(event.filter),
        milliseconds(event.invisible),
        event.auto_renew,
        message._deliver_us,
        message._born_us,
        message._stored_us,
        event.server_deliver_us,
        message.transaction_id,
    )


def _settle(event: SettleEvent) -> Cells:
    names = fingerprint(event.delivery), fingerprint(event.handle)
    return _identified(event.message, event.attempt) + names


def _change(event: ChangeEvent) -> Cells:
    previous = event.previous_handle
    return (
        *_settle(event),
        milliseconds(event.invisible),
        event.reason.value,
        fingerprint(previous) if previous is not None else None,
    )


def _handle(event: HandleEvent) -> Cells:
    result = None if event.phase is _INVOKE else "success" if event.phase is _OK else "failure"
    return _identified(event.message, event.attempt) + (result,)  # noqa: RUF005  # unpacking takes twice as long


def by_topic(event: AssignEvent) -> list[AssignEvent]:
    """Split an assignment by topic, since a row has one topic."""

    def of(queues: Iterable[MessageQueue], topic: str) -> tuple[MessageQueue, ...]:
        return tuple(queue for queue in queues if queue.topic == topic)

    topics = dict.fromkeys(queue.topic for queue in (*event.queues, *event.revoked))
    return [
        replace(event, queues=of(event.queues, topic), revoked=of(event.revoked, topic)) for topic in topics
    ]


def _assign(event: AssignEvent) -> Cells:
    """The cells of an assignment of one topic."""
    topic = (*event.queues, *event.revoked)[0].topic
    queues = [{"broker": queue.broker, "queue": queue.id} for queue in event.queues]
    return topic, queues, event.generation, {"grain": event.grain.value}


def _lock(event: LockEvent) -> Cells:
    queue = event.queue
    return queue.topic, queue.broker, queue.id


def _progress(event: CommitEvent | SeekEvent) -> Cells:
    queue = event.queue
    return queue.topic, queue.broker, queue.id, event.offset


def _lite_sync(event: LiteSyncEvent) -> Cells:
    # Names of lite topics have no commas (R4.31).
    return event.topic, {event.change.value: ",".join(event.lite_topics)}


def _settings(event: SettingsEvent) -> Cells:
    cfg = {"ordered": "true" if event.ordered else "false"}
    if event.max_attempts is not None:
        cfg["max_attempts"] = str(event.max_attempts)
    if event.steps:
        cfg["steps_ms"] = ",".join(str(milliseconds(step)) for step in event.steps)
    if event.order_grain is not None:
        cfg["order_grain"] = event.order_grain
    return (cfg,)


def _client(event: ClientEvent) -> Cells:
    del event
    return ()


def filter_text(wanted: Tags | Sql | None) -> str | None:
    """A filter in the form of rows."""
    if wanted is None:
        return None
    return f"{'SQL92' if isinstance(wanted, Sql) else 'TAG'}:{wanted.expression}"


def milliseconds(seconds: float | None) -> int | None:
    """A duration in the form of rows."""
    return None if seconds is None else round(seconds * 1000)


_SENT = (
    *("topic", "lite_topic", "message_id", "message_group", "tag", "priority", "due_us", "attempt"),
    *(*_CONTENT, "offset", "tx_id"),
)
_CAME = (
    *("batch", "batch_pos", "receive_attempt", "filter", "invisible_ms", "auto_renew"),
    *("due_us", "born_us", "store_us", "server_deliver_us", "tx_id"),
)
_POLLED = ("topic", "broker", "queue", "invisible_ms", "auto_renew", "receive_attempt", "filter")
_ENDED = ("topic", "message_id", "tx_id", "resolution", "source")
_SETTLED = (*_IDENTIFIED, "delivery", "handle")
_CHANGED = (*_SETTLED, "invisible_ms", "reason", "prev_handle")
_PROGRESS = ("topic", "broker", "queue", "commit_offset")

SHAPES: dict[type[Event], Shape] = {
    SendEvent: shape_of("send", _send, *_SENT, is_operation=True),
    RecallEvent: shape_of("recall", _recall, "topic", "message_id", is_operation=True),
    TransactionEndEvent: shape_of("tx.end", _transaction_end, *_ENDED, is_operation=True),
    TransactionCheckEvent: shape_of("tx.check", _transaction_check, "topic", "message_id", "tx_id"),
    ReceiveEvent: shape_of("receive", _receive, *_POLLED, "result", is_operation=True),
    DeliverEvent: shape_of("deliver", _deliver, *_IDENTIFIED, *_CONTENT, "delivery", "handle", *_CAME),
    AckEvent: shape_of("ack", _settle, *_SETTLED, is_operation=True),
    ChangeEvent: shape_of("change", _change, *_CHANGED, is_operation=True),
    ForwardEvent: shape_of("forward", _settle, *_SETTLED, is_operation=True),
    HandleEvent: shape_of(None, _handle, *_IDENTIFIED, "result"),
    AssignEvent: shape_of("assign", _assign, "topic", "queues", "generation", "cfg"),
    LockEvent: shape_of(None, _lock, "topic", "broker", "queue", is_operation=True),
    CommitEvent: shape_of("commit", _progress, *_PROGRESS),
    SeekEvent: shape_of("seek", _progress, *_PROGRESS),
    LiteSyncEvent: shape_of("lite.sync", _lite_sync, "topic", "cfg", is_operation=True),
    SettingsEvent: shape_of("config", _settings, "cfg"),
    ClientEvent: shape_of(None, _client),
}
"""Events of other types are not recorded."""

SEND = SHAPES[SendEvent]
DELIVER = SHAPES[DeliverEvent]
RECEIVE = SHAPES[ReceiveEvent]
PLACED_DELIVER = _placed_shape("attempt", *_CONTENT, "handle", *_CAME, placed=PLACED)
PLACED_HANDLE = _placed_shape("attempt", "result", placed=PLACED[:-1])
PLACED_ACK = _placed_shape(*OPERATION, "attempt", "handle", placed=PLACED)
"""Shapes of high-frequency events."""

BY_NUMBER = tuple(SHAPES.values())
NUMBERS = {shape: number for number, shape in enumerate(BY_NUMBER)}
"""Shapes as used in records."""
