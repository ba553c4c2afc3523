"""Converts events of the core to rows of a recording, as observed by the broker (docs/reference/recording.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from aiorocketmq import recording_format
from aiorocketmq.recording_format import content_of, digest_of

from aiorocketmq_fake.core.values import events
from aiorocketmq_fake.core.values.codes import ClientType, Code, FilterType, Resolution
from aiorocketmq_fake.core.values.model import FilterExpression, OutgoingMessage, StoredMessage
from aiorocketmq_fake.edge.drains import Drained

__all__ = ["is_recorded", "row_of"]

Cells: TypeAlias = dict[str, object]

ROLES = {
    ClientType.PRODUCER: "producer",
    ClientType.PUSH_CONSUMER: "push",
    ClientType.SIMPLE_CONSUMER: "simple",
    ClientType.PULL_CONSUMER: "pull",
    ClientType.LITE_PUSH_CONSUMER: "lite",
    ClientType.LITE_SIMPLE_CONSUMER: "lite",
}
# Codes of a receive without messages and without failure.
EMPTY = (Code.OK, Code.MESSAGE_NOT_FOUND)


def is_recorded(event: events.Event) -> bool:
    """Return whether `event` becomes a row: the broker's own copies and events without effect do not."""
    if isinstance(event, events.Stored):
        return event.reason is events.StoredAs.SENT
    if isinstance(event, events.Acked):
        return event.message is not None
    if isinstance(event, events.TransactionChecked):
        # Without a producer, no check was sent.
        return bool(event.client_id)
    if isinstance(event, events.GroupChanged):
        return not event.deleted
    return type(event) in _CELLS


def row_of(event: events.Event | Drained) -> Cells:
    """The cells of one event that is recorded, its time included."""
    cells = _CELLS[type(event)](event)
    cells["t_wall_us"] = _microseconds(event.at)
    if "phase" in cells:
        # Call and answer are one instant for the broker; a receive has its own start time.
        cells.setdefault("invoked_us", cells["t_wall_us"])
    return cells


def fingerprint(handle: str) -> str | None:
    """Return the digest of a receipt handle; None for none."""
    return recording_format.fingerprint(handle) if handle else None


def _microseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1e6)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _filter_text(filter_: FilterExpression) -> str:
    return f"{'SQL92' if filter_.type is FilterType.SQL else 'TAG'}:{filter_.expression}"


def _named(content: OutgoingMessage) -> Cells:
    return {
        "topic": content.topic,
        "lite_topic": content.lite_topic or None,
        "message_id": content.message_id,
        "message_group": content.message_group or None,
        "tag": content.tag or None,
        "priority": content.priority,
    }


def _digests(content: OutgoingMessage) -> Cells:
    cells = content_of(digest_of(content.body), content.properties)
    return dict(zip(("body_sha", "props_sha", "producer", "pseq"), cells, strict=True))


def _placed(message: StoredMessage) -> Cells:
    return _named(message.content) | {"queue": message.queue_id, "offset": message.offset}


def _stored(event: events.Stored) -> Cells:
    message = event.message
    return (
        _placed(message)
        | _digests(message.content)
        | {
            "kind": "send",
            "phase": "ok",
            "client_id": event.client_id,
            "role": "producer",
            "store_us": _microseconds(message.store_timestamp),
            "born_us": _microseconds(message.content.born_timestamp),
            "code": int(Code.OK),
        }
    )


def _prepared(event: events.Prepared) -> Cells:
    return (
        _named(event.message)
        | _digests(event.message)
        | {
            "kind": "send",
            "phase": "ok",
            "client_id": event.client_id,
            "role": "producer",
            "due_us": _microseconds(event.due),
            # A half message is identified by its own id until its transaction ends.
            "tx_id": event.message.message_id if event.due is None else None,
            "born_us": _microseconds(event.message.born_timestamp),
            "code": int(Code.OK),
        }
    )


def _recalled(event: events.Recalled) -> Cells:
    return {
        "kind": "recall",
        "phase": "ok" if event.effective else "fail",
        "client_id": event.client_id,
        "topic": event.topic,
        "message_id": event.message_id,
    }


