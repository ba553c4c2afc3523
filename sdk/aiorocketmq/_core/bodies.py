"""Compresses bodies to send, and checks, bounds and decompresses received ones (client-behaviour.md, 9.1 and 10.7)."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from typing import TypeAlias

from aiorocketmq._core.settings import DEFAULT_MAX_BODY

DEFAULT_MAX_UNPACKED = 8 * DEFAULT_MAX_BODY
"""Bytes of a decompressed body, 8 times what servers store by default: a larger one is an attack, not a message."""
AT_ONCE_PACKED = 8 * 1024
AT_ONCE = 64 * 1024
"""Bytes of a compressed and of a decompressed body that may be handled on the event loop: less than a millisecond."""
_MOST_OF_AN_ANSWER = 32 * DEFAULT_MAX_BODY
_INPUT_STEP = 64 * 1024
"""zlib copies its remaining input at the end of each member, so a body of many small members is fed in steps."""
_OUTPUT_STEP = 1024 * 1024

Unpacker: TypeAlias = Callable[[str, bytes, int], bytes]
"""Decompresses `lz4` or `zstd`, which other clients send: name, body, and the output limit. Raises ValueError."""

_MAGIC = {b"\x04\x22\x4d\x18": "lz4", b"\x28\xb5\x2f\xfd": "zstd"}


def answer_limit(max_messages: int) -> int:
    """The bytes of bodies after which no more messages of one answer are read.

    As many messages of the protocol's default size as were requested, at most 128 MiB."""
    return min(max_messages * DEFAULT_MAX_BODY, _MOST_OF_AN_ANSWER)


def packed(body: bytes, level: int) -> bytes | None:
    """Return the compressed `body`, None if that is not smaller.

    A zlib stream, although the wire calls it GZIP: other clients send and read that."""
    smaller = zlib.compress(body, level)
    return smaller if len(smaller) < len(body) else None


def no_unpacker(name: str, body: bytes, limit: int) -> bytes:
    """The decompressor if the extra is not installed."""
    raise ValueError(f"it is compressed with {name}, which cannot be decompressed here")


def mismatch(body: bytes, digest: str, checksum: str) -> str | None:
    """Return why `body`, as received, does not match its checksum, or None.

    `digest` names the kind of `checksum` (CRC32, MD5, SHA1); unknown kinds are not checked."""
    return None if _matches(body, digest, checksum) else f"its {digest} digest is not {checksum}"


def unpacked(
    body: bytes, limit: int = DEFAULT_MAX_UNPACKED, unpacker: Unpacker = no_unpacker
) -> tuple[bytes, str | None]:
    """Return the decompressed `body` of at most `limit` bytes, and None; or the original `body`, and why it is
    corrupted.

    Uses at most about twice `limit` of memory, whatever the body contains."""
    try:
        return _unpacked(body, limit, unpacker), None
    except (zlib.error, EOFError, ValueError) as error:
        return body, f"it cannot be unpacked: {error}"


def unpacked_at_once(body: bytes, limit: int, unpacker: Unpacker = no_unpacker) -> bytes | None:
    """Return the decompressed `body` if it is small; None if it is large or corrupted, which `unpacked` decides."""
    if len(body) > AT_ONCE_PACKED:
        return None
    try:
        return _unpacked(body, min(limit, AT_ONCE), unpacker)
    except (zlib.error, EOFError, ValueError):
        return None


def _unpacked(body: bytes, limit: int, unpacker: Unpacker) -> bytes:
    foreign = _MAGIC.get(body[:4])
    return _inflated(body, limit) if foreign is None else unpacker(foreign, body, limit)


def _matches(body: bytes, digest: str, checksum: str) -> bool:
    if digest == "CRC32":
        # Some clients write leading zeros and some do not, so the numbers are compared.
        try:
            return zlib.crc32(body) == int(checksum, 16)
        except ValueError:
            return False
    if digest == "MD5":
        return hashlib.md5(body, usedforsecurity=False).hexdigest() == checksum.lower()
    if digest == "SHA1":
        return hashlib.sha1(body, usedforsecurity=False).hexdigest() == checksum.lower()
    return True


def _inflated(body: bytes, limit: int) -> bytes:
    """Decompress gzip, of one or more members, or zlib: senders label both as GZIP."""
    if body[:2] == b"\x1f\x8b":
        window = 16 + zlib.MAX_WBITS
    elif body[:1] == b"\x78":
        window = zlib.MAX_WBITS
    else:
        raise ValueError("it is none of gzip, zlib, LZ4 and ZSTD")
    stream = zlib.decompressobj(window)
    pieces: list[bytes] = []
    size = 0
    for start in range(0, len(body), _INPUT_STEP):
        rest = body[start : start + _INPUT_STEP]
        is_full = False
        while rest or is_full:
            if stream.eof:
                if window == zlib.MAX_WBITS:
                    raise ValueError("it continues behind its end")
                stream = zlib.decompressobj(window)  # raises zlib.error if no other member begins here
            most = min(_OUTPUT_STEP, limit + 1 - size)
            piece = stream.decompress(rest, most)
            size += len(piece)
            if size > limit:
                raise ValueError(f"it decompresses to more than {limit} bytes")
            pieces.append(piece)
            is_full = len(piece) == most and not stream.eof
            rest = stream.unused_data if stream.eof else stream.unconsumed_tail
    if not stream.eof:
        raise EOFError("it is cut short")
    return b"".join(pieces)
