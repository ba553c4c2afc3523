"""Encoder of message records, written apart from the decoder, and strategies of what it takes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable

from aiorocketmq._core.remoting.batches import Member
from aiorocketmq._core.remoting.records import Record
from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
SHORT_TOPICS = TEXT.filter(lambda text: len(text.encode()) <= 127)
LONG_TOPICS = st.integers(128, 300).map("t".__mul__)
MEMBERS = st.builds(Member, st.binary(max_size=50), TEXT, INT32)


def encode_record(record: Record) -> bytes:
    """Return the bytes of `record`: V2 if its topic is longer than 127 bytes. Its hosts must fit its SYSFLAG."""
    topic, properties = record.topic.encode(), record.property_text.encode()
    is_long = len(topic) > 127
    content = b"".join(
        [
            struct.pack(">IiiqqI", record.crc, record.queue_id, record.flag, record.queue_offset,
                        record.commit_log_offset, record.sysflag),
            struct.pack(">q", record.born_ms) + record.born_address,
            struct.pack(">q", record.stored_ms) + record.store_address,
            struct.pack(">iq", record.reconsume_times, record.prepared_transaction_offset),
            struct.pack(">i", len(record.body)) + record.body,
            struct.pack(">h" if is_long else ">b", len(topic)) + topic,
            struct.pack(">h", len(properties)) + properties,
        ]
    )  # fmt: skip
    magic = bytes.fromhex("daa320ab" if is_long else "daa320a7")
    return struct.pack(">i", 8 + len(content)) + magic + content


def encode_records(records: Iterable[Record]) -> bytes:
    return b"".join(map(encode_record, records))


def checksum(body: bytes) -> int:
    return zlib.crc32(body) & 0x7FFFFFFF


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Any record with the right checksum, both versions and all kinds of hosts."""
    born_v6, store_v6 = draw(st.booleans()), draw(st.booleans())
    others = draw(st.sampled_from([0, 0x1, 0x101, 0x4, 0x8, 0xC0, 0x80]))
    body = draw(st.binary(max_size=60))
    return Record(
        queue_id=draw(INT32),
        queue_offset=draw(INT64),
        topic=draw(SHORT_TOPICS | LONG_TOPICS),
        body=body,
        property_text=draw(TEXT),
        flag=draw(INT32),
        sysflag=others | 0x10 * born_v6 | 0x20 * store_v6,
        commit_log_offset=draw(INT64),
        born_ms=draw(INT64),
        born_address=draw(
            st.binary(min_size=20, max_size=20) if born_v6 else st.binary(min_size=8, max_size=8)
        ),
        stored_ms=draw(INT64),
        store_address=draw(
            st.binary(min_size=20, max_size=20) if store_v6 else st.binary(min_size=8, max_size=8)
        ),
        reconsume_times=draw(INT32),
        prepared_transaction_offset=draw(INT64),
        crc=checksum(body),
    )