def _transaction_ended(event: events.TransactionEnded) -> Cells:
    names = {Resolution.COMMIT: "commit", Resolution.ROLLBACK: "rollback"}
    return {
        "kind": "tx.end",
        "phase": "ok",
        "client_id": event.client_id,
        "topic": event.topic,
        "tx_id": event.transaction_id,
        "resolution": names.get(event.resolution, "unknown"),
        "source": "check" if event.from_check else "client",
    }


def _decided_again(event: events.DecidedAgain) -> Cells:
    return {
        "kind": "tx.end",
        "phase": "ok",
        "client_id": event.client_id,
        "topic": event.topic,
        "tx_id": event.transaction_id,
        "resolution": "commit",
    }


def _transaction_checked(event: events.TransactionChecked) -> Cells:
    return _named(event.message) | {
        "kind": "tx.check",
        "client_id": event.client_id,
        "attempt": event.check,
        "tx_id": event.transaction_id,
    }


def _receive_ended(event: events.ReceiveEnded) -> Cells:
    phase = "info" if event.cancelled else "ok" if event.code in EMPTY else "fail"
    return {
        "kind": "receive",
        "phase": phase,
        "op_id": str(event.batch),
        "invoked_us": _microseconds(event.asked_at),
        "client_id": event.client_id,
        "group": event.group,
        "topic": event.topic,
        "filter": _filter_text(event.filter),
        "code": int(event.code),
    }


def _delivered(event: events.Delivered) -> Cells:
    delivery = event.delivery
    content = delivery.message.content
    name = fingerprint(delivery.receipt_handle)
    return (
        _named(content)
        | _digests(content)
        | {
            "kind": "deliver",
            "client_id": event.client_id,
            "group": event.group,
            "queue": delivery.queue_id,
            "offset": delivery.offset,
            "attempt": delivery.attempt,
            "delivery": name,
            "handle": name,
            "batch": str(event.batch),
            "batch_pos": event.position,
            "receive_attempt": event.receive_attempt or None,
            "filter": _filter_text(event.filter),
            "invisible_ms": _milliseconds(event.invisible),
            "auto_renew": event.auto_renew,
            "due_us": _microseconds(content.delivery_timestamp),
            "born_us": _microseconds(content.born_timestamp),
            "store_us": _microseconds(delivery.store_timestamp),
            "tx_id": delivery.message.transaction_id or None,
        }
    )


def _acked(event: events.Acked) -> Cells:
    assert event.message is not None  # by is_recorded
    return _placed(event.message) | {
        "kind": "ack",
        # The answer was OK in both cases; an ack that settled nothing must not count as an end.
        "phase": "ok" if event.effective else "fail",
        "client_id": event.client_id,
        "group": event.group,
        "attempt": event.attempt,
        "delivery": fingerprint(event.first_handle),
        "handle": fingerprint(event.receipt_handle),
        "code": int(Code.OK),
    }


def _lease_changed(event: events.LeaseChanged) -> Cells:
    return _placed(event.message) | {
        "kind": "change",
        "phase": "ok",
        "client_id": event.client_id,
        "group": event.group,
        "attempt": event.attempt,
        "delivery": fingerprint(event.first_handle),
        "handle": fingerprint(event.receipt_handle),
        "prev_handle": fingerprint(event.previous_handle),
        "invisible_ms": _milliseconds(event.invisible),
        "reason": "extend" if event.renewal else None if event.counts else "suspend",
        "code": int(Code.OK),
    }


def _resurrected(event: events.Resurrected) -> Cells:
    return _placed(event.message) | {
        "kind": "change",
        "phase": "ok",
        "client_id": event.client_id,
        "group": event.group,
        "delivery": fingerprint(event.previous_handle),
        "handle": fingerprint(event.receipt_handle),
        "prev_handle": fingerprint(event.previous_handle),
        "invisible_ms": _milliseconds(event.invisible),
        "code": int(Code.OK),
    }


