"""Compressed bodies of stored messages, by the bits of SYSFLAG."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import lz4.frame
import pytest
import zstandard
from aiorocketmq._aio.decompression import unpack_with_extra
from aiorocketmq._core.remoting.compression import plain_body
from aiorocketmq._core.remoting.records import Record

BODY = b"hello " * 1000


def record(body: bytes, sysflag: int) -> Record:
    return Record(queue_id=0, queue_offset=0, topic="T", body=body, sysflag=sysflag)


@pytest.mark.parametrize(
    ("sysflag", "pack"),
    [
        (0x001, zlib.compress),
        (0x301, zlib.compress),
        (0x101, lambda body: lz4.frame.compress(body, store_size=False)),
        (0x201, zstandard.ZstdCompressor(write_content_size=False).compress),
        (0x001, gzip.compress),
        (0x001, lz4.frame.compress),
    ],
    ids=["zlib", "zlib by 3", "lz4", "zstd", "gzip of gRPC", "lz4 of gRPC"],
)
def test_a_compressed_body_is_decompressed(sysflag: int, pack: Callable[[bytes], bytes]) -> None:
    assert plain_body(record(pack(BODY), sysflag), unpacker=unpack_with_extra) == (BODY, None)


@pytest.mark.parametrize("sysflag", [0x000, 0x100, 0x700])
def test_a_body_without_the_bit_is_left_alone(sysflag: int) -> None:
    stored = zlib.compress(BODY)
    assert plain_body(record(stored, sysflag)) == (stored, None)


@pytest.mark.parametrize("sysflag", [0x401, 0x501, 0x601, 0x701])
def test_an_unknown_type_is_corrupted(sysflag: int) -> None:
    stored = zlib.compress(BODY)
    reason = f"it cannot be unpacked: compression type {sysflag >> 8} is unknown"
    assert plain_body(record(stored, sysflag)) == (stored, reason)


def test_a_body_is_decompressed_up_to_the_limit() -> None:
    stored = zlib.compress(BODY)
    assert plain_body(record(stored, 0x1), len(BODY)) == (BODY, None)
    body, corruption = plain_body(record(stored, 0x1), len(BODY) - 1)
    assert body == stored
    assert corruption is not None
    assert "decompresses to more than 5999 bytes" in corruption


@pytest.mark.parametrize(
    "pack", [lz4.frame.compress, zstandard.ZstdCompressor().compress], ids=["lz4", "zstd"]
)
def test_without_an_unpacker_lz4_and_zstd_are_corrupted(pack: Callable[[bytes], bytes]) -> None:
    stored = pack(BODY)
    body, corruption = plain_body(record(stored, 0x101))
    assert body == stored
    assert corruption is not None
    assert "cannot be decompressed here" in corruption
