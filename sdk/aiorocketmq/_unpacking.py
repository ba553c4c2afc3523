"""Undoes the compressions that other clients use and Python brings no module for: LZ4 frames and ZSTD."""

from __future__ import annotations

import importlib
from types import ModuleType


def unpack_with_extra(name: str, body: bytes, limit: int) -> bytes:
    """`body` without its compression `lz4` or `zstd`; ValueError where it is broken, grows beyond `limit`, or where the
    extra `compression` is not installed."""
    plain = _lz4(body, limit) if name == "lz4" else _zstd(body, limit)
    if len(plain) > limit:
        raise ValueError(f"it unpacks to more than {limit} bytes")
    return plain


def _lz4(body: bytes, limit: int) -> bytes:
    stream = _module("lz4.frame", "LZ4").LZ4FrameDecompressor()
    try:
        plain: bytes = stream.decompress(body, max_length=limit + 1)
    except RuntimeError as error:  # what lz4 raises for broken frames
        raise ValueError(str(error)) from error
    if not stream.eof and len(plain) <= limit:
        raise ValueError("it is cut short")
    return plain


def _zstd(body: bytes, limit: int) -> bytes:
    zstandard = _module("zstandard", "ZSTD")
    pieces: list[bytes] = []
    size = 0
    stream = zstandard.ZstdDecompressor().decompressobj()
    try:
        # In pieces, so that a small body that unpacks to something huge is noticed before it is all there.
        for start in range(0, len(body), _ZSTD_STEP):
            piece: bytes = stream.decompress(body[start : start + _ZSTD_STEP])
            pieces.append(piece)
            size += len(piece)
            if size > limit:
                break
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    if not stream.eof and size <= limit:
        raise ValueError("it is cut short")
    return b"".join(pieces)


_ZSTD_STEP = 4096
"""Bytes: at the best ratio of ZSTD, some 100 MiB come out of so many."""


def _module(name: str, shown: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ValueError(f"it is packed with {shown}; install aiorocketmq[compression] to read it") from None