def _lease_ended(event: events.LeaseEnded) -> Cells:
    cells = _placed(event.message) | {
        "client_id": event.client_id,
        "group": event.group,
        "attempt": event.attempt,
        "delivery": fingerprint(event.first_handle),
        "handle": fingerprint(event.receipt_handle),
    }
    if event.reason is events.LeaseEnd.UNDELIVERED:
        # It never reached a consumer, so the broker itself released it.
        return cells | {"kind": "change", "phase": "ok", "invisible_ms": 0, "reason": "undelivered"}
    if event.reason is events.LeaseEnd.FORWARDED:
        return cells | {"kind": "forward", "phase": "ok", "code": int(Code.OK)}
    return cells | {"kind": "expire"}


def _dead_lettered(event: events.DeadLettered) -> Cells:
    return _placed(event.message) | {"kind": "dlq.deliver", "group": event.group, "attempt": event.attempt}


def _queue_locked(event: events.QueueLocked | events.QueueUnlocked) -> Cells:
    kind = "lock" if isinstance(event, events.QueueLocked) else "unlock"
    place = {"group": event.group, "topic": event.topic, "queue": event.queue_id}
    return {"kind": kind, "phase": "ok", **place, "client_id": event.client_id, "code": int(Code.OK)}


def _offset_committed(event: events.OffsetCommitted) -> Cells:
    place = {"group": event.group, "topic": event.topic, "queue": event.queue_id}
    return {"kind": "commit", **place, "commit_offset": event.offset}


def _offset_reset(event: events.OffsetReset) -> Cells:
    place = {"group": event.group, "topic": event.topic, "queue": event.queue_id}
    return {"kind": "reset", **place, "commit_offset": event.offset}


def _messages_deleted(event: events.MessagesDeleted) -> Cells:
    return {"kind": "trim", "topic": event.topic, "queue": event.queue_id, "commit_offset": event.min_offset}


def _lite_subscribed(event: events.LiteSubscribed) -> Cells:
    return {
        "kind": "lite.sync",
        "phase": "ok",
        "client_id": event.client_id,
        "group": event.group,
        "topic": event.topic,
        "cfg": {"all": ",".join(event.names)},
    }


def _client_joined(event: events.ClientJoined) -> Cells:
    role = ROLES.get(event.client_type)
    return {"kind": "client.start", "client_id": event.client_id, "role": role, "group": event.group or None}


def _client_left(event: events.ClientLeft) -> Cells:
    kind = "client.crash" if event.expired else "client.stop"
    role = ROLES.get(event.client_type)
    return {"kind": kind, "client_id": event.client_id, "role": role, "group": event.group or None}


def _group_changed(event: events.GroupChanged) -> Cells:
    cfg = {
        "ordered": "true" if event.config.ordered else "false",
        "max_attempts": str(event.config.max_attempts),
        "order_grain": event.order_grain.replace(" ", "_"),
    }
    if event.steps:
        cfg["steps_ms"] = ",".join(str(_milliseconds(step)) for step in event.steps)
    return {"kind": "config", "group": event.config.name, "cfg": cfg}


def _drained(event: Drained) -> Cells:
    return {"kind": "drain.ok", "group": event.group, "topic": event.topic}


# Each function takes the type of its own key, which the type of a table cannot express: hence Any.
_CELLS: dict[type[events.Event | Drained], Callable[[Any], Cells]] = {
    events.Stored: _stored,
    events.Prepared: _prepared,
    events.Recalled: _recalled,
    events.TransactionEnded: _transaction_ended,
    events.DecidedAgain: _decided_again,
    events.TransactionChecked: _transaction_checked,
    events.ReceiveEnded: _receive_ended,
    events.Delivered: _delivered,
    events.Acked: _acked,
    events.LeaseChanged: _lease_changed,
    events.Resurrected: _resurrected,
    events.LeaseEnded: _lease_ended,
    events.DeadLettered: _dead_lettered,
    events.QueueLocked: _queue_locked,
    events.QueueUnlocked: _queue_locked,
    events.OffsetCommitted: _offset_committed,
    events.OffsetReset: _offset_reset,
    events.MessagesDeleted: _messages_deleted,
    events.LiteSubscribed: _lite_subscribed,
    events.ClientJoined: _client_joined,
    events.ClientLeft: _client_left,
    events.GroupChanged: _group_changed,
    Drained: _drained,
}
