"""Message records in the bodies of pulls and checks, and batches in the bodies of sends (7)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from ipaddress import ip_address
from zlib import crc32

from aiorocketmq_fake.edge.endpoint import split
from aiorocketmq_fake.edge.remoting import properties
from aiorocketmq_fake.edge.remoting.frames import FrameError

__all__ = [
    "COMPRESSED",
    "Member",
    "Record",
    "host",
    "message_id",
    "read_batch",
    "write_batch",
    "write_record",
]

COMPRESSED = 0x1
"""Bit of `sys_flag`: the body is compressed, by the kind that bits 0x700 name."""
_BORN_V6, _STORE_V6 = 0x10, 0x20
_V1, _V2 = 0xDAA320A7, 0xDAA320AB
_TOPIC_MAX_V1 = 127
_HEAD = struct.Struct(">IIiiqqiq")
"""Magic, CRC, queue, flag, queue offset, log offset, system flag, born time; after the record's size."""
_BATCH_HEAD = struct.Struct(">iiiii")
_INT, _LONG, _SHORT = struct.Struct(">i"), struct.Struct(">q"), struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class Record:
    """One stored message as the wire shows it; times are milliseconds, hosts are bytes of address and port."""

    topic: str
    body: bytes
    queue_id: int
    queue_offset: int
    log_offset: int
    born_timestamp: int
    born_host: bytes
    store_timestamp: int
    store_host: bytes
    properties: dict[str, str]
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_offset: int = 0


@dataclass(frozen=True, slots=True)
class Member:
    """One message of a batch."""

    body: bytes
    flag: int = 0
    properties: dict[str, str] = field(default_factory=dict)


def host(endpoint: str) -> bytes:
    """Return the 8 or 20 bytes of `host:port`; a host name counts as 127.0.0.1, as it is this machine."""
    try:
        name, port = split(endpoint)
        address = ip_address(name)
    except ValueError:
        name, port, address = "", 0, ip_address("127.0.0.1")
    return address.packed + _INT.pack(port)


def message_id(store_host: bytes, log_offset: int) -> str:
    """Return the message id of a log position (7.6)."""
    return (store_host + _LONG.pack(log_offset)).hex().upper()


def write_record(record: Record) -> bytes:
    """Write a record; one with a topic beyond 127 bytes has the second magic."""
    sys_flag = record.sys_flag & ~(_BORN_V6 | _STORE_V6)
    sys_flag |= _BORN_V6 if len(record.born_host) > 8 else 0
    sys_flag |= _STORE_V6 if len(record.store_host) > 8 else 0
    topic = record.topic.encode()
    text = properties.join(record.properties).encode()
    is_short = len(topic) <= _TOPIC_MAX_V1
    content = b"".join((
        _HEAD.pack(
            _V1 if is_short else _V2, crc32(record.body) & 0x7FFFFFFF, record.queue_id, record.flag,
            record.queue_offset, record.log_offset, sys_flag, record.born_timestamp,
        ),
        record.born_host,
        _LONG.pack(record.store_timestamp),
        record.store_host,
        _INT.pack(record.reconsume_times),
        _LONG.pack(record.prepared_offset),
        _INT.pack(len(record.body)), record.body,
        len(topic).to_bytes(1 if is_short else 2), topic,
        _SHORT.pack(len(text)), text,
    ))  # fmt: skip
    return _INT.pack(4 + len(content)) + content


def read_batch(body: bytes) -> tuple[Member, ...]:
    """Read the messages of a batch (7.5); FrameError for a body that is none."""
    members = []
    at = 0
    try:
        while at < len(body):
            size, _, _, flag, length = _BATCH_HEAD.unpack_from(body, at)
            start = at + _BATCH_HEAD.size
            (text_size,) = _SHORT.unpack_from(body, start + length)
            text_at = start + length + 2
            if length < 0 or text_size < 0 or text_at + text_size != at + size or at + size > len(body):
                raise FrameError(f"the message at byte {at} of the batch does not add up to its {size} bytes")
            text = body[text_at : text_at + text_size].decode()
            members.append(Member(body[start : start + length], flag, properties.split(text)))
            at += size
    except (struct.error, UnicodeDecodeError) as error:
        raise FrameError(f"the batch cannot be read: {error}") from error
    return tuple(members)


def write_batch(members: tuple[Member, ...]) -> bytes:
    """Write a batch, as producers do."""
    parts = []
    for member in members:
        text = properties.join(member.properties).encode()
        size = _BATCH_HEAD.size + len(member.body) + 2 + len(text)
        head = _BATCH_HEAD.pack(size, 0, 0, member.flag, len(member.body))
        parts += [head, member.body, _SHORT.pack(len(text)), text]
    return b"".join(parts)
