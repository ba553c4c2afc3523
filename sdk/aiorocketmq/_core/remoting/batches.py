"""Bodies that hold several messages: classic batches to send, inner batches as stored; remoting-protocol.md 7.5."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from aiorocketmq._core.bodies import DEFAULT_MAX_UNPACKED, Unpacker, no_unpacker
from aiorocketmq._core.remoting.compression import plain_body
from aiorocketmq._core.remoting.properties import encode_text
from aiorocketmq._core.remoting.records import (
    COMPRESSED,
    INNER_BATCH,
    NEED_UNWRAP,
    MalformedRecordError,
    Record,
    closing_text,
    masked_crc,
)

_HEAD = struct.Struct(">iiiii")
"""Size of the whole member, magic number and CRC, both unused, flag, size of the body."""
_WRAPPED = NEED_UNWRAP | INNER_BATCH


class Member(NamedTuple):
    """One message of a batch."""

    body: bytes
    property_text: str = ""
    flag: int = 0


def encode_batch(members: Iterable[Member]) -> bytes:
    """Return the body of a batch; ValueError if there is no member, or one with unsuitable flag or properties.

    Bodies of members are never compressed."""
    encoded = b"".join(map(_encode_member, members))
    if not encoded:
        raise ValueError("a batch needs at least one message")
    return encoded


def read_batch(body: bytes) -> Iterator[Member]:
    """Yield the members of a batch; MalformedRecordError at the first damage, after the members before it."""
    start = 0
    while start < len(body):
        body_start = start + _HEAD.size
        if body_start > len(body):
            raise MalformedRecordError(start, f"{len(body) - start} bytes are too few for a message")
        size, _, _, flag, body_size = _HEAD.unpack_from(body, start)
        end, body_end = start + size, body_start + body_size
        if body_size < 0 or end > len(body):
            raise MalformedRecordError(
                start, f"its {size} bytes with a body of {body_size} are not all there"
            )
        yield Member(body[body_start:body_end], closing_text(body, body_end, end, start), flag)
        start = end


def unwrapped(
    record: Record, limit: int = DEFAULT_MAX_UNPACKED, unpacker: Unpacker = no_unpacker
) -> Iterator[Record]:
    """Yield the messages of an inner batch, or `record` itself if it is none.

    Members have the offsets that follow the record's own, their own flag, properties and body, and everything else of
    the record; the bits of SYSFLAG about the encoding of the record's body are cleared. Raises MalformedRecordError,
    with a position within the decompressed body, after the members before the damage."""
    if record.sysflag & _WRAPPED != _WRAPPED:
        yield record
        return
    body, corruption = plain_body(record, limit, unpacker)
    if corruption is not None:
        raise MalformedRecordError(0, corruption)
    count = 0
    for member in read_batch(body):
        yield record._replace(
            queue_offset=record.queue_offset + count,
            sysflag=record.sysflag & ~(_WRAPPED | COMPRESSED),
            flag=member.flag,
            body=member.body,
            property_text=member.property_text,
            crc=masked_crc(member.body),
        )
        count += 1
    declared = record.properties().get("INNER_NUM", str(count))
    if declared != str(count):
        raise MalformedRecordError(len(body), f"an inner batch of {count} messages declares {declared!r:.20}")


def _encode_member(member: Member) -> bytes:
    properties = encode_text(member.property_text)
    size = _HEAD.size + len(member.body) + 2 + len(properties)
    try:
        head = _HEAD.pack(size, 0, 0, member.flag, len(member.body))
    except struct.error:
        raise ValueError(f"flag {member.flag} is no 32-bit number") from None
    return head + member.body + struct.pack(">h", len(properties)) + properties
