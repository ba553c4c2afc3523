"""Decompression of stored bodies by the bits of SYSFLAG; remoting-protocol.md 7.1 and 7.2."""

from __future__ import annotations

from aiorocketmq._core.bodies import DEFAULT_MAX_UNPACKED, Unpacker, no_unpacker, unpacked
from aiorocketmq._core.remoting.records import COMPRESSED, Record

_LAST_TYPE = 3
"""0 and 3 are zlib, 1 is LZ4, 2 is ZSTD."""


def plain_body(
    record: Record, limit: int = DEFAULT_MAX_UNPACKED, unpacker: Unpacker = no_unpacker
) -> tuple[bytes, str | None]:
    """Return the decompressed body of at most `limit` bytes, and None; or the body as stored, and why it is corrupted.

    A body without bit 0x1 is returned as stored. The formats start differently, so the bytes decide between them: gRPC
    senders may store gzip, LZ4 and ZSTD under type 0, because a proxy knows one kind of compression only."""
    if not record.sysflag & COMPRESSED:
        return record.body, None
    compression_type = record.sysflag >> 8 & 7
    if compression_type > _LAST_TYPE:
        return record.body, f"it cannot be unpacked: compression type {compression_type} is unknown"
    return unpacked(record.body, limit, unpacker)
