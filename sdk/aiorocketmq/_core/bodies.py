"""Checks and unpacks the bodies of received messages (client-behaviour.md, 10.7)."""

from __future__ import annotations

import hashlib
import zlib

_UNPACKED_LIMIT = 256 * 1024 * 1024
"""A body that unpacks to more is taken for an attack, not for a message: servers store 4 MiB."""


def unpacked(body: bytes, *, packed: bool, digest: str, checksum: str) -> tuple[bytes, str | None]:
    """The body as the sender meant it, and why it cannot be trusted, or None.

    `digest` names the kind of `checksum` (CRC32, MD5, SHA1), which covers the bytes as they travelled; kinds
    that are not known are taken on trust. What cannot be unpacked is handed on as it came."""
    if checksum and not _matches(body, digest, checksum):
        return body, f"its {digest} digest is not {checksum}"
    if not packed:
        return body, None
    try:
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
        raise ValueError("it is neither gzip nor zlib")
    stream = zlib.decompressobj(window)
    plain = stream.decompress(body, _UNPACKED_LIMIT)
    if stream.unconsumed_tail:
        raise ValueError(f"it unpacks to more than {_UNPACKED_LIMIT} bytes")
    if not stream.eof:
        raise EOFError("it is cut short")
    return plain
