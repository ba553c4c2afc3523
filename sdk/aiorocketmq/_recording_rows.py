"""From a client's events to rows of a recording (docs/reference/recording.md); runs on the recording's thread."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

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
from aiorocketmq.message import ReceivedMessage
from aiorocketmq.subscription import Sql, Tags

Cells: TypeAlias = dict[str, object]
"""Some columns of a row."""

PRODUCER_PROPERTY, SERIAL_PROPERTY = "audit-producer", "audit-serial"
"""User properties by which an application may number its messages itself."""

_NO_PROPERTIES = hashlib.sha256(b"{}").hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Fact:
    """An event with what had to be noted at its moment; `event` is None for what the recorder says by itself."""

    seq: int
    kind: str
    wall_us: int
    mono_ns: int
    real_us: int | None
    epoch: int | None
    invoked_us: int | None
    invoked_seq: int | None
    event: Event | None
    own: Mapping[str, object] | None = None
    """Columns of what the recorder says by itself."""


def row_of(fact: Fact) -> Cells:
    """One row, without the columns that are the same for the whole recorder."""
    row: Cells = {
        "seq": fact.seq,
        "kind": fact.kind,
        "t_wall_us": fact.wall_us,
        "t_mono_ns": fact.mono_ns,
        "t_real_us": fact.real_us,
        "epoch": fact.epoch,
        "invoked_us": fact.invoked_us,
        "invoked_seq": fact.invoked_seq,
    }
    event = fact.event
    if event is None:
        return row | dict(fact.own or {})
    row["client_id"] = event.client.client_id
    row["role"] = event.client.role.value
    row["group"] = event.client.group
    if event.error is not None:
        row["code"] = event.error.code
    if type(event) in _OPERATIONS:
        row["phase"] = event.phase.value if event.phase is not Phase.SINGLE else None
        row["op_id"] = operation_id(event)
    row |= _CELLS[type(event)](event)
    return row


def operation_id(event: Event) -> str | None:
    """The operation's id, unique in the recorder: clients number theirs alone."""
    return None if event.operation is None else f"{event.client.client_id}/{event.operation}"


def kind_of(event: Event) -> str | None:
    """The kind of row that `event` becomes, None for one that is not recorded."""
    kind = _KINDS.get(type(event))
    if kind is not None:
        return kind
    if isinstance(event, HandleEvent):
        return "handle.start" if event.phase is Phase.INVOKE else "handle.end"
    if isinstance(event, ClientEvent):
        if event.running:
            return "client.start" if event.phase in (Phase.OK, Phase.SINGLE) else None
        return "client.stop" if event.phase is not Phase.INVOKE else None
    return None


