"""Frames of the classic protocol as bytes and back: a pure codec; remoting-protocol.md section 1.

L (4 bytes) | serialization (1) H (3) | header (H bytes, JSON or binary) | body
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from aiorocketmq._core.remoting.json_dialect import check_text

MAX_FRAME = 16 * 1024 * 1024
"""Bytes of one whole frame, length field included; a peer closes the connection on a larger one."""
CLIENT_VERSION = 475
"""V5_3_2: high enough for strict JSON routes (401), low enough for never being sent GO_AWAY; 1.5, 1.6."""
RESPONSE = 1
ONE_WAY = 2

_LANGUAGES = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY",
    "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS",
)  # fmt: skip
_MIN_BINARY_HEADER = 21
_HTTP2_SETTINGS = b"\x04\x00\x00\x00\x00"
"""Type, flags and first part of the stream's number in a SETTINGS frame, which its length of 3 bytes precedes."""
_TLS_RECORDS, _TLS_MAJOR = range(20, 24), 3
_TEXTS, _DECODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False), json.JSONDecoder()
_START, _LENGTH = struct.Struct(">ii"), struct.Struct(">i")
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_NO_FIELDS: Mapping[str, str] = MappingProxyType({})


class MalformedFrameError(ValueError):
    """The bytes are no frame of this protocol; nothing after them can be decoded either."""


class OtherProtocol(MalformedFrameError):
    """The bytes are those of another protocol, named by the text: HTTP, HTTP/2 or TLS."""


class Serialization(IntEnum):
    """Encoding of a frame's header, declared by each frame."""

    JSON = 0
    BINARY = 1


_JSON, _BINARY = Serialization  # an attribute of an enumeration takes as long as the rest of a comparison


class Frame(NamedTuple):
    """One request or answer.

    A named tuple: making a frozen dataclass takes four times as long, and every call makes two of these."""

    code: int
    opaque: int
    """Chosen by the requester, repeated by the responder; the two sides' numbers may be equal: check the flag first."""
    flag: int = 0
    fields: Mapping[str, str] = _NO_FIELDS
    """The typed header fields, all as text."""
    body: bytes = b""
    remark: str | None = None
    language: str = "PYTHON"
    version: int = CLIENT_VERSION

    @property
    def is_response(self) -> bool:
        """Whether this answers a request of ours, as opposed to being a request."""
        return bool(self.flag & RESPONSE)

    @property
    def is_one_way(self) -> bool:
        """Whether the sender expects no answer."""
        return bool(self.flag & ONE_WAY)

    def number(self, name: str, *, least: int = 0) -> int:
        """Return the number in field `name`, from `least` to the largest of 64 bits; ValueError if there is none."""
        text = self.fields.get(name)
        if text is None:
            raise ValueError(f"its {name} is missing")
        number = int(text) if _NUMBER.fullmatch(text) else least - 1
        if not least <= number < 2**63:
            raise ValueError(f"its {name} is {text!r:.40}")
        return number


def encode(frame: Frame, serialization: Serialization = Serialization.JSON) -> bytes:
    """Return the bytes of `frame`; ValueError if it is too large, or does not fit the binary header's narrow numbers.

    JSON can encode every code and every text. The binary header has 16-bit codes and reads empty text as absent."""
    header = _json_header(frame) if serialization is _JSON else _binary_header(frame)
    length = 4 + len(header) + len(frame.body)
    if 4 + length > MAX_FRAME:
        raise ValueError(f"a frame of {4 + length:,} bytes is larger than the protocol's {MAX_FRAME:,}")
    return b"".join((_START.pack(length, serialization << 24 | len(header)), header, frame.body))


class FrameReader:
    """Takes bytes as they arrive and yields whole frames; buffers at most one unfinished frame."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._needed = 0
        """Length that the unfinished frame must have before it is examined again."""

    @property
    def has_begun(self) -> bool:
        """Whether the last frame is unfinished."""
        return bool(self._pending)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Return every frame that is complete with `data`; MalformedFrameError if the stream cannot consist of
        frames."""
        if self._pending:
            self._pending += data
            if len(self._pending) < self._needed:
                return
            data = bytes(self._pending)
            self._pending.clear()
        start, size = 0, len(data)
        while size - start >= 4:
            (length,) = _LENGTH.unpack_from(data, start)
            if not 4 <= length <= MAX_FRAME - 4:
                raise _no_frame(data[start:], length)
            # A server of HTTP/2 begins with its SETTINGS: as a frame, the first part of one with an empty header.
            if data[start + 3 : start + 8] == _HTTP2_SETTINGS:
                raise OtherProtocol("HTTP/2")
            end = start + 4 + length
            if end > size:
                self._needed = end - start if size - start >= 8 else 8
                break
            yield decode(data, start + 4, end)
            start = end
        else:
            self._needed = 4
        self._pending += data[start:]


def _no_frame(start: bytes, length: int) -> MalformedFrameError:
    if start[0] in _TLS_RECORDS and start[1] == _TLS_MAJOR:
        return OtherProtocol("TLS")
    if start[:4] == b"HTTP":
        return OtherProtocol("HTTP")
    return MalformedFrameError(f"a frame cannot be {length} bytes long")


