"""Frames of the remoting protocol: parsing and serialization, with both header formats.

Section numbers are those of `remoting-protocol.md`; observations of real servers are in `live-broker-remoting.md`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["FRAME_MAX", "Frame", "FrameError", "clean", "decode", "encode"]

FRAME_MAX = 16_777_216
"""Bytes of a frame with its length field; a server closes the connection of a longer one (1)."""

_JSON, _BINARY = 0, 1
_RESPONSE, _ONE_WAY = 1, 2
_LANGUAGES = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST",
    "NODE_JS",
)  # fmt: skip
_HEAD = struct.Struct(">hbhiii")
_INT, _SHORT = struct.Struct(">i"), struct.Struct(">h")


class FrameError(ValueError):
    """The bytes are no frame; a server closes the connection without an answer (1)."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One request or response."""

    code: int
    fields: Mapping[str, str] = field(default_factory=dict)
    """`extFields`, the typed header as text."""
    body: bytes = b""
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    language: str = "JAVA"
    version: int = 0
    """The sender's version; 0, an old one, if the header has none."""

    @property
    def is_response(self) -> bool:
        """Whether it is a response."""
        return bool(self.flag & _RESPONSE)

    @property
    def is_one_way(self) -> bool:
        """Whether no answer is expected."""
        return bool(self.flag & _ONE_WAY)


def decode(payload: bytes) -> Frame:
    """Parse what follows the length field of a frame; FrameError if it is malformed."""
    if len(payload) < 4:
        raise FrameError(f"a frame has 4 bytes or more after its length, got {len(payload)}")
    size = int.from_bytes(payload[1:4])
    header, body = payload[4 : 4 + size], payload[4 + size :]
    if len(header) < size:
        raise FrameError(f"the header shall have {size} bytes, and {len(header)} are there")
    try:
        if payload[0] == _JSON:
            return _from_json(header, body)
        if payload[0] == _BINARY:
            return _from_binary(header, body)
    except (ValueError, struct.error, RecursionError) as error:
        raise FrameError(f"the header cannot be read: {error}") from error
    raise FrameError(f"the header serialization {payload[0]} is unknown: 0 and 1 are served")


def encode(frame: Frame, *, binary: bool = False) -> bytes:
    """Serialize a frame with its length; servers since 5.0 answer in JSON, whatever the format of the request (1)."""
    header = _to_binary(frame) if binary else _to_json(frame)
    kind = _BINARY if binary else _JSON
    return b"".join((
        _INT.pack(4 + len(header) + len(frame.body)), _INT.pack(kind << 24 | len(header)), header, frame.body
    ))  # fmt: skip


def _from_json(header: bytes, body: bytes) -> Frame:
    parsed = json.loads(header)
    if not isinstance(parsed, dict):
        raise FrameError(f"the header is a {type(parsed).__name__} and not an object")
    fields = parsed.get("extFields") or {}
    if not isinstance(fields, dict):
        raise FrameError("extFields is not an object")
    remark = parsed.get("remark")
    return Frame(
        code=_number(parsed, "code"),
        fields={clean(name): text for name, value in fields.items() if (text := _text(value)) is not None},
        body=body,
        opaque=_number(parsed, "opaque"),
        flag=_number(parsed, "flag"),
        remark=None if remark is None else clean(str(remark)),
        language=_language(parsed.get("language")),
        version=_number(parsed, "version"),
    )


def _number(parsed: Mapping[str, object], name: str) -> int:
    value = parsed.get(name, 0)
    # bool is an int, but not a legal number in a header.
    if type(value) is not int or not -(2**31) <= value < 2**31:
        raise FrameError(f"{name} must be an integer of 32 bits, got {value!r:.40}")
    return value


def _text(value: object) -> str | None:
    """Return a field as string; numbers and booleans are accepted as well (live 1)."""
    if isinstance(value, str):
        return clean(value)
    return None if value is None else json.dumps(value)


def clean(text: str) -> str:
    """Return a JSON string with a question mark for each lone surrogate, which UTF-8 cannot encode, as Java does."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _language(value: object) -> str:
    if type(value) is int:
        return _LANGUAGES[value] if 0 <= value < len(_LANGUAGES) else "OTHER"
    return clean(value) if isinstance(value, str) else "OTHER"


def _to_json(frame: Frame) -> bytes:
    header: dict[str, object] = {
        "code": frame.code,
        "extFields": dict(frame.fields),
        "flag": frame.flag,
        "language": frame.language,
        "opaque": frame.opaque,
        "remark": frame.remark,
        "serializeTypeCurrentRPC": "JSON",
        "version": frame.version,
    }
    shown = {name: value for name, value in header.items() if value is not None and value != {}}
    return json.dumps(shown, separators=(",", ":")).encode()


def _from_binary(header: bytes, body: bytes) -> Frame:
    code, language, version, opaque, flag, remark_size = _HEAD.unpack_from(header)
    remark, at = _take(header, _HEAD.size, remark_size)
    (size,) = _INT.unpack_from(header, at)
    at += 4
    if size < 0 or at + size > len(header):
        raise FrameError(f"the fields shall have {size} bytes, and {len(header) - at} are there")
    end, fields = at + size, {}
    while at < end:
        (length,) = _SHORT.unpack_from(header, at)
        name, at = _take(header, at + 2, length)
        (length,) = _INT.unpack_from(header, at)
        value, at = _take(header, at + 4, length)
        if name and value:  # an empty text is none (1.3)
            fields[name] = value
    return Frame(code, fields, body, opaque, flag, remark or None, _language(language), version)


def _take(data: bytes, at: int, size: int) -> tuple[str, int]:
    """Return the string of `size` bytes at a position, and the position after it."""
    if size < 0 or at + size > len(data):
        raise FrameError(f"a text shall have {size} bytes, and {len(data) - at} are there")
    return data[at : at + size].decode(), at + size


def _to_binary(frame: Frame) -> bytes:
    remark = (frame.remark or "").encode()
    language = _LANGUAGES.index(frame.language) if frame.language in _LANGUAGES else _LANGUAGES.index("OTHER")
    entries = []
    for name, value in frame.fields.items():
        key, text = name.encode(), value.encode()
        entries += [_SHORT.pack(len(key)), key, _INT.pack(len(text)), text]
    extra = b"".join(entries)
    head = _HEAD.pack(frame.code, language, frame.version, frame.opaque, frame.flag, len(remark))
    return b"".join((head, remark, _INT.pack(len(extra)), extra))