def fingerprint(text: str) -> str:
    """What stands for a receipt handle: handles are long, and may be secrets of a kind."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _send(event: Event) -> Cells:
    assert isinstance(event, SendEvent)
    message, receipt = event.message, event.receipt
    cells = _content(message.body, message.properties) | {
        "topic": message.topic,
        "lite_topic": message.lite_topic,
        "message_id": event.message_id,
        "message_group": message.message_group,
        "tag": message.tag,
        "priority": message.priority,
        "due_us": event.due_us,
        "attempt": event.attempt,
    }
    if receipt is not None:
        # Servers choose the queue by themselves, and receipts do not tell which: no row may claim to know it.
        cells["offset"] = receipt.offset
        if event.is_half:  # servers give every message such an id (R4.12)
            cells["tx_id"] = receipt.transaction_id
    return cells


def _content(body: bytes, properties: Mapping[str, str]) -> Cells:
    if not properties:
        return {"body_sha": hashlib.sha256(body).hexdigest()[:32], "props_sha": _NO_PROPERTIES}
    text = json.dumps(dict(properties), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    serial = properties.get(SERIAL_PROPERTY, "")
    return {
        "body_sha": hashlib.sha256(body).hexdigest()[:32],
        "props_sha": hashlib.sha256(text.encode()).hexdigest()[:32],
        "producer": properties.get(PRODUCER_PROPERTY),
        "pseq": int(serial) if serial.isdecimal() and len(serial) < 19 else None,
    }


def _recall(event: Event) -> Cells:
    assert isinstance(event, RecallEvent)
    return {"topic": event.topic, "message_id": event.message_id}


def _transaction_end(event: Event) -> Cells:
    assert isinstance(event, TransactionEndEvent)
    return {
        "topic": event.topic,
        "message_id": event.message_id,
        "tx_id": event.transaction_id,
        "resolution": event.resolution.value,
        "source": "check" if event.from_check else "client",
    }


def _transaction_check(event: Event) -> Cells:
    assert isinstance(event, TransactionCheckEvent)
    return {
        "topic": event.message.topic,
        "message_id": event.message.message_id,
        "tx_id": event.transaction_id,
    }


def _receive(event: Event) -> Cells:
    assert isinstance(event, ReceiveEvent)
    return {
        "topic": event.queue.topic,
        "broker": event.queue.broker,
        "queue": event.queue.id if event.queue.id >= 0 else None,
        "invisible_ms": _milliseconds(event.invisible),
        "auto_renew": event.auto_renew,
        "receive_attempt": event.attempt_id,
    }


def _placed(message: ReceivedMessage) -> Cells:
    return {
        "topic": message.topic,
        "lite_topic": message.lite_topic,
        "broker": message.queue.broker,
        "queue": message.queue.id,
        "offset": message.offset,
        "message_id": message.message_id,
        "message_group": message.message_group,
        "tag": message.tag,
        "priority": message.priority,
        "attempt": message.attempt,
    }


def _deliver(event: Event) -> Cells:
    assert isinstance(event, DeliverEvent)
    # Pull consumers are handed messages without a lease.
    message, name = event.message, fingerprint(event.handle) if event.handle else None
    cells = _placed(message) | _content(message.body, message.properties)
    return cells | {
        "delivery": name,
        "handle": name,
        "batch": operation_id(event),
        "batch_pos": event.position,
        "receive_attempt": event.attempt_id,
        "filter": _filter(event.filter),
        "invisible_ms": _milliseconds(event.invisible),
        "auto_renew": event.auto_renew,
        "due_us": message._deliver_us,
        "born_us": message._born_us,
        "store_us": message._stored_us,
        "server_deliver_us": event.server_deliver_us,
        "tx_id": message.transaction_id,
    }


def _settle(event: Event) -> Cells:
    assert isinstance(event, SettleEvent)
    cells = _placed(event.message)
    return cells | {"delivery": fingerprint(event.delivery), "handle": fingerprint(event.handle)}


def _change(event: Event) -> Cells:
    assert isinstance(event, ChangeEvent)
    previous = event.previous_handle
    return _settle(event) | {
        "invisible_ms": _milliseconds(event.invisible),
        "reason": event.reason.value,
        "prev_handle": fingerprint(previous) if previous is not None else None,
    }


def _handle(event: Event) -> Cells:
    assert isinstance(event, HandleEvent)
    cells = _placed(event.message)
    if event.phase is not Phase.INVOKE:
        cells["result"] = "success" if event.phase is Phase.OK else "failure"
    return cells


def _assign(event: Event) -> Cells:
    assert isinstance(event, AssignEvent)
    topics = {queue.topic for queue in event.queues}
    return {
        "topic": topics.pop() if len(topics) == 1 else None,
        "queues": [{"broker": queue.broker, "queue": queue.id} for queue in event.queues],
        "generation": event.generation,
    }


def _progress(event: Event) -> Cells:
    assert isinstance(event, CommitEvent | SeekEvent)
    queue = event.queue
    return {"topic": queue.topic, "broker": queue.broker, "queue": queue.id, "commit_offset": event.offset}


def _lite_sync(event: Event) -> Cells:
    assert isinstance(event, LiteSyncEvent)
    # Names of lite topics have no commas (R4.31).
    return {"topic": event.topic, "cfg": {event.change.value: ",".join(event.lite_topics)}}


def _settings(event: Event) -> Cells:
    assert isinstance(event, SettingsEvent)
    cfg = {"ordered": "true" if event.ordered else "false"}
    if event.max_attempts is not None:
        cfg["max_attempts"] = str(event.max_attempts)
    if event.steps:
        cfg["steps_ms"] = ",".join(str(_milliseconds(step)) for step in event.steps)
    if event.order_grain is not None:
        cfg["order_grain"] = event.order_grain
    return {"cfg": cfg}


def _client(event: Event) -> Cells:
    del event
    return {}


def _filter(wanted: Tags | Sql | None) -> str | None:
    if wanted is None:
        return None
    return f"{'SQL92' if isinstance(wanted, Sql) else 'TAG'}:{wanted.expression}"


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


_KINDS: dict[type[Event], str] = {
    SendEvent: "send",
    RecallEvent: "recall",
    TransactionEndEvent: "tx.end",
    TransactionCheckEvent: "tx.check",
    ReceiveEvent: "receive",
    DeliverEvent: "deliver",
    AckEvent: "ack",
    ChangeEvent: "change",
    ForwardEvent: "forward",
    AssignEvent: "assign",
    CommitEvent: "commit",
    SeekEvent: "seek",
    LiteSyncEvent: "lite.sync",
    SettingsEvent: "config",
}
_CELLS: dict[type[Event], Callable[[Event], Cells]] = {
    SendEvent: _send,
    RecallEvent: _recall,
    TransactionEndEvent: _transaction_end,
    TransactionCheckEvent: _transaction_check,
    ReceiveEvent: _receive,
    DeliverEvent: _deliver,
    AckEvent: _settle,
    ChangeEvent: _change,
    ForwardEvent: _settle,
    HandleEvent: _handle,
    AssignEvent: _assign,
    CommitEvent: _progress,
    SeekEvent: _progress,
    LiteSyncEvent: _lite_sync,
    SettingsEvent: _settings,
    ClientEvent: _client,
}
_OPERATIONS = frozenset(
    {
        SendEvent,
        RecallEvent,
        TransactionEndEvent,
        ReceiveEvent,
        AckEvent,
        ChangeEvent,
        ForwardEvent,
        LiteSyncEvent,
    }
)
