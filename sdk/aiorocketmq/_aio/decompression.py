"""Decompresses bodies, also LZ4 frames and ZSTD, for which Python before 3.14 has no module."""

from __future__ import annotations

import importlib
from types import ModuleType

from aiorocketmq._core.bodies import unpacked


def unpacked_body(body: bytes, limit: int) -> tuple[bytes, str | None]:
    """Return the decompressed `body` and None, or the original body and why it is corrupted; for threads and
    processes."""
    return unpacked(body, limit, unpack_with_extra)


def unpack_with_extra(name: str, body: bytes, limit: int) -> bytes:
    """Decompress `lz4` or `zstd`; ValueError if it is damaged, exceeds `limit`, or the extra `compression` is
    missing."""
    return _lz4(body, limit) if name == "lz4" else _zstd(body, limit)


def _lz4(body: bytes, limit: int) -> bytes:
    stream = _module("lz4.frame", "LZ4").LZ4FrameDecompressor()
    try:
        plain: bytes = stream.decompress(body, max_length=limit + 1)
    except RuntimeError as error:  # what lz4 raises for damaged frames
        raise ValueError(str(error)) from error
    if len(plain) > limit:
        raise ValueError(f"it decompresses to more than {limit} bytes")
    if not stream.eof:
        raise ValueError("it is cut short")
    if stream.unused_data:
        raise ValueError("it continues behind its end")
    return plain


def _zstd(body: bytes, limit: int) -> bytes:
    zstandard = _module("zstandard", "ZSTD")
    stream = zstandard.ZstdDecompressor(max_window_size=min(max(limit, _ZSTD_WINDOW), _LARGEST_WINDOW))
    try:
        # A frame that announces its size gets that much memory, whatever the limit.
        if zstandard.frame_content_size(body) <= limit:
            plain: bytes = stream.decompress(body, max_output_size=limit, allow_extra_data=False)
            return plain
    except zstandard.ZstdError as error:
        raise ValueError(f"it is broken, or decompresses to more than {limit} bytes: {error}") from error
    raise ValueError(f"it decompresses to more than {limit} bytes")


_ZSTD_WINDOW = 8 * 1024 * 1024
"""Bytes: what every decoder must support (RFC 8878, 3.1.1.1.2), and what the levels up to 19 need."""


_LARGEST_WINDOW = 2**31
"""Bytes: no decoder accepts more."""


def _module(name: str, shown: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ValueError(
            f"it is compressed with {shown}; install aiorocketmq[compression] to read it"
        ) from None
