"""Decoder of stored messages as pull and pop bodies carry them: concatenated records; remoting-protocol.md 7."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from ipaddress import ip_address
from typing import NamedTuple

from aiorocketmq._core.endpoint import Address
from aiorocketmq._core.remoting.properties import read_properties

# Bits of SYSFLAG, 7.1.
COMPRESSED = 0x1
NEED_UNWRAP = 0x40
INNER_BATCH = 0x80

V1 = 0xDAA320A7
V2 = 0xDAA320AB
"""Magic numbers; a V2 record has two bytes of topic length instead of one."""
CRC_MASK = 0x7FFFFFFF

_MIN_SIZE = 91
"""Bytes of a V1 record with IPv4 hosts, without body, topic and properties."""
_SYSFLAG_LOW_BYTE = 39
_PORT_SIZE = 4
_IPV4 = struct.Struct(">4Bi")
# The fixed part up to the body length, by bits 0x10 and 0x20 of SYSFLAG: a host is its address and its port.
_LAYOUTS = tuple(
    struct.Struct(f">iIIiiqqiq{born_size}sq{store_size}siqi")
    for store_size in (8, 20)
    for born_size in (8, 20)
)


class MalformedRecordError(ValueError):
    """The bytes are no message of this protocol from `position` on."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(position, reason)  # both, so that it can be pickled
        self.position = position
        """Where the damaged message begins, in bytes from the start of what was decoded."""
        self.reason = reason

    def __str__(self) -> str:
        return f"message at byte {self.position}: {self.reason}"


class Record(NamedTuple):
    """A stored message.

    A named tuple: making a frozen dataclass of so many fields takes five times as long, on the path of every message.
    What few readers need is computed when it is read."""

    queue_id: int
    queue_offset: int
    topic: str
    body: bytes
    """As stored: compressed if SYSFLAG has 0x1; `plain_body` decompresses it."""
    property_text: str = ""
    flag: int = 0
    """The sender's own number."""
    sysflag: int = 0
    commit_log_offset: int = 0
    born_ms: int = 0
    """When the sender created it, in milliseconds since 1970, by the sender's clock."""
    born_address: bytes = bytes(8)
    """4 or 16 bytes of the sender's address, then 4 of its port."""
    stored_ms: int = 0
    """When the broker stored it, in milliseconds since 1970, by the broker's clock."""
    store_address: bytes = bytes(8)
    reconsume_times: int = 0
    """How many times it was sent back for redelivery."""
    prepared_transaction_offset: int = 0
    crc: int = 0
    """CRC-32 of `body` without its highest bit, as declared."""

    @property
    def is_intact(self) -> bool:
        """Whether the body as stored has the declared checksum."""
        return masked_crc(self.body) == self.crc

    @property
    def offset_message_id(self) -> str:
        """The id that names the stored message by its place: 32 hex digits, 56 if the store host is IPv6; 7.6."""
        return f"{self.store_address.hex()}{self.commit_log_offset & 0xFFFFFFFFFFFFFFFF:016x}".upper()

    @property
    def born_host(self) -> Address:
        """The sender's address, as the broker observed it."""
        return _host(self.born_address)

    @property
    def born_host_text(self) -> str:
        """`born_host` as text; of IPv4 in a tenth of the time, as every message that is looked at has one."""
        address = self.born_address
        if len(address) != _IPV4.size:
            return str(self.born_host)
        return "{}.{}.{}.{}:{}".format(*_IPV4.unpack(address))

    @property
    def store_host(self) -> Address:
        """The address of the broker that stored the message."""
        return _host(self.store_address)

    def properties(self) -> dict[str, str]:
        """Return all properties, those of the system included; they are parsed in every call."""
        return read_properties(self.property_text)


def read_records(body: bytes) -> Iterator[Record]:
    """Yield the messages of a pull or pop body in their order.

    Raises MalformedRecordError at the first damage, after the messages before it; other exceptions never. A wrong
    checksum is no damage here: see `Record.is_intact`."""
    start = 0
    while start < len(body):
        record, start = _record(body, start)
        yield record


def masked_crc(body: bytes) -> int:
    """Return the checksum that a record declares for `body`."""
    return zlib.crc32(body) & CRC_MASK


def closing_text(data: bytes, position: int, end: int, start: int) -> str:
    """Return the text behind the two-byte length at `position`, which must reach `end` exactly.

    Raises MalformedRecordError for the message that begins at `start` if it does not, or is no UTF-8."""
    text_start = position + 2
    if text_start > end or text_start + (data[position] << 8 | data[position + 1]) != end:
        raise MalformedRecordError(start, f"its parts do not add up to its size of {end - start} bytes")
    return text_at(data, text_start, end, start)


def text_at(data: bytes, position: int, end: int, start: int) -> str:
    """Return the text from `position` to `end`; MalformedRecordError for the message at `start` if it is no UTF-8."""
    try:
        return data[position:end].decode()
    except UnicodeDecodeError:
        raise MalformedRecordError(start, f"the text at byte {position} is not UTF-8") from None


def _record(data: bytes, start: int) -> tuple[Record, int]:
    """Return the record that begins at `start`, and where it ends.

    One long function: calls are expensive on the path of every message."""
    size = len(data)
    if size - start < _MIN_SIZE:
        raise MalformedRecordError(start, f"{size - start} bytes are too few for a message")
    layout = _LAYOUTS[data[start + _SYSFLAG_LOW_BYTE] >> 4 & 3]
    body_start = start + layout.size
    if body_start > size:
        raise MalformedRecordError(start, "it is cut short")
    (
        total, magic, crc, queue_id, flag, queue_offset, commit_log_offset, sysflag, born_ms, born_address,
        stored_ms, store_address, reconsume_times, prepared_transaction_offset, body_size,
    ) = layout.unpack_from(data, start)  # fmt: skip
    if magic != V1 and magic != V2:
        raise MalformedRecordError(start, f"magic number {magic:#010x} is unknown")
    end = start + total
    if end > size:
        raise MalformedRecordError(start, f"{size - start} of its {total} bytes are there")
    body_end = body_start + body_size
    topic_start = body_end + (1 if magic == V1 else 2)
    if body_size < 0 or topic_start > end:
        raise MalformedRecordError(start, f"a body of {body_size} bytes does not fit its {total} bytes")
    topic_size = data[body_end] if magic == V1 else data[body_end] << 8 | data[body_end + 1]
    topic_end = topic_start + topic_size
    # Lengths are read as unsigned: a negative one cannot add up either.
    property_text = closing_text(data, topic_end, end, start)
    record = Record(
        queue_id,
        queue_offset,
        text_at(data, topic_start, topic_end, start),
        data[body_start:body_end],
        property_text,
        flag,
        sysflag,
        commit_log_offset,
        born_ms,
        born_address,
        stored_ms,
        store_address,
        reconsume_times,
        prepared_transaction_offset,
        crc,
    )
    return record, end


def _host(address: bytes) -> Address:
    port = int.from_bytes(address[-_PORT_SIZE:], "big", signed=True)
    return Address(str(ip_address(address[:-_PORT_SIZE])), port)
