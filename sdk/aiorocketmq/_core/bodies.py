"""Packs bodies to send, and checks and unpacks received ones (client-behaviour.md, 9.1 and 10.7)."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from typing import TypeAlias

_UNPACKED_LIMIT = 256 * 1024 * 1024
"""A body that unpacks to more is taken for an attack, not for a message: servers store 4 MiB."""


Unpacker: TypeAlias = Callable[[str, bytes, int], bytes]
"""Undoes `lz4` or `zstd`, which other clients send: name, body, and the most that may come out. Raises ValueError."""

_MAGIC = {b"\x04\x22\x4d\x18": "lz4", b"\x28\xb5\x2f\xfd": "zstd"}


def packed(body: bytes, level: int) -> bytes | None:
    """`body` compressed, or None where that does not make it smaller.

    A zlib stream, although the wire calls it GZIP: that is what other clients send and read."""
    smaller = zlib.compress(body, level)
    return smaller if len(smaller) < len(body) else None


def no_unpacker(name: str, body: bytes, limit: int) -> bytes:
    """The unpacker of those who have none."""
    raise ValueError(f"it is packed with {name}, which cannot be undone here")


def unpacked(
    body: bytes, *, packed: bool, digest: str, checksum: str, unpacker: Unpacker = no_unpacker
) -> tuple[bytes, str | None]:
    """The body as the sender meant it, and why it cannot be trusted, or None.

    `digest` names the kind of `checksum` (CRC32, MD5, SHA1), which covers the bytes as they travelled; kinds
    that are not known are taken on trust. What cannot be unpacked is handed on as it came."""
    if checksum and not _matches(body, digest, checksum):
        return body, f"its {digest} digest is not {checksum}"
    if not packed:
        return body, None
    foreign = _MAGIC.get(body[:4])
    try:
        if foreign is not None:
            return unpacker(foreign, body, _UNPACKED_LIMIT), None
        return _inflated(body), None
    except (zlib.error, OSError, EOFError, ValueError) as error:
        return body, f"it cannot be unpacked: {error}"


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


def _inflated(body: bytes) -> bytes:
    """Undo gzip or zlib, whichever it is: senders label both as GZIP."""
    if body[:2] == b"\x1f\x8b":
        window = 16 + zlib.MAX_WBITS
    elif body[:1] == b"\x78":
        window = zlib.MAX_WBITS
    else:
        raise ValueError("it is none of gzip, zlib, LZ4 and ZSTD")
    stream = zlib.decompressobj(window)
    plain = stream.decompress(body, _UNPACKED_LIMIT)
    if stream.unconsumed_tail:
        raise ValueError(f"it unpacks to more than {_UNPACKED_LIMIT} bytes")
    if not stream.eof:
        raise EOFError("it is cut short")
    return plain
