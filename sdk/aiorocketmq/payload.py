"""Codecs between message bodies and values: JSON of the standard library, pydantic, msgspec, or one of your own.

`Message.json` and `ReceivedMessage.json` need no codec. A codec names its content type, which travels in the property
`content-type`, and a consumer that expects another one gets a `PayloadError` instead of wrong values."""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from aiorocketmq.errors import UsageError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["CONTENT_TYPE", "Codec", "JsonCodec", "MsgspecCodec", "PydanticCodec"]

CONTENT_TYPE = "content-type"
"""Name of the property with a body's content type."""

_JSON, _MSGPACK = "application/json", "application/msgpack"

T = TypeVar("T")


class Codec(ABC, Generic[T]):
    """Writer and reader of the bodies of one type of value; derive your own from it."""

    content_type: str
    """What travels in the property `content-type`, a media type such as `application/json`."""

    @abstractmethod
    def encode(self, value: T) -> bytes:
        """Return the body for `value`; raise TypeError or ValueError if it has none."""

    @abstractmethod
    def decode(self, body: bytes) -> T:
        """Return the value of `body`; raise TypeError or ValueError if it is none."""


class JsonCodec(Codec[T]):
    """JSON by the standard library.

    `expected` is what a decoded value must be: `dict`, `list`, `str`, `int`, `float`, `bool`, or a dataclass, whose
    fields are taken by name and not checked further; `object` takes any value. Dataclasses are encoded as objects;
    numbers that JSON does not have (NaN, infinity) are refused."""

    content_type = _JSON

    def __init__(self, expected: type[T]) -> None:
        self._expected = expected

    def encode(self, value: T) -> bytes:
        """Return `value` as compact UTF-8 JSON; TypeError or ValueError if JSON cannot express it."""
        return json.dumps(
            value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_as_object
        ).encode()

    def decode(self, body: bytes) -> T:
        """Return the value of a JSON text; ValueError if it is none, TypeError if it is of another type."""
        value = json.loads(body)
        if dataclasses.is_dataclass(self._expected):
            if not isinstance(value, dict):
                raise TypeError(f"{_named(value)} is no object with the fields of {self._expected.__name__}")
            return cast("T", self._expected(**value))
        if not isinstance(value, self._expected) or (isinstance(value, bool) and self._expected is int):
            raise TypeError(f"expected {self._expected.__name__}, got {_named(value)}")
        return value


class PydanticCodec(Codec[T]):
    """JSON that pydantic validates; `expected` is a model or whatever else its TypeAdapter takes. Extra `pydantic`."""

    content_type = _JSON

    def __init__(self, expected: type[T]) -> None:
        try:
            from pydantic import TypeAdapter
        except ModuleNotFoundError as missing:
            raise _needs("PydanticCodec", missing) from missing
        self._adapter: TypeAdapter[T] = TypeAdapter(expected)

    def encode(self, value: T) -> bytes:
        """Return `value` as JSON, as the model's own settings write it; ValueError if it cannot be serialized."""
        return self._adapter.dump_json(value)

    def decode(self, body: bytes) -> T:
        """Return the validated value; pydantic's ValidationError, which is a ValueError, if it does not fit."""
        return self._adapter.validate_json(body)


class MsgspecCodec(Codec[T]):
    """JSON or MessagePack that msgspec validates; `expected` is a Struct or what else it knows. Extra `msgspec`."""

    def __init__(self, expected: type[T], format: Literal["json", "msgpack"] = "json") -> None:  # noqa: A002
        try:
            import msgspec
        except ModuleNotFoundError as missing:
            raise _needs("MsgspecCodec", missing) from missing
        if format not in {"json", "msgpack"}:
            raise UsageError(f"format must be 'json' or 'msgpack', got {format!r}")
        self.content_type = _JSON if format == "json" else _MSGPACK
        self._encoder: Any = msgspec.json.Encoder() if format == "json" else msgspec.msgpack.Encoder()
        decoder = msgspec.json.Decoder if format == "json" else msgspec.msgpack.Decoder
        self._decoder: Any = decoder(expected)

    def encode(self, value: T) -> bytes:
        """Return `value` in the codec's format; TypeError if msgspec does not know its type."""
        return cast("bytes", self._encoder.encode(value))

    def decode(self, body: bytes) -> T:
        """Return the validated value; msgspec's ValidationError, which is a ValueError, if it does not fit."""
        return cast("T", self._decoder.decode(body))


def _as_object(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    raise TypeError(f"JSON has no {type(value).__name__}; use a codec that has, or convert it first")


def _named(value: object) -> str:
    return type(value).__name__


def _needs(codec: str, missing: ModuleNotFoundError) -> UsageError:
    return UsageError(f"{codec} needs {missing.name}: run pip install 'aiorocketmq[{missing.name}]'.")
