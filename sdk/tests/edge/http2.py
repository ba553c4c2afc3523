"""A server that answers each HTTP/2 stream with given frames, for what gRPC's own servers never send."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable

from sdk.tests.listening import Peer

DATA, HEADERS, SETTINGS = 0, 1, 4
END_STREAM, END_HEADERS, ACK = 1, 4, 1
_PREFACE = 24


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def headers(stream: int, *fields: tuple[str, str], flags: int = 0) -> bytes:
    """A block of literal fields, each shorter than 127 bytes."""
    block = b"".join(
        b"\x00" + b"".join(bytes([len(each)]) + each.encode() for each in field) for field in fields
    )
    return frame(HEADERS, END_HEADERS | flags, stream, block)


def message(stream: int, payload: bytes, *, compressed: bool = False, flags: int = 0) -> bytes:
    """One message of gRPC in one DATA frame."""
    return frame(DATA, flags, stream, struct.pack(">BI", compressed, len(payload)) + payload)


def beginning(stream: int, *fields: tuple[str, str]) -> bytes:
    return headers(stream, (":status", "200"), ("content-type", "application/grpc"), *fields)


def end(stream: int, status: str = "0") -> bytes:
    return headers(stream, ("grpc-status", status), flags=END_STREAM)


def answering(answer: Callable[[int], Iterable[bytes]]) -> Peer:
    """A peer that writes the frames of `answer` as soon as a stream begins."""

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(_PREFACE)
        writer.write(frame(SETTINGS, 0, 0))
        while True:
            size, kind, flags, stream = struct.unpack(">IBBI", b"\x00" + await reader.readexactly(9))
            await reader.readexactly(size)
            if kind == SETTINGS and not flags & ACK:
                writer.write(frame(SETTINGS, ACK, 0))
            elif kind == HEADERS:
                writer.writelines(answer(stream))

    return peer
