"""Converts messages of the core to records of the wire, and sent messages to messages of the core."""

from __future__ import annotations

import os
import re

from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.classic_model import Classic
from aiorocketmq_fake.core.values.codes import Encoding, MessageType
from aiorocketmq_fake.core.values.model import OutgoingMessage, StoredMessage
from aiorocketmq_fake.edge.remoting.records import COMPRESSED, Record, host
from aiorocketmq_fake.edge.remoting_codes import RequestError, ResponseCode

__all__ = ["outgoing", "record"]

_COMMITTED = 0x8
_LATEST = 253_402_300_799_000
"""The end of the year 9999, the limit of the gRPC protocol."""
_DIGITS = re.compile("[0-9]{1,10}")
_KEPT_FLAGS = 0x701
"""How a body is compressed; all other bits of a message are the broker's own."""


def outgoing(
    topic: str, body: bytes, properties: dict[str, str], classic: Classic, born: int, born_host: str
) -> OutgoingMessage:
    """Return the message of a send; properties of the protocol become fields, or are kept apart from users'."""
    rest = dict(properties)
    message_id = rest.pop("UNIQ_KEY", "").strip() or os.urandom(16).hex().upper()
    tag, keys = rest.pop("TAGS", ""), tuple(rest.pop("KEYS", "").split())
    group = rest.pop(limits.MESSAGE_GROUP_PROPERTY, "")
    delay, timestamp = _time(rest)
    priority = _priority(rest.pop(limits.PRIORITY_PROPERTY, ""))
    reserved = {name: text for name, text in rest.items() if name in limits.RESERVED_PROPERTIES}
    is_half = rest.get("TRAN_MSG", "").lower() == "true"
    return OutgoingMessage(
        topic=topic,
        body=body,
        message_id=message_id,
        tag=tag,
        keys=keys,
        properties={name: text for name, text in rest.items() if name not in reserved},
        message_group=group,
        message_type=MessageType.TRANSACTION if is_half else MessageType.UNSPECIFIED,
        delivery_timestamp=timestamp,
        # Brokers drop it from messages of another type.
        priority=None if group or is_half or (delay, timestamp) != (None, None) else priority,
        born_timestamp=min(max(born, 0), _LATEST) / 1000,
        born_host=born_host,
        encoding=Encoding.GZIP if classic.sys_flag & COMPRESSED else Encoding.IDENTITY,
        classic=Classic(
            classic.queue_id,
            classic.flag,
            classic.sys_flag & _KEPT_FLAGS,
            classic.reconsume_times,
            classic.max_reconsume_times,
            delay,
            reserved,
        ),
    )


def _time(properties: dict[str, str]) -> tuple[float | None, float | None]:
    """Return a message's delay in seconds, and its delivery time in Unix seconds."""
    try:
        if "TIMER_DELIVER_MS" in properties:
            return None, int(properties["TIMER_DELIVER_MS"]) / 1000
        if "TIMER_DELAY_MS" in properties:
            return int(properties["TIMER_DELAY_MS"]) / 1000, None
        if "TIMER_DELAY_SEC" in properties:
            return float(int(properties["TIMER_DELAY_SEC"])), None
        level = int(properties.get("DELAY", "0"))
    except (ValueError, OverflowError) as error:
        raise RequestError(
            ResponseCode.MESSAGE_ILLEGAL, f"the delay of the message is no number: {error}"
        ) from error
    levels = limits.DELAY_LEVELS
    return (levels[min(level, len(levels)) - 1] if level > 0 else None), None


def _priority(text: str) -> int | None:
    return number if _DIGITS.fullmatch(text) and (number := int(text)) < 2**31 else None


def record(stored: StoredMessage, store_host: bytes, cluster: str, *, checks: int = 0) -> Record:
    """Return a message as its consumers see it; one with `checks` as its producer is asked about it."""
    content, classic = stored.content, stored.content.classic or Classic()
    sys_flag = classic.sys_flag
    if content.encoding is Encoding.GZIP:
        sys_flag |= COMPRESSED
    if stored.message_type is MessageType.TRANSACTION and not checks:
        sys_flag |= _COMMITTED
    return Record(
        topic=stored.topic,
        body=content.body,
        queue_id=stored.queue_id,
        queue_offset=stored.offset,
        log_offset=stored.position,
        born_timestamp=_milliseconds(content.born_timestamp or 0.0),
        born_host=host(content.born_host),
        store_timestamp=_milliseconds(stored.store_timestamp),
        store_host=store_host,
        properties=_properties(stored, classic, cluster, checks),
        flag=classic.flag,
        sys_flag=sys_flag,
        reconsume_times=stored.attempts_before,
    )


def _properties(stored: StoredMessage, classic: Classic, cluster: str, checks: int) -> dict[str, str]:
    content = stored.content
    properties = {
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "WAIT": "true",
        "UNIQ_KEY": content.message_id,
        "CLUSTER": cluster,
        "TAGS": content.tag,
        "KEYS": " ".join(content.keys),
        limits.MESSAGE_GROUP_PROPERTY: content.message_group,
        **content.properties,
        **classic.properties,
    }
    if content.priority is not None:
        properties[limits.PRIORITY_PROPERTY] = str(content.priority)
    if classic.delay is not None:
        properties |= {"REAL_TOPIC": stored.topic, "REAL_QID": str(stored.queue_id)}
    if checks:
        properties["TRANSACTION_CHECK_TIMES"] = str(checks)
    return properties


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000 + 0.5)