def decode(data: bytes, start: int = 0, end: int | None = None) -> Frame:
    """Return the frame in `data[start:end]`, which follows the length field; raises MalformedFrameError."""
    end = len(data) if end is None else end
    if end - start < 4:
        raise MalformedFrameError("a frame ends before its header's length")
    serialization, size = data[start], int.from_bytes(data[start + 1 : start + 4], "big")
    start += 4
    if size > end - start:
        raise MalformedFrameError(f"a header of {size} bytes does not fit a frame of {end - start + 4}")
    header, body = data[start : start + size], data[start + size : end]
    if serialization == _JSON:
        return _from_json(header, body)
    if serialization == _BINARY:
        return _from_binary(header, body)
    raise MalformedFrameError(f"header serialization {serialization} is unknown")


def _json_header(frame: Frame) -> bytes:
    # Java's key order and spelling, so that captures of both look alike. Only text has to be escaped, and one call of
    # the encoder for all of it takes half as long as one for the whole.
    fields = f'"extFields":{_TEXTS.encode(dict(frame.fields))},' if frame.fields else ""
    remark = "" if frame.remark is None else f'"remark":{_TEXTS.encode(frame.remark)},'
    return (
        f'{{"code":{frame.code},{fields}"flag":{frame.flag},"language":{_TEXTS.encode(frame.language)},'
        f'"opaque":{frame.opaque},{remark}"serializeTypeCurrentRPC":"JSON","version":{frame.version}}}'
    ).encode()


def _from_json(header: bytes, body: bytes) -> Frame:
    try:
        text = header.decode().strip()
        values, end = _DECODER.raw_decode(text)
        check_text(text, values)
    except (ValueError, RecursionError) as error:
        raise MalformedFrameError("a header is not JSON text") from error
    if end < len(text):
        raise MalformedFrameError("a header is more than JSON text")
    if not isinstance(values, dict):
        raise MalformedFrameError("a JSON header is not an object")
    get = values.get
    fields, remark, language = get("extFields") or {}, get("remark"), get("language")
    if not isinstance(fields, dict):
        raise MalformedFrameError("extFields of a JSON header is not an object")
    code, opaque, flag, version = get("code", 0), get("opaque", 0), get("flag", 0), get("version", 0)
    for number in (code, opaque, flag, version):
        if type(number) is not int or not -0x80000000 <= number <= 0x7FFFFFFF:
            raise MalformedFrameError(f"{number!r:.40} in a JSON header is no 32-bit integer")
    return Frame(
        code,
        opaque,
        flag,
        {
            key: value if type(value) is str else _text(value)
            for key, value in fields.items()
            if value is not None
        },
        body,
        remark if remark is None or type(remark) is str else _text(remark),
        language if type(language) is str else _language(language),
        version,
    )


def _text(value: object) -> str:
    # Servers coerce numbers and booleans to text in Java's spelling, and so do we.
    try:
        return json.dumps(value)
    except RecursionError as error:
        raise MalformedFrameError("a JSON header is nested too deeply") from error


def _language(number: object) -> str:
    return _LANGUAGES[number] if isinstance(number, int) and 0 <= number < len(_LANGUAGES) else "OTHER"


def _binary_header(frame: Frame) -> bytes:
    fields = b"".join(_short_text(key) + _long_text(value) for key, value in frame.fields.items())
    try:
        start = struct.pack(
            ">hbhii",
            frame.code,
            _LANGUAGES.index(frame.language),
            frame.version,
            frame.opaque,
            frame.flag,
        )
    except struct.error as error:
        raise ValueError(f"code {frame.code} does not fit a binary header; send it as JSON") from error
    return start + _long_text(frame.remark or "") + struct.pack(">i", len(fields)) + fields


def _short_text(text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) > 32767:
        raise ValueError(f"field name of {len(encoded)} bytes is longer than 32,767")
    return struct.pack(">h", len(encoded)) + encoded


def _long_text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">i", len(encoded)) + encoded


def _from_binary(header: bytes, body: bytes) -> Frame:
    if len(header) < _MIN_BINARY_HEADER:
        raise MalformedFrameError(f"a binary header of {len(header)} bytes is too short")
    code, language, version, opaque, flag = struct.unpack_from(">hbhii", header)
    remark, position = _slice(header, 13, 4)
    fields, end = _slice(header, position, 4)
    if end != len(header):
        raise MalformedFrameError(f"a binary header ends {len(header) - end} bytes after its fields")
    return Frame(
        code=code,
        opaque=opaque,
        flag=flag,
        fields=dict(_binary_fields(fields)),
        body=body,
        remark=_decoded(remark) if remark else None,
        language=_language(language),
        version=version,
    )


def _binary_fields(fields: bytes) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(fields):
        key, position = _slice(fields, position, 2)
        value, position = _slice(fields, position, 4)
        yield _decoded(key), _decoded(value)


def _slice(data: bytes, position: int, width: int) -> tuple[bytes, int]:
    start = position + width
    size = int.from_bytes(data[position:start], "big", signed=True)
    if start > len(data) or size < 0 or start + size > len(data):
        raise MalformedFrameError("a binary header is cut short")
    return data[start : start + size], start + size


def _decoded(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise MalformedFrameError("text of a binary header is not UTF-8") from error
